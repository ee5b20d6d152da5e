//! Tests that the `.env` beside an agent decides nothing about keys and programs of the user without a warning.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;

const OPENAI: &str = "name: a\nmodel: {provider: openai, name: m}\ninstructions: {inline: Hi}\n";

/// Telemetry to a collector that the YAML does not name.
const OBSERVED: &str = "observability: {enabled: true, exporters: {otlp: {}}}\n";

/// Credentials of each way to sign in, and what else it needs.
const WAYS: [(&str, &[(&str, &str)]); 6] = [
    ("api_key", &[("ANTHROPIC_API_KEY", "k-1")]),
    ("oauth_token", &[("CLAUDE_CODE_OAUTH_TOKEN", "k-2")]),
    ("custom", &[("ANTHROPIC_AUTH_TOKEN", "k-3")]),
    (
        "bedrock",
        &[("AWS_BEARER_TOKEN_BEDROCK", "k-4"), ("AWS_REGION", "eu-west-1")],
    ),
    (
        "vertex",
        &[
            ("CLOUD_ML_REGION", "europe-west1"),
            ("ANTHROPIC_VERTEX_PROJECT_ID", "p"),
            ("CLAUDE_CODE_SKIP_VERTEX_AUTH", "1"),
        ],
    ),
    (
        "foundry",
        &[
            ("ANTHROPIC_FOUNDRY_API_KEY", "k-5"),
            ("AZURE_CLIENT_SECRET", "k-6"),
            ("IDENTITY_HEADER", "k-7"),
            ("MSI_SECRET", "k-8"),
            ("ANTHROPIC_FOUNDRY_RESOURCE", "mine"),
        ],
    ),
];

fn claude(way: &str) -> String {
    format!(
        "name: a\nmodel: {{provider: anthropic, name: m, auth_provider: {way}}}\ninstructions: {{inline: Hi}}\n\
         claude: {{setting_sources: [user]}}\n"
    )
}

/// The warnings for an agent whose `.env` has some variables and whose user has others.
fn warnings(yaml: &str, of_file: &[(&str, &str)], of_user: &[(&str, &str)]) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.yaml");
    fs::write(&path, yaml).unwrap();
    let mut env: Env = of_user.iter().copied().collect();
    let file: Arc<Path> = Path::new("/checkout/.env").into();
    for (name, value) in of_file {
        env.set_default_of(&file, *name, *value);
    }
    let load = crate::load::load(&path, &env);
    assert!(!load.has_errors(), "{:?}", load.diagnostics);
    let found = load.diagnostics.into_iter();
    found.filter(|found| found.code == Code::EnvFileDecides).collect()
}

fn names(found: &[Diagnostic], name: &str) -> bool {
    found
        .iter()
        .any(|found| found.message.contains(&format!("`{name}`")))
}

/// A value that no default has. A part of a server that is more than a word is another server.
fn value(effect: VariableEffect) -> &'static str {
    match effect {
        VariableEffect::Server => "http://user:hush@127.0.0.1:9/v1",
        VariableEffect::ServerPart => "127.0.0.1:9/",
        VariableEffect::Connections | VariableEffect::Program => "/elsewhere",
    }
}

#[test]
fn every_variable_that_decides_is_named_where_it_has_an_effect_and_only_if_the_file_sets_it() {
    let mut left: BTreeSet<&str> = EFFECTS.iter().map(|(name, _)| *name).collect();
    let openai: (String, &[(&str, &str)]) = (OPENAI.to_owned(), &[("OPENAI_API_KEY", "k-0")]);
    let agents = WAYS
        .iter()
        .map(|(way, keys)| (claude(way), *keys))
        .chain([openai, (format!("{OPENAI}{OBSERVED}"), &[])]);
    for (yaml, keys) in agents {
        for (name, effect) in EFFECTS {
            let of_file = [(*name, value(*effect))];
            let of_user: Vec<_> = keys.iter().filter(|(key, _)| key != name).copied().collect();
            let found = warnings(&yaml, &of_file, &of_user);
            assert!(
                found.iter().all(|found| !found.message.contains("hush")),
                "{name}: {found:?}"
            );
            if names(&found, name) {
                left.remove(name);
            }
            // From the shell it is the user's own choice.
            let own: Vec<_> = of_file.iter().copied().chain(of_user).collect();
            assert_eq!(warnings(&yaml, &[("OTHER", "1")], &own), [], "{name}");
        }
    }
    assert_eq!(left, BTreeSet::new());
}

#[test]
fn a_file_that_sets_both_the_server_and_the_key_moves_no_key_of_the_user() {
    let yaml = OPENAI;
    let both = [
        ("OPENAI_BASE_URL", "http://127.0.0.1:9"),
        ("OPENAI_API_KEY", "k-9"),
    ];
    assert_eq!(warnings(yaml, &both, &[]), []);
    assert_eq!(warnings(yaml, &both[..1], &[]), [], "there is no key");
    assert_eq!(
        warnings(yaml, &both[..1], &[("OPENAI_API_KEY", " ")]),
        [],
        "the key is blank"
    );
    // The shell has a key too, which takes precedence.
    let found = warnings(yaml, &both, &[("OPENAI_API_KEY", "k-0")]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].message,
        "`/checkout/.env` decides where `OPENAI_API_KEY` of the user goes, to `http://127.0.0.1:9/`: it sets `OPENAI_BASE_URL`"
    );
    let (way, keys) = WAYS[0];
    let both = [("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"), keys[0]];
    assert_eq!(warnings(&claude(way), &both, &[]), []);
    // A region is the vendor's own server; `model.endpoint` takes the place of the variable.
    let (way, keys) = WAYS[3];
    assert_eq!(
        warnings(&claude(way), &[("AWS_REGION", "us-east-1")], &keys[..1]),
        []
    );
    let yaml = OPENAI.replace("name: m", "name: m, endpoint: \"http://127.0.0.1:8\"");
    assert_eq!(warnings(&yaml, &both[..1], &[("OPENAI_API_KEY", "k-0")]), []);
}

/// Fields that name servers and programs, each with the variable of the user that goes there.
const FIELDS: [(&str, &str); 11] = [
    (
        "model.endpoint",
        "model: {provider: openai, name: m, endpoint: \"${PLACE}\"}",
    ),
    (
        "model.endpoint",
        "model: {provider: openai, name: m, endpoint: \"\\x24{PLACE}\", api_key: \"${OWN}\"}",
    ),
    (
        "model.endpoint",
        "model: {provider: azure_openai, name: m, endpoint: \"http://x${PLACE}\", api_key: \"${OWN}\"}",
    ),
    (
        "model.endpoint",
        "model: {provider: anthropic, name: m, endpoint: \"${PLACE:-http://a}\", auth_provider: custom}",
    ),
    (
        "embedding_provider.endpoint",
        "model: {provider: ollama, name: m}\nembedding_provider: {provider: openai, name: e, endpoint: \"${PLACE}\"}\n\
         tools: [{type: vectorstore, name: kb, description: d, source: .}]",
    ),
    (
        "evaluations.model.endpoint",
        "model: {provider: ollama, name: m}\nevaluations:\n  model: {provider: openai, name: j, endpoint: \"${PLACE}\"}\n  \
         metrics: [{type: geval, name: g, criteria: c}]",
    ),
    (
        "tools.0.url",
        "model: {provider: ollama, name: m}\ntools:\n  - {name: s, description: d, type: mcp, transport: http, url: \"${PLACE}\", \
         headers: {Authorization: \"Bearer ${OWN}\"}}",
    ),
    (
        "tools.0.env.API_URL",
        "model: {provider: ollama, name: m}\ntools:\n  - {name: s, description: d, type: mcp, command: srv, env: {API_URL: \"${PLACE}\", \
         TOKEN: \"${OWN}\"}}",
    ),
    (
        "claude.hooks.Stop.0.command",
        "model: {provider: anthropic, name: m, auth_provider: custom, endpoint: \"http://127.0.0.1:9\"}\n\
         claude: {hooks: {Stop: [{command: \"${PLACE}\"}]}}",
    ),
    (
        "routing.legacy.command.0",
        "model: {provider: ollama, name: m}\nrouting: {legacy: {command: [\"${PLACE}\", data.txt]}}",
    ),
    (
        "tools.0.command",
        "model: {provider: ollama, name: m}\ntools:\n  - {name: s, description: d, type: mcp, command: \"${PLACE}\"}",
    ),
];

#[test]
fn a_field_whose_variable_the_file_sets_is_named_with_its_place() {
    let own = [
        ("OPENAI_API_KEY", "k-0"),
        ("ANTHROPIC_AUTH_TOKEN", "k-3"),
        ("OWN", "k-10"),
    ];
    for (field, block) in FIELDS {
        let yaml = format!("name: a\n{block}\ninstructions: {{inline: Hi}}\n");
        let is_program = field.contains("command");
        let place = [(
            "PLACE",
            if is_program {
                "server"
            } else {
                "http://127.0.0.1:9"
            },
        )];
        let found = warnings(&yaml, &place, &own);
        assert_eq!(found.len(), 1, "{yaml}: {found:?}");
        assert!(
            found[0].message.contains(&format!("`{field}`")),
            "{field}: {}",
            found[0].message
        );
        assert_eq!(found[0].pointer.as_deref(), Some(field));
        assert!(found[0].primary.is_some(), "{field}");
        let of_user: Vec<_> = place.into_iter().chain(own).collect();
        assert_eq!(warnings(&yaml, &[("OTHER", "1")], &of_user), [], "{field}");
    }
}

/// Fields whose names look like those of servers and programs, and which send and run nothing.
const NEITHER: [&str; 9] = [
    "allow_unsandboxed_commands",
    "base_path",
    "cors_origins",
    "excluded_commands",
    "commands",
    "health_check_path",
    "mcp_servers",
    "url_env",
    "allow_private_urls",
];

#[test]
fn every_field_of_the_yaml_that_names_a_server_or_a_program_is_known() {
    fn collect(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(fields) => {
                if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
                    found.extend(properties.keys().cloned());
                }
                fields.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let mut fields = BTreeSet::new();
    collect(&holodeck_yaml::json_schema(), &mut fields);
    collect(&holodeck_yaml::config_json_schema(), &mut fields);
    let words = [
        "url",
        "uri",
        "endpoint",
        "host",
        "server",
        "proxy",
        "command",
        "cli",
        "program",
        "connection",
        "origin",
    ];
    let unknown: Vec<&String> = fields
        .iter()
        .filter(|name| {
            words
                .iter()
                .any(|word| name.split('_').any(|part| part.trim_end_matches('s') == *word))
        })
        .filter(|name| !SERVERS.iter().any(|end| name.ends_with(end)))
        .filter(|name| !PROGRAMS.contains(&name.as_str()) && !NEITHER.contains(&name.as_str()))
        .collect();
    assert_eq!(unknown, Vec::<&String>::new());
}

/// Variables that the CLI gets and that choose among what is the user's own, or switch something.
const OPTIONS: [&str; 36] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "ANTHROPIC_FOUNDRY_AUTH_TOKEN",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CLIENT_CERTIFICATE_PASSWORD",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_TENANT_ID",
    "AZURE_TOKEN_CREDENTIALS",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "IDENTITY_HEADER",
    "MSI_SECRET",
];

/// Those of the machine: language, time zone, names.
const OF_MACHINE: [&str; 10] = [
    "GOOGLE_CLOUD_QUOTA_PROJECT",
    "GOOGLE_CLOUD_PROJECT",
    "GCLOUD_PROJECT",
    "K_SERVICE",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "USER",
    "IS_SANDBOX",
];

#[test]
fn every_variable_that_reaches_the_cli_or_a_request_is_classified() {
    let sources = [
        include_str!("../../../../holodeck-validators/src/claude_env.rs"),
        include_str!("../../../../holodeck-validators/src/claude_env/bedrock.rs"),
        include_str!("../../../../holodeck-validators/src/claude_env/cloud.rs"),
        include_str!("../../../../holodeck-validators/src/claude_env/foundry.rs"),
        include_str!("../../../../holodeck-validators/src/claude_env/vertex.rs"),
        include_str!("../../../../holodeck-http/src/options.rs"),
        include_str!("../claude/options.rs"),
    ];
    let is_name = |word: &&str| {
        word.len() > 1
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let names: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.split('"').skip(1).step_by(2))
        .filter(is_name)
        .collect();
    assert!(names.len() > 50, "{names:?}");
    let unknown: Vec<&&str> = names
        .iter()
        .filter(|name| variable_effect(name).is_none())
        .filter(|name| !OPTIONS.contains(name) && !OF_MACHINE.contains(name))
        // A prefix, a variable of our own to the CLI, one of the build, and a vendor of machines.
        .filter(|name| !["VERTEX_REGION_", "TMPDIR", "CARGO_PKG_VERSION", "LENOVO"].contains(*name))
        .collect();
    assert_eq!(unknown, Vec::<&&str>::new());
}

#[test]
fn the_collector_of_a_file_is_named_where_it_is_used() {
    let observed =
        |otlp: &str| format!("{OPENAI}observability: {{enabled: true, exporters: {{otlp: {otlp}}}}}\n");
    for (name, effect) in EFFECTS.iter().filter(|(name, _)| name.starts_with("OTEL_")) {
        let variable = [(*name, "http://collector:4318")];
        let named = |yaml: &str, of_file: &[(&str, &str)], of_user: &[(&str, &str)]| {
            let found = warnings(yaml, of_file, of_user).into_iter();
            let of_this = format!("`{name}`");
            found.filter(|warning| warning.message.contains(&of_this)).count()
        };
        assert_eq!(named(&observed("{}"), &variable, &[]), 1, "{name}");
        assert_eq!(named(&observed("{}"), &[], &variable), 0, "{name}");
        let known = usize::from(*effect == VariableEffect::Connections);
        assert_eq!(
            named(&observed("{endpoint: 'http://c:1'}"), &variable, &[]),
            known
        );
        assert_eq!(named(&observed("{enabled: false}"), &variable, &[]), 0);
        assert_eq!(named(OPENAI, &variable, &[]), 0, "{name}");
    }
}
