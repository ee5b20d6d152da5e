//! Tests of several processes on one database: numbering, ownership of runs, and delivery between them.

use std::sync::Arc;

use holodeck_backend_api::ApprovalDecision;
use holodeck_events::{
    ApprovalAnswer, EventStore, NewRun, PostgresStore, Resolution, StoreError, StoredEvent, View,
};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;

use crate::{
    backend_events::{answer, answered, ask, call, result, text},
    contract::{Subject, numbers_of, session_run},
    postgres_server::PostgresServer,
    session::check,
};

/// Two stores in one database, as two processes have them.
struct Pair {
    one: Subject,
    two: PostgresStore,
    _server: PostgresServer,
}

impl Pair {
    async fn open() -> Self {
        let server = PostgresServer::start();
        let one = Subject::postgres(&server, "events").await;
        let two = one.open_database().await;
        Self {
            one,
            two,
            _server: server,
        }
    }
}

fn nobody() -> Vec<String> {
    Vec::new()
}

fn checked(stored: &[StoredEvent]) {
    let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_tasks_each_event_has_its_own_number() {
    let Pair { one, two, _server } = Pair::open().await;
    let one = Arc::new(one);
    let two: Arc<dyn EventStore> = Arc::new(two);
    let mut tasks = Vec::new();
    for number in 0..64 {
        let (subject, two) = (Arc::clone(&one), Arc::clone(&two));
        tasks.push(tokio::spawn(async move {
            // Eight sessions, of both stores, whose runs follow each other.
            let session = format!("s-{}", number % 8);
            let store = if number % 2 == 0 { &subject.store } else { &two };
            let mut run = loop {
                let (run, first) = subject.draft(session_run(&session));
                match store.open_run(first).await {
                    Ok(_) => break run,
                    Err(StoreError::RunInProgress { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            };
            for event in answered([call("c", "f"), result("c", "f", "1"), text("x")]) {
                store.append(run.observe(&event.unwrap())).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for session in 0..8 {
        let stored = one.stored(&format!("s-{session}")).await;
        checked(&stored);
        assert_eq!(numbers_of(&stored), (0..4 * 8).collect::<Vec<u64>>());
        assert!(stored.iter().map(StoredEvent::index).eq(0..6 * 8));
    }
}

/// All at once into one run, which has one writer.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_tasks_append_to_one_run() {
    let Pair { one, _server, .. } = Pair::open().await;
    let mut run = one.open(session_run("s")).await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (store, drafts) = (Arc::clone(&one.store), run.observe(&text("x")));
            tokio::spawn(async move { store.append(drafts).await.unwrap() })
        })
        .collect();
    let mut delivered = Vec::new();
    for task in tasks {
        delivered.extend(task.await.unwrap());
    }
    delivered.sort_by_key(StoredEvent::index);
    delivered.extend(one.end(&mut run).await.unwrap());
    let stored = one.stored("s").await;
    assert_eq!(stored.len(), 67);
    assert_eq!(stored[1..], delivered);
    checked(&stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_store_keeps_its_run() {
    let Pair { one, two, _server } = Pair::open().await;
    let mut run = one.open(session_run("s")).await.unwrap();
    let (_, first) = one.draft(session_run("s"));
    let busy = StoreError::RunInProgress {
        session_id: "s".to_owned(),
        process: Some(std::process::id()),
    };
    assert_eq!(two.open_run(first).await, Err(busy.clone()));
    assert_eq!(two.delete_session("s", false).await, Err(busy));
    assert_eq!(two.recover().await.unwrap(), nobody());
    let foreign = two.append(run.observe(&text("x"))).await;
    assert!(
        matches!(foreign, Err(StoreError::StaleOwner { .. })),
        "{foreign:?}"
    );
    two.abandon("s", run.run_id());
    assert_eq!(two.recover().await.unwrap(), nobody());
    one.piece(&mut run, "y").await.unwrap();
    one.end(&mut run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_loses_its_runs_at_once() {
    let Pair { one, two, _server } = Pair::open().await;
    let (run, first) = one.draft(session_run("s"));
    let stored = two.open_run(first).await.unwrap();
    let mut subscription = two.subscribe("s", Some(stored.index())).await.unwrap();
    let clone = two.clone();
    two.close().await.unwrap();
    assert_eq!(subscription.next().await, Ok(None));
    let (_, next) = one.draft(session_run("t"));
    let late = clone.open_run(next).await;
    assert!(matches!(late, Err(StoreError::Failed { .. })), "{late:?}");
    assert!(clone.subscribe("s", None).await.is_err());
    clone.abandon("s", "r");
    assert_eq!(one.store.recover().await.unwrap(), [run.run_id()]);
    assert_eq!(one.store.recover().await.unwrap(), nobody());
    checked(&one.stored("s").await);
}

/// The same script into all stores, apart from ids and times, which the test makes the same.
#[tokio::test(flavor = "multi_thread")]
async fn all_stores_keep_the_same_events() {
    let server = PostgresServer::start();
    let mut exports = Vec::new();
    for subject in [
        Subject::memory(),
        Subject::sqlite().await,
        Subject::postgres(&server, "events").await,
    ] {
        subject.start("s", Some("alice")).await.unwrap();
        let run = || NewRun {
            user_id: Some("alice".to_owned()),
            ..session_run("s")
        };
        let odd = "not \u{0} \u{1f600} \\u0000 \"plain\"";
        let emitted = answered([call("a", "f"), result("a", "f", odd), text("one"), text(odd)]);
        subject.record(run(), emitted).await;
        let mut cut = subject.open(run()).await.unwrap();
        subject.piece(&mut cut, "half").await.unwrap();
        subject.store.abandon("s", cut.run_id());
        subject.store.recover().await.unwrap();
        let json = |event: &StoredEvent| event.json().to_owned();
        exports.push(subject.stored("s").await.iter().map(json).collect::<Vec<_>>());
    }
    assert_eq!(exports[0].len(), 12);
    assert_eq!(exports[0], exports[1]);
    assert_eq!(exports[0], exports[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_receives_what_another_process_stores() {
    let Pair { one, two, _server } = Pair::open().await;
    let mut run = one.open(session_run("s")).await.unwrap();
    let mut subscription = two.subscribe("s", None).await.unwrap();
    for index in 0..50 {
        let event = subscription.next().await.unwrap().unwrap();
        assert_eq!(event.index(), index);
        one.piece(&mut run, "x").await.unwrap();
    }
    one.end(&mut run).await.unwrap();
    let (mut own, first) = one.draft(session_run("s"));
    two.open_run(first).await.unwrap();
    two.append(own.observe(&text("y"))).await.unwrap();
    for index in 50..55 {
        let event = subscription.next().await.unwrap().unwrap();
        assert_eq!(event.index(), index);
    }
    // Its end too.
    one.store.delete_session("s", true).await.unwrap();
    assert_eq!(subscription.next().await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_of_another_process_reaches_the_one_that_asked() {
    let Pair { one, two, _server } = Pair::open().await;
    let alice = NewRun {
        user_id: Some("alice".to_owned()),
        ..session_run("s")
    };
    let mut run = one.open(alice).await.unwrap();
    let mut waiting = one.store.subscribe("s", Some(0)).await.unwrap();
    for round in 0..20 {
        let id = format!("call_{round}");
        for event in [call(&id, "f"), ask(&id, "f")] {
            one.store.append(run.observe(&event)).await.unwrap();
        }
        let asked = two.approvals(Some("s"), Some("alice")).await.unwrap();
        let approval = asked[0].request.approval_id.clone();
        let answered = |decision| ApprovalAnswer::new(approval.clone(), decision);
        // Not by another user.
        let foreign = answered(Resolution::Approve).by(Some("mallory"));
        let foreign = two.resolve_approval(foreign).await;
        assert!(
            matches!(foreign, Err(StoreError::ApprovalNotFound { .. })),
            "{foreign:?}"
        );
        // Both processes decide at once; one is stored.
        let (approved, rejected) = tokio::join!(
            two.resolve_approval(answered(Resolution::Approve).by(Some("alice"))),
            one.store
                .resolve_approval(answered(Resolution::Reject).by(Some("alice"))),
        );
        let outcomes = [approved, rejected];
        let stored: Vec<_> = outcomes.iter().flatten().collect();
        assert_eq!(stored.len(), 1, "{outcomes:?}");
        let lost = |outcome: &Result<_, _>| matches!(outcome, Err(StoreError::AlreadyResolved { .. }));
        assert!(outcomes.iter().any(lost), "{outcomes:?}");
        let noticed = loop {
            let event = waiting.next().await.unwrap().unwrap();
            if matches!(event.event().body, EventBody::ApprovalResolved(_)) {
                break event;
            }
        };
        assert_eq!(stored, [&noticed]);
        let reported = run.observe(&answer(&id, ApprovalDecision::approve()));
        assert_eq!(one.store.append(reported).await.unwrap(), [noticed]);
        one.store
            .append(run.observe(&result(&id, "f", "1")))
            .await
            .unwrap();
    }
    one.end(&mut run).await.unwrap();
    checked(&one.stored("s").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_only_its_owners() {
    let Pair { one, two, _server } = Pair::open().await;
    let of = |user: &str| NewRun {
        user_id: Some(user.to_owned()),
        ..session_run("s")
    };
    one.open(of("alice")).await.unwrap();
    let (_, foreign) = one.draft(of("mallory"));
    let not_found = StoreError::SessionNotFound {
        session_id: "s".to_owned(),
    };
    assert_eq!(two.open_run(foreign).await, Err(not_found.clone()));
    let copied = two.fork_session("s", None, "t", Some("mallory")).await;
    assert_eq!(copied, Err(not_found));
    assert_eq!(two.sessions(Some("mallory")).await.unwrap(), []);
    assert_eq!(two.sessions(Some("alice")).await.unwrap().len(), 1);
}
