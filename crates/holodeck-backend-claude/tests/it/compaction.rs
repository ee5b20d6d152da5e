//! Tests that a conversation which the CLI shortened is named.

use std::sync::atomic::{AtomicBool, Ordering};

use holodeck_backend_api::{AgentBackend as _, BackendEvent, Opening, TurnRequest};
use holodeck_backend_claude::ClaudeBackend;
use holodeck_testkit::{AnthropicReply, AnthropicServer};

use crate::setup::{options, turn};

#[tokio::test]
async fn a_conversation_that_the_cli_shortened_is_a_notice() {
    let has_room = AtomicBool::new(true);
    let server = AnthropicServer::unchecked(move |request| {
        let said = request.body()["messages"].to_string();
        if said.contains("CRITICAL: Respond with TEXT ONLY") {
            return AnthropicReply::text("<summary>We greeted.</summary>");
        }
        if said.contains("two words") && has_room.swap(false, Ordering::SeqCst) {
            return AnthropicReply::error(400, "prompt is too long: 210000 tokens > 200000 maximum");
        }
        AnthropicReply::text("ok")
    });
    let long = |text: &str| TurnRequest::new(format!("{text} {}", "blah ".repeat(1000)));
    let backend = ClaudeBackend::new(options(&server)).unwrap();
    let mut session = backend.open_session(Opening::default()).await.unwrap();
    let first = turn(session.turn(long("one"))).await;
    assert!(first.notices().is_empty(), "{:?}", first.events);
    let second = turn(session.turn(long("two words"))).await;
    assert_eq!(second.result().response, "ok");
    let notices = second.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].contains("the CLI put a summary in its place"),
        "{notices:?}"
    );
    // The summary is no answer, and its tokens count.
    let other = second
        .events
        .iter()
        .filter(|event| matches!(event, BackendEvent::OtherUsage { .. }));
    assert_eq!(other.count(), 1, "{:?}", second.events);
    session.close().await.unwrap();
    backend.teardown().await.unwrap();
    server.finish_unchecked();
}
