//! A conversation with a target: what was said, its id, and the events of each answer.

use std::collections::HashSet;

use holodeck_backend_api::{
    BackendError, BackendEvent, HistoryItem, MAX_TOOL_CALLS, StopReason, ToolCall, ToolResult, TurnRequest,
};
use holodeck_model::{CallDetails, Evidence};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    cookies::Cookies,
    kept::Kept,
    parts::{Parts, ReportedResult},
    template::Question,
};

/// A conversation with a target so far.
#[derive(Debug)]
pub(crate) struct State {
    /// The messages, which a target without a memory receives.
    pub(crate) history: Vec<HistoryItem>,
    /// The id that requests name: a random one, until the service names its own.
    pub(crate) session_id: String,
    /// Whether the service named it.
    pub(crate) is_named: bool,
    pub(crate) cookies: Cookies,
    /// The kept program that answers this conversation.
    pub(crate) program: Option<Kept>,
    /// The ids of calls so far.
    used_ids: HashSet<String>,
}

impl State {
    pub(crate) fn new(history: Vec<HistoryItem>, session_id: Option<String>) -> Self {
        Self {
            history,
            session_id: session_id.unwrap_or_else(|| Uuid::new_v4().to_string()),
            is_named: false,
            cookies: Cookies::default(),
            program: None,
            used_ids: HashSet::new(),
        }
    }

    /// The question of a turn.
    pub(crate) fn question(&self, request: &TurnRequest) -> Question {
        let earlier = self.history.iter().filter_map(message);
        let this = json!({"role": "user", "content": request.message});
        let files = request.images.iter().enumerate().map(|(place, image)| {
            json!({
                "name": format!("file-{}", place + 1),
                "type": image.media_type,
                "base64": image.base64,
            })
        });
        Question {
            input: request.message.clone(),
            messages: earlier.chain([this]).collect(),
            session_id: self.session_id.clone(),
            files: files.collect(),
            vars: request.vars.clone(),
        }
    }

    /// How many messages of the user it has.
    pub(crate) fn user_messages(&self) -> usize {
        let users = self
            .history
            .iter()
            .filter(|item| matches!(item, HistoryItem::User { .. }));
        users.count()
    }

    /// The events of an answer; its text was emitted before if it came in pieces.
    pub(crate) fn events(&mut self, parts: Parts, was_streamed: bool) -> Result<Answered, BackendError> {
        let stop_reason = match parts.finish_reason {
            Some(word) => StopReason::from(word),
            None => StopReason::not_reported(),
        };
        let mut unreported = Vec::new();
        for (is_missing, evidence) in [
            (parts.tool_calls.is_none(), Evidence::ToolCalls),
            (parts.passages.is_none(), Evidence::RetrievalContext),
            (parts.usage.is_none(), Evidence::Usage),
            (parts.cost_usd.is_none(), Evidence::Cost),
            (stop_reason.is_not_reported(), Evidence::FinishReason),
            (parts.has_no_latency, Evidence::Latency),
        ] {
            if is_missing {
                unreported.push(evidence);
            }
        }
        let mut events = Vec::new();
        if let Some(passages) = parts.passages {
            events.push(BackendEvent::Passages(passages));
        }
        let mut calls = parts.tool_calls.unwrap_or_default();
        if calls.len() > MAX_TOOL_CALLS {
            let message = format!("the target reports more than {MAX_TOOL_CALLS} tool calls in one answer");
            return Err(BackendError::protocol(message));
        }
        let mut results: Vec<ReportedResult> = parts.tool_results.unwrap_or_default();
        results.extend(calls.iter_mut().filter_map(|call| {
            let result = call.result.take()?;
            Some(ReportedResult {
                call_id: call.has_id.then(|| call.call.call_id.clone()),
                ..result
            })
        }));
        let reported: Vec<Option<String>> = calls
            .iter()
            .map(|call| call.has_id.then(|| call.call.call_id.clone()))
            .collect();
        let calls: Vec<ToolCall> = calls
            .into_iter()
            .map(|call| self.with_own_id(call.call))
            .collect();
        let results = match_results(&calls, &reported, results)?;
        let called = calls.into_iter().map(BackendEvent::ToolCall);
        let has_calls = !reported.is_empty();
        if has_calls && !was_streamed {
            events.extend(called);
            events.push(turn_end(StopReason::ToolUse));
            events.extend(results.into_iter().map(BackendEvent::ToolResult));
            events.push(BackendEvent::Text {
                text: parts.text.unwrap_or_default(),
            });
            events.extend(parts.usage.map(BackendEvent::Usage));
        } else {
            if !was_streamed {
                events.push(BackendEvent::Text {
                    text: parts.text.unwrap_or_default(),
                });
            }
            events.extend(called);
            events.extend(parts.usage.map(BackendEvent::Usage));
            events.push(turn_end(stop_reason.clone()));
            events.extend(results.into_iter().map(BackendEvent::ToolResult));
        }
        if has_calls && !was_streamed {
            events.push(turn_end(stop_reason.clone()));
        }
        events.extend(parts.cost_usd.map(|usd| BackendEvent::Cost { usd }));
        if !unreported.is_empty() {
            events.push(BackendEvent::Unreported(unreported));
        }
        Ok(Answered { events, stop_reason })
    }

    /// A call with an id that no other call of the conversation has.
    fn with_own_id(&mut self, mut call: ToolCall) -> ToolCall {
        if call.call_id.is_empty() || self.used_ids.contains(&call.call_id) {
            call.call_id = format!("{}{}", ToolCall::GENERATED_ID_PREFIX, self.used_ids.len());
        }
        self.used_ids.insert(call.call_id.clone());
        call
    }
}

/// The events of an answer, and why it ended.
pub(crate) struct Answered {
    pub(crate) events: Vec<BackendEvent>,
    pub(crate) stop_reason: StopReason,
}

fn turn_end(stop_reason: StopReason) -> BackendEvent {
    BackendEvent::TurnEnd {
        stop_reason,
        message_id: None,
        model: None,
    }
}

/// A message as a target receives it. Calls are the target's own and do not go back.
fn message(item: &HistoryItem) -> Option<Value> {
    let role = match item {
        HistoryItem::User { .. } => "user",
        HistoryItem::Assistant { .. } | HistoryItem::Partial { .. } => "assistant",
        _ => return None,
    };
    Some(json!({"role": role, "content": item.text()?}))
}

fn reported_call() -> CallDetails {
    CallDetails {
        reported: true,
        ..CallDetails::default()
    }
}

/// The results with the ids of their calls: by the id that the target reports, else in the order of the calls.
fn match_results(
    calls: &[ToolCall],
    reported: &[Option<String>],
    results: Vec<ReportedResult>,
) -> Result<Vec<ToolResult>, BackendError> {
    let mut open: Vec<bool> = vec![true; calls.len()];
    let mut matched = Vec::new();
    for result in results {
        let place = match &result.call_id {
            Some(id) => reported.iter().position(|call| call.as_ref() == Some(id)),
            None => open.iter().position(|is_open| *is_open),
        };
        let call = place.and_then(|place| {
            open.get_mut(place).map(|is_open| *is_open = false)?;
            calls.get(place)
        });
        let Some(call) = call else {
            let message = match &result.call_id {
                Some(id) => {
                    format!("the target reports a result of the call `{id}`, which it does not report")
                }
                None => "the target reports more results than calls".to_owned(),
            };
            return Err(BackendError::protocol(message));
        };
        matched.push(ToolResult {
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            result: result.text,
            is_error: result.is_error,
            duration_ms: None,
            details: reported_call(),
        });
    }
    // A call counts as executed even if its result is not reported.
    let silent = calls
        .iter()
        .zip(open)
        .filter(|(_, is_open)| *is_open)
        .map(|(call, _)| ToolResult {
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            result: String::new(),
            is_error: false,
            duration_ms: None,
            details: reported_call(),
        });
    matched.extend(silent);
    Ok(matched)
}
