//! Each `auth_provider`, from the YAML to what the endpoint sees.

use std::sync::Arc;

use holodeck_testkit::{AnthropicReply, AnthropicServer, ReceivedRequest};
use pretty_assertions::assert_eq;
use tempfile::tempdir;

use super::setup::{self, Yaml, ask};

fn agent(server: &AnthropicServer, provider: &str, model: &str, env: &[(&str, &str)]) -> Yaml {
    let folder = tempdir().unwrap();
    let url = server.url();
    let model = format!("  name: '{model}'\n  auth_provider: {provider}\n  endpoint: {url}");
    let mut agent = setup::agent(folder.path(), &model, "", env);
    // An existing folder.
    Arc::make_mut(&mut agent.agent.agent).dir = std::env::temp_dir();
    agent
}

#[tokio::test]
async fn a_key_or_a_token_is_sent_in_its_header() {
    for (provider, variable, header, value) in [
        ("api_key", "ANTHROPIC_API_KEY", "x-api-key", "secret-1"),
        (
            "oauth_token",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "authorization",
            "Bearer secret-1",
        ),
        (
            "custom",
            "ANTHROPIC_AUTH_TOKEN",
            "authorization",
            "Bearer secret-1",
        ),
    ] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let agent = agent(&server, provider, "claude-sonnet-4-5", &[(variable, "secret-1")]);
        ask(agent.options().unwrap(), "hi").await.result();
        let requests = server.finish();
        assert!(requests[0].path().starts_with("/v1/messages"), "{provider}");
        assert_eq!(requests[0].header(header), Some(value), "{provider}");
        let other = if header == "x-api-key" {
            "authorization"
        } else {
            "x-api-key"
        };
        assert_eq!(requests[0].header(other), None, "{provider}");
        let beta = requests[0].header("anthropic-beta").unwrap_or_default();
        assert_eq!(
            beta.contains("oauth-2025-04-20"),
            provider == "oauth_token",
            "{beta}"
        );
    }
}

#[tokio::test]
async fn foundry_has_the_same_api_at_its_own_place() {
    let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
    let env = [("ANTHROPIC_FOUNDRY_API_KEY", "secret-2")];
    let agent = agent(&server, "foundry", "claude-sonnet-4-5", &env);
    assert_eq!(ask(agent.options().unwrap(), "hi").await.result().response, "ok");
    let requests = server.finish();
    assert!(requests[0].path().starts_with("/v1/messages"));
    assert_eq!(requests[0].header("x-api-key"), Some("secret-2"));
}

#[tokio::test]
async fn vertex_has_project_and_region_in_its_path() {
    let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
    let env = [
        ("CLOUD_ML_REGION", "europe-west1"),
        ("ANTHROPIC_VERTEX_PROJECT_ID", "my-project"),
        ("CLAUDE_CODE_SKIP_VERTEX_AUTH", "1"),
    ];
    let agent = agent(&server, "vertex", "claude-sonnet-4-5@20250929", &env);
    assert_eq!(ask(agent.options().unwrap(), "hi").await.result().response, "ok");
    let path = server.finish()[0].path().to_owned();
    assert!(
        path.contains("/projects/my-project/locations/europe-west1/"),
        "{path}"
    );
    assert!(
        path.contains("claude-sonnet-4-5@20250929:streamRawPredict"),
        "{path}"
    );
}

/// The scripted server does not support the binary streams of Bedrock, so only the requests are checked.
#[tokio::test]
async fn bedrock_is_signed_or_has_a_token() {
    let keys = [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "AKIATEST"),
        ("AWS_SECRET_ACCESS_KEY", "secret-3"),
    ];
    let token = [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_BEARER_TOKEN_BEDROCK", "secret-4"),
    ];
    for (env, header) in [
        (&keys[..], "AWS4-HMAC-SHA256 Credential=AKIATEST/"),
        (&token[..], "Bearer secret-4"),
    ] {
        let server = AnthropicServer::replies([]);
        let model = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
        let agent = agent(&server, "bedrock", model, env);
        ask(agent.options().unwrap(), "hi").await.end.unwrap_err();
        let requests = server.others();
        let invokes = |request: &&ReceivedRequest| request.path.contains("/invoke-with-response-stream");
        let invoke = requests
            .iter()
            .find(invokes)
            .unwrap_or_else(|| panic!("{requests:?}"));
        assert!(
            invoke.path.starts_with("/model/eu.anthropic.claude-sonnet-4-5"),
            "{}",
            invoke.path
        );
        let authorization = invoke.header("authorization").unwrap();
        assert!(authorization.starts_with(header), "{authorization}");
        assert!(!authorization.contains("secret-3"));
        server.finish();
    }
}
