//! The contract of copying a conversation up to a finished run.

use std::{collections::HashSet, sync::Arc};

use holodeck_backend_api::{ApprovalDecision, BackendError, StopReason};
use holodeck_events::{EventStore, NewRun, StoreError, StoredEvent, StreamChecker, View, history};
use holodeck_model::events::{AgentEvent, EventBody, EventClass, ForkOrigin, SessionStart};
use pretty_assertions::assert_eq;

use super::{Subject, each_store, numbers_of};
use crate::{
    backend_events::{answer, answered, ask, broken, call, result, stop, text},
    session::check,
};

each_store! {
    a_fork_is_a_session_of_its_own_with_the_same_conversation
    a_fork_continues_and_leaves_the_original_as_it_is
    a_fork_begins_after_a_finished_run
    a_fork_is_of_the_owners_own_session_and_has_a_new_id
    a_fork_outlives_the_original
    a_session_without_a_beginning_is_forked_with_one
}

fn sent(message: &str) -> NewRun {
    NewRun {
        user_id: Some("alice".to_owned()),
        client_message_id: Some(message.to_owned()),
        ..NewRun::new("s", message)
    }
}

/// Three runs, of which the second was stopped; returns the indices of their ends.
async fn recorded(subject: &Subject) -> Vec<u64> {
    let start = SessionStart {
        agent_name: Some("helper".to_owned()),
        ..SessionStart::default()
    };
    subject.start_with("s", Some("alice"), start).await.unwrap();
    let called = [
        text("let me look"),
        call("a", "f"),
        stop(StopReason::ToolUse, "m1"),
        ask("a", "f"),
        answer("a", ApprovalDecision::approve()),
        result("a", "f", "1"),
        text("one"),
        stop(StopReason::EndTurn, "m2"),
    ];
    subject.record(sent("first"), answered(called)).await;
    let stopped = broken([text("tw")], BackendError::Cancelled);
    subject.record(sent("second"), stopped).await;
    let last = [text("three"), stop(StopReason::EndTurn, "m3")];
    subject.record(sent("third"), answered(last)).await;
    let stored = subject.stored("s").await;
    let ends = stored.iter().filter(|event| event.event().body.is_terminal());
    ends.map(StoredEvent::index).collect()
}

async fn fork(subject: &Subject, after: Option<u64>) -> Result<Vec<StoredEvent>, StoreError> {
    let store = &subject.store;
    let info = store.fork_session("s", after, "fork", Some("alice")).await?;
    assert_eq!(store.session("fork").await.unwrap(), Some(info));
    Ok(subject.stored("fork").await)
}

fn events(stored: &[StoredEvent]) -> Vec<AgentEvent> {
    stored.iter().map(|event| event.event().clone()).collect()
}

fn run_ids(events: &[AgentEvent]) -> HashSet<String> {
    events
        .iter()
        .filter_map(|event| event.meta.run_id.clone())
        .collect()
}

async fn a_fork_is_a_session_of_its_own_with_the_same_conversation(subject: Subject) {
    let ends = recorded(&subject).await;
    let original = subject.stored("s").await;
    let forked = fork(&subject, Some(ends[1])).await.unwrap();
    // Everything but pieces of text, up to there.
    let copied = |event: &&StoredEvent| event.class() != EventClass::Journaled && event.index() <= ends[1];
    let origins: Vec<_> = original.iter().filter(copied).cloned().collect();
    assert_eq!(forked.len(), origins.len());
    let numbers = numbers_of(&forked);
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert!(forked.iter().map(StoredEvent::index).eq(0..forked.len() as u64));
    let (new, old) = (events(&forked), events(&origins));
    assert_eq!(check(View::Replay, &new), []);
    assert_eq!(history(&new), history(&old));
    let EventBody::SessionStart(start) = &new[0].body else {
        panic!("{new:?}");
    };
    assert_eq!(start.agent_name.as_deref(), Some("helper"));
    let origin = ForkOrigin {
        session_id: "s".to_owned(),
        event_index: ends[1],
    };
    assert_eq!(start.forked_from, Some(origin));
    assert!(
        forked[0]
            .json()
            .contains(r#""forkedFrom":{"sessionId":"s","eventIndex":"#)
    );
    let ids =
        |events: &[AgentEvent]| -> HashSet<_> { events.iter().map(|event| event.meta.event_id).collect() };
    assert!(ids(&new).is_disjoint(&ids(&old)));
    assert!(run_ids(&new).is_disjoint(&run_ids(&old)));
    assert_eq!(run_ids(&new).len(), 2);
    for (new, old) in new.iter().zip(&old).skip(1) {
        assert_eq!(new.meta.timestamp, old.meta.timestamp);
        assert_eq!(new.body.kind(), old.body.kind());
        assert_eq!(new.meta.session_id.as_deref(), Some("fork"));
    }
    let info = subject.store.session("fork").await.unwrap().unwrap();
    assert_eq!(
        (info.owner.as_deref(), info.runs, info.messages),
        (Some("alice"), 2, 5)
    );
    assert_eq!(info.first_message.as_deref(), Some("first"));
    assert_eq!(info.open_run, None);
    // Its approvals are its own.
    for event in &new {
        if let EventBody::ApprovalRequested(request) = &event.body {
            let known = subject
                .store
                .approval(&request.approval_id)
                .await
                .unwrap()
                .unwrap();
            assert_eq!((known.session_id.as_str(), known.status()), ("fork", "approved"));
        }
    }
    assert_eq!(subject.store.approvals(None, None).await.unwrap(), []);
}

async fn a_fork_continues_and_leaves_the_original_as_it_is(subject: Subject) {
    recorded(&subject).await;
    let original = subject.stored("s").await;
    let forked = fork(&subject, None).await.unwrap();
    // Also with a client's id that the original has.
    let run = NewRun {
        session_id: "fork".to_owned(),
        ..sent("third")
    };
    let last = [text("other"), stop(StopReason::EndTurn, "m4")];
    subject.record(run, answered(last)).await;
    assert_eq!(subject.stored("s").await, original);
    let continued = subject.stored("fork").await;
    assert_eq!(continued[..forked.len()], forked);
    let mut checker = StreamChecker::of_run(View::Live);
    for event in &events(&continued)[forked.len()..] {
        checker.observe(event);
    }
    assert_eq!(checker.finish(), []);
    let numbers = numbers_of(&continued);
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    // And it can be forked again.
    let again = subject
        .store
        .fork_session("fork", None, "second", Some("alice"))
        .await;
    assert_eq!(again.unwrap().runs, 4);
}

async fn a_fork_begins_after_a_finished_run(subject: Subject) {
    let ends = recorded(&subject).await;
    let not_after = Err(StoreError::NotAfterARun {
        session_id: "s".to_owned(),
    });
    for index in (0..ends[2] + 3).filter(|index| !ends.contains(index)) {
        assert_eq!(fork(&subject, Some(index)).await, not_after, "{index}");
        assert_eq!(subject.store.session("fork").await, Ok(None));
    }
    // An open run is left out.
    let mut open = subject.open(sent("fourth")).await.unwrap();
    subject.piece(&mut open, "x").await.unwrap();
    let forked = fork(&subject, None).await.unwrap();
    assert_eq!(run_ids(&events(&forked)).len(), 3);
    subject.end(&mut open).await.unwrap();
    let mut first = subject.open(NewRun::new("new", "go")).await.unwrap();
    let refused = subject.store.fork_session("new", None, "other", None).await;
    assert!(
        matches!(refused, Err(StoreError::NotAfterARun { .. })),
        "{refused:?}"
    );
    subject.end(&mut first).await.unwrap();
    subject
        .store
        .fork_session("new", None, "other", None)
        .await
        .unwrap();
}

async fn a_fork_is_of_the_owners_own_session_and_has_a_new_id(subject: Subject) {
    recorded(&subject).await;
    let store: &Arc<dyn EventStore> = &subject.store;
    let not_found = |session: &str| {
        Err(StoreError::SessionNotFound {
            session_id: session.to_owned(),
        })
    };
    for owner in [Some("bob"), None] {
        assert_eq!(store.fork_session("s", None, "fork", owner).await, not_found("s"));
    }
    assert_eq!(
        store.fork_session("unknown", None, "fork", Some("alice")).await,
        not_found("unknown")
    );
    let exists = Err(StoreError::SessionExists {
        session_id: "s".to_owned(),
    });
    assert_eq!(store.fork_session("s", None, "s", Some("alice")).await, exists);
    fork(&subject, None).await.unwrap();
    store.delete_session("fork", false).await.unwrap();
    let deleted = Err(StoreError::SessionDeleted {
        session_id: "fork".to_owned(),
    });
    assert_eq!(
        store.fork_session("s", None, "fork", Some("alice")).await,
        deleted
    );
    assert_eq!(
        store.fork_session("fork", None, "next", Some("alice")).await,
        not_found("fork")
    );
}

async fn a_fork_outlives_the_original(subject: Subject) {
    recorded(&subject).await;
    let forked = fork(&subject, None).await.unwrap();
    subject.store.delete_session("s", false).await.unwrap();
    assert_eq!(subject.stored("fork").await, forked);
}

async fn a_session_without_a_beginning_is_forked_with_one(subject: Subject) {
    subject
        .record(NewRun::new("plain", "go"), answered([text("x")]))
        .await;
    subject
        .store
        .fork_session("plain", None, "fork", None)
        .await
        .unwrap();
    let forked = events(&subject.stored("fork").await);
    let kinds: Vec<_> = forked.iter().map(|event| event.body.kind()).collect();
    assert_eq!(
        kinds,
        ["session_start", "user_message_confirmed", "message", "complete"]
    );
    assert_eq!(check(View::Replay, &forked), []);
}
