//! Tests of recording into a store, with failing stores and slow receivers.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{BackendEvent, StopReason};
use holodeck_events::{
    AlwaysApproved, ApprovalAnswer, ApprovalInfo, Delivery, Draft, EventStore, MemoryStore, NewRun,
    RecordError, Recording, Retention, RunInfo, RunRecorder, SessionCursor, SessionInfo, StoreError,
    StoredEvent, Subscription, Swept, replay_violations,
};
use holodeck_model::events::{EventBody, PersistenceState};
use pretty_assertions::assert_eq;

use crate::{
    backend_events::{Emitted, answered, call, result, stop, text, thinking},
    session::{TestSession, block_on, sources},
};

fn emitted() -> Vec<Emitted> {
    answered([
        thinking("hm"),
        call("a", "f"),
        stop(StopReason::ToolUse, "msg_1"),
        result("a", "f", "1"),
        text("done"),
        stop(StopReason::EndTurn, "msg_2"),
    ])
}

#[test]
fn what_is_stored_does_not_depend_on_the_sink() {
    let mut with_sink = TestSession::new();
    with_sink.run("go", emitted());
    let without_sink = TestSession::new();
    let stream = Box::pin(futures::stream::iter(emitted()));
    block_on(without_sink.recording().record(NewRun::new("s", "go"), stream)).unwrap();
    let json = |events: Vec<StoredEvent>| -> Vec<String> {
        events.iter().map(|event| event.json().to_owned()).collect()
    };
    assert_eq!(json(without_sink.stored()), json(with_sink.stored()));
    let delivered = std::mem::take(&mut *with_sink.delivered.lock().unwrap());
    assert_eq!(json(delivered), json(with_sink.stored()));
}

#[test]
fn a_replay_is_the_same_bytes_from_any_cursor() {
    let mut session = TestSession::new();
    session.run("go", emitted());
    let all = session.stored();
    let first: Vec<_> = all.iter().map(StoredEvent::json).collect();
    for after in 0..all.len() {
        let rest = block_on(session.store.read_after("s", u64::try_from(after).ok())).unwrap();
        let rest: Vec<_> = rest.iter().map(StoredEvent::json).collect();
        assert_eq!(rest, first[after + 1..]);
        assert_eq!(replay_violations(&first, &rest).unwrap(), []);
    }
}

#[test]
fn a_session_has_one_run_at_a_time_and_a_run_ends_once() {
    let store = MemoryStore::new();
    let (clock, ids) = sources();
    let open = || RunRecorder::open(NewRun::new("s", "go"), clock.clone(), ids.clone());
    let (mut one, first) = open();
    block_on(store.open_run(first)).unwrap();
    let (_, second) = open();
    assert!(matches!(
        block_on(store.open_run(second)),
        Err(StoreError::RunInProgress { .. })
    ));
    let late = one.observe(&text("late"));
    let end = answered([]).pop().unwrap().unwrap();
    block_on(store.append(one.observe(&end))).unwrap();
    assert!(matches!(
        block_on(store.append(late)),
        Err(StoreError::RunNotOpen { .. })
    ));
    assert!(one.observe(&text("after the end")).is_empty());
    let ignored: Vec<_> = one.trajectory().ignored().collect();
    assert_eq!(ignored, [&holodeck_events::Ignored::AfterEnd]);
    let (_, next) = open();
    block_on(store.open_run(next)).unwrap();
}

#[test]
fn sessions_are_numbered_by_themselves() {
    let store = MemoryStore::new();
    let (clock, ids) = sources();
    for session in ["one", "two"] {
        let stream = Box::pin(futures::stream::iter(emitted()));
        let recording = Recording::new(&store, &clock, &ids);
        block_on(recording.record(NewRun::new(session, "go"), stream)).unwrap();
        let events = block_on(store.read_after(session, None)).unwrap();
        let numbers: Vec<_> = events
            .iter()
            .filter_map(|event| event.event().meta.sequence_number)
            .collect();
        assert_eq!(numbers, (0..5).collect::<Vec<_>>());
        assert_eq!(events[0].index(), 0);
    }
}

/// Fails from a certain append on, returns what it stored twice, or takes its time.
pub(crate) struct Faulty {
    store: MemoryStore,
    left: AtomicUsize,
    repeats: bool,
    delay: Duration,
}

impl Faulty {
    /// A store whose appends take so long.
    pub(crate) fn slow(delay: Duration) -> Self {
        Self {
            store: MemoryStore::new(),
            left: AtomicUsize::new(usize::MAX),
            repeats: false,
            delay,
        }
    }
}

#[async_trait]
impl EventStore for Faulty {
    async fn open_session(
        &self,
        first: Draft,
        owner: Option<&str>,
    ) -> Result<Option<StoredEvent>, StoreError> {
        self.store.open_session(first, owner).await
    }

    async fn open_run(&self, first: Draft) -> Result<StoredEvent, StoreError> {
        self.store.open_run(first).await
    }

    async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<StoredEvent>, StoreError> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(StoreError::Failed {
                reason: "disk full".to_owned(),
            });
        }
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let mut stored = self.store.append(drafts).await?;
        if self.repeats {
            stored.extend(stored.clone());
        }
        Ok(stored)
    }

    fn abandon(&self, session_id: &str, run_id: &str) {
        self.store.abandon(session_id, run_id);
    }

    async fn recover(&self) -> Result<Vec<String>, StoreError> {
        self.store.recover().await
    }

    async fn read_page(
        &self,
        session_id: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.read_page(session_id, after, limit).await
    }

    async fn subscribe(&self, session_id: &str, after: Option<u64>) -> Result<Subscription, StoreError> {
        self.store.subscribe(session_id, after).await
    }

    async fn session(&self, session_id: &str) -> Result<Option<SessionInfo>, StoreError> {
        self.store.session(session_id).await
    }

    async fn run(&self, run_id: &str) -> Result<Option<RunInfo>, StoreError> {
        self.store.run(run_id).await
    }

    async fn sessions_page(
        &self,
        owner: Option<&str>,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        self.store.sessions_page(owner, after, limit).await
    }

    async fn resolve_approval(&self, answer: ApprovalAnswer) -> Result<StoredEvent, StoreError> {
        self.store.resolve_approval(answer).await
    }

    async fn approval(&self, approval_id: &str) -> Result<Option<ApprovalInfo>, StoreError> {
        self.store.approval(approval_id).await
    }

    async fn approvals(
        &self,
        session_id: Option<&str>,
        owner: Option<&str>,
    ) -> Result<Vec<ApprovalInfo>, StoreError> {
        self.store.approvals(session_id, owner).await
    }

    async fn remembered_approvals(&self, session_id: &str) -> Result<Vec<String>, StoreError> {
        self.store.remembered_approvals(session_id).await
    }

    async fn always_approved(
        &self,
        agent: &str,
        owner: Option<&str>,
    ) -> Result<Vec<AlwaysApproved>, StoreError> {
        self.store.always_approved(agent, owner).await
    }

    async fn revoke_always(&self, approved: AlwaysApproved) -> Result<bool, StoreError> {
        self.store.revoke_always(approved).await
    }

    async fn forget_approval(&self, session_id: &str, tool: &str) -> Result<bool, StoreError> {
        self.store.forget_approval(session_id, tool).await
    }

    async fn fork_session(
        &self,
        from: &str,
        after_index: Option<u64>,
        session_id: &str,
        owner: Option<&str>,
    ) -> Result<SessionInfo, StoreError> {
        self.store
            .fork_session(from, after_index, session_id, owner)
            .await
    }

    async fn delete_session(&self, session_id: &str, force: bool) -> Result<(), StoreError> {
        self.store.delete_session(session_id, force).await
    }

    async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError> {
        self.store.sweep(retention).await
    }
}

#[test]
fn a_run_whose_events_cannot_be_stored_is_stopped() {
    let store = Faulty {
        store: MemoryStore::new(),
        left: AtomicUsize::new(1),
        repeats: false,
        ..Faulty::slow(Duration::ZERO)
    };
    let (clock, ids) = sources();
    let shown = Mutex::new(Vec::new());
    let sink = |event: Delivery| shown.lock().unwrap().push(event);
    let told = AtomicUsize::new(0);
    let stream = futures::stream::iter(["one", "two", "three"]).map(|word| {
        told.fetch_add(1, Ordering::SeqCst);
        Ok(BackendEvent::Text {
            text: word.to_owned(),
        })
    });
    let recording = Recording::new(&store, &clock, &ids).with_sink(&sink);
    let error = block_on(recording.record(NewRun::new("s", "go"), Box::pin(stream))).unwrap_err();
    assert!(matches!(error, RecordError::Lost { .. }), "{error:?}");
    assert_eq!(told.load(Ordering::SeqCst), 2);
    let shown = shown.into_inner().unwrap();
    let stored = block_on(store.read_after("s", None)).unwrap();
    let Some((Delivery::Transient(last), before)) = shown.split_last() else {
        panic!("{shown:?}");
    };
    let delivered: Vec<_> = before
        .iter()
        .map(|event| match event {
            Delivery::Stored(event) => event.clone(),
            Delivery::Transient(_) => panic!("{event:?}"),
        })
        .collect();
    assert_eq!(delivered, stored[..2]);
    // The store, which works again, ends the run.
    let kinds: Vec<_> = stored[2..]
        .iter()
        .map(|event| event.event().body.kind())
        .collect();
    assert_eq!(kinds, ["message", "error"]);
    let meta = &last.event().meta;
    assert_eq!(meta.persistence_state, PersistenceState::Transient);
    assert_eq!((meta.event_index, meta.sequence_number), (None, None));
    assert!(matches!(&last.event().body, EventBody::Error(error) if error.code == "PERSISTENCE_FAILED"));
}

/// A store of another program that breaks the contract is noticed.
#[test]
fn events_that_break_the_contract_are_counted() {
    let (clock, ids) = sources();
    for repeats in [false, true] {
        let store = Faulty {
            store: MemoryStore::new(),
            left: AtomicUsize::new(usize::MAX),
            repeats,
            ..Faulty::slow(Duration::ZERO)
        };
        let violations = AtomicU64::new(0);
        let recording = Recording::new(&store, &clock, &ids).with_violations(&violations);
        let stream = Box::pin(futures::stream::iter(emitted()));
        block_on(recording.record(NewRun::new("s", "go"), stream)).unwrap();
        assert_eq!(violations.load(Ordering::SeqCst) > 0, repeats);
    }
}

#[test]
fn the_stream_is_not_polled_before_the_persons_message_is_stored() {
    let session = TestSession::new();
    let (_, first) = RunRecorder::open(NewRun::new("s", "other"), sources().0, sources().1);
    block_on(session.store.open_run(first)).unwrap();
    let stream = futures::stream::poll_fn(|_| -> std::task::Poll<Option<Emitted>> { panic!("touched") });
    let refused = block_on(
        session
            .recording()
            .record(NewRun::new("s", "go"), Box::pin(stream)),
    );
    assert!(matches!(refused, Err(RecordError::NotOpened(_))));
}
