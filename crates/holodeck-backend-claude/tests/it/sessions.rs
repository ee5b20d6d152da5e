use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use holodeck_backend_api::{AgentBackend as _, SessionState, TurnRequest};
use holodeck_backend_claude::{ClaudeBackend, Reuse};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;

use crate::setup::{hear, kill_children_named, options, said};

#[tokio::test]
async fn a_failed_turn_leaves_the_session_as_it_was() {
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let server = AnthropicServer::answering(move |request| {
        if fails.load(Ordering::SeqCst) {
            AnthropicReply::error(400, "no")
        } else {
            AnthropicReply::text(said(request).join(" | "))
        }
    });
    let backend = ClaudeBackend::new(options(&server)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    assert_eq!(session.send("one").await.unwrap().response, "one");
    failing.store(true, Ordering::SeqCst);
    session.send("two").await.unwrap_err();
    assert_eq!(session.state(), SessionState::Ready);
    failing.store(false, Ordering::SeqCst);
    assert_eq!(session.send("two").await.unwrap().response, "one | one | two");
    session.close().await.unwrap();
    server.finish();
}

#[tokio::test]
async fn a_session_outlives_its_process() {
    let server = AnthropicServer::answering(|request| AnthropicReply::text(said(request).join(" | ")));
    let backend = ClaudeBackend::new(options(&server).reuse(Reuse::Never)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    assert_eq!(session.send("one").await.unwrap().response, "one");
    kill_children_named("claude").await;
    let (_, error) = hear(session.turn(TurnRequest::new("two"))).await;
    let error = error.unwrap().to_string();
    assert!(
        error.starts_with("subprocess terminated unexpectedly: killed by SIGKILL"),
        "{error}"
    );
    assert_eq!(session.send("two").await.unwrap().response, "one | one | two");
}
