//! Checks what the product relies on with every release of the CLI that is installed: `cargo xtask soak claude` adds the
//! oldest that works and the newest that the registry serves. CI has the pinned ones.

use holodeck_backend_api::{AgentBackend as _, Opening, Outcome, Thinking, TurnRequest};
use holodeck_backend_claude::{ClaudeBackend, ClaudeOptions, Reuse, ThinkingOff};
use holodeck_model::CliVersion;
use holodeck_testkit::{AnthropicReply, AnthropicServer, claude_cli, claude_releases};
use pretty_assertions::assert_eq;
use serde_json::Value;
use tempfile::tempdir;

use crate::{
    setup::{ask, conversation_texts, kill_children_named, options_of, turn, wait_until_written},
    tokens,
};

fn options(version: CliVersion, server: &AnthropicServer) -> ClaudeOptions {
    options_of(&claude_cli(version), server).version(version)
}

async fn a_dead_process_costs_nothing(version: CliVersion) {
    let server =
        AnthropicServer::answering(|request| AnthropicReply::text(conversation_texts(request).join(" | ")));
    let folder = tempdir().unwrap();
    let options = options(version, &server)
        .reuse(Reuse::Never)
        .temporary_folder(folder.path());
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.open_session(Opening::default()).await.unwrap();
    turn(session.turn(TurnRequest::new("one"))).await.result();
    wait_until_written(folder.path(), "one").await;
    kill_children_named("claude").await;
    let log = turn(session.turn(TurnRequest::new("two"))).await;
    assert_eq!(log.result().response, "one | one | two", "{version}");
    session.close().await.unwrap();
    backend.teardown().await.unwrap();
    server.finish();
}

async fn thinking_is_off_and_answers_are_limited(version: CliVersion) {
    for (model, how) in [
        ("claude-sonnet-4-5", ThinkingOff::OfModel),
        ("claude-opus-5-5", ThinkingOff::OfProcess),
    ] {
        let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
        let options = options(version, &server)
            .model(model)
            .thinking(Thinking::Off)
            .thinking_off(how)
            .max_tokens(777)
            .betas(["my-own-2026-01-01"]);
        let log = ask(options, "hi").await;
        assert_eq!(log.result().outcome, Outcome::Completed, "{version}");
        let request = server.finish().swap_remove(0);
        let thinking = &request.body()["thinking"]["type"];
        assert!(
            thinking == &Value::Null || thinking == "disabled",
            "{version} {model}: {thinking}"
        );
        assert_eq!(request.body()["max_tokens"], 777, "{version} {model}");
        let betas = request.header("anthropic-beta").unwrap();
        assert!(betas.contains("my-own-2026-01-01"), "{version} {model}: {betas}");
    }
}

async fn check(version: CliVersion) {
    for helper in ["claude-haiku-4-5", "inherit"] {
        tokens::check_release(version, helper).await;
    }
    a_dead_process_costs_nothing(version).await;
    thinking_is_off_and_answers_are_limited(version).await;
}

#[tokio::test]
#[ignore = "every release that is installed; `cargo xtask soak claude` runs it"]
async fn every_installed_release_is_as_the_product_assumes() {
    for version in claude_releases() {
        check(version).await;
    }
}
