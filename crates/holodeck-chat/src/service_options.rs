//! The options of a service that answers messages.

use std::{sync::Arc, time::Duration};

use holodeck_backend_api::Approver;
use holodeck_events::{Clock, Ids, RandomIds, SystemClock};
use holodeck_model::{
    OnApprovalTimeout, Redactor,
    events::{ApprovalScope, SessionStart},
};
use holodeck_turn::TurnRunner;

use crate::{
    CauseSink, CheckArguments, Concurrency, Patience,
    files::{FileVault, TextEmbedder},
};

/// How a service runs its agent.
#[derive(Clone)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct ServiceOptions {
    /// How new sessions begin.
    pub session: SessionStart,
    /// Files, prices, and the time limit of a turn.
    pub turns: Option<TurnRunner>,
    /// The commands of `routing` that a message can name with its first word, as in `/review src`.
    pub commands: Vec<String>,
    /// Decides about tool calls; what it leaves open, a person decides.
    pub policy: Option<Arc<dyn Approver>>,
    /// Checks the arguments that a person changed.
    pub tools: Option<Arc<dyn CheckArguments>>,
    /// The files of users; without it, only files of this machine can be attached.
    pub files: Option<FileVault>,
    /// Finds the files that match a message.
    pub embedder: Option<Arc<dyn TextEmbedder>>,
    /// How long the approval of a person may count; empty: any scope.
    pub scopes: Vec<ApprovalScope>,
    /// How long a person has to decide.
    pub patience: Patience,
    /// How to handle a message while another one is answered.
    pub concurrency: Concurrency,
    /// Masks secrets before anything is stored or delivered.
    pub redactor: Option<Arc<Redactor>>,
    /// Receives the causes of errors, which then show only their kind in events and results; without it, they show all.
    pub causes: Option<CauseSink>,
    /// Least time between two writes of pieces of text.
    pub chunk_interval: Duration,
    /// Conversations that the backend keeps open between turns.
    pub live_sessions: usize,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            session: SessionStart::default(),
            turns: None,
            commands: Vec::new(),
            policy: None,
            tools: None,
            files: None,
            embedder: None,
            scopes: Vec::new(),
            patience: Patience {
                limit: None,
                then: OnApprovalTimeout::Reject,
            },
            concurrency: Concurrency::default(),
            redactor: None,
            causes: None,
            chunk_interval: Duration::ZERO,
            live_sessions: 4,
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
        }
    }
}
