//! The events and tool calls that all agents of a run share.

use std::{collections::HashMap, time::Duration};

use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalBasis, ApprovalDecision, CallDetails, DecidedBy, ToolCall, ToolResult,
};
use holodeck_model::events::{
    AgentEvent, ApprovalRequested, ApprovalResolved, Attachment, CitedFile, Decision, EventBody, IdSource,
    Priority, ToolResult as ResultBody, ToolUse,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    Draft, Ignored, Trajectory, TrajectoryEvent,
    citations::Citations,
    draft::{Drafts, Origin},
};

/// The state that all agents of a run share: its events and its tool calls.
pub(crate) struct RunLog {
    /// The events for a store; without one, only the trajectory is recorded.
    drafts: Option<Box<Drafts>>,
    calls: HashMap<String, Call>,
    /// Calls whose id was created here, in order.
    minted: Vec<String>,
    trajectory: Trajectory,
    files: Citations,
}

/// A tool call of the run.
pub(crate) struct Call {
    name: String,
    /// The call that started the agent that made it; `None` for the run's own agent.
    pub(crate) agent: Option<String>,
    turn: u32,
    pub(crate) state: CallState,
    approval: Option<String>,
    /// Its paths, if they are not all simply in the agent's folders.
    basis: Option<Box<ApprovalBasis>>,
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallState {
    /// The model wrote it, but its event is not recorded yet.
    Pending,
    /// It is recorded and has no result.
    Open,
    /// It has its result.
    Answered,
}

impl RunLog {
    /// A log without a store.
    pub(crate) fn new() -> Self {
        Self {
            drafts: None,
            calls: HashMap::new(),
            minted: Vec::new(),
            trajectory: Trajectory::default(),
            files: Citations::default(),
        }
    }

    /// A log for a store, of a run that reads `files`.
    pub(crate) fn for_store(drafts: Drafts, files: Vec<Attachment>) -> Self {
        Self {
            drafts: Some(Box::new(drafts)),
            files: Citations::of(files),
            ..Self::new()
        }
    }

    /// Whether the events are for a store; without one, their contents are not needed.
    pub(crate) fn has_store(&self) -> bool {
        self.drafts.is_some()
    }

    /// The files of the run that a message names.
    pub(crate) fn cite(&mut self, message: &str) -> Vec<CitedFile> {
        self.files.cite(message)
    }

    /// The files that the run's messages named.
    pub(crate) fn cited_files(&mut self) -> Vec<CitedFile> {
        self.files.take_cited()
    }

    pub(crate) fn run_id(&self) -> &str {
        self.drafts.as_ref().map_or("", |drafts| &drafts.run_id)
    }

    pub(crate) fn session_id(&self) -> &str {
        self.drafts.as_ref().map_or("", |drafts| &drafts.session_id)
    }

    pub(crate) fn trajectory(&self) -> &Trajectory {
        &self.trajectory
    }

    pub(crate) fn into_trajectory(self) -> Trajectory {
        self.trajectory
    }

    pub(crate) fn ignore(&mut self, event: Ignored) {
        self.trajectory.push(None, TrajectoryEvent::Ignored(event));
    }

    pub(crate) fn record_notice(&mut self, agent: Option<&str>, message: &str) {
        let message = message.to_owned();
        self.trajectory.push(agent, TrajectoryEvent::Notice { message });
    }

    /// Records a decision about a call; `agent` reports it, unless the call is of another one.
    pub(crate) fn record_decision(&mut self, agent: Option<&str>, approval: Approval) {
        let call = self.calls.get(&approval.call_id);
        let agent = call.map_or(agent, |call| call.agent.as_deref());
        self.trajectory.push(agent, TrajectoryEvent::Approval(approval));
    }

    pub(crate) fn take_drafts(&mut self) -> Vec<Draft> {
        let drafts = self.drafts.as_mut();
        drafts.map_or_else(Vec::new, |drafts| std::mem::take(&mut drafts.new))
    }

    /// A new id; empty without a store.
    pub(crate) fn new_id(&self) -> String {
        let drafts = self.drafts.as_ref();
        drafts.map_or_else(String::new, |drafts| drafts.new_id())
    }

    /// A person decides, or has decided: their time is not that of the run.
    pub(crate) fn set_paused(&mut self, is_paused: bool) {
        match &mut self.drafts {
            Some(drafts) if is_paused => drafts.pause(),
            Some(drafts) => drafts.resume(),
            None => {}
        }
    }

    /// How long the run took, without the time in which a person decided; 0 without a store.
    pub(crate) fn duration_ms(&self) -> u64 {
        self.drafts.as_ref().map_or(0, |drafts| drafts.duration_ms())
    }

    /// Adds an event; without a store, it is not created.
    pub(crate) fn write(&mut self, origin: Origin<'_>, body: impl FnOnce() -> EventBody) {
        if let Some(drafts) = &mut self.drafts {
            let draft = drafts.draft(origin, body());
            drafts.new.push(draft);
        }
    }

    /// Registers a call that the model wrote; `None` if its id is already known. Without a store, only the id of the
    /// returned call is set.
    pub(crate) fn register_call(
        &mut self,
        call: &ToolCall,
        agent: Option<&str>,
        turn: u32,
    ) -> Option<ToolCall> {
        let mut call_id = call.call_id.clone();
        if call_id.is_empty() {
            call_id = format!("{}{}", ToolCall::GENERATED_ID_PREFIX, self.minted.len() + 1);
            self.minted.push(call_id.clone());
        } else if self.calls.contains_key(&call_id) {
            self.ignore(Ignored::RepeatedCall { id: call_id });
            return None;
        }
        // Not only once it is recorded: a decision about it may come before.
        if agent.is_some() {
            let nested = ToolCall {
                provider_fields: None,
                ..with_id(call, &call_id)
            };
            self.trajectory.push(agent, TrajectoryEvent::ToolCall(nested));
        }
        let registered = Call {
            name: call.name.clone(),
            agent: agent.map(ToOwned::to_owned),
            turn,
            state: CallState::Pending,
            approval: None,
            basis: None,
        };
        self.calls.insert(call_id.clone(), registered);
        Some(if self.has_store() {
            with_id(call, &call_id)
        } else {
            ToolCall {
                name: String::new(),
                arguments: Value::Null,
                call_id,
                provider_fields: None,
            }
        })
    }

    pub(crate) fn call(&self, id: &str) -> Option<&Call> {
        self.calls.get(id)
    }

    /// The oldest call of this agent and tool whose id was created here and that has no result.
    pub(crate) fn open_without_id(&self, agent: Option<&str>, name: &str) -> Option<String> {
        let mut open = self.minted.iter().filter(|id| {
            self.calls.get(*id).is_some_and(|call| {
                call.state != CallState::Answered
                    && call.agent.as_deref() == agent
                    && (name.is_empty() || call.name == name)
            })
        });
        open.next().cloned()
    }

    /// Records a call.
    pub(crate) fn record_call(&mut self, call: ToolCall) {
        let Some(known) = self.calls.get_mut(&call.call_id) else {
            return;
        };
        known.state = CallState::Open;
        let (agent, turn) = (known.agent.clone(), known.turn);
        self.write(origin(agent.as_deref(), turn), || {
            let minted = call.call_id.starts_with(ToolCall::GENERATED_ID_PREFIX);
            EventBody::ToolUse(ToolUse {
                tool_use_id: call.call_id,
                tool_name: call.name,
                args: call.arguments,
                id_source: minted.then_some(IdSource::Minted),
                provider_fields: call
                    .provider_fields
                    .and_then(|fields| serde_json::to_value(fields).ok()),
            })
        });
    }

    /// Records the result of an open call. An approval that is still open is withdrawn.
    pub(crate) fn record_result(&mut self, result: &ToolResult, source: ResultSource) {
        self.resolve(&result.call_id, &ApprovalDecision::Withdrawn);
        let Some(call) = self.calls.get_mut(&result.call_id) else {
            return;
        };
        call.state = CallState::Answered;
        let (agent, turn) = (call.agent.clone(), call.turn);
        let name = if result.name.is_empty() {
            &call.name
        } else {
            &result.name
        }
        .clone();
        if agent.is_some() && source == ResultSource::Tool {
            let event = TrajectoryEvent::ToolResult(result.clone());
            self.trajectory.push(agent.as_deref(), event);
        }
        self.write(origin(agent.as_deref(), turn), || {
            let error = match source {
                ResultSource::Tool => result.is_error.then(|| result.result.clone()),
                ResultSource::Interruption => Some("interrupted".to_owned()),
                ResultSource::Cancellation => Some("cancelled".to_owned()),
            };
            let mut details = result.details.clone();
            EventBody::ToolResult(ResultBody {
                tool_use_id: result.call_id.clone(),
                tool_name: name,
                result: Value::String(result.result.clone()),
                success: error.is_none(),
                error,
                duration_ms: result.duration_ms,
                synthetic: source != ResultSource::Tool,
                truncated: std::mem::take(&mut details.truncated),
                details,
            })
        });
    }

    /// Closes a call whose tool will not answer, because of `source`.
    pub(crate) fn close_call(&mut self, id: &str, reason: &str, source: ResultSource) {
        let result = ToolResult {
            call_id: id.to_owned(),
            name: String::new(),
            result: format!("not answered: {reason}"),
            is_error: true,
            duration_ms: None,
            details: CallDetails::default(),
        };
        self.record_result(&result, source);
    }

    /// Records the question about an open call.
    pub(crate) fn record_ask(&mut self, ask: &ApprovalAsk) {
        let approval_id = self.new_id();
        let Some(call) = self.calls.get_mut(&ask.call_id) else {
            return;
        };
        if call.approval.is_some() {
            self.ignore(Ignored::RepeatedAsk {
                id: ask.call_id.clone(),
            });
            return;
        }
        call.approval = Some(approval_id.clone());
        call.basis = ask.basis("a person decides");
        let (agent, turn) = (call.agent.clone(), call.turn);
        self.write(origin(agent.as_deref(), turn), || {
            let description = ask.description.clone();
            EventBody::ApprovalRequested(ApprovalRequested {
                approval_id,
                tool_name: ask.tool_name.clone(),
                description: description.unwrap_or_else(|| format!("Run `{}`", ask.tool_name)),
                priority: Some(priority(&ask.tool_name)),
                tool_use_id: Some(ask.call_id.clone()),
                args: Some(ask.arguments.clone()),
                paths: ask.outer_paths(),
                answer_schema: ask.answer_schema.as_deref().cloned(),
                tool_digest: ask.tool_digest.clone(),
                scopes: ask.scopes.clone(),
                expires_at: None,
            })
        });
        let Some(drafts) = &mut self.drafts else {
            return;
        };
        let timeout = drafts.approval_timeout;
        if let Some(AgentEvent { meta, body, .. }) = drafts.new.last_mut().map(|draft| &mut draft.event) {
            meta.agent_id.clone_from(&ask.agent_id);
            if let (EventBody::ApprovalRequested(request), Some(timeout)) = (body, timeout) {
                request.expires_at = after(meta.timestamp, timeout);
            }
        }
    }

    /// Records the answer to an open question; false if there is none.
    pub(crate) fn resolve(&mut self, id: &str, decision: &ApprovalDecision) -> bool {
        let Some(call) = self.calls.get_mut(id) else {
            return false;
        };
        let Some(approval_id) = call.approval.take() else {
            return false;
        };
        let basis = call.basis.take();
        let (agent, turn) = (call.agent.clone(), call.turn);
        let approval = Approval {
            call_id: id.to_owned(),
            decision: decision.clone(),
            by: DecidedBy::Person,
            basis,
        };
        self.record_decision(None, approval);
        self.write(origin(agent.as_deref(), turn), || {
            let (word, reason, modified_args) = match decision {
                ApprovalDecision::Approve { arguments: None } => (Decision::Approved, None, None),
                ApprovalDecision::Approve { arguments } => (Decision::Modified, None, arguments.clone()),
                ApprovalDecision::Reject { reason } => (Decision::Rejected, Some(reason.clone()), None),
                ApprovalDecision::Terminate { reason } => (Decision::Terminated, Some(reason.clone()), None),
                ApprovalDecision::Withdrawn => (Decision::Cancelled, None, None),
            };
            EventBody::ApprovalResolved(ApprovalResolved {
                approval_id,
                approved: decision.is_approved(),
                decision: Some(word),
                reason,
                decided_by: None,
                modified_args,
                scope: None,
            })
        });
        true
    }
}

/// The time `timeout` after `time`; `None` if it is too far away to be a date.
fn after(time: Timestamp, timeout: Duration) -> Option<Timestamp> {
    let timeout = SignedDuration::try_from(timeout).ok()?;
    time.checked_add(timeout).ok()
}

fn with_id(call: &ToolCall, id: &str) -> ToolCall {
    ToolCall {
        call_id: id.to_owned(),
        ..call.clone()
    }
}

/// The source of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultSource {
    Tool,
    /// The run ended before the tool answered.
    Interruption,
    /// A person or a limit of the caller ended it.
    Cancellation,
}

fn origin(agent: Option<&str>, turn: u32) -> Origin<'_> {
    Origin {
        agent,
        turn: Some(turn),
    }
}

/// The priority of a call, by its tool's name.
fn priority(tool: &str) -> Priority {
    let tool = tool.to_lowercase();
    let contains = |words: [&str; 2]| words.iter().any(|word| tool.contains(word));
    if contains(["delete", "batch"]) {
        Priority::High
    } else if contains(["create", "update"]) {
        Priority::Medium
    } else {
        Priority::Low
    }
}
