//! Short constructors of backend events.

use holodeck_backend_api::{
    Approval, ApprovalAsk, ApprovalDecision, BackendError, BackendEvent, CallDetails, DecidedBy, Outcome,
    ResultFold, StopReason, TokenUsage, ToolCall, ToolResult,
};
use serde_json::json;

pub(crate) type Emitted = Result<BackendEvent, BackendError>;

pub(crate) fn thinking(text: &str) -> BackendEvent {
    BackendEvent::Thinking {
        text: text.to_owned(),
    }
}

pub(crate) fn thought(signature: &str) -> BackendEvent {
    BackendEvent::ThinkingEnd {
        signature: Some(signature.to_owned()),
    }
}

pub(crate) fn text(text: &str) -> BackendEvent {
    BackendEvent::Text {
        text: text.to_owned(),
    }
}

pub(crate) fn call(id: &str, name: &str) -> BackendEvent {
    BackendEvent::ToolCall(ToolCall {
        name: name.to_owned(),
        arguments: json!({"q": id}),
        call_id: id.to_owned(),
        provider_fields: None,
    })
}

pub(crate) fn result(id: &str, name: &str, text: &str) -> BackendEvent {
    BackendEvent::ToolResult(ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        result: text.to_owned(),
        is_error: false,
        duration_ms: Some(5),
        details: CallDetails::default(),
    })
}

pub(crate) fn failed_result(id: &str, name: &str, text: &str) -> BackendEvent {
    match result(id, name, text) {
        BackendEvent::ToolResult(result) => BackendEvent::ToolResult(ToolResult {
            is_error: true,
            ..result
        }),
        other => other,
    }
}

pub(crate) fn usage(prompt: u64, completion: u64) -> BackendEvent {
    BackendEvent::Usage(TokenUsage::new(prompt, completion))
}

pub(crate) fn stop(reason: StopReason, id: &str) -> BackendEvent {
    BackendEvent::TurnEnd {
        stop_reason: reason,
        message_id: Some(id.to_owned()),
        model: Some("m-1".to_owned()),
    }
}

pub(crate) fn ask(id: &str, name: &str) -> BackendEvent {
    BackendEvent::ApprovalAsked(Box::new(ApprovalAsk {
        tool_name: name.to_owned(),
        arguments: json!({"q": id}),
        call_id: id.to_owned(),
        description: None,
        agent_id: None,
        answer_schema: None,
        paths: Vec::new(),
        reason: None,
        zone: holodeck_model::Zone::Inside,
        tool_digest: None,
        scopes: None,
        is_followed: false,
    }))
}

pub(crate) fn answer(id: &str, decision: ApprovalDecision) -> BackendEvent {
    BackendEvent::ApprovalAnswered {
        call_id: id.to_owned(),
        decision,
    }
}

pub(crate) fn nested(parent: &str, event: BackendEvent) -> BackendEvent {
    BackendEvent::Nested {
        parent_call_id: parent.to_owned(),
        event: Box::new(event),
    }
}

pub(crate) fn decided(id: &str) -> BackendEvent {
    BackendEvent::ApprovalDecided(Approval {
        call_id: id.to_owned(),
        decision: ApprovalDecision::approve(),
        by: DecidedBy::Rule,
        basis: None,
    })
}

pub(crate) fn notice(message: &str) -> BackendEvent {
    BackendEvent::Notice {
        message: message.to_owned(),
    }
}

/// The events and the end that follows from them.
pub(crate) fn answered(events: impl IntoIterator<Item = BackendEvent>) -> Vec<Emitted> {
    let events: Vec<_> = events.into_iter().collect();
    let stopped = events.iter().rev().find_map(|event| match event {
        BackendEvent::TurnEnd { stop_reason, .. } => Some(stop_reason.clone()),
        _ => None,
    });
    let end = folded(&events).finish_answered(&stopped.unwrap_or(StopReason::EndTurn));
    then(events, Ok(BackendEvent::End(Box::new(end))))
}

/// The events, and then this outcome.
pub(crate) fn ended(events: impl IntoIterator<Item = BackendEvent>, outcome: Outcome) -> Vec<Emitted> {
    let events: Vec<_> = events.into_iter().collect();
    let end = folded(&events).finish(outcome);
    then(events, Ok(BackendEvent::End(Box::new(end))))
}

/// The events, and then this error.
pub(crate) fn broken(events: impl IntoIterator<Item = BackendEvent>, error: BackendError) -> Vec<Emitted> {
    then(events.into_iter().collect(), Err(error))
}

fn then(events: Vec<BackendEvent>, last: Emitted) -> Vec<Emitted> {
    events.into_iter().map(Ok).chain([last]).collect()
}

fn folded(events: &[BackendEvent]) -> ResultFold {
    let mut fold = ResultFold::new();
    for event in events {
        fold.observe(event);
    }
    fold
}
