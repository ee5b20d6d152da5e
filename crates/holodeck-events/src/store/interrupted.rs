//! The end of a run whose process is gone, from what is stored of it.

use holodeck_model::events::{
    AgentMessage, ApprovalResolved, Decision, EventBody, Interruption, RunError, StopReason, Thinking,
    ToolResult,
};
use serde_json::Value;

use super::StoredEvent;
use crate::{
    Clock, Draft, Ids,
    draft::{draft, meta},
    terminal::code,
};

/// The text that an agent of the run had streamed and that no event holds yet.
#[derive(Default)]
struct Stream<'a> {
    agent: Option<&'a str>,
    turn: Option<u32>,
    reasoning: String,
    text: String,
    calls: Vec<Call<'a>>,
}

struct Call<'a> {
    id: &'a str,
    name: &'a str,
    turn: Option<u32>,
    /// The approval that is asked for.
    approval: Option<&'a str>,
}

/// The events that end the run: they resolve its approvals, close its calls, keep its text, and report the end.
pub(super) fn end_interrupted(events: &[StoredEvent], clock: &dyn Clock, ids: &dyn Ids) -> Vec<Draft> {
    let Some(first) = events.first() else {
        return Vec::new();
    };
    let (session_id, run_id) = (&first.event().meta.session_id, &first.event().meta.run_id);
    let mut drafts = Vec::new();
    let mut add = |agent: Option<&str>, turn: Option<u32>, body: EventBody| {
        let mut meta = meta(clock, ids);
        meta.session_id.clone_from(session_id);
        meta.run_id.clone_from(run_id);
        meta.parent_tool_use_id = agent.map(ToOwned::to_owned);
        meta.turn = turn;
        drafts.push(draft(meta, body));
    };
    // The latest first: agents end after the agents that they started.
    for stream in streams(events).into_iter().rev() {
        for call in stream.calls {
            if let Some(approval_id) = call.approval {
                let resolved = ApprovalResolved {
                    approval_id: approval_id.to_owned(),
                    approved: false,
                    decision: Some(Decision::Cancelled),
                    reason: Some("server restarted".to_owned()),
                    ..ApprovalResolved::default()
                };
                add(stream.agent, call.turn, EventBody::ApprovalResolved(resolved));
            }
            let result = ToolResult {
                tool_use_id: call.id.to_owned(),
                tool_name: call.name.to_owned(),
                result: Value::String("interrupted".to_owned()),
                error: Some("interrupted".to_owned()),
                synthetic: true,
                ..ToolResult::default()
            };
            add(stream.agent, call.turn, EventBody::ToolResult(result));
        }
        let message_id = ids.next().to_string();
        if !stream.reasoning.is_empty() {
            let thinking = Thinking {
                content: stream.reasoning,
                message_id: message_id.clone(),
                ..Thinking::default()
            };
            add(stream.agent, stream.turn, EventBody::Thinking(thinking));
        }
        if !stream.text.is_empty() {
            let message = AgentMessage {
                message_id,
                role: "assistant".to_owned(),
                content: stream.text,
                stop_reason: StopReason::PauseTurn,
                provider_stop_reason: None,
                model: None,
                usage: None,
                partial: true,
                interruption: Some(Interruption::Crash),
                citations: Vec::new(),
            };
            add(stream.agent, stream.turn, EventBody::Message(message));
        }
    }
    let error = RunError {
        error: "the process that ran it ended before the run did".to_owned(),
        code: code::INTERRUPTED.to_owned(),
        retryable: true,
        ..RunError::default()
    };
    add(None, None, EventBody::Error(error));
    drafts
}

/// The open texts, by agent, in the order in which they began; the run's own is first.
fn streams(events: &[StoredEvent]) -> Vec<Stream<'_>> {
    let mut streams = vec![Stream::default()];
    for event in events {
        let event = event.event();
        let agent = event.meta.parent_tool_use_id.as_deref();
        let at = streams.iter().position(|stream| stream.agent == agent);
        let at = at.unwrap_or_else(|| {
            streams.push(Stream {
                agent,
                ..Stream::default()
            });
            streams.len() - 1
        });
        let Some(stream) = streams.get_mut(at) else {
            continue;
        };
        if event.meta.turn.is_some() && event.meta.turn != stream.turn {
            stream.turn = event.meta.turn;
            stream.reasoning.clear();
        }
        match &event.body {
            EventBody::ThinkingChunk(chunk) => stream.reasoning.push_str(&chunk.content),
            EventBody::MessageChunk(chunk) => stream.text.push_str(&chunk.content),
            EventBody::Thinking(_) => stream.reasoning.clear(),
            EventBody::Message(_) => stream.text.clear(),
            EventBody::ToolUse(call) => stream.calls.push(Call {
                id: &call.tool_use_id,
                name: &call.tool_name,
                turn: event.meta.turn,
                approval: None,
            }),
            EventBody::ToolResult(result) => {
                for stream in &mut streams {
                    stream.calls.retain(|call| call.id != result.tool_use_id);
                }
            }
            EventBody::ApprovalRequested(ask) => {
                let mut calls = streams.iter_mut().flat_map(|stream| &mut stream.calls);
                if let Some(call) = calls.find(|call| Some(call.id) == ask.tool_use_id.as_deref()) {
                    call.approval = Some(&ask.approval_id);
                }
            }
            EventBody::ApprovalResolved(answer) => {
                let mut calls = streams.iter_mut().flat_map(|stream| &mut stream.calls);
                if let Some(call) = calls.find(|call| call.approval == Some(&answer.approval_id)) {
                    call.approval = None;
                }
            }
            _ => {}
        }
    }
    streams
}
