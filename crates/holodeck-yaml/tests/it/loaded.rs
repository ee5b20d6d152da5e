//! Tests of what valid files mean: layers, variables, paths, schemas and hidden secrets.

use std::{path::Path, time::Duration};

use holodeck_model::{
    ArgMatcher, Bound, DatabaseRef, Env, Layer, MemoryFiles, MetricConfig, Need, ToolConfig,
};
use holodeck_yaml::{LoadedAgent, load_agent};
use pretty_assertions::assert_eq;
use serde_json::{Number, json};

use crate::support::{load_fixture, render};

fn fixture(name: &str) -> LoadedAgent {
    load_fixture(&Path::new("valid").join(name)).agent.unwrap()
}

#[test]
fn layers_are_merged_key_by_key() {
    let agent = fixture("layers/agent.yaml");
    insta::assert_json_snapshot!("layers", agent.config);
    let execution = &agent.execution;
    assert_eq!(
        (execution.file_timeout.value, execution.file_timeout.layer),
        (Duration::from_secs(11), Layer::Project)
    );
    assert_eq!(
        (execution.llm_timeout.value, execution.llm_timeout.layer),
        (Duration::from_secs(5), Layer::Agent)
    );
    assert_eq!(
        (execution.download_timeout.value, execution.download_timeout.layer),
        (Duration::from_secs(7), Layer::Env)
    );
    assert_eq!(
        execution.cache_dir.value,
        Path::new("valid/layers/../../files/home/.holodeck/user-cache")
    );
    assert_eq!(execution.parallel_test_cases.layer, Layer::BuiltIn);
    assert_eq!(agent.places.layer("model.temperature"), Layer::Agent);
    assert_eq!(agent.places.layer("model.name"), Layer::Project);
    // The project's entry of this provider takes precedence over the user's, but does not remove other fields.
    assert_eq!(agent.places.layer("model.max_tokens"), Layer::User);
    assert_eq!(agent.places.layer("model.top_p"), Layer::BuiltIn);
    assert_eq!(
        agent.locate("execution.file_timeout").unwrap().to_string(),
        "valid/layers/config.yaml:5:17"
    );
    let mut timeout = execution.llm_timeout.clone();
    timeout.override_with(None);
    assert_eq!(timeout.layer, Layer::Agent);
    timeout.override_with(Some(Duration::from_secs(1)));
    assert_eq!(timeout.layer, Layer::Cli);
    assert_eq!(agent.vectorstores.keys().collect::<Vec<_>>(), ["main"]);
    let ToolConfig::Vectorstore(faq) = &agent.config.tools[0] else {
        panic!()
    };
    let Some(DatabaseRef::Config(database)) = &faq.database else {
        panic!()
    };
    assert_eq!(
        database.options,
        *json!({"schema": "public"}).as_object().unwrap()
    );
}

#[test]
fn front_matter_is_not_part_of_the_prompt() {
    let agent = fixture("instructions-file.yaml");
    insta::assert_json_snapshot!("instructions", agent.instructions);
}

#[test]
fn variables_are_replaced_in_values_only() {
    let agent = fixture("variables.yaml");
    assert_eq!(agent.config.name, "Ada's agent");
    assert_eq!(agent.config.model.as_ref().unwrap().max_tokens, Some(200));
    assert!(agent.config.model.as_ref().unwrap().api_key.is_none());
    assert_eq!(
        agent.instructions.text,
        "You are Ada, and nobody else.\nLiteral: ${NAME}, ${name.first}, $NAME.\n"
    );
}

#[test]
fn strings_keep_their_text() {
    let agent = fixture("lenient-scalars.yaml");
    assert_eq!(agent.config.name, "3.10");
    assert_eq!(agent.config.model.as_ref().unwrap().name, "42");
    assert_eq!(agent.config.model.as_ref().unwrap().temperature, Some(0.5));
    assert_eq!(agent.execution.llm_timeout.value, Duration::from_mins(1));
    assert_eq!(
        agent.config.test_cases.get(0).unwrap().ground_truth.as_deref(),
        Some("4")
    );
    let MetricConfig::Standard(equality) = &agent.config.evaluations.as_ref().unwrap().metrics[0] else {
        panic!()
    };
    assert!(
        equality.case_insensitive
            && equality.strip_whitespace
            && equality.strip_punctuation
            && equality.enabled
    );
}

#[test]
fn arguments_are_matchers_or_literals() {
    let agent = fixture("expected-tools.yaml");
    let case = agent.config.test_cases.get(0).unwrap();
    let call = &case.expected_tools.as_ref().unwrap()[1];
    assert_eq!(call.args["id"], ArgMatcher::Literal(json!(7)));
    let inclusive = Bound {
        value: 1.into(),
        inclusive: true,
    };
    let exclusive = Bound {
        value: Number::from_f64(2.5).unwrap(),
        inclusive: false,
    };
    assert_eq!(
        call.args["weight"],
        ArgMatcher::Range {
            lower: Some(inclusive),
            upper: Some(exclusive)
        }
    );
    assert_eq!(
        call.args["total"],
        ArgMatcher::Approx {
            value: Number::from_f64(3.1).unwrap(),
            tolerance: Number::from_f64(0.01).unwrap()
        }
    );
    assert_eq!(
        call.args["literal"],
        ArgMatcher::Literal(json!({"gt": 9, "name": "x"}))
    );
    assert_eq!(call.args["empty"], ArgMatcher::Literal(json!({})));
    insta::assert_json_snapshot!(
        "expected_tools",
        agent.config.test_cases.get(0).unwrap().expected_tools
    );
}

#[test]
fn schemas_in_files_are_read() {
    let agent = fixture("response-format-file.yaml");
    assert_eq!(
        agent.response_format.as_ref().unwrap()["required"],
        json!(["answer"])
    );
    let agent = fixture("metrics-checks.yaml");
    let metrics = &agent.config.evaluations.as_ref().unwrap().metrics;
    let schemas: Vec<_> = metrics
        .iter()
        .filter_map(|metric| match metric {
            MetricConfig::Standard(metric) => metric.schema.as_ref(),
            _ => None,
        })
        .map(|schema| schema.value().unwrap()["type"].clone())
        .collect();
    assert_eq!(schemas, [json!("object"), json!("object")]);
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let agent = fixture("test-cases-file-map.yaml");
    let case = agent.config.test_cases.get(0).unwrap();
    let file = case.files[0].path.as_ref().unwrap();
    assert_eq!(file.as_str(), "../data/faq.md");
    assert_eq!(file.path(), Path::new("valid/../files/cases/../data/faq.md"));
    assert_eq!(
        agent.locate("test_cases.0.files.0.path").unwrap().to_string(),
        "valid/../files/cases/map.yaml:5:16"
    );
}

#[test]
fn unsupported_parts_are_listed() {
    let needs = |name: &str| -> Vec<(String, Need)> {
        fixture(name)
            .unsupported
            .iter()
            .map(|part| (part.pointer.clone(), part.needed_by_run))
            .collect()
    };
    assert_eq!(needs("tools-function.yaml"), []);
    assert_eq!(needs("tools-prompt.yaml"), []);
    assert_eq!(needs("files.yaml"), []);
    assert_eq!(
        needs("tools-hierarchical-document.yaml"),
        [("tools.0.keyword_index".to_owned(), Need::Blocks)]
    );
    assert_eq!(needs("metrics-judges.yaml"), []);
}

#[test]
fn secrets_are_neither_written_nor_shown() {
    let text = "name: a\nmodel: {provider: openai, name: m, api_key: \"${KEY}\"}\ninstructions: {inline: Hi}\n\
        tools: [{type: function, name: t, description: T., command: cat, env: {TOKEN: \"${KEY}\", MODE: production}}]\n";
    let files = MemoryFiles::new().with("agent.yaml", text);
    let env = Env::from_iter([("KEY", "sk-very-secret")]);
    let agent = load_agent(Path::new("agent.yaml"), &env, &files).agent.unwrap();
    assert_eq!(agent.secrets.len(), 1);
    let written = serde_json::to_string(&agent.config).unwrap();
    assert!(written.contains("***"));
    for shown in [written, format!("{agent:?}"), format!("{env:?}")] {
        assert!(!shown.contains("sk-very"), "{shown}");
    }
}

#[test]
fn a_value_from_the_environment_is_not_shown_in_a_problem() {
    let text = "name: a\nmodel: {provider: \"${KEY}\", name: m, temperature: \"${KEY}\", max_tokens: \"${KEY}\"}\n\
        instructions: {file: \"${KEY}\"}\n\
        tools: [{type: function, name: \"${KEY}!\", description: T., command: cat}, {type: \"${KEY}\", name: x}]\n\
        test_cases: [{input: Hi, expected_tools: [{name: t, args: {a: {gt: \"${KEY}\"}}}]}]\n";
    let files = MemoryFiles::new().with("agent.yaml", text);
    let env = Env::from_iter([("KEY", "sk-very-secret")]);
    let load = load_agent(Path::new("agent.yaml"), &env, &files);
    let shown = render(&load.diagnostics);
    assert!(load.agent.is_none());
    assert!(!shown.contains("sk-very"), "{shown}");
}

/// Keys whose values are secrets, and values of every form below them. `SECRET` is never shown; the words are, if the
/// excerpt shows the structure.
#[test]
fn an_excerpt_shows_the_fields_of_a_login_and_no_secret_of_any_form() {
    const SECRET: &str = "hunter2-of-the-shelves";
    let excerpt = |tool: &str, written: &str| {
        let text = format!(
            "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Hi}}\n\
             tools:\n  - {{type: mcp, name: t, description: T., wrong: 1, {tool}, {}}}\n",
            written.replace("SECRET", SECRET)
        );
        let files = MemoryFiles::new().with("agent.yaml", text);
        let load = load_agent(Path::new("agent.yaml"), &Env::empty(), &files);
        let shown = load.sources.get(Path::new("agent.yaml")).unwrap().to_owned();
        for shown in [&shown, &render(&load.diagnostics)] {
            assert!(!shown.contains(SECRET), "{written}: {shown}");
        }
        shown
    };
    let remote = "transport: http, url: \"https://a.test/mcp\"";
    // The structure of a login is shown, wherever the mistake is.
    for (written, words) in [
        (
            "oauth: {client_id: desk, client_secret: SECRET, scope: [x]}",
            "oauth: {client_id: desk, client_secret: **********************, scope: [*]}",
        ),
        (
            "oauth: {scopes: [tickets.read, tickets.write], redirect_port: none}",
            "oauth: {scopes: [tickets.read, tickets.write], redirect_port: none}",
        ),
        ("oauth: {scopes: read}", "oauth: {scopes: read}"),
        (
            "oauth: {client_secret: {a: SECRET}}",
            "oauth: {client_secret: {*: **********************}}",
        ),
        (
            "oauth: {client_secret: [SECRET, SECRET]}",
            "oauth: {client_secret: [",
        ),
        (
            "oauth: {clientsecret: SECRET}",
            "oauth: {clientsecret: **********************}",
        ),
        (
            "oauth: {anything: SECRET}",
            "oauth: {anything: **********************}",
        ),
        (
            "oauth: {token: {value: SECRET}}",
            "oauth: {token: {*****: **********************}}",
        ),
        (
            "oauth: {scopes: {a: SECRET}}",
            "oauth: {scopes: {a: **********************}}",
        ),
        (
            "oauth: {client_id: {x: SECRET}}",
            "oauth: {client_id: {x: **********************}}",
        ),
    ] {
        let shown = excerpt(remote, written);
        assert!(shown.contains(words), "{written}: {shown}");
    }
    // Anything in the place of a mapping may be the secret itself; so may a key without a value.
    for written in [
        "oauth: SECRET",
        "oauth: \"SECRET\"",
        "oauth: [SECRET]",
        "oauth: [{client_id: SECRET}]",
        "oauth: {SECRET}",
        "oauth: {SECRET: }",
        "oauth: {\"SECRET\"}",
        "oauth: {client_id: desk, SECRET}",
    ] {
        excerpt(remote, written);
    }
    // Everywhere else such a key hides all that is below it, in every form of value.
    for key in [
        "api_key",
        "token",
        "auth",
        "password",
        "credentials",
        "OAUTH",
        "oauth2",
    ] {
        for value in [
            "SECRET",
            "[SECRET]",
            "{value: SECRET}",
            "{SECRET}",
            "{client_id: SECRET}",
            "[{scopes: [SECRET]}]",
            "{oauth: {client_id: SECRET}}",
        ] {
            excerpt(remote, &format!("{key}: {value}"));
            excerpt("command: cat", &format!("config: {{{key}: {value}}}"));
        }
    }
    // A setting of a program called `oauth` is not a login of ours.
    excerpt("command: cat", "config: {oauth: {client_id: SECRET}}");
}
