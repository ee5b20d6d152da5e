//! Tests that every source of secrets is read, with each name that it has.

use std::{collections::BTreeSet, fs, path::Path};

use holodeck_model::env::SETTINGS;
use holodeck_yaml::LoadedAgent;
use pretty_assertions::assert_eq;

use super::*;

/// An agent file, variables, and the secrets in them.
#[derive(Default)]
struct Written {
    yaml: String,
    variables: Vec<(String, String)>,
    secrets: Vec<String>,
}

impl Written {
    /// Sets a variable to a secret in this text; `§` is the secret, which no other variable has.
    fn with(mut self, name: &str, text: &str) -> Self {
        let secret = format!("sesame-of-{name}-0123456789");
        self.variables.push((name.to_owned(), text.replace('§', &secret)));
        self.secrets.push(secret);
        self
    }

    fn yaml(mut self, text: &str) -> Self {
        self.yaml.push_str(text);
        self
    }
}

/// A secret at each place of a source. `None`: it is tested with the real program (`logins`).
fn written(source: SecretSource, folder: &Path) -> Option<Written> {
    let written = Written::default();
    Some(match source {
        SecretSource::Files => written
            .with("SOME_KEY", "§")
            .yaml("tools: [{type: mcp, name: m, description: d, url: 'https://h.example/mcp', transport: http, headers: {X-Api-Key: '${SOME_KEY}'}}]\n"),
        SecretSource::ModelKeys => written
            .with("OPENAI_API_KEY", "§")
            .with("AZURE_OPENAI_API_KEY", "§")
            .with("ANTHROPIC_API_KEY", "§"),
        SecretSource::ClaudeCredentials => written
            .with("CLAUDE_CODE_OAUTH_TOKEN", "§")
            .yaml("claude: {}\n"),
        SecretSource::TelemetryHeaders => written
            .with("OTEL_EXPORTER_OTLP_HEADERS", "x-one=§")
            .with("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-two=§")
            .with("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-three=§"),
        SecretSource::EnvFiles => {
            let file = "server.env";
            let mut written = written.yaml(
                "tools: [{type: mcp, name: m, description: d, command: node, env_file: server.env}]\n",
            );
            written.secrets.push("sesame-of-a-file-0123456789".to_owned());
            fs::write(folder.join(file), "SERVER_TOKEN=sesame-of-a-file-0123456789\n").unwrap();
            written
        }
        SecretSource::Logins => return None,
        SecretSource::ClientTokens => written
            .with("HOLODECK_TOKEN", "§")
            .with("ALICE", " §\n")
            .with("BOB", "§")
            .yaml("serve: {auth: {tokens: [{user: alice, token_env: ALICE}, {user: bob, token_env: BOB}]}}\n"),
        SecretSource::EventsDatabase => written
            .with("HOLODECK_EVENTS_URL", "postgresql://holodeck:§@db.example:5432/holodeck")
            .with("CONVERSATIONS", "host=db.example user=holodeck password=§")
            .yaml("events: {store: postgres, url_env: CONVERSATIONS}\n"),
        SecretSource::Addresses => written
            .with("OPENAI_BASE_URL", "https://me:§@models.example/v1")
            .with("ANTHROPIC_BASE_URL", "https://models.example?api_key=§")
            .with("HOLODECK_MCP_REGISTRY_URL", "https://me:§@registry.example"),
        SecretSource::Proxies => written
            .with("HTTP_PROXY", "http://me:§@proxy.example:3128")
            .with("https_proxy", "http://me:§@proxy.example:3128"),
        SecretSource::OtherAgents => {
            let mut written = written;
            written.secrets.push("sesame-of-another-0123456789".to_owned());
            written
        }
    })
}

fn load(yaml: &str, folder: &Path, env: &Env) -> LoadedAgent {
    let model = if yaml.contains("claude:") {
        "{provider: anthropic, name: sonnet, auth_provider: oauth_token}"
    } else {
        "{provider: openai, name: m}"
    };
    let head = format!("name: a\nmodel: {model}\ninstructions: {{inline: Be kind.}}\n{yaml}");
    let file = folder.join("agent.yaml");
    fs::write(&file, head).unwrap();
    let load = crate::load::load(&file, env);
    load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics))
}

#[test]
fn a_secret_of_every_source_is_masked() {
    for source in SecretSource::ALL {
        let folder = tempfile::tempdir().unwrap();
        let Some(written) = written(source, folder.path()) else {
            continue;
        };
        let mut env: Env = written.variables.into_iter().collect();
        if source == SecretSource::OtherAgents {
            env.add_secrets(written.secrets.clone());
        }
        let agent = load(&written.yaml, folder.path(), &env);
        let redactor = redactor(&agent, &env);
        assert!(!written.secrets.is_empty());
        for secret in written.secrets {
            let text = format!("it is {secret}.");
            assert_eq!(redactor.text(&text), "it is ***.", "{source:?}");
        }
    }
}

#[test]
fn agents_of_one_process_mask_the_secrets_of_all() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let written = Written::default().with("ALICE", "§");
    let secret = written.secrets[0].clone();
    let env: Env = written.variables.into_iter().collect();
    let first = load("serve: {auth: {token_env: ALICE}}\n", folders[0].path(), &env);
    let second = load("", folders[1].path(), &env);
    let text = format!("it is {secret}.");
    assert_eq!(redactor(&second, &env).text(&text), text);
    let shared = shared_environment([&*first, &*second], &env);
    assert_eq!(redactor(&second, &shared).text(&text), "it is ***.");
}

/// A new setting that is a secret, or an address that may have one, belongs to a source.
#[test]
fn every_setting_with_a_secret_has_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let has_source: BTreeSet<String> = SecretSource::ALL
        .into_iter()
        .filter_map(|source| written(source, folder.path()))
        .flat_map(|written| written.variables)
        .map(|(name, _)| name)
        .collect();
    for name in SETTINGS {
        let may_be_secret = holodeck_model::redact::names_a_secret(name) || name.ends_with("_URL");
        assert_eq!(may_be_secret, has_source.contains(*name), "{name}");
    }
}
