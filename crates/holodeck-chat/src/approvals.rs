//! Asks a person about the calls of a run. An answer counts once it is stored, whichever process stored it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, Approver, DecidedBy, Ruling, Zone};
use holodeck_events::{ApprovalAnswer, EventStore, Resolution, StoreError, StoredEvent, approval_decision};
use holodeck_model::{
    OnApprovalTimeout,
    events::{Decision, EventBody},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::asked_tools::AskedTools;

/// How long a person has, and what happens then.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the two settings of `approvals:`")]
pub struct Patience {
    /// The time for an answer; `None`: as long as the run lasts.
    pub limit: Option<Duration>,
    /// How to decide after it.
    pub then: OnApprovalTimeout,
}

/// The questions of one run. A question and its answer are events: the answer counts once it is stored, also if
/// another process stored it.
pub(crate) struct RunQuestions {
    run_id: String,
    store: Arc<dyn EventStore>,
    policy: Option<Arc<dyn Approver>>,
    patience: Patience,
    asked: AskedTools,
    /// Tools, and tools with paths, that a person approved for longer than one call.
    remembered: Mutex<HashSet<String>>,
    calls: Mutex<HashMap<String, Call>>,
    /// Questions whose answer was taken. Their events may arrive again, and a call may have several questions.
    taken: Mutex<HashSet<String>>,
    changed: watch::Sender<()>,
}

/// The state of a question.
#[derive(Clone, Debug, Default)]
struct Call {
    approval_id: Option<String>,
    /// The tool as it was when the person was asked.
    tool_digest: Option<String>,
    decision: Option<ApprovalDecision>,
    is_expired: bool,
}

impl RunQuestions {
    pub(crate) fn new(
        run_id: String,
        store: Arc<dyn EventStore>,
        policy: Option<Arc<dyn Approver>>,
        patience: Patience,
        asked: AskedTools,
    ) -> Self {
        Self {
            run_id,
            store,
            policy,
            patience,
            asked,
            remembered: Mutex::default(),
            calls: Mutex::default(),
            taken: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Takes in an event of the run's session, from any process; may see it twice.
    pub(crate) fn observe(&self, event: &StoredEvent) {
        match &event.event().body {
            // A call of an earlier run may have the same id.
            EventBody::ApprovalRequested(asked)
                if event.event().meta.run_id.as_ref() == Some(&self.run_id) =>
            {
                let Some(call_id) = &asked.tool_use_id else { return };
                if lock(&self.taken).contains(&asked.approval_id) {
                    return;
                }
                let mut calls = lock(&self.calls);
                let call = calls.entry(call_id.clone()).or_default();
                call.approval_id = Some(asked.approval_id.clone());
                call.tool_digest.clone_from(&asked.tool_digest);
            }
            EventBody::ApprovalResolved(resolved) => {
                let mut calls = lock(&self.calls);
                let of_question = |call: &&mut Call| call.approval_id.as_ref() == Some(&resolved.approval_id);
                if let Some(call) = calls.values_mut().find(of_question) {
                    call.decision = Some(approval_decision(resolved));
                    call.is_expired = resolved.decision == Some(Decision::Expired);
                }
            }
            _ => return,
        }
        self.changed.send_replace(());
    }

    /// Waits until the run asks a person.
    pub(crate) async fn wait_for_question(&self) {
        let mut changes = self.changed.subscribe();
        while lock(&self.calls).is_empty() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Approves further calls of a tool without asking.
    pub(crate) fn remember(&self, tools: Vec<String>) {
        lock(&self.remembered).extend(tools);
    }

    /// Stores that no answer arrived in time. If a person answers in the same moment, that answer counts.
    async fn expire(&self, approval_id: &str) -> Result<(), StoreError> {
        let seconds = self.patience.limit.unwrap_or_default().as_secs_f64();
        let mut answer = ApprovalAnswer::new(approval_id, Resolution::Expire);
        answer.reason = Some(format!("no answer within {seconds} s"));
        match self.store.resolve_approval(answer).await {
            Ok(event) => {
                self.observe(&event);
                Ok(())
            }
            // The answer that is stored arrives as an event.
            Err(StoreError::AlreadyResolved { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn call(&self, call_id: &str) -> Call {
        lock(&self.calls).get(call_id).cloned().unwrap_or_default()
    }

    /// Waits until `get` finds something in what is known of a question.
    async fn wait<T>(&self, call_id: &str, get: impl Fn(Call) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        loop {
            if let Some(found) = get(self.call(call_id)) {
                return found;
            }
            if changes.changed().await.is_err() {
                // The sender is in `self`.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The decision, unless the run is over: another process ends it if this one was frozen, and an answer that was stored
    /// before then is about a call that has its result already.
    async fn while_open(&self, decision: ApprovalDecision) -> ApprovalDecision {
        if !matches!(decision, ApprovalDecision::Approve { .. }) {
            return decision;
        }
        match self.store.run(&self.run_id).await {
            Ok(Some(run)) if run.last_index.is_none() => decision,
            Ok(_) => ApprovalDecision::Withdrawn,
            Err(error) => ApprovalDecision::reject(error.to_string()),
        }
    }

    /// The answer of a person, or what happens without one.
    async fn answer(&self, call_id: &str) -> ApprovalDecision {
        let decision = self.wait(call_id, |call| call.decision);
        let Some(limit) = self.patience.limit else {
            return decision.await;
        };
        if let Ok(decision) = tokio::time::timeout(limit, decision).await {
            return decision;
        }
        // The question is stored before anybody can wait for its answer for long.
        let approval_id = self.wait(call_id, |call| call.approval_id).await;
        if let Err(error) = self.expire(&approval_id).await {
            return ApprovalDecision::reject(error.to_string());
        }
        let decision = self.wait(call_id, |call| call.decision).await;
        match decision {
            ApprovalDecision::Reject { reason }
                if self.patience.then == OnApprovalTimeout::Terminate && self.call(call_id).is_expired =>
            {
                ApprovalDecision::Terminate { reason }
            }
            decision => decision,
        }
    }
}

#[async_trait]
impl Approver for RunQuestions {
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling> {
        // Without a policy a person decides about every call that the backend asks about.
        let decided = self.policy.as_ref().and_then(|policy| policy.decide(ask));
        let is_remembered = || {
            let mut ask = ask.clone();
            self.asked.describe(&mut ask);
            lock(&self.remembered).contains(&ask.remembered_as())
        };
        let remembered = || Ruling {
            rule: "a person approved it for longer than one call".to_owned(),
            ..Ruling::new(ApprovalDecision::approve(), DecidedBy::Person)
        };
        decided.or_else(|| is_remembered().then(remembered))
    }

    fn zone(&self, ask: &ApprovalAsk) -> Zone {
        self.policy
            .as_ref()
            .map_or(Zone::Inside, |policy| policy.zone(ask))
    }

    fn has_person(&self) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.has_person())
    }

    async fn ask(&self, ask: &ApprovalAsk, cancel: &CancellationToken) -> ApprovalDecision {
        let decision = tokio::select! {
            biased;
            () = cancel.cancelled() => ApprovalDecision::Withdrawn,
            decision = self.answer(&ask.call_id) => decision,
        };
        let asked = lock(&self.calls).remove(&ask.call_id).unwrap_or_default();
        if let Some(id) = asked.approval_id {
            lock(&self.taken).insert(id);
        }
        let decision = match decision {
            ApprovalDecision::Approve { .. } => self
                .asked
                .check_same(ask, asked.tool_digest.as_deref())
                .map_or_else(ApprovalDecision::reject, |()| decision),
            decision => decision,
        };
        self.while_open(decision).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
