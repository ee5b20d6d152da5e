//! The contract of lists of sessions: order, pages, and the fields shown without reading events.

use std::time::Duration;

use holodeck_backend_api::StopReason;
use holodeck_events::{NewRun, SessionInfo};
use holodeck_model::events::SessionStart;
use pretty_assertions::assert_eq;

use super::{Subject, each_store, session_run};
use crate::backend_events::{answered, call, nested, result, stop, text};

each_store! {
    a_list_has_what_it_shows_without_reading_events
    the_session_with_the_latest_event_is_first
    pages_of_sessions_are_the_list
    a_session_without_a_run_has_no_message
    a_run_is_found_by_its_id
}

async fn info(subject: &Subject, session: &str) -> SessionInfo {
    subject.store.session(session).await.unwrap().unwrap()
}

async fn a_list_has_what_it_shows_without_reading_events(subject: Subject) {
    let start = SessionStart {
        agent_name: Some("helper".to_owned()),
        ..SessionStart::default()
    };
    subject.start_with("s", None, start).await.unwrap();
    let created = info(&subject, "s").await.created_at;
    subject.clock.advance(Duration::from_mins(1));
    let emitted = [
        text("let me look"),
        call("a", "f"),
        stop(StopReason::ToolUse, "m1"),
        nested("a", text("inner")),
        nested("a", stop(StopReason::EndTurn, "n1")),
        result("a", "f", "1"),
        text("done"),
        stop(StopReason::EndTurn, "m2"),
    ];
    subject
        .record(NewRun::new("s", "how long?"), answered(emitted))
        .await;
    subject.clock.advance(Duration::from_mins(1));
    let mut open = subject.open(NewRun::new("s", "and now?")).await.unwrap();
    subject.piece(&mut open, "x").await.unwrap();
    let known = info(&subject, "s").await;
    assert_eq!(known.agent.as_deref(), Some("helper"));
    assert_eq!(known.first_message.as_deref(), Some("how long?"));
    // Two of the person, and two of the agent.
    assert_eq!((known.runs, known.messages), (2, 4));
    assert_eq!(known.created_at, created);
    assert_eq!(known.last_at.duration_since(created).as_secs(), 120);
    assert_eq!(subject.store.sessions(None).await.unwrap(), [known]);
    // Also what the end of an abandoned run keeps.
    subject.store.abandon("s", open.run_id());
    subject.store.recover().await.unwrap();
    assert_eq!(info(&subject, "s").await.messages, 5);
}

async fn a_run_is_found_by_its_id(subject: Subject) {
    let recorded = subject.record(session_run("s"), answered([text("x")])).await;
    let first = recorded.last().unwrap().event().meta.run_id.clone().unwrap();
    let open = subject.open(NewRun::new("s", "and now?")).await.unwrap();
    let run = async |id: &str| subject.store.run(id).await.unwrap();
    let events = subject.stored("s").await;
    let indices = |id: &str| {
        let of_run = events
            .iter()
            .filter(|event| event.event().meta.run_id.as_deref() == Some(id));
        let indices: Vec<u64> = of_run.map(holodeck_events::StoredEvent::index).collect();
        (indices[0], *indices.last().unwrap())
    };
    let over = run(&first).await.unwrap();
    let (begin, end) = indices(&first);
    assert_eq!((over.session_id.as_str(), over.owner), ("s", None));
    assert_eq!((over.first_index, over.last_index), (begin, Some(end)));
    let running = run(open.run_id()).await.unwrap();
    assert_eq!(
        (running.first_index, running.last_index),
        (indices(open.run_id()).0, None)
    );
    assert_eq!(run("r-none").await, None);
    // A run of a deleted session is gone with it.
    subject.store.delete_session("s", true).await.unwrap();
    assert_eq!(run(&first).await, None);
}

async fn the_session_with_the_latest_event_is_first(subject: Subject) {
    for session in ["a", "b", "c"] {
        subject.record(session_run(session), answered([text("x")])).await;
        subject.clock.advance(Duration::from_secs(1));
    }
    let ids = async || -> Vec<String> {
        let sessions = subject.store.sessions(None).await.unwrap();
        sessions.into_iter().map(|session| session.session_id).collect()
    };
    assert_eq!(ids().await, ["c", "b", "a"]);
    subject.record(session_run("a"), answered([text("x")])).await;
    assert_eq!(ids().await, ["a", "c", "b"]);
}

async fn pages_of_sessions_are_the_list(subject: Subject) {
    for session in ["c", "a", "d", "b", "e"] {
        subject.start(session, Some("alice")).await.unwrap();
        // Two at the same time.
        if session != "a" {
            subject.clock.advance(Duration::from_secs(1));
        }
    }
    subject.start("other", Some("bob")).await.unwrap();
    let all = subject.store.sessions(Some("alice")).await.unwrap();
    let ids: Vec<_> = all.iter().map(|session| session.session_id.as_str()).collect();
    assert_eq!(ids, ["e", "b", "a", "d", "c"]);
    for limit in 1..=6 {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = subject
                .store
                .sessions_page(Some("alice"), after.as_ref(), limit)
                .await
                .unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.cursor());
            listed.extend(page);
        }
        assert_eq!(listed, all);
    }
}

async fn a_session_without_a_run_has_no_message(subject: Subject) {
    subject.start("s", Some("alice")).await.unwrap();
    let known = info(&subject, "s").await;
    assert_eq!((known.agent, known.first_message), (None, None));
    assert_eq!((known.runs, known.messages), (0, 0));
    assert_eq!(known.created_at, known.last_at);
}
