use std::collections::{HashMap, HashSet};

use holodeck_backend_api::ToolCall;
use holodeck_model::events::{
    AgentEvent, AgentMessage, ApprovalRequested, ApprovalResolved, EventBody, IdSource, PersistenceState,
    ToolResult, ToolUse,
};
use uuid::Uuid;

use super::{Findings, Invariant, View};

/// One run of a session.
#[derive(Debug, Default)]
pub(super) struct Run {
    over: bool,
    /// By tool call.
    tools: HashMap<String, Tool>,
    open_tools: usize,
    /// By id of the question.
    approvals: HashMap<String, Approval>,
    open_approvals: usize,
    lanes: HashMap<Option<String>, Lane>,
}

#[derive(Debug, PartialEq, Eq)]
enum Tool {
    Open,
    Answered,
}

#[derive(Debug)]
struct Approval {
    tool_use_id: Option<String>,
    resolved: bool,
}

/// What one agent of the run has streamed of its message.
#[derive(Debug, Default)]
struct Lane {
    turn: Option<u32>,
    /// Text of no message yet.
    text: String,
    /// Text of this turn was streamed.
    began: bool,
}

impl Run {
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn observe(
        &mut self,
        event: &AgentEvent,
        view: View,
        tool_ids: Option<&HashSet<String>>,
        found: &mut Findings,
    ) {
        if self.over {
            let detail = format!("a `{}` follows the end of its run", event.body.kind());
            found.add(Invariant::Inv5, detail);
            return;
        }
        match &event.body {
            EventBody::ThinkingChunk(_) if self.lane(event).began => {
                found.add(
                    Invariant::Inv2,
                    "reasoning is streamed after text of the same turn",
                );
            }
            EventBody::MessageChunk(chunk) => {
                let lane = self.lane(event);
                lane.text.push_str(&chunk.content);
                lane.began = true;
            }
            EventBody::Message(message) => {
                let lane = self.lane(event);
                lane.began = false;
                let streamed = std::mem::take(&mut lane.text);
                if view == View::Live && !is_same(&streamed, message) {
                    found.add(Invariant::Hd3, "the pieces of a message are not the message");
                }
            }
            EventBody::ToolUse(call) => self.tool_use(call, tool_ids, found),
            EventBody::ToolResult(result) => self.tool_result(result, found),
            EventBody::ApprovalRequested(ask) => self.approval_requested(ask, found),
            EventBody::ApprovalResolved(answer) => self.approval_resolved(answer, found),
            EventBody::Complete(_) | EventBody::Error(_) => self.end(event, view, found),
            _ => {}
        }
    }

    /// The lane of an event; a new turn begins it anew.
    fn lane(&mut self, event: &AgentEvent) -> &mut Lane {
        let lane = self
            .lanes
            .entry(event.meta.parent_tool_use_id.clone())
            .or_default();
        if event.meta.turn.is_some() && event.meta.turn != lane.turn {
            lane.turn = event.meta.turn;
            lane.began = false;
        }
        lane
    }

    fn tool_use(&mut self, call: &ToolUse, tool_ids: Option<&HashSet<String>>, found: &mut Findings) {
        let id = &call.tool_use_id;
        if let Some(problem) = wrong_id(call, tool_ids) {
            found.add(Invariant::Inv8, format!("tool call `{id}`: {problem}"));
        }
        if self.tools.contains_key(id) {
            found.add(Invariant::Inv3, format!("tool call `{id}` is made twice"));
            return;
        }
        self.tools.insert(id.clone(), Tool::Open);
        self.open_tools += 1;
    }

    fn tool_result(&mut self, result: &ToolResult, found: &mut Findings) {
        let id = &result.tool_use_id;
        let asked = self
            .approvals
            .values()
            .any(|approval| !approval.resolved && approval.tool_use_id.as_ref() == Some(id));
        if asked {
            let detail = format!("tool call `{id}` is answered before its approval is resolved");
            found.add(Invariant::Hd4, detail);
        }
        match self.tools.get_mut(id) {
            Some(tool @ Tool::Open) => {
                *tool = Tool::Answered;
                self.open_tools -= 1;
            }
            Some(Tool::Answered) => found.add(Invariant::Inv3, format!("tool call `{id}` is answered twice")),
            None => found.add(
                Invariant::Inv3,
                format!("tool call `{id}` is answered and was not made"),
            ),
        }
    }

    fn approval_requested(&mut self, ask: &ApprovalRequested, found: &mut Findings) {
        let id = &ask.approval_id;
        if self.approvals.contains_key(id) {
            found.add(Invariant::Hd4, format!("approval `{id}` is asked for twice"));
            return;
        }
        let approval = Approval {
            tool_use_id: ask.tool_use_id.clone(),
            resolved: false,
        };
        self.approvals.insert(id.clone(), approval);
        self.open_approvals += 1;
    }

    fn approval_resolved(&mut self, answer: &ApprovalResolved, found: &mut Findings) {
        let id = &answer.approval_id;
        match self.approvals.get_mut(id) {
            Some(approval) if !approval.resolved => {
                approval.resolved = true;
                self.open_approvals -= 1;
            }
            Some(_) => found.add(Invariant::Hd4, format!("approval `{id}` is resolved twice")),
            None => found.add(
                Invariant::Hd4,
                format!("approval `{id}` is resolved and was not asked for"),
            ),
        }
    }

    fn end(&mut self, event: &AgentEvent, view: View, found: &mut Findings) {
        self.over = true;
        if event.meta.persistence_state == PersistenceState::Transient
            && matches!(event.body, EventBody::Error(_))
        {
            // Nothing more could be stored.
            return;
        }
        if self.open_tools > 0 {
            found.add(
                Invariant::Inv3,
                "the run ends with a tool call that has no result",
            );
        }
        if self.open_approvals > 0 {
            found.add(
                Invariant::Hd4,
                "the run ends with an approval that is not resolved",
            );
        }
        if view == View::Live && self.lanes.values().any(|lane| !lane.text.is_empty()) {
            found.add(Invariant::Hd3, "text was streamed and no message holds it");
        }
    }
}

fn is_same(streamed: &str, message: &AgentMessage) -> bool {
    let content = message.content.as_str();
    streamed == content
        || (message.partial && (streamed.starts_with(content) || content.starts_with(streamed)))
}

fn wrong_id(call: &ToolUse, tool_ids: Option<&HashSet<String>>) -> Option<&'static str> {
    let id = call.tool_use_id.as_str();
    let minted = call.id_source == Some(IdSource::Minted);
    if id.is_empty() {
        return Some("the id is empty");
    }
    if minted != id.starts_with(ToolCall::MINTED) {
        return Some("an id made here says so, and no other does");
    }
    if !minted && tool_ids.is_some_and(|ids| !ids.contains(id)) {
        return Some("the provider sent no such id");
    }
    if framework(id) {
        return Some("the id is a framework's");
    }
    None
}

/// Ids of the framework the contract's author was bitten by: a run's or a message's id in place of the call's.
fn framework(id: &str) -> bool {
    id.starts_with("lc_")
        || id.starts_with("run--")
        || id
            .strip_prefix("run-")
            .and_then(|rest| rest.get(..36))
            .is_some_and(|rest| Uuid::try_parse(rest).is_ok())
}
