//! The contract of numbering: without gaps, atomic, and separate for each session.

use std::{sync::Arc, time::Duration};

use holodeck_backend_api::StopReason;
use holodeck_events::{Retention, RunRecorder, StoredEvent, View};
use pretty_assertions::assert_eq;

use super::{Subject, each_store, numbers_of, session_run};
use crate::{
    backend_events::{answered, call, result, stop, text},
    session::check,
};

each_store! {
    concurrent_appends_to_one_session_are_numbered_without_a_gap
    concurrent_sessions_are_numbered_by_themselves
    a_failed_append_uses_no_number
    a_result_delivered_twice_is_stored_once
    two_sessions_may_have_the_same_call_id
    an_append_is_stored_completely_or_not_at_all
    a_clock_that_jumps_changes_no_order
}

fn indices(events: &[StoredEvent]) -> Vec<u64> {
    events.iter().map(StoredEvent::index).collect()
}

fn up_to(count: usize) -> Vec<u64> {
    (0..u64::try_from(count).unwrap()).collect()
}

async fn concurrent_appends_to_one_session_are_numbered_without_a_gap(subject: Subject) {
    let subject = Arc::new(subject);
    let run = || holodeck_events::NewRun {
        run_id: Some("r".to_owned()),
        ..session_run("s")
    };
    subject.open(run()).await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let subject = Arc::clone(&subject);
            let (mut recorder, _) = subject.draft(run());
            tokio::spawn(async move {
                let mut own = Vec::new();
                for step in 0..53 {
                    let id = format!("call_{task}_{step}");
                    for event in [text("x"), call(&id, "f"), result(&id, "f", "1")] {
                        let drafts = recorder.observe(&event);
                        own.extend(subject.store.append(drafts).await.unwrap());
                    }
                }
                own
            })
        })
        .collect();
    let mut returned = Vec::new();
    for task in tasks {
        let own = task.await.unwrap();
        assert!(indices(&own).is_sorted_by(|a, b| a < b));
        returned.extend(own);
    }
    let stored = subject.stored("s").await;
    assert!(stored.len() >= 10_000, "{}", stored.len());
    assert_eq!(indices(&stored), up_to(stored.len()));
    let numbers = numbers_of(&stored);
    assert!(numbers.len() > 5_000);
    assert_eq!(numbers, up_to(numbers.len()));
    // What each append returned is what is stored.
    returned.sort_by_key(StoredEvent::index);
    assert_eq!(returned, stored[1..]);
}

async fn concurrent_sessions_are_numbered_by_themselves(subject: Subject) {
    let subject = Arc::new(subject);
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let subject = Arc::clone(&subject);
            tokio::spawn(async move {
                let session = format!("s-{number}");
                let emitted = answered([text("a"), text("b"), stop(StopReason::EndTurn, "m")]);
                for _ in 0..3 {
                    subject.record(session_run(&session), emitted.clone()).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for number in 0..100 {
        let session = format!("s-{number}");
        let stored = subject.stored(&session).await;
        assert_eq!(indices(&stored), up_to(15));
        assert_eq!(numbers_of(&stored), up_to(6));
        let of_session = |event: &StoredEvent| event.event().meta.session_id.as_ref() == Some(&session);
        assert!(stored.iter().all(of_session));
        let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
        assert_eq!(check(View::Live, &events), []);
    }
}

async fn a_failed_append_uses_no_number(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    for step in 0..100 {
        let id = format!("call_{step}");
        let drafts = [run.observe(&call(&id, "f")), run.observe(&result(&id, "f", "1"))].concat();
        subject.store.append(drafts.clone()).await.unwrap();
        // It is stored: a second time it fails after it was numbered.
        subject.store.append(drafts).await.unwrap_err();
    }
    let stored = subject.stored("s").await;
    assert_eq!(indices(&stored), up_to(201));
    assert_eq!(numbers_of(&stored), up_to(201));
}

async fn a_result_delivered_twice_is_stored_once(subject: Subject) {
    let twice = [
        call("a", "f"),
        call("a", "f"),
        result("a", "f", "1"),
        result("a", "f", "1"),
        text("done"),
    ];
    subject.record(session_run("s"), answered(twice)).await;
    let stored = subject.stored("s").await;
    let kinds: Vec<_> = stored.iter().map(|event| event.event().body.kind()).collect();
    assert_eq!(
        kinds,
        [
            "user_message_confirmed",
            "tool_use",
            "tool_result",
            "message_chunk",
            "message",
            "complete"
        ]
    );
    assert_eq!(numbers_of(&stored), up_to(4));

    // Two recorders of one run, of which neither knows what the other has.
    let run = holodeck_events::NewRun {
        run_id: Some("r".to_owned()),
        ..session_run("s")
    };
    let mut one = subject.open(run.clone()).await.unwrap();
    let (mut other, _) = subject.draft(run);
    let draft = |recorder: &mut RunRecorder| {
        let events = [call("a", "f"), result("a", "f", "1")];
        events.map(|event| recorder.observe(&event)).concat()
    };
    let (first, second) = (draft(&mut one), draft(&mut other));
    subject.store.append(first).await.unwrap();
    subject.store.append(second).await.unwrap_err();
    assert_eq!(subject.stored("s").await.len(), stored.len() + 3);
}

async fn two_sessions_may_have_the_same_call_id(subject: Subject) {
    for session in ["one", "two"] {
        let emitted = answered([call("a", "f"), result("a", "f", "1"), text("done")]);
        subject.record(session_run(session), emitted.clone()).await;
        // And two runs of one session.
        subject.record(session_run(session), emitted).await;
        assert_eq!(numbers_of(&subject.stored(session).await), up_to(8));
    }
}

async fn an_append_is_stored_completely_or_not_at_all(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    let stored = run.observe(&text("a"));
    subject.store.append(stored.clone()).await.unwrap();
    let mut with_stored = run.observe(&text("b"));
    with_stored.extend(stored);
    subject.store.append(with_stored).await.unwrap_err();
    assert_eq!(indices(&subject.stored("s").await), [0, 1]);
    // The run continues.
    subject.piece(&mut run, "c").await.unwrap();
    subject.end(&mut run).await.unwrap();
    assert_eq!(indices(&subject.stored("s").await), up_to(5));
}

async fn a_clock_that_jumps_changes_no_order(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    for jump in [-3_600, 7_200, -86_400] {
        subject.piece(&mut run, "x").await.unwrap();
        subject.clock.change_time_of_day(jump);
    }
    subject.end(&mut run).await.unwrap();
    let stored = subject.stored("s").await;
    assert_eq!(indices(&stored), up_to(6));
    assert_eq!(numbers_of(&stored), up_to(3));
    let times = stored.iter().map(|event| event.event().meta.timestamp);
    assert!(!times.is_sorted());
    let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
    // The session was last used when its latest event was recorded, an hour after the first.
    subject.clock.change_time_of_day(86_400 - 3_600);
    let retention = Retention {
        resume_window: Duration::from_secs(1_000_000),
        sessions: Some(Duration::from_mins(1)),
    };
    assert_eq!(subject.store.sweep(retention).await.unwrap().sessions, 0);
}
