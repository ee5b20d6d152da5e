//! Processes that die or freeze while others read what they answer: the others end their runs by themselves.

use std::{ffi::OsStr, sync::Arc, time::Duration};

use holodeck_events::{ApprovalAnswer, EventStore, Resolution, StoreError, View};
use holodeck_model::events::{AgentEvent, Decision, EventBody};
use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    kill::{Moment, Victim, open},
    session::check,
};

/// So short that a test need not wait for long, and so long that a process which works keeps it.
const SHORT: Duration = Duration::from_secs(3);
const USUAL: Duration = Duration::from_secs(10);

/// The events of the session up to the end of its run, as a reader gets them who was there before.
async fn read_to_the_end(store: &dyn EventStore, from: Option<u64>) -> Vec<AgentEvent> {
    let mut subscription = store.subscribe("s", from).await.unwrap();
    let mut events = Vec::new();
    loop {
        let event = subscription.next().await.unwrap().unwrap();
        events.push(event.event().clone());
        if event.event().body.is_terminal() {
            return events;
        }
    }
}

async fn question(store: &dyn EventStore) -> String {
    let asked = store.approvals(Some("s"), None).await.unwrap();
    asked[0].request.approval_id.clone()
}

/// Nothing asks the store to look: no message, no answer, no recovery.
async fn a_reader_gets_the_end_of_a_run_whose_process_was_killed(place: &OsStr) {
    let mut victim = Victim::start("ask", "one", place);
    victim.wait_for("asked");
    let store = open(place, USUAL).await;
    let asked = question(&*store).await;
    let reader = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { read_to_the_end(&*store, None).await })
    };
    victim.kill_at(Moment::NOW);
    let events = reader.await.unwrap();
    check_end(&*store, &events, &asked).await;
}

/// A frozen process holds its lock and its connections, and shows no sign of life.
async fn a_reader_gets_the_end_of_a_run_whose_process_is_frozen(place: &OsStr) {
    let mut zombie = Victim::with_lease("ask-and-step", place, SHORT);
    zombie.wait_for("asked");
    let store = open(place, SHORT).await;
    let asked = question(&*store).await;
    let pid = Pid::from_child(&zombie.child);
    kill_process(pid, Signal::STOP).unwrap();
    let events = read_to_the_end(&*store, None).await;
    check_end(&*store, &events, &asked).await;
    // It wakes up: the run is another's, and what it stores is refused.
    kill_process(pid, Signal::CONT).unwrap();
    zombie.resume();
    let refused = zombie.next_line().unwrap();
    assert!(refused.contains("no longer owned"), "{refused}");
    let after = store.read_after("s", None).await.unwrap();
    assert_eq!(after.len(), events.len());
    zombie.kill_at(Moment::NOW);
}

async fn check_end(store: &dyn EventStore, events: &[AgentEvent], asked: &str) {
    assert_eq!(check(View::Live, events), []);
    let Some(EventBody::Error(end)) = events.last().map(|event| &event.body) else {
        panic!("{events:?}");
    };
    assert_eq!(end.code, "RUN_INTERRUPTED");
    assert_eq!(store.approvals(None, None).await.unwrap(), []);
    let closed = store.approval(asked).await.unwrap().unwrap();
    assert_eq!(closed.status(), "cancelled");
    let session = store.session("s").await.unwrap().unwrap();
    assert_eq!(session.open_run, None);
}

/// The store does not look by itself here: the answer finds out.
async fn an_answer_about_a_run_whose_process_is_gone_is_refused(place: &OsStr, gone: impl Fn()) {
    let mut victim = Victim::start("ask", "one", place);
    victim.wait_for("asked");
    let store = open_without_watching(place).await;
    let asked = question(&*store).await;
    let mut subscription = store.subscribe("s", None).await.unwrap();
    victim.kill_at(Moment::NOW);
    gone();
    for decision in [Resolution::Approve, Resolution::Reject] {
        let answered = store
            .resolve_approval(ApprovalAnswer::new(asked.as_str(), decision))
            .await;
        let Err(StoreError::AlreadyResolved { decision, .. }) = answered else {
            panic!("{answered:?}");
        };
        assert_eq!(decision, Decision::Cancelled);
    }
    let mut events = Vec::new();
    while events
        .last()
        .is_none_or(|event: &AgentEvent| !event.body.is_terminal())
    {
        let event = subscription.next().await.unwrap().unwrap();
        events.push(event.event().clone());
    }
    check_end(&*store, &events, &asked).await;
}

async fn open_without_watching(place: &OsStr) -> Arc<dyn EventStore> {
    #[cfg(feature = "postgres")]
    if let Some(url) = place.to_str().filter(|place| place.starts_with("postgresql://")) {
        let mut options = holodeck_events::PostgresOptions::default();
        options.watches = false;
        let store = holodeck_events::PostgresStore::open(url, options).await;
        return Arc::new(store.unwrap());
    }
    let mut options = holodeck_events::SqliteOptions::default();
    options.watches = false;
    let store = holodeck_events::SqliteStore::open(place, options).await;
    Arc::new(store.unwrap())
}

mod in_a_file {

    async fn with_file<F: Future<Output = ()>>(test: impl FnOnce(std::ffi::OsString) -> F) {
        let folder = tempfile::tempdir().unwrap();
        test(folder.path().join("events.db").into()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_gets_the_end_of_a_run_whose_process_was_killed() {
        with_file(|place| async move {
            super::a_reader_gets_the_end_of_a_run_whose_process_was_killed(&place).await;
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_gets_the_end_of_a_run_whose_process_is_frozen() {
        with_file(|place| async move {
            super::a_reader_gets_the_end_of_a_run_whose_process_is_frozen(&place).await;
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_answer_about_a_run_whose_process_is_gone_is_refused() {
        with_file(|place| async move {
            super::an_answer_about_a_run_whose_process_is_gone_is_refused(&place, || {}).await;
        })
        .await;
    }
}

#[cfg(feature = "postgres")]
mod in_a_database {
    use crate::postgres_server::PostgresServer;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_gets_the_end_of_a_run_whose_process_was_killed() {
        let server = PostgresServer::start();
        super::a_reader_gets_the_end_of_a_run_whose_process_was_killed(server.url().as_ref()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_gets_the_end_of_a_run_whose_process_is_frozen() {
        let server = PostgresServer::start();
        super::a_reader_gets_the_end_of_a_run_whose_process_is_frozen(server.url().as_ref()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_answer_about_a_run_whose_process_is_gone_is_refused() {
        let server = PostgresServer::start();
        // The server notices soon that the connection ended.
        let gone = || while server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") != "1" {};
        super::an_answer_about_a_run_whose_process_is_gone_is_refused(server.url().as_ref(), gone).await;
    }
}
