//! Processes that are stopped or killed.

use std::sync::Arc;

use holodeck_events::{EventStore, PostgresOptions, PostgresStore, View};
use holodeck_model::events::EventBody;
use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    kill::{Delivered, Moment, Random, Victim},
    postgres_server::PostgresServer,
    session::check,
};

async fn open(server: &PostgresServer) -> Arc<dyn EventStore> {
    let mut options = PostgresOptions::default();
    // The test decides when it looks for runs that are lost.
    options.watches = false;
    let store = PostgresStore::open(&server.url(), options).await;
    Arc::new(store.unwrap())
}

/// Ends the runs of processes that were killed: the server notices soon that their connections ended.
async fn recover(store: &dyn EventStore) {
    loop {
        store.recover().await.unwrap();
        let sessions = store.sessions(None).await.unwrap();
        if sessions.iter().all(|session| session.open_run.is_none()) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_survives_kills_at_random_moments() {
    let server = PostgresServer::start();
    let store = open(&server).await;
    let (mut delivered, random) = (Delivered::default(), &mut Random(37));
    for round in 0..8 {
        delivered.kill_two_writers(server.url(), random);
        // The next two writers may have to end the runs of these themselves.
        if round == 7 || random.below(3) > 0 {
            recover(&*store).await;
            delivered.check(&*store).await;
        }
    }
    assert!(delivered.0.len() > 80, "{}", delivered.0.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_a_person_is_asked_leaves_the_call_unapproved() {
    let server = PostgresServer::start();
    let mut victim = Victim::start("ask", "one", server.url());
    victim.wait_for("asked");
    let store = open(&server).await;
    // Somebody waits for the end of the run, in another process.
    let mut subscription = store.subscribe("s", None).await.unwrap();
    victim.kill_at(Moment::NOW);
    recover(&*store).await;
    let mut events = Vec::new();
    loop {
        let event = subscription.next().await.unwrap().unwrap();
        events.push(event.event().clone());
        if event.event().body.is_terminal() {
            break;
        }
    }
    assert_eq!(check(View::Live, &events), []);
    let bodies: Vec<_> = events.iter().map(|event| &event.body).collect();
    let [
        ..,
        EventBody::Message(message),
        EventBody::ToolUse(_),
        EventBody::ApprovalRequested(asked),
        EventBody::ApprovalResolved(resolved),
        EventBody::ToolResult(_),
        EventBody::Error(end),
    ] = &bodies[..]
    else {
        panic!("{bodies:?}");
    };
    assert_eq!(asked.approval_id, resolved.approval_id);
    assert!(!resolved.approved);
    assert_eq!(
        (message.content.as_str(), message.partial),
        ("let me look", false)
    );
    assert_eq!(end.code, "RUN_INTERRUPTED");
    assert_eq!(store.approvals(None, None).await.unwrap(), []);
}

/// The zombie keeps its connections, and its lock, until the server ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_over_its_lease_cannot_write() {
    for restarts in [false, true] {
        let mut server = PostgresServer::start();
        let mut zombie = Victim::start("step", "one", server.url());
        zombie.wait_for("began");
        let pid = Pid::from_child(&zombie.child);
        kill_process(pid, Signal::STOP).unwrap();
        let store = open(&server).await;
        if restarts {
            server.stop();
            server.start_again();
        }
        // It holds its lock, or lost it with the server: only a lease that is over counts.
        assert_eq!(store.recover().await.unwrap(), Vec::<String>::new());
        let own = format!("WHERE process = {}", zombie.child.id());
        server.run(&format!(
            "UPDATE holodeck_writers SET expires_at = clock_timestamp() - interval '1 second' {own}"
        ));
        assert_eq!(store.recover().await.unwrap().len(), 1);
        let before = store.read_after("s", None).await.unwrap();
        kill_process(pid, Signal::CONT).unwrap();
        zombie.resume();
        let refused = zombie.next_line().unwrap();
        assert!(refused.contains("no longer owned"), "{refused}");
        assert_eq!(store.read_after("s", None).await.unwrap(), before);
        zombie.kill_at(Moment::NOW);
    }
}
