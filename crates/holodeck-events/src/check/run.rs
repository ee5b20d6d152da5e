//! Checks the invariants of one run while its events arrive: order of calls, results, approvals and the end.

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
    agents: HashMap<Option<String>, AgentStream>,
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

/// The streamed part of one agent's open message.
#[derive(Debug, Default)]
struct AgentStream {
    turn: Option<u32>,
    /// Streamed text that no message holds yet.
    text: String,
    /// Text of this turn was streamed.
    has_text: bool,
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
        findings: &mut Findings,
    ) {
        if self.over {
            let detail = format!("a `{}` follows the end of its run", event.body.kind());
            findings.add(Invariant::Inv5, detail);
            return;
        }
        match &event.body {
            EventBody::ThinkingChunk(_) if self.agent(event).has_text => {
                findings.add(
                    Invariant::Inv2,
                    "reasoning is streamed after text of the same turn",
                );
            }
            EventBody::MessageChunk(chunk) => {
                let agent = self.agent(event);
                agent.text.push_str(&chunk.content);
                agent.has_text = true;
            }
            EventBody::Message(message) => {
                let agent = self.agent(event);
                agent.has_text = false;
                let streamed = std::mem::take(&mut agent.text);
                if view == View::Live && !is_same(&streamed, message) {
                    findings.add(Invariant::Hd3, "the pieces of a message are not the message");
                }
            }
            EventBody::ToolUse(call) => self.tool_use(call, tool_ids, findings),
            EventBody::ToolResult(result) => self.tool_result(result, findings),
            EventBody::ApprovalRequested(ask) => self.approval_requested(ask, findings),
            EventBody::ApprovalResolved(answer) => self.approval_resolved(answer, findings),
            EventBody::Complete(_) | EventBody::Error(_) => self.end(event, view, findings),
            _ => {}
        }
    }

    /// The agent of an event; a new turn resets what it has streamed.
    fn agent(&mut self, event: &AgentEvent) -> &mut AgentStream {
        let agent = self
            .agents
            .entry(event.meta.parent_tool_use_id.clone())
            .or_default();
        if event.meta.turn.is_some() && event.meta.turn != agent.turn {
            agent.turn = event.meta.turn;
            agent.has_text = false;
        }
        agent
    }

    fn tool_use(&mut self, call: &ToolUse, tool_ids: Option<&HashSet<String>>, findings: &mut Findings) {
        let id = &call.tool_use_id;
        if let Some(problem) = wrong_id(call, tool_ids) {
            findings.add(Invariant::Inv8, format!("tool call `{id}`: {problem}"));
        }
        if self.tools.contains_key(id) {
            findings.add(Invariant::Inv3, format!("tool call `{id}` is repeated"));
            return;
        }
        self.tools.insert(id.clone(), Tool::Open);
        self.open_tools += 1;
    }

    fn tool_result(&mut self, result: &ToolResult, findings: &mut Findings) {
        let id = &result.tool_use_id;
        let asked = self
            .approvals
            .values()
            .any(|approval| !approval.resolved && approval.tool_use_id.as_ref() == Some(id));
        if asked {
            let detail = format!("tool call `{id}` is answered before its approval is resolved");
            findings.add(Invariant::Hd4, detail);
        }
        match self.tools.get_mut(id) {
            Some(tool @ Tool::Open) => {
                *tool = Tool::Answered;
                self.open_tools -= 1;
            }
            Some(Tool::Answered) => {
                findings.add(Invariant::Inv3, format!("tool call `{id}` is answered twice"));
            }
            None => findings.add(
                Invariant::Inv3,
                format!("tool call `{id}` is answered and was not recorded"),
            ),
        }
    }

    fn approval_requested(&mut self, ask: &ApprovalRequested, findings: &mut Findings) {
        let id = &ask.approval_id;
        if self.approvals.contains_key(id) {
            findings.add(Invariant::Hd4, format!("approval `{id}` is asked for twice"));
            return;
        }
        let approval = Approval {
            tool_use_id: ask.tool_use_id.clone(),
            resolved: false,
        };
        self.approvals.insert(id.clone(), approval);
        self.open_approvals += 1;
    }

    fn approval_resolved(&mut self, answer: &ApprovalResolved, findings: &mut Findings) {
        let id = &answer.approval_id;
        match self.approvals.get_mut(id) {
            Some(approval) if !approval.resolved => {
                approval.resolved = true;
                self.open_approvals -= 1;
            }
            Some(_) => findings.add(Invariant::Hd4, format!("approval `{id}` is resolved twice")),
            None => findings.add(
                Invariant::Hd4,
                format!("approval `{id}` is resolved and was not asked for"),
            ),
        }
    }

    fn end(&mut self, event: &AgentEvent, view: View, findings: &mut Findings) {
        self.over = true;
        if event.meta.persistence_state == PersistenceState::Transient
            && matches!(event.body, EventBody::Error(_))
        {
            // The rest could not be stored.
            return;
        }
        if self.open_tools > 0 {
            findings.add(
                Invariant::Inv3,
                "the run ends with a tool call that has no result",
            );
        }
        if self.open_approvals > 0 {
            findings.add(
                Invariant::Hd4,
                "the run ends with an approval that is not resolved",
            );
        }
        if view == View::Live && self.agents.values().any(|agent| !agent.text.is_empty()) {
            findings.add(Invariant::Hd3, "text was streamed and no message holds it");
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
    if minted != id.starts_with(ToolCall::GENERATED_ID_PREFIX) {
        return Some("exactly the ids created here must be marked as such");
    }
    if !minted && tool_ids.is_some_and(|ids| !ids.contains(id)) {
        return Some("the provider sent no such id");
    }
    if is_framework_id(id) {
        return Some("the id is a framework's");
    }
    None
}

/// Ids that an agent framework creates for a run or a message, used in place of the call's id.
fn is_framework_id(id: &str) -> bool {
    id.starts_with("lc_")
        || id.starts_with("run--")
        || id
            .strip_prefix("run-")
            .and_then(|rest| rest.get(..36))
            .is_some_and(|rest| Uuid::try_parse(rest).is_ok())
}
