//! The contract of runs: one open run per session, messages stored once, and abandoned runs closed.

use std::{collections::HashSet, sync::Arc};

use holodeck_events::{NewRun, StoreError, View};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;

use super::{Subject, each_store, session_run};
use crate::{
    backend_events::{ask, call, text},
    session::check,
};

each_store! {
    a_session_has_one_open_run
    a_run_that_is_over_takes_no_event
    a_run_id_is_used_once
    a_message_sent_ten_times_begins_one_run
    a_client_id_belongs_to_one_message_of_its_session
    a_session_belongs_to_the_user_of_its_first_run
    a_session_belongs_to_the_owner_it_begins_with
    an_abandoned_run_ends_with_what_had_arrived
    an_abandoned_run_closes_its_calls_and_questions
    a_session_begins_once
}

fn by(user: Option<&str>) -> NewRun {
    NewRun {
        user_id: user.map(str::to_owned),
        ..session_run("s")
    }
}

fn sent(client_id: &str, message: &str) -> NewRun {
    NewRun {
        client_message_id: Some(client_id.to_owned()),
        ..NewRun::new("s", message)
    }
}

async fn a_session_has_one_open_run(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    let second = subject.open(session_run("s")).await.err();
    let in_progress = StoreError::RunInProgress {
        session_id: "s".to_owned(),
        process: None,
    };
    assert_eq!(second, Some(in_progress));
    subject.open(session_run("other")).await.unwrap();
    let info = subject.store.session("s").await.unwrap().unwrap();
    assert_eq!(info.open_run.as_deref(), Some(run.run_id()));
    subject.end(&mut run).await.unwrap();
    assert_eq!(subject.store.session("s").await.unwrap().unwrap().open_run, None);
    subject.open(session_run("s")).await.unwrap();
    assert_eq!(subject.store.recover().await.unwrap(), Vec::<String>::new());
}

async fn a_run_that_is_over_takes_no_event(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    let late = run.observe(&text("late"));
    subject.end(&mut run).await.unwrap();
    let before = subject.stored("s").await;
    let not_open = StoreError::RunNotOpen {
        run_id: run.run_id().to_owned(),
    };
    assert_eq!(subject.store.append(late).await, Err(not_open));
    let (mut never, _) = subject.draft(session_run("s"));
    let unopened = subject.piece(&mut never, "x").await;
    assert!(
        matches!(unopened, Err(StoreError::RunNotOpen { .. })),
        "{unopened:?}"
    );
    assert_eq!(subject.stored("s").await, before);
}

async fn a_run_id_is_used_once(subject: Subject) {
    let run = |session| NewRun {
        run_id: Some("r".to_owned()),
        ..session_run(session)
    };
    let mut first = subject.open(run("s")).await.unwrap();
    subject.end(&mut first).await.unwrap();
    for session in ["s", "new"] {
        let again = subject.open(run(session)).await.err();
        let exists = StoreError::RunExists {
            run_id: "r".to_owned(),
        };
        assert_eq!(again, Some(exists));
    }
    assert_eq!(subject.store.session("new").await.unwrap(), None);
}

async fn a_message_sent_ten_times_begins_one_run(subject: Subject) {
    let subject = Arc::new(subject);
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let subject = Arc::clone(&subject);
            tokio::spawn(async move {
                let opened = subject.open(sent("c", "go")).await;
                opened.map(|run| run.run_id().to_owned())
            })
        })
        .collect();
    let (mut opened, mut known) = (Vec::new(), HashSet::new());
    for task in tasks {
        match task.await.unwrap() {
            Ok(run_id) => opened.push(run_id),
            Err(StoreError::AlreadySent { run_id }) => drop(known.insert(run_id)),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(opened.len(), 1);
    assert_eq!(known, opened.into_iter().collect());
    assert_eq!(subject.stored("s").await.len(), 1);
}

async fn a_client_id_belongs_to_one_message_of_its_session(subject: Subject) {
    let mut run = subject.open(sent("c", "go")).await.unwrap();
    let reused = StoreError::MessageIdReused {
        run_id: run.run_id().to_owned(),
    };
    assert_eq!(subject.open(sent("c", "stop")).await.err(), Some(reused));
    subject.end(&mut run).await.unwrap();
    // Also when the run is over.
    let again = StoreError::AlreadySent {
        run_id: run.run_id().to_owned(),
    };
    assert_eq!(subject.open(sent("c", "go")).await.err(), Some(again));
    subject
        .open(NewRun {
            session_id: "other".to_owned(),
            ..sent("c", "go")
        })
        .await
        .unwrap();
    subject.open(sent("d", "go")).await.unwrap();
}

async fn a_session_belongs_to_the_user_of_its_first_run(subject: Subject) {
    subject.start("s", None).await.unwrap();
    let mut run = subject.open(by(Some("alice"))).await.unwrap();
    subject.end(&mut run).await.unwrap();
    let not_found = StoreError::SessionNotFound {
        session_id: "s".to_owned(),
    };
    assert_eq!(subject.open(by(Some("bob"))).await.err(), Some(not_found.clone()));
    assert_eq!(subject.open(by(None)).await.err(), Some(not_found));
    subject.open(by(Some("alice"))).await.unwrap();
    let mut run = subject.open(session_run("of-nobody")).await.unwrap();
    subject.end(&mut run).await.unwrap();
    let taken = NewRun {
        user_id: Some("bob".to_owned()),
        ..session_run("of-nobody")
    };
    assert!(matches!(
        subject.open(taken).await.err(),
        Some(StoreError::SessionNotFound { .. })
    ));
    let of = async |owner| -> Vec<String> {
        let sessions = subject.store.sessions(owner).await.unwrap();
        sessions.into_iter().map(|session| session.session_id).collect()
    };
    assert_eq!(of(Some("alice")).await, ["s"]);
    assert_eq!(of(Some("bob")).await, Vec::<String>::new());
    let mut all = of(None).await;
    all.sort();
    assert_eq!(all, ["of-nobody", "s"]);
}

async fn a_session_belongs_to_the_owner_it_begins_with(subject: Subject) {
    subject.start("s", Some("alice")).await.unwrap();
    assert!(matches!(
        subject.open(by(Some("bob"))).await.err(),
        Some(StoreError::SessionNotFound { .. })
    ));
    subject.start("s", Some("bob")).await.unwrap_err();
    subject.start("s", Some("alice")).await.unwrap();
    subject.open(by(Some("alice"))).await.unwrap();
    let info = subject.store.session("s").await.unwrap().unwrap();
    assert_eq!(info.owner.as_deref(), Some("alice"));
    assert_eq!(info.head, Some(1));
}

async fn a_session_begins_once(subject: Subject) {
    subject.start("s", None).await.unwrap();
    subject.start("s", None).await.unwrap();
    let stored = subject.stored("s").await;
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].event().body.kind(), "session_start");
    assert_eq!(stored[0].event().meta.sequence_number, None);
}

/// The session's events, without a violation.
async fn checked(subject: &Subject) -> Vec<EventBody> {
    let stored = subject.stored("s").await;
    let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
    events.into_iter().map(|event| event.body).collect()
}

async fn an_abandoned_run_ends_with_what_had_arrived(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    subject.piece(&mut run, "one ").await.unwrap();
    subject.piece(&mut run, "two").await.unwrap();
    subject.store.abandon("s", run.run_id());
    // A store executes requests in their order.
    subject.store.recover().await.unwrap();
    let late = subject.piece(&mut run, "late").await;
    assert!(
        matches!(
            late,
            Err(StoreError::RunNotOpen { .. } | StoreError::StaleOwner { .. })
        ),
        "{late:?}"
    );
    subject.store.abandon("s", run.run_id());
    subject.store.recover().await.unwrap();
    let bodies = checked(&subject).await;
    let [.., EventBody::Message(message), EventBody::Error(error)] = &bodies[..] else {
        panic!("{bodies:?}");
    };
    assert_eq!((message.content.as_str(), message.partial), ("one two", true));
    assert_eq!(error.code, "RUN_INTERRUPTED");
    subject.open(session_run("s")).await.unwrap();
}

async fn an_abandoned_run_closes_its_calls_and_questions(subject: Subject) {
    let mut run = subject.open(session_run("s")).await.unwrap();
    for event in [call("a", "f"), ask("a", "f")] {
        subject.store.append(run.observe(&event)).await.unwrap();
    }
    subject.store.abandon("s", run.run_id());
    subject.store.recover().await.unwrap();
    let bodies = checked(&subject).await;
    let [
        ..,
        EventBody::ApprovalRequested(asked),
        EventBody::ApprovalResolved(answer),
        EventBody::ToolResult(result),
        EventBody::Error(_),
    ] = &bodies[..]
    else {
        panic!("{bodies:?}");
    };
    assert_eq!(asked.approval_id, answer.approval_id);
    assert!(!answer.approved);
    assert_eq!(subject.store.approvals(None, None).await.unwrap(), []);
    let known = subject.store.approval(&asked.approval_id).await.unwrap().unwrap();
    assert_eq!(known.status(), "cancelled");
    assert_eq!((result.tool_use_id.as_str(), result.success), ("a", false));
}
