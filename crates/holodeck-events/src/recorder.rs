//! Turns the stream of one turn into events of the contract: a state machine without I/O.
//!
//! Whatever a backend emits, the recorded events satisfy the invariants; ignored events are reported.

use std::{sync::Arc, time::Duration};

use holodeck_backend_api::{BackendError, BackendEvent, ExecutionResult, ResultFold, ToolResult};
use holodeck_model::events::{Attachment, EventBody, UserMessage};
use serde_json::json;

use crate::{
    Clock, Draft, Ids, Ignored, Trajectory,
    agent_log::{AgentLog, RunEnd},
    draft::{Drafts, Origin},
    run_log::RunLog,
    terminal::{interruption, terminal},
};

/// The field of a run's last event that says which executor answered.
pub const EXECUTION_FIELD: &str = "execution";
/// The field of a run's last event with the passages that an agent which is not ours reports.
pub(crate) const PASSAGES_FIELD: &str = "passages";
/// The field of a run's last event with the parts that such an agent does not report.
pub(crate) const UNREPORTED_FIELD: &str = "unreported";

/// A run to record.
#[derive(Clone, Debug, Default)]
pub struct NewRun {
    /// The session it belongs to.
    pub session_id: String,
    /// The person's message.
    pub message: String,
    /// Its id; without one, a new id is created.
    pub run_id: Option<String>,
    /// The person's id.
    pub user_id: Option<String>,
    /// The client's own id of the message.
    pub client_message_id: Option<String>,
    /// The files that the model reads with the message.
    pub attachments: Vec<Attachment>,
    /// How long a person may take to answer a question; `None`: as long as the run lasts.
    pub approval_timeout: Option<Duration>,
}

impl NewRun {
    /// A run of `session_id` that answers `message`.
    pub fn new(session_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            message: message.into(),
            ..Self::default()
        }
    }
}

/// Turns the stream of one turn into events. A pure state machine: the same input, clock and ids give the same events,
/// which hold the invariants for any input.
pub struct RunRecorder {
    log: RunLog,
    main: AgentLog,
    /// Agents that the run's own agent started, in the order of their first events.
    nested: Vec<AgentLog>,
    fold: ResultFold,
    backend_session: Option<String>,
    result: Option<ExecutionResult>,
}

impl RunRecorder {
    /// A recorder, and the first event of its run.
    pub fn open(run: NewRun, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> (Self, Draft) {
        let run_id = run.run_id.unwrap_or_else(|| ids.next().to_string());
        let mut drafts = Drafts::new(run.session_id, run_id, clock, ids);
        drafts.approval_timeout = run.approval_timeout;
        let message = UserMessage {
            message_id: drafts.new_id(),
            content: run.message,
            user_id: run.user_id,
            client_message_id: run.client_message_id,
            attachments: run.attachments,
        };
        let files = message.attachments.clone();
        let first = drafts.draft(Origin::RUN, EventBody::UserMessageConfirmed(message));
        (Self::with_log(RunLog::for_store(drafts, files)), first)
    }

    /// A recorder without a store: it returns no events, and keeps only the result and the trajectory. For a piece of
    /// text it allocates nothing beyond the result.
    pub fn without_store() -> Self {
        Self::with_log(RunLog::new())
    }

    fn with_log(log: RunLog) -> Self {
        Self {
            log,
            main: AgentLog::default(),
            nested: Vec::new(),
            fold: ResultFold::new(),
            backend_session: None,
            result: None,
        }
    }

    /// Takes in one event of the backend and returns the events to record.
    pub fn observe(&mut self, event: &BackendEvent) -> Vec<Draft> {
        if self.result.is_some() {
            self.log.ignore(Ignored::AfterEnd);
            return Vec::new();
        }
        match event {
            BackendEvent::End(result) => return self.complete((**result).clone()),
            BackendEvent::SessionStarted { session_id, .. } => {
                self.backend_session = Some(session_id.clone());
            }
            other => self.observe_agent(None, other),
        }
        self.fold.observe(event);
        self.log.take_drafts()
    }

    /// Ends the run with the backend's result.
    pub fn complete(&mut self, result: ExecutionResult) -> Vec<Draft> {
        if self.result.is_some() {
            self.log.ignore(Ignored::AfterEnd);
            return Vec::new();
        }
        self.fold = ResultFold::new();
        self.end(result, None);
        self.last_drafts()
    }

    /// Ends the run with the backend's error.
    pub fn fail(&mut self, error: &BackendError) -> Vec<Draft> {
        if self.result.is_some() {
            self.log.ignore(Ignored::AfterEnd);
            return Vec::new();
        }
        let partial = std::mem::take(&mut self.fold).finish_failed(error);
        self.end(partial, Some(error));
        self.last_drafts()
    }

    /// The events that end the run; the last one says which executor answered.
    fn last_drafts(&mut self) -> Vec<Draft> {
        let mut drafts = self.log.take_drafts();
        let execution = self.result.as_ref().and_then(|result| result.execution.as_ref());
        if let (Some(last), Some(execution)) = (drafts.last_mut(), execution)
            && let Ok(execution) = serde_json::to_value(execution)
        {
            last.event.extra.insert(EXECUTION_FIELD.to_owned(), execution);
        }
        if let (Some(last), Some(result)) = (drafts.last_mut(), &self.result) {
            let extra = &mut last.event.extra;
            if let Some(passages) = &result.passages {
                extra.insert(PASSAGES_FIELD.to_owned(), json!(passages));
            }
            if !result.unreported.is_empty() {
                extra.insert(UNREPORTED_FIELD.to_owned(), json!(result.unreported));
            }
        }
        drafts
    }

    /// The result of the run, once it is over.
    pub fn result(&self) -> Option<&ExecutionResult> {
        self.result.as_ref()
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        self.log.run_id()
    }

    /// The session.
    pub fn session_id(&self) -> &str {
        self.log.session_id()
    }

    /// The backend's own id of the conversation, if it has one.
    pub fn backend_session_id(&self) -> Option<&str> {
        self.backend_session.as_deref()
    }

    /// The steps that are not part of the result.
    pub fn trajectory(&self) -> &Trajectory {
        self.log.trajectory()
    }

    /// The result of a run that is over, and its trajectory.
    pub fn into_result(self) -> (ExecutionResult, Trajectory) {
        (
            self.result.unwrap_or_else(ExecutionResult::unasked),
            self.log.into_trajectory(),
        )
    }

    /// Takes in an event of an agent; `agent` is the call that started it.
    fn observe_agent(&mut self, agent: Option<&str>, event: &BackendEvent) {
        if let BackendEvent::Nested {
            parent_call_id,
            event,
        } = event
        {
            let (agent_log, log) = self.log_of_call(parent_call_id, None);
            agent_log.record_pending(parent_call_id, log);
            self.observe_agent(Some(parent_call_id), event);
            return;
        }
        match event {
            BackendEvent::ToolResult(result) if result.call_id.is_empty() => {
                if let Some(call_id) = self.log.open_without_id(agent, &result.name) {
                    let result = ToolResult {
                        call_id,
                        ..result.clone()
                    };
                    self.observe_agent(agent, &BackendEvent::ToolResult(result));
                    return;
                }
            }
            BackendEvent::ApprovalAsked(ask) if ask.call_id.is_empty() => {
                self.log.ignore(Ignored::AskWithoutId);
                return;
            }
            BackendEvent::Paused => self.log.set_paused(true),
            BackendEvent::Resumed => self.log.set_paused(false),
            _ => {}
        }
        let (agent_log, log) = match event {
            // These belong to the agent that made the call, whichever agent reports them.
            BackendEvent::ToolResult(result) => self.log_of_call(&result.call_id, agent),
            BackendEvent::ApprovalAsked(ask) => self.log_of_call(&ask.call_id, agent),
            BackendEvent::ApprovalAnswered { call_id, .. } => self.log_of_call(call_id, agent),
            _ => self.log_of(agent),
        };
        agent_log.observe(event, log);
    }

    /// The log of the agent that made this call, else of `agent`.
    fn log_of_call(&mut self, call_id: &str, agent: Option<&str>) -> (&mut AgentLog, &mut RunLog) {
        let owner = self.log.call(call_id).map(|call| call.agent.clone());
        match owner {
            Some(owner) => self.log_of(owner.as_deref()),
            None => self.log_of(agent),
        }
    }

    fn log_of(&mut self, agent: Option<&str>) -> (&mut AgentLog, &mut RunLog) {
        let Some(id) = agent else {
            return (&mut self.main, &mut self.log);
        };
        let known = self
            .nested
            .iter()
            .position(|agent_log| agent_log.agent() == agent);
        let at = known.unwrap_or_else(|| {
            self.nested.push(AgentLog::of(id));
            self.nested.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or just pushed")]
        (&mut self.nested[at], &mut self.log)
    }

    fn end(&mut self, result: ExecutionResult, error: Option<&BackendError>) {
        let reason = result.error_reason().unwrap_or("the run ended".into());
        let end = RunEnd {
            reason: &reason,
            interruption: interruption(&result, error),
        };
        // The latest first: agents close after the agents that they started.
        for agent_log in self.nested.iter_mut().rev() {
            agent_log.close(&end, &mut self.log);
        }
        self.main.close(&end, &mut self.log);
        let duration_ms = self.log.duration_ms();
        let notices = self.log.trajectory().notices();
        let warnings = notices.map(ToOwned::to_owned).collect();
        let cited_files = self.log.cited_files();
        self.log.write(Origin::RUN, || {
            let mut end = terminal(&result, error, self.main.last_stop(), warnings, duration_ms);
            if let EventBody::Complete(end) = &mut end {
                end.cited_files = cited_files;
            }
            end
        });
        self.result = Some(result);
    }
}
