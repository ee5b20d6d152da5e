//! Tests that a session survives failed turns and the death of its process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use holodeck_backend_api::{
    AgentBackend as _, BackendEvent, HistoryItem, Opening, SessionHandle, SessionState, TurnRequest,
};
use holodeck_backend_claude::{ClaudeBackend, Reuse};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;

use crate::setup::{collect_events, conversation_texts, kill_children_named, options, wait_until_written};

#[tokio::test]
async fn a_failed_turn_leaves_the_session_as_it_was() {
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let server = AnthropicServer::answering(move |request| {
        if fails.load(Ordering::SeqCst) {
            AnthropicReply::error(400, "no")
        } else {
            AnthropicReply::text(conversation_texts(request).join(" | "))
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
async fn a_process_that_died_between_two_messages_costs_nothing() {
    let server =
        AnthropicServer::answering(|request| AnthropicReply::text(conversation_texts(request).join(" | ")));
    let folder = tempfile::tempdir().unwrap();
    let options = options(&server)
        .reuse(Reuse::Never)
        .temporary_folder(folder.path());
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.create_session().await.unwrap();
    assert_eq!(session.send("one").await.unwrap().response, "one");
    wait_until_written(folder.path(), "one").await;
    kill_children_named("claude").await;
    let answer = session.send("two").await.unwrap();
    assert_eq!(answer.response, "one | one | two");
    wait_until_written(folder.path(), "one | one | two").await;
    kill_children_named("claude").await;
    let (events, error) = collect_events(session.turn(TurnRequest::new("three"))).await;
    assert!(error.is_none(), "{error:?}");
    // The start of another process does not count as time of the turn.
    let waits = events
        .iter()
        .filter(|event| matches!(event, BackendEvent::Paused))
        .count();
    assert!(waits <= 1, "{events:?}");
    session.close().await.unwrap();
    backend.teardown().await.unwrap();
    assert_eq!(server.finish().len(), 3, "each message is asked once");
}

/// The CLI's own conversation is resumed only if it ends at the handle's message; otherwise the history is used.
#[tokio::test]
async fn a_handle_is_used_only_if_its_head_matches() {
    let server =
        AnthropicServer::answering(|request| AnthropicReply::text(conversation_texts(request).join(" | ")));
    let backend = ClaudeBackend::new(options(&server)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    assert_eq!(session.handle(), None);
    assert_eq!(session.send("one").await.unwrap().response, "one");
    let before = session.handle().unwrap();
    session.send("two").await.unwrap();
    let handle = session.handle().unwrap();
    assert_eq!(before.id, handle.id);
    assert_ne!(before.head, handle.head);
    session.close().await.unwrap();

    let own = "one | one | two | one | one | two | three";
    let elsewhere = SessionHandle {
        provider: "elsewhere".to_owned(),
        ..handle.clone()
    };
    for (handle, answer) in [
        (before, "told | yes | three"),
        (elsewhere, "told | yes | three"),
        (handle.clone(), own),
        // The conversation continued, so it has a new head.
        (handle, "told | yes | three"),
    ] {
        let opening = Opening {
            history: vec![HistoryItem::user("told"), HistoryItem::assistant("yes")],
            handle: Some(handle),
        };
        let mut session = backend.open_session(opening).await.unwrap();
        assert_eq!(session.send("three").await.unwrap().response, answer);
        session.close().await.unwrap();
    }
    backend.teardown().await.unwrap();
    server.finish();
}
