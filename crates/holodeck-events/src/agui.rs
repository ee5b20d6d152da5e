//! Runs as AG-UI 1.0 streams: [`AgUiRun`] projects the events of a run, [`RunAgentInput`] is what a client sends. Pure;
//! the transport is another crate's.

use std::collections::{HashMap, HashSet};

use holodeck_backend_api::ToolCall;
use holodeck_model::events::{
    AgentEvent, ApprovalRequested, Complete, CompleteReason, EventBody, RunTotals, StopFamily, StopReason,
    ToolResult, ToolUse,
};
use serde_json::{Value, json};

use crate::{ApprovalAnswer, fold::text_of};

mod agent;
mod event;
mod input;

use event::{AgUiBody, AgUiInterrupt, AgUiOutcome, AgUiSubagentOutcome, AgUiUsage};
pub use event::{AgUiEvent, AgUiMetadata};
pub use input::{AgUiRequest, RunAgentInput};

use agent::{Agent, Output, Stage};

/// Additional content that a client requests, besides the conversation of the run's own agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgUiOptions {
    /// Nested agents: SUBAGENT_* events, and their messages and calls with `subagentRunId`. Clients older than 1.0 stop
    /// at those events, so without it nested agents are left out, except for their interrupts.
    pub subagents: bool,
    /// Events that have no type in AG-UI, each as a CUSTOM event `holodeck.event` whose value is the event.
    pub events: bool,
}

/// One AG-UI run: the projection of a run, or of a part of it between two questions to a person.
///
/// Every start has its end, the last event is the only RUN_FINISHED or RUN_ERROR, and no delta is empty. Ids of messages
/// and calls do not depend on whether pieces of text are still stored.
///
/// | event | AG-UI |
/// |---|---|
/// | `user_message_confirmed` | RUN_STARTED |
/// | `thinking_chunk`, `thinking_complete`, `thinking` | REASONING_START, REASONING_MESSAGE_*, REASONING_END |
/// | `message_chunk`, `message` | TEXT_MESSAGE_* |
/// | `tool_use`, `tool_result` | TOOL_CALL_START, _ARGS, _END; TOOL_CALL_RESULT |
/// | `approval_requested` | RUN_FINISHED, outcome `interrupt` |
/// | `complete` | RUN_FINISHED, outcome `success` (also `max_turns`, see `result.reason`) or `cancelled`; RUN_ERROR if the agent did not answer |
/// | `error` | RUN_ERROR |
pub struct AgUiRun {
    options: AgUiOptions,
    /// The run whose events these are.
    source: Option<String>,
    agents: Vec<Agent>,
    /// The calls that the client has.
    calls: HashMap<String, Call>,
    /// Nested agents in the order of their start in this AG-UI run.
    started: Vec<String>,
    end: Option<End>,
    out: Output,
}

struct Call {
    name: String,
    /// The call that started the agent that made it.
    agent: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Interrupted,
    Final,
}

/// Why open nested agents end.
enum Closing<'a> {
    Done,
    Failed(&'a str),
    /// With the interrupts and the agents that raised them.
    Interrupted(&'a [AgUiInterrupt]),
}

impl AgUiRun {
    /// The AG-UI run of a new message. Expects the events of its run from the first one on; those of other runs are
    /// skipped.
    pub fn start(thread_id: impl Into<String>, run_id: impl Into<String>, options: AgUiOptions) -> Self {
        Self {
            options,
            source: None,
            agents: Vec::new(),
            calls: HashMap::new(),
            started: Vec::new(),
            end: None,
            out: Output {
                thread_id: thread_id.into(),
                run_id: run_id.into(),
                is_started: false,
                time: None,
                events: Vec::new(),
            },
        }
    }

    /// The AG-UI run that continues after an interrupt, and its first events: what followed the interrupt in `recorded`,
    /// the events so far of the session or of the run. `None` if `recorded` has none of the answered approvals.
    pub fn resume<'a>(
        thread_id: impl Into<String>,
        run_id: impl Into<String>,
        options: AgUiOptions,
        recorded: impl IntoIterator<Item = &'a AgentEvent>,
        answers: &[ApprovalAnswer],
    ) -> Option<(Self, Vec<AgUiEvent>)> {
        let recorded: Vec<_> = recorded.into_iter().collect();
        let is_answered = |event: &&AgentEvent| {
            asked(event).is_some_and(|ask| {
                let mut answers = answers.iter();
                answers.any(|answer| answer.approval_id == ask.approval_id)
            })
        };
        let at = recorded.iter().rposition(is_answered)?;
        let (seen, new) = recorded.split_at_checked(at + 1)?;
        let mut run = Self::start(thread_id, run_id, options);
        run.source = seen.last().and_then(|event| event.meta.run_id.clone());
        for event in seen {
            run.observe(event);
        }
        // The client has all this. What was open, the interrupt has closed.
        run.close_all(&Closing::Interrupted(&[]));
        run.started.clear();
        run.out.events.clear();
        run.out.is_started = false;
        run.out.time = None;
        run.out.begin();
        // Of several questions, the client may have answered some.
        let mut answered: HashSet<&str> = recorded.iter().filter_map(|event| answered(event)).collect();
        answered.extend(answers.iter().map(|answer| answer.approval_id.as_str()));
        let open = seen.iter().filter(|event| is_pending(event, &answered));
        let open: Vec<_> = open.chain(new).copied().collect();
        let events = run.project_all(open);
        Some((run, events))
    }

    /// Names the run whose events these are, if others may come before them.
    pub fn follow(&mut self, run_id: impl Into<String>) {
        self.source = Some(run_id.into());
    }

    /// Translates an event.
    pub fn project(&mut self, event: &AgentEvent) -> Vec<AgUiEvent> {
        self.project_all([event])
    }

    /// Translates events that are available together. A question that one of them answers does not interrupt, and
    /// questions that follow each other are one interrupt.
    pub fn project_all<'a>(&mut self, events: impl IntoIterator<Item = &'a AgentEvent>) -> Vec<AgUiEvent> {
        let events: Vec<_> = events.into_iter().collect();
        let answered: HashSet<&str> = events.iter().filter_map(|event| answered(event)).collect();
        let mut rest = events.as_slice();
        while let Some((event, after)) = rest.split_first()
            && !self.is_over()
        {
            rest = after;
            if !self.follows(event) {
                continue;
            }
            let mut asks = Vec::new();
            let mut next = Some(*event);
            while let Some(ask) = next.take().filter(|event| is_pending(event, &answered)) {
                asks.push(ask);
                if let Some((following, after)) = rest.split_first()
                    && is_pending(following, &answered)
                {
                    rest = after;
                    next = Some(following);
                }
            }
            if asks.is_empty() {
                self.observe(event);
            } else {
                self.interrupt(&asks);
            }
        }
        std::mem::take(&mut self.out.events)
    }

    /// Ends the run with RUN_ERROR, for what goes wrong outside it. Nothing if it is over.
    pub fn fail(&mut self, message: &str, code: &str) -> Vec<AgUiEvent> {
        if !self.is_over() {
            self.error(message, code, &RunTotals::default());
        }
        std::mem::take(&mut self.out.events)
    }

    /// Whether the last event was emitted.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it ended with a question to a person: the run behind it is still active.
    pub fn is_interrupted(&self) -> bool {
        self.end == Some(End::Interrupted)
    }

    /// Whether the event belongs to the run that is projected; the first one decides which run it is.
    fn follows(&mut self, event: &AgentEvent) -> bool {
        let Some(run) = &event.meta.run_id else {
            return true;
        };
        if self.source.is_none() {
            self.source = Some(run.clone());
        }
        self.source.as_ref() == Some(run)
    }

    fn observe(&mut self, event: &AgentEvent) {
        if !self.follows(event) {
            return;
        }
        self.out.time = Some(event.meta.timestamp.as_millisecond());
        let nested = event.meta.parent_tool_use_id.as_deref();
        if nested.is_some() && !self.options.subagents && !event.body.is_terminal() {
            self.custom(event);
            return;
        }
        let turn = event.meta.turn.unwrap_or_default();
        match &event.body {
            EventBody::UserMessageConfirmed(_) => self.out.begin(),
            EventBody::ThinkingChunk(chunk) => {
                self.with_agent(nested, |agent, out| {
                    agent.add_reasoning(turn, &chunk.content, out);
                });
            }
            EventBody::ThinkingComplete(_) => self.with_agent(nested, Agent::end_reasoning),
            EventBody::Thinking(thinking) => {
                self.with_agent(nested, |agent, out| {
                    agent.complete_reasoning(turn, &thinking.content, out);
                });
            }
            EventBody::MessageChunk(chunk) => {
                self.with_agent(nested, |agent, out| agent.add_text(turn, &chunk.content, out));
            }
            EventBody::Message(message) => {
                self.with_agent(nested, |agent, out| agent.complete_message(turn, message, out));
            }
            EventBody::ToolUse(call) => self.call(nested, turn, call),
            EventBody::ToolResult(result) => self.result(nested, &event.meta.event_id.to_string(), result),
            EventBody::Complete(end) => self.complete(end),
            EventBody::Error(error) => self.error(&error.error, &error.code, &error.totals),
            _ => self.custom(event),
        }
    }

    /// The id of a call in AG-UI: the provider's. One that was created here is unique in its run only.
    fn public_id(&self, call: &str) -> String {
        if call.starts_with(ToolCall::GENERATED_ID_PREFIX) {
            format!("{}/{call}", self.source())
        } else {
            call.to_owned()
        }
    }

    fn source(&self) -> &str {
        self.source.as_deref().unwrap_or("run")
    }

    /// The place of an agent in the list.
    fn place_of(&mut self, id: Option<&str>) -> usize {
        if let Some(at) = self.agents.iter().position(|agent| agent.id.as_deref() == id) {
            return at;
        }
        let tag = id.map(|id| self.public_id(id));
        let agent = Agent::new(id, tag, self.source());
        self.agents.push(agent);
        self.agents.len() - 1
    }

    fn with_agent(&mut self, id: Option<&str>, act: impl FnOnce(&mut Agent, &mut Output)) {
        if let Some(id) = id {
            self.start_agent(id);
        }
        let at = self.place_of(id);
        if let Some(agent) = self.agents.get_mut(at) {
            act(agent, &mut self.out);
        }
    }

    /// Emits the start of a nested agent, after those of the agents around it.
    fn start_agent(&mut self, id: &str) {
        let mut chain = vec![id.to_owned()];
        while let Some(parent) = chain.last().and_then(|id| self.calls.get(id)?.agent.clone())
            && !chain.contains(&parent)
        {
            chain.push(parent);
        }
        while let Some(id) = chain.pop() {
            let at = self.place_of(Some(&id));
            let Some(agent) = self.agents.get_mut(at) else {
                continue;
            };
            if agent.stage != Stage::Idle {
                continue;
            }
            agent.stage = Stage::Active;
            let tag = agent.tag.clone();
            let call = self.calls.get(&id);
            let parent = call.and_then(|call| call.agent.clone());
            let parent = parent.filter(|parent| self.started.contains(parent));
            let body = AgUiBody::SubagentStarted {
                name: call.map_or_else(|| "agent".to_owned(), |call| call.name.clone()),
                parent_subagent_run_id: parent.map(|parent| self.public_id(&parent)),
                parent_tool_call_id: self.public_id(&id),
            };
            self.out.push(tag.as_deref(), body);
            self.started.push(id);
        }
    }

    fn call(&mut self, nested: Option<&str>, turn: u32, call: &ToolUse) {
        let id = self.public_id(&call.tool_use_id);
        let known = Call {
            name: call.tool_name.clone(),
            agent: nested.map(ToOwned::to_owned),
        };
        self.calls.insert(call.tool_use_id.clone(), known);
        let delta = match &call.args {
            Value::Null => "{}".to_owned(),
            args => args.to_string(),
        };
        self.with_agent(nested, |agent, out| {
            let parent_message_id = agent.begin_call(turn, out);
            let tag = agent.tag.as_deref();
            let start = AgUiBody::ToolCallStart {
                tool_call_id: id.clone(),
                tool_call_name: call.tool_name.clone(),
                parent_message_id,
            };
            out.push(tag, start);
            let tool_call_id = id.clone();
            out.push(tag, AgUiBody::ToolCallArgs { tool_call_id, delta });
            out.push(tag, AgUiBody::ToolCallEnd { tool_call_id: id });
        });
    }

    fn result(&mut self, nested: Option<&str>, message_id: &str, result: &ToolResult) {
        let content = text_of(result);
        self.finish_agent(result, &content);
        let tool_call_id = self.public_id(&result.tool_use_id);
        let about = (!result.success).then(|| {
            let about = json!({ "success": false, "error": result.error });
            event::metadata(about)
        });
        self.with_agent(nested, |agent, out| {
            let body = AgUiBody::ToolCallResult {
                message_id: message_id.to_owned(),
                tool_call_id,
                content,
                role: "tool",
            };
            out.push_with(agent.tag.as_deref(), body, about);
        });
    }

    /// Ends the nested agent that the call started.
    fn finish_agent(&mut self, result: &ToolResult, content: &str) {
        let id = Some(result.tool_use_id.as_str());
        let mut agents = self.agents.iter_mut();
        let Some(agent) = agents.find(|agent| agent.id.as_deref() == id && agent.stage == Stage::Active)
        else {
            return;
        };
        agent.close(&mut self.out);
        agent.stage = Stage::Finished;
        let body = if result.success {
            AgUiBody::SubagentFinished { outcome: None }
        } else {
            AgUiBody::SubagentError {
                message: content.to_owned(),
            }
        };
        self.out.push(agent.tag.as_deref(), body);
    }

    fn interrupt(&mut self, asks: &[&AgentEvent]) {
        if let Some(last) = asks.last() {
            self.out.time = Some(last.meta.timestamp.as_millisecond());
        }
        let interrupts: Vec<_> = asks
            .iter()
            .filter_map(|event| {
                let nested = event.meta.parent_tool_use_id.as_deref();
                Some(self.interrupt_of(nested, asked(event)?))
            })
            .collect();
        self.close_all(&Closing::Interrupted(&interrupts));
        self.finish(None, AgUiOutcome::Interrupt { interrupts }, Vec::new());
        self.end = Some(End::Interrupted);
    }

    fn interrupt_of(&self, nested: Option<&str>, ask: &ApprovalRequested) -> AgUiInterrupt {
        let shown = ask.tool_use_id.as_ref().filter(|id| self.calls.contains_key(*id));
        let message = match ask.description.as_str() {
            "" => format!("Run {}?", ask.tool_name),
            description => description.to_owned(),
        };
        let about = json!({ "toolName": ask.tool_name, "args": ask.args, "priority": ask.priority });
        AgUiInterrupt {
            id: ask.approval_id.clone(),
            reason: if shown.is_some() {
                "tool_call"
            } else {
                "confirmation"
            },
            message,
            tool_call_id: shown.map(|id| self.public_id(id)),
            subagent_run_id: nested
                .filter(|_| self.options.subagents)
                .map(|id| self.public_id(id)),
            response_schema: event::response_schema(),
            expires_at: ask.expires_at.map(|time| format!("{time:.3}")),
            metadata: event::metadata(about),
        }
    }

    fn complete(&mut self, end: &Complete) {
        let usage = AgUiUsage::of(&end.totals);
        match &end.reason {
            CompleteReason::Success | CompleteReason::MaxTurns => {
                self.close_all(&Closing::Done);
                let mut result = serde_json::to_value(end).unwrap_or_default();
                if let Value::Object(result) = &mut result {
                    result.remove("usage");
                }
                self.finish(Some(result), AgUiOutcome::Success, usage);
            }
            CompleteReason::UserCancelled => {
                self.close_all(&Closing::Failed("the run was cancelled"));
                self.finish(None, AgUiOutcome::Cancelled, usage);
            }
            other => {
                // `success` would be an answer that the agent did not give.
                let message = end.error.as_deref().unwrap_or(other.as_str());
                let family = end.stop_reason.as_ref().map(StopReason::family);
                let code = match family {
                    Some(StopFamily::Refusal) => "REFUSED",
                    _ => "NOT_ANSWERED",
                };
                self.error(message, code, &end.totals);
            }
        }
    }

    fn error(&mut self, message: &str, code: &str, totals: &RunTotals) {
        let message = if message.is_empty() {
            "the run failed"
        } else {
            message
        };
        self.close_all(&Closing::Failed(message));
        let body = AgUiBody::RunError {
            message: message.to_owned(),
            code: (!code.is_empty()).then(|| code.to_owned()),
            usage: AgUiUsage::of(totals),
        };
        self.out.push(None, body);
        self.end = Some(End::Final);
    }

    fn finish(&mut self, result: Option<Value>, outcome: AgUiOutcome, usage: Vec<AgUiUsage>) {
        let body = AgUiBody::RunFinished {
            thread_id: self.out.thread_id.clone(),
            run_id: self.out.run_id.clone(),
            result,
            outcome,
            usage,
        };
        self.out.push(None, body);
        self.end = Some(End::Final);
    }

    /// Ends what is open, the newest nested agent first.
    fn close_all(&mut self, why: &Closing<'_>) {
        for agent in &mut self.agents {
            agent.close(&mut self.out);
        }
        for id in self.started.iter().rev() {
            let mut agents = self.agents.iter_mut();
            let Some(agent) = agents.find(|agent| agent.id.as_ref() == Some(id)) else {
                continue;
            };
            if agent.stage != Stage::Active {
                continue;
            }
            agent.stage = Stage::Finished;
            let body = match why {
                Closing::Done => AgUiBody::SubagentFinished { outcome: None },
                Closing::Failed(message) => AgUiBody::SubagentError {
                    message: (*message).to_owned(),
                },
                Closing::Interrupted(interrupts) => {
                    agent.stage = Stage::Idle;
                    let own = interrupts
                        .iter()
                        .filter(|interrupt| interrupt.subagent_run_id == agent.tag);
                    AgUiBody::SubagentFinished {
                        outcome: Some(AgUiSubagentOutcome::Suspended {
                            interrupt_ids: own.map(|interrupt| interrupt.id.clone()).collect(),
                        }),
                    }
                }
            };
            self.out.push(agent.tag.as_deref(), body);
        }
    }

    fn custom(&mut self, event: &AgentEvent) {
        if !self.options.events {
            return;
        }
        let nested = event.meta.parent_tool_use_id.as_deref();
        let tag = nested
            .filter(|_| self.options.subagents)
            .map(|id| self.public_id(id));
        let body = AgUiBody::Custom {
            name: "holodeck.event",
            value: serde_json::to_value(event).unwrap_or_default(),
        };
        self.out.push(tag.as_deref(), body);
    }
}

fn asked(event: &AgentEvent) -> Option<&ApprovalRequested> {
    match &event.body {
        EventBody::ApprovalRequested(ask) => Some(ask),
        _ => None,
    }
}

/// The approval that an event answers.
fn answered(event: &AgentEvent) -> Option<&str> {
    match &event.body {
        EventBody::ApprovalResolved(answer) => Some(&answer.approval_id),
        _ => None,
    }
}

/// Whether an event asks what is not in `answered`.
fn is_pending(event: &AgentEvent, answered: &HashSet<&str>) -> bool {
    asked(event).is_some_and(|ask| !answered.contains(ask.approval_id.as_str()))
}
