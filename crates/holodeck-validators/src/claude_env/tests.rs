//! Tests that each provider gets its own variables and no others, and that missing ones are named.

use std::{fmt::Write as _, fs};

use secrecy::ExposeSecret as _;

use super::*;

fn model(fields: &str) -> ModelConfig {
    serde_yaml::from_str(&format!("{{provider: anthropic, name: sonnet, {fields}}}")).unwrap()
}

fn shown(made: Result<ClaudeEnv, Box<Diagnostic>>) -> String {
    match made {
        Ok(made) => {
            let vars: Vec<_> = made
                .vars
                .iter()
                .map(|(name, value)| format!("{name}={}", value.expose_secret()))
                .collect();
            format!(
                "{}\nsecret: {}\n({})",
                vars.join("\n"),
                made.secret_names.join(" "),
                made.found
            )
        }
        Err(error) => {
            let notes = error.notes.join("\n");
            format!(
                "{}[{}]: {}\n{}\n{notes}",
                error.severity,
                error.code,
                error.message,
                error.hint().unwrap_or_default()
            )
        }
    }
}

fn on_any_machine(fields: &str, env: &[(&str, &str)]) -> String {
    shown(ClaudeEnv::on(
        Cloud::Unknown,
        &model(fields),
        &env.iter().copied().collect(),
    ))
}

/// Every possible variable, to test which ones are passed on.
fn everything() -> Env {
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "AWS_REGION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "ANTHROPIC_BEDROCK_BASE_URL",
        "CLOUD_ML_REGION",
        "VERTEX_REGION_CLAUDE_HAIKU_5_5",
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        "ANTHROPIC_FOUNDRY_API_KEY",
        "ANTHROPIC_FOUNDRY_RESOURCE",
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
    ]
    .into_iter()
    .map(|name| (name, format!("<{}>", name.to_lowercase())))
    .collect()
}

#[test]
fn each_provider_gets_its_own_variables_and_no_others() {
    let mut text = String::new();
    for provider in ["api_key", "oauth_token", "custom", "bedrock", "vertex", "foundry"] {
        let model = model(&format!("auth_provider: {provider}"));
        let made = shown(ClaudeEnv::on(Cloud::Unknown, &model, &everything()));
        write!(text, "# {provider}\n{made}\n\n").unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn an_endpoint_becomes_the_variable_of_the_provider() {
    for (provider, variable) in [
        ("api_key", "ANTHROPIC_BASE_URL"),
        ("oauth_token", "ANTHROPIC_BASE_URL"),
        ("custom", "ANTHROPIC_BASE_URL"),
        ("bedrock", "ANTHROPIC_BEDROCK_BASE_URL"),
        ("vertex", "ANTHROPIC_VERTEX_BASE_URL"),
        ("foundry", "ANTHROPIC_FOUNDRY_BASE_URL"),
    ] {
        let fields = format!("auth_provider: {provider}, endpoint: 'http://127.0.0.1:9'");
        let made = ClaudeEnv::on(Cloud::Unknown, &model(&fields), &everything()).unwrap();
        let url = made.get(variable).unwrap().expose_secret();
        assert_eq!(url, "http://127.0.0.1:9", "{provider}");
        let urls = made.vars.iter().filter(|(name, _)| name.ends_with("_BASE_URL"));
        assert_eq!(urls.count(), 1, "{provider}");
        assert!(made.get("ANTHROPIC_FOUNDRY_RESOURCE").is_none());
    }
}

#[test]
fn what_is_missing_is_named() {
    let mut text = String::new();
    for provider in ["api_key", "oauth_token", "custom", "bedrock", "vertex", "foundry"] {
        let errors = on_any_machine(&format!("auth_provider: {provider}"), &[("AWS_REGION", " ")]);
        write!(text, "# {provider}\n{errors}\n\n").unwrap();
    }
    let half = on_any_machine(
        "auth_provider: bedrock",
        &[
            ("AWS_REGION", "x"),
            ("AWS_ACCESS_KEY_ID", "AKIA"),
            ("AWS_PROFILE", "p"),
        ],
    );
    let file = on_any_machine(
        "auth_provider: vertex",
        &[
            ("CLOUD_ML_REGION", "x"),
            ("GCLOUD_PROJECT", "x"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file"),
        ],
    );
    write!(text, "{half}\n{file}").unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn a_key_in_the_yaml_counts_when_the_variable_is_absent_and_only_for_api_key() {
    let key = |env: &[(&str, &str)]| {
        let env = env.iter().copied().collect();
        let made = ClaudeEnv::on(Cloud::Unknown, &model("api_key: written"), &env).unwrap();
        assert_eq!(made.secret_names, [ANTHROPIC_API_KEY]);
        made.get(ANTHROPIC_API_KEY).unwrap().expose_secret().to_owned()
    };
    assert_eq!(key(&[]), "written");
    assert_eq!(key(&[(ANTHROPIC_API_KEY, "")]), "written");
    assert_eq!(key(&[(ANTHROPIC_API_KEY, "shell")]), "shell");
    let errors = on_any_machine("auth_provider: custom, api_key: written", &[]);
    assert!(errors.contains("`ANTHROPIC_AUTH_TOKEN` is not set"), "{errors}");
}

#[test]
fn files_of_the_home_are_named_where_they_really_are() {
    let home = tempfile::tempdir().unwrap();
    for file in [
        ".aws/config",
        ".aws/credentials",
        ".aws/sso/cache/x",
        ".config/gcloud/application_default_credentials.json",
        ".azure/azureProfile.json",
    ] {
        let file = home.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    let at = home.path().display().to_string();
    let env: Env = [
        ("HOME", at.as_str()),
        ("AWS_DEFAULT_REGION", "eu-west-1"),
        ("CLOUD_ML_REGION", "global"),
        ("GOOGLE_CLOUD_PROJECT", "p"),
        ("ANTHROPIC_FOUNDRY_RESOURCE", "r"),
        ("AWS_CONFIG_FILE", "relative/config"),
    ]
    .into_iter()
    .collect();
    let here = std::path::absolute("relative").unwrap().display().to_string();
    let mut text = String::new();
    for provider in ["bedrock", "vertex", "foundry"] {
        let made = ClaudeEnv::on(
            Cloud::Unknown,
            &model(&format!("auth_provider: {provider}")),
            &env,
        );
        let links = made.as_ref().unwrap().home_links.clone();
        let expected = (provider == "bedrock").then(|| (".aws/sso", home.path().join(".aws/sso")));
        assert_eq!(links, Vec::from_iter(expected));
        write!(text, "# {provider}\n{}\n\n", shown(made)).unwrap();
    }
    insta::assert_snapshot!(text.replace(&at, "~").replace(&here, "<cwd>/relative"));
}

#[test]
fn the_identity_of_a_machine_counts_in_its_own_cloud() {
    let env: Env = [
        ("AWS_REGION", "x"),
        ("CLOUD_ML_REGION", "x"),
        ("GOOGLE_CLOUD_PROJECT", "p"),
        ("ANTHROPIC_FOUNDRY_RESOURCE", "r"),
    ]
    .into_iter()
    .collect();
    for (provider, home) in [
        ("bedrock", Cloud::Amazon),
        ("vertex", Cloud::Google),
        ("foundry", Cloud::Azure),
    ] {
        for cloud in [Cloud::Amazon, Cloud::Google, Cloud::Azure, Cloud::Unknown] {
            let made = ClaudeEnv::on(cloud, &model(&format!("auth_provider: {provider}")), &env);
            assert_eq!(made.is_ok(), cloud == home, "{provider} {cloud:?}");
        }
    }
}
