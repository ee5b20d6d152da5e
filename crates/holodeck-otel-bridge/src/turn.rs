//! One turn: the span of the agent, and what happens in it.

use std::{borrow::Cow, sync::Arc};

use holodeck_backend_api::{BackendError, BackendEvent, ExecutionResult, Outcome, TurnRequest};
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanKind, Status, TraceContextExt as _},
};
use serde_json::json;

use crate::{
    conventions::{
        AGENT_NAME, CONVERSATION_ID, ERROR_TYPE, INPUT_MESSAGES, INVOKE_AGENT, OPERATION_NAME,
        OUTPUT_MESSAGES, RESPONSE_MODEL, UNIT,
    },
    level::{Level, Moment, usage_attributes},
    running::{BackendPart, traceparent},
};

pub(crate) struct TurnTrace {
    running: Arc<BackendPart>,
    span: Context,
    started: Moment,
    conversation: Option<String>,
    level: Level,
    /// Nested agents, by the call that started them.
    nested: Vec<(String, Level)>,
    over: bool,
}

impl TurnTrace {
    pub(crate) fn new(
        running: Arc<BackendPart>,
        request: &TurnRequest,
        conversation: Option<String>,
    ) -> Self {
        let started = Moment::now();
        let mut attributes = running.identity();
        attributes.push(KeyValue::new(OPERATION_NAME, INVOKE_AGENT));
        attributes.push(KeyValue::new(AGENT_NAME, running.agent.clone()));
        if let Some(unit) = &request.unit {
            attributes.push(KeyValue::new(UNIT, unit.clone()));
        }
        if let Some(messages) = input_messages(&running, request) {
            attributes.push(KeyValue::new(INPUT_MESSAGES, messages));
        }
        let name = format!("{INVOKE_AGENT} {}", running.agent);
        let span = running.span(
            name,
            SpanKind::Internal,
            &Context::new(),
            started.wall,
            attributes,
        );
        let context = span.span().span_context().clone();
        if context.is_sampled() {
            // Only a wrapper inside this one could have set it.
            let _ = request.traceparent.set(traceparent(&context));
        }
        let level = Level::new(span.clone(), started);
        Self {
            running,
            span,
            started,
            conversation,
            level,
            nested: Vec::new(),
            over: false,
        }
    }

    pub(crate) fn on(&mut self, event: &BackendEvent) {
        let at = Moment::now();
        match event {
            BackendEvent::SessionStarted { session_id, .. } => self.conversation = Some(session_id.clone()),
            BackendEvent::Nested {
                parent_call_id,
                event,
            } => self.on_nested(parent_call_id, event, at),
            BackendEvent::End(result) => self.ended(result, at),
            other => self
                .level
                .on(&self.running, other, at, self.conversation.as_deref()),
        }
    }

    fn on_nested(&mut self, parent_call_id: &str, event: &BackendEvent, at: Moment) {
        if let BackendEvent::Nested {
            parent_call_id,
            event,
        } = event
        {
            return self.on_nested(parent_call_id, event, at);
        }
        let index = self.nested.iter().position(|(call, _)| call == parent_call_id);
        let conversation = self.conversation.as_deref();
        if let Some((_, level)) = index.and_then(|index| self.nested.get_mut(index)) {
            return level.on(&self.running, event, at, conversation);
        }
        let mut levels = std::iter::once(&self.level).chain(self.nested.iter().map(|(_, level)| level));
        let parent = levels.find_map(|level| level.tool(parent_call_id));
        let mut level = Level::nested(parent.unwrap_or(&self.span).clone(), at);
        level.on(&self.running, event, at, conversation);
        self.nested.push((parent_call_id.to_owned(), level));
    }

    fn ended(&mut self, result: &ExecutionResult, at: Moment) {
        let span = self.span.span();
        if let Some(usage) = &result.token_usage {
            span.set_attributes(usage_attributes(usage));
        }
        if let Some(model) = &result.model {
            span.set_attribute(KeyValue::new(RESPONSE_MODEL, model.clone()));
        }
        if let Some(text) = self.running.content.text(&result.response) {
            let message = json!([{"role": "assistant", "parts": [{"type": "text", "content": text}]}]);
            span.set_attribute(KeyValue::new(OUTPUT_MESSAGES, message.to_string()));
        }
        let error = match &result.outcome {
            Outcome::Completed => None,
            outcome => Some((outcome_type(outcome).into(), outcome.reason())),
        };
        self.close(error, result.model.as_deref(), at);
    }

    pub(crate) fn failed(&mut self, error: &BackendError) {
        let text = error.to_string();
        self.close(Some((error_type(error), Some(text.into()))), None, Moment::now());
    }

    /// Ends every span. An error's text may contain content; its type does not.
    fn close(
        &mut self,
        error: Option<(Cow<'static, str>, Option<Cow<'_, str>>)>,
        model: Option<&str>,
        at: Moment,
    ) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let kind = error.as_ref().map(|(kind, _)| kind.clone());
        for (_, level) in &mut self.nested {
            level.close(&self.running, None, at, self.conversation.as_deref());
        }
        self.level
            .close(&self.running, kind.as_deref(), at, self.conversation.as_deref());
        let span = self.span.span();
        if let Some(id) = &self.conversation {
            span.set_attribute(KeyValue::new(CONVERSATION_ID, id.clone()));
        }
        let mut measured = self.running.identity();
        measured.push(KeyValue::new(OPERATION_NAME, INVOKE_AGENT));
        if let Some(model) = model {
            measured.push(KeyValue::new(RESPONSE_MODEL, model.to_owned()));
        }
        if let Some((kind, text)) = error {
            let text = text.and_then(|text| self.running.content.text(&text));
            let kind = kind.into_owned();
            span.set_attribute(KeyValue::new(ERROR_TYPE, kind.clone()));
            span.set_status(Status::error(text.unwrap_or_else(|| kind.clone())));
            measured.push(KeyValue::new(ERROR_TYPE, kind));
        }
        if let Some(meters) = &self.running.meters {
            meters.took(at.since(&self.started), &measured);
        }
        self.running.end(&self.span, at.wall);
    }
}

impl Drop for TurnTrace {
    fn drop(&mut self) {
        self.close(Some(("cancelled".into(), None)), None, Moment::now());
    }
}

fn input_messages(running: &BackendPart, request: &TurnRequest) -> Option<String> {
    let text = running.content.text(&request.message)?;
    let messages = json!([{"role": "user", "parts": [{"type": "text", "content": text}]}]);
    Some(messages.to_string())
}

fn outcome_type(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "none",
        Outcome::MaxTurns => "max_turns",
        Outcome::SubprocessTerminated => "subprocess_terminated",
        Outcome::ToolFailed { .. } => "tool_failed",
        Outcome::TimedOut => "timeout",
        Outcome::BudgetExceeded => "budget_exceeded",
        Outcome::Refused => "refused",
        Outcome::EmptyResponse => "empty_response",
        Outcome::Terminated { .. } => "terminated",
        _ => "failed",
    }
}

fn error_type(error: &BackendError) -> Cow<'static, str> {
    match error {
        BackendError::Init { .. } => "init".into(),
        BackendError::Config { .. } => "config".into(),
        BackendError::Session { .. } => "session".into(),
        BackendError::Terminated { .. } => "subprocess_terminated".into(),
        BackendError::Timeout { .. } => "timeout".into(),
        BackendError::Protocol { .. } => "protocol".into(),
        BackendError::Provider {
            status: Some(status), ..
        } => status.to_string().into(),
        BackendError::Provider { status: None, .. } => "unreachable".into(),
        BackendError::Tool { .. } => "tool_failed".into(),
        BackendError::ReplayMiss { .. } => "replay_miss".into(),
        BackendError::Cancelled => "cancelled".into(),
        _ => "_OTHER".into(),
    }
}
