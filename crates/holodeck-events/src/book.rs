use std::{collections::HashMap, sync::Arc, time::Duration};

use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, CallDetails, ToolCall, ToolResult};
use holodeck_model::events::{
    AgentEvent, ApprovalRequested, ApprovalResolved, Decision, EventBody, EventClass, EventMeta, IdSource,
    PersistenceState, Priority, ToolResult as ResultBody, ToolUse,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{Clock, Draft, Ids, Ignored};

/// What all agents of a run share: the events written and the calls made.
pub(crate) struct Book {
    session_id: String,
    run_id: String,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    started: Duration,
    drafts: Vec<Draft>,
    calls: HashMap<String, Call>,
    /// Calls whose id was made here, in order.
    minted: Vec<String>,
    ignored: Vec<Ignored>,
}

/// A tool call of the run.
pub(crate) struct Call {
    name: String,
    /// The agent that made it: the call that started it, or nothing for the run's own.
    pub(crate) agent: Option<String>,
    turn: u32,
    pub(crate) state: CallState,
    approval: Option<String>,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallState {
    /// The model wrote it; no event tells it yet.
    Written,
    /// Told, and without a result.
    Open,
    Answered,
}

/// Which agent an event is about, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) agent: Option<&'a str>,
    pub(crate) turn: Option<u32>,
}

impl Place<'_> {
    /// The run itself.
    pub(crate) const RUN: Self = Place {
        agent: None,
        turn: None,
    };
}

impl Book {
    pub(crate) fn new(session_id: String, run_id: String, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            session_id,
            run_id,
            started: clock.elapsed(),
            clock,
            ids,
            drafts: Vec::new(),
            calls: HashMap::new(),
            minted: Vec::new(),
            ignored: Vec::new(),
        }
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(crate) fn session_id(&self) -> &str {
        &self.session_id
    }

    pub(crate) fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    pub(crate) fn ignore(&mut self, what: Ignored) {
        self.ignored.push(what);
    }

    pub(crate) fn take_drafts(&mut self) -> Vec<Draft> {
        std::mem::take(&mut self.drafts)
    }

    pub(crate) fn new_id(&self) -> String {
        self.ids.next().to_string()
    }

    pub(crate) fn duration_ms(&self) -> u64 {
        let passed = self.clock.elapsed().saturating_sub(self.started);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// An event of the run.
    pub(crate) fn draft(&self, place: Place<'_>, body: EventBody) -> Draft {
        let mut meta = meta(&*self.clock, &*self.ids);
        meta.session_id = Some(self.session_id.clone());
        meta.run_id = Some(self.run_id.clone());
        meta.parent_tool_use_id = place.agent.map(ToOwned::to_owned);
        meta.turn = place.turn;
        draft(meta, body)
    }

    /// Writes an event down.
    pub(crate) fn write(&mut self, place: Place<'_>, body: EventBody) {
        let draft = self.draft(place, body);
        self.drafts.push(draft);
    }

    /// Takes in a call the model wrote; `None` when it is known already.
    pub(crate) fn called(&mut self, mut call: ToolCall, agent: Option<&str>, turn: u32) -> Option<ToolCall> {
        if call.call_id.is_empty() {
            call.call_id = format!("{}{}", ToolCall::MINTED, self.minted.len() + 1);
            self.minted.push(call.call_id.clone());
        } else if self.calls.contains_key(&call.call_id) {
            self.ignore(Ignored::RepeatedCall { id: call.call_id });
            return None;
        }
        let own = Call {
            name: call.name.clone(),
            agent: agent.map(ToOwned::to_owned),
            turn,
            state: CallState::Written,
            approval: None,
        };
        self.calls.insert(call.call_id.clone(), own);
        Some(call)
    }

    pub(crate) fn call(&self, id: &str) -> Option<&Call> {
        self.calls.get(id)
    }

    /// The oldest call of this agent and tool that was given no id and has no result.
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

    /// Tells a call.
    pub(crate) fn tell_call(&mut self, call: ToolCall) {
        let Some(known) = self.calls.get_mut(&call.call_id) else {
            return;
        };
        known.state = CallState::Open;
        let (agent, turn) = (known.agent.clone(), known.turn);
        let minted = call.call_id.starts_with(ToolCall::MINTED);
        let body = ToolUse {
            tool_use_id: call.call_id,
            tool_name: call.name,
            args: call.arguments,
            id_source: minted.then_some(IdSource::Minted),
        };
        self.write(place(agent.as_deref(), turn), EventBody::ToolUse(body));
    }

    /// Tells the result of an open call. A question about it that is still open was taken back.
    pub(crate) fn tell_result(&mut self, id: &str, result: ToolResult, from: Answerer) {
        self.resolve(id, &ApprovalDecision::Withdrawn);
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        call.state = CallState::Answered;
        let (agent, turn) = (call.agent.clone(), call.turn);
        let name = Some(result.name).filter(|name| !name.is_empty());
        let error = match from {
            Answerer::Tool => result.is_error.then(|| result.result.clone()),
            Answerer::Nobody => Some("interrupted".to_owned()),
        };
        let body = ResultBody {
            tool_use_id: id.to_owned(),
            tool_name: name.unwrap_or_else(|| call.name.clone()),
            result: Value::String(result.result),
            success: error.is_none(),
            error,
            duration_ms: result.duration_ms,
            synthetic: from == Answerer::Nobody,
            details: result.details,
        };
        self.write(place(agent.as_deref(), turn), EventBody::ToolResult(body));
    }

    /// Closes a call that no tool will answer any more.
    pub(crate) fn close_call(&mut self, id: &str, reason: &str) {
        let result = ToolResult {
            call_id: id.to_owned(),
            name: String::new(),
            result: format!("not answered: {reason}"),
            is_error: true,
            duration_ms: None,
            details: CallDetails::default(),
        };
        self.tell_result(id, result, Answerer::Nobody);
    }

    /// Tells the question about an open call.
    pub(crate) fn ask(&mut self, ask: ApprovalAsk) {
        let approval_id = self.new_id();
        let Some(call) = self.calls.get_mut(&ask.call_id) else {
            return;
        };
        if call.approval.is_some() {
            self.ignore(Ignored::RepeatedAsk { id: ask.call_id });
            return;
        }
        call.approval = Some(approval_id.clone());
        let (agent, turn) = (call.agent.clone(), call.turn);
        let body = ApprovalRequested {
            approval_id,
            description: ask
                .description
                .unwrap_or_else(|| format!("Run `{}`", ask.tool_name)),
            priority: Some(priority(&ask.tool_name)),
            tool_name: ask.tool_name,
            tool_use_id: Some(ask.call_id),
            args: Some(ask.arguments),
            expires_at: None,
        };
        self.write(place(agent.as_deref(), turn), EventBody::ApprovalRequested(body));
        if let Some(draft) = self.drafts.last_mut() {
            draft.event.meta.agent_id = ask.agent_id;
        }
    }

    /// Tells the end of a question; whether there was one.
    pub(crate) fn resolve(&mut self, id: &str, decision: &ApprovalDecision) -> bool {
        let Some(call) = self.calls.get_mut(id) else {
            return false;
        };
        let Some(approval_id) = call.approval.take() else {
            return false;
        };
        let (agent, turn) = (call.agent.clone(), call.turn);
        let (word, reason, modified_args) = match decision {
            ApprovalDecision::Approve { arguments: None } => (Decision::Approved, None, None),
            ApprovalDecision::Approve { arguments } => (Decision::Modified, None, arguments.clone()),
            ApprovalDecision::Reject { reason } => (Decision::Rejected, Some(reason.clone()), None),
            ApprovalDecision::Terminate { reason } => (Decision::Terminated, Some(reason.clone()), None),
            ApprovalDecision::Withdrawn => (Decision::Cancelled, None, None),
        };
        let body = ApprovalResolved {
            approval_id,
            approved: decision.is_approved(),
            decision: Some(word),
            reason,
            decided_by: None,
            modified_args,
        };
        self.write(place(agent.as_deref(), turn), EventBody::ApprovalResolved(body));
        true
    }
}

/// Who a result comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answerer {
    Tool,
    /// The run ended before the tool answered.
    Nobody,
}

fn place(agent: Option<&str>, turn: u32) -> Place<'_> {
    Place {
        agent,
        turn: Some(turn),
    }
}

/// What a new event says about itself, but for what it belongs to and its numbers.
pub(crate) fn meta(clock: &dyn Clock, ids: &dyn Ids) -> EventMeta {
    let now = clock.now();
    EventMeta {
        // As exact as it is written, so that what is read back is the same.
        timestamp: Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now),
        event_id: ids.next(),
        persistence_state: PersistenceState::Transient,
        event_index: None,
        sequence_number: None,
        session_id: None,
        run_id: None,
        agent_id: None,
        parent_tool_use_id: None,
        turn: None,
    }
}

/// An event with the state its type has on the wire.
pub(crate) fn draft(mut meta: EventMeta, body: EventBody) -> Draft {
    let class = body.class().unwrap_or(EventClass::Journaled);
    meta.persistence_state = match (&body, class) {
        (EventBody::ApprovalRequested(_), _) => PersistenceState::Pending,
        (_, EventClass::Stored) => PersistenceState::Persisted,
        (_, EventClass::Durable | EventClass::Journaled) => PersistenceState::Transient,
    };
    Draft {
        event: AgentEvent::new(meta, body),
        class,
    }
}

/// How much a call matters, by its tool's name.
fn priority(tool: &str) -> Priority {
    let tool = tool.to_lowercase();
    let says = |words: [&str; 2]| words.iter().any(|word| tool.contains(word));
    if says(["delete", "batch"]) {
        Priority::High
    } else if says(["create", "update"]) {
        Priority::Medium
    } else {
        Priority::Low
    }
}
