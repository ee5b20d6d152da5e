//! The oldest tested version of the CLI: it repeats the handshake, and supports neither manifests nor literal messages.

use std::sync::Arc;

use holodeck_backend_api::{AgentBackend as _, Outcome, ToolOutput, TurnRequest};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions, CliVersion, Tools};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use holodeck_validators::SchemaFormat;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{conversation_texts, installed, options_of, turn};

fn old(server: &AnthropicServer) -> ClaudeOptions {
    options_of(&installed("2.1.197"), server).version(CliVersion::new(2, 1, 197))
}

#[tokio::test]
async fn a_session_with_own_tools() {
    let tools = Tools::new().with("look", "Looks.", json!({"type": "object"}), |_, _| async {
        ToolOutput::ok("seen")
    });
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("mcp__holodeck_tools__look", &json!({})),
        AnthropicReply::text("one"),
        AnthropicReply::text("two").in_pieces(2),
    ]);
    let backend = ClaudeBackend::new(old(&server).tools(tools)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    let first = session.send("a").await.unwrap();
    assert_eq!(
        (first.response.as_str(), first.tool_results[0].result.as_str()),
        ("one", "seen")
    );
    let second = turn(session.turn(TurnRequest::new("b"))).await;
    assert_eq!(second.result().response, "two");
    session.close().await.unwrap();
    let requests = server.finish();
    assert_eq!(requests[0].tool_names(), ["mcp__holodeck_tools__look"]);
    assert_eq!(conversation_texts(&requests[2]), ["a", "one", "b"]);
}

#[tokio::test]
async fn cases_share_a_process() {
    let server =
        AnthropicServer::answering(|request| AnthropicReply::text(conversation_texts(request).join(" | ")));
    let backend = ClaudeBackend::new(old(&server)).unwrap();
    for message in ["one", "two", "three"] {
        assert_eq!(backend.invoke_once(message, &[]).await.unwrap().response, message);
    }
    backend.teardown().await.unwrap();
    server.finish();
}

#[tokio::test]
async fn answers_are_structured() {
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("StructuredOutput", &json!({"city": "Oslo"})),
        AnthropicReply::text("prose"),
        AnthropicReply::text("prose again"),
    ]);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let backend =
        ClaudeBackend::new(old(&server).response_format(Arc::new(SchemaFormat::new(&schema).unwrap())))
            .unwrap();
    let good = backend.invoke_once("a", &[]).await.unwrap();
    assert_eq!(good.structured_output, Some(json!({"city": "Oslo"})));
    let prose = backend.invoke_once("b", &[]).await.unwrap();
    assert!(
        matches!(prose.outcome, Outcome::Failed { .. }),
        "{:?}",
        prose.outcome
    );
    backend.teardown().await.unwrap();
    server.finish();
}
