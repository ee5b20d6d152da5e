//! Wraps a backend so that hooks observe its turns, without changing, delaying or dropping an event.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use async_trait::async_trait;
use futures::Stream;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, EventStream, ExecutionResult, Opening,
    SessionControl, SessionHandle, ToolCall, ToolResult, TurnRequest,
};
use holodeck_model::HookEvent;
use serde_json::{Value, json};

use super::Hooks;

/// The tools that start a sub-agent.
const AGENT_TOOLS: [&str; 2] = ["Agent", "Task"];

/// A backend whose turns hooks observe.
pub(super) struct ObservedBackend {
    inner: Arc<dyn AgentBackend>,
    hooks: Arc<Hooks>,
}

impl ObservedBackend {
    pub(super) fn new(inner: Arc<dyn AgentBackend>, hooks: Arc<Hooks>) -> Self {
        Self { inner, hooks }
    }
}

#[async_trait]
impl AgentBackend for ObservedBackend {
    async fn initialize(&self) -> Result<(), BackendError> {
        self.inner.initialize().await
    }

    fn start(&self, request: TurnRequest) -> EventStream<'_> {
        let conversation = Conversation::new(Arc::clone(&self.hooks), "startup");
        let turn = ObservedTurn::new(Held::Own(conversation), &request);
        turn.over(self.inner.start(request))
    }

    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        let continues = !opening.history.is_empty() || opening.handle.is_some();
        let source = if continues { "resume" } else { "startup" };
        Ok(Box::new(ObservedSession {
            inner: self.inner.open_session(opening).await?,
            conversation: Conversation::new(Arc::clone(&self.hooks), source),
        }))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        let result = self.inner.teardown().await;
        self.hooks.close().await;
        result
    }
}

struct ObservedSession {
    inner: Box<dyn AgentSession>,
    conversation: Conversation,
}

#[async_trait]
impl AgentSession for ObservedSession {
    fn turn(&mut self, request: TurnRequest) -> EventStream<'_> {
        let turn = ObservedTurn::new(Held::Shared(&mut self.conversation), &request);
        turn.over(self.inner.turn(request))
    }

    fn control(&self) -> SessionControl {
        self.inner.control()
    }

    fn handle(&self) -> Option<SessionHandle> {
        self.inner.handle()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        let result = self.inner.close().await;
        self.conversation.end();
        result
    }
}

/// A conversation as hooks see it: its end is that of this value.
struct Conversation {
    hooks: Arc<Hooks>,
    source: &'static str,
    /// The backend's id of it, once it is known.
    id: Option<String>,
}

impl Conversation {
    fn new(hooks: Arc<Hooks>, source: &'static str) -> Self {
        Self {
            hooks,
            source,
            id: None,
        }
    }

    fn emit(&self, event: HookEvent, tool: Option<&str>, payload: impl FnOnce() -> Value) {
        self.hooks.emit(event, tool, || {
            let mut payload = payload();
            if let Some(fields) = payload.as_object_mut() {
                fields.insert("session_id".to_owned(), json!(self.id));
            }
            payload
        });
    }

    fn begin(&mut self, id: &str, model: Option<&str>) {
        if self.id.as_deref() == Some(id) {
            return;
        }
        let is_first = self.id.replace(id.to_owned()).is_none();
        let source = if is_first { self.source } else { "resume" };
        self.emit(
            HookEvent::SessionStart,
            None,
            || json!({"source": source, "model": model}),
        );
    }

    fn end(&mut self) {
        if self.id.is_some() {
            self.emit(HookEvent::SessionEnd, None, || json!({}));
            self.id = None;
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.end();
    }
}

/// The conversation of a turn: one that ends with it, or that of a session.
enum Held<'a> {
    Own(Conversation),
    Shared(&'a mut Conversation),
}

impl Held<'_> {
    fn conversation(&mut self) -> &mut Conversation {
        match self {
            Self::Own(conversation) => conversation,
            Self::Shared(conversation) => conversation,
        }
    }
}

/// The state of a running turn that hooks need.
struct ObservedTurn<'a> {
    held: Held<'a>,
    /// The message, until hooks got it: that waits for the id of the conversation.
    message: Option<String>,
    /// The arguments of calls without a result, if a hook observes results.
    calls: HashMap<String, Value>,
}

impl<'a> ObservedTurn<'a> {
    fn new(mut held: Held<'a>, request: &TurnRequest) -> Self {
        let hooks = &held.conversation().hooks;
        let message = hooks
            .observes(HookEvent::UserPromptSubmit)
            .then(|| request.message.clone());
        Self {
            held,
            message,
            calls: HashMap::new(),
        }
    }

    fn over(self, inner: EventStream<'a>) -> EventStream<'a> {
        Box::pin(Observed { inner, turn: self })
    }

    fn on(&mut self, item: &Result<BackendEvent, BackendError>) {
        match item {
            Ok(BackendEvent::Paused | BackendEvent::Resumed) => {}
            Ok(BackendEvent::SessionStarted { session_id, model }) => {
                self.held.conversation().begin(session_id, model.as_deref());
                self.submit();
            }
            Ok(event) => {
                self.submit();
                self.on_event(event, None);
            }
            Err(error) => {
                self.submit();
                let error = error.to_string();
                self.emit(HookEvent::Stop, None, || json!({"error": error}));
            }
        }
    }

    fn on_event(&mut self, event: &BackendEvent, parent: Option<&str>) {
        match event {
            BackendEvent::ToolCall(call) => self.on_call(call, parent),
            BackendEvent::ToolResult(result) => self.on_result(result, parent),
            BackendEvent::Nested {
                parent_call_id,
                event,
            } => self.on_event(event, Some(parent_call_id)),
            BackendEvent::Notice { message } => self.emit(
                HookEvent::Notification,
                None,
                || json!({"notification_type": "notice", "message": message}),
            ),
            BackendEvent::ApprovalAsked(ask) => self.emit(HookEvent::Notification, None, || {
                json!({
                    "notification_type": "permission_prompt",
                    "message": format!("a person is asked about `{}`", ask.tool_name),
                    "tool_name": ask.tool_name,
                    "tool_use_id": ask.call_id,
                })
            }),
            BackendEvent::End(result) if parent.is_none() => self.on_end(result),
            _ => {}
        }
    }

    fn on_call(&mut self, call: &ToolCall, parent: Option<&str>) {
        let hooks = &self.held.conversation().hooks;
        if hooks.observes(HookEvent::PostToolUse) || hooks.observes(HookEvent::SubagentStop) {
            self.calls.insert(call.call_id.clone(), call.arguments.clone());
        }
        self.emit(HookEvent::PreToolUse, Some(&call.name), || {
            json!({
                "tool_name": call.name,
                "tool_input": call.arguments,
                "tool_use_id": call.call_id,
                "parent_tool_use_id": parent,
            })
        });
    }

    fn on_result(&mut self, result: &ToolResult, parent: Option<&str>) {
        let input = self.calls.remove(&result.call_id).unwrap_or_default();
        if AGENT_TOOLS.contains(&result.name.as_str()) {
            self.emit(HookEvent::SubagentStop, None, || {
                json!({
                    "tool_use_id": result.call_id,
                    "agent_type": input.get("subagent_type"),
                    "last_assistant_message": result.result,
                    "is_error": result.is_error,
                })
            });
        }
        self.emit(HookEvent::PostToolUse, Some(&result.name), || {
            json!({
                "tool_name": result.name,
                "tool_input": input,
                "tool_response": result.result,
                "tool_use_id": result.call_id,
                "parent_tool_use_id": parent,
                "is_error": result.is_error,
                "duration_ms": result.duration_ms,
            })
        });
    }

    fn on_end(&mut self, result: &ExecutionResult) {
        self.emit(HookEvent::Stop, None, || {
            json!({
                "last_assistant_message": result.response,
                "error": result.outcome.reason(),
            })
        });
    }

    /// Gives the message of the turn to hooks, once.
    fn submit(&mut self) {
        if let Some(message) = self.message.take() {
            self.emit(HookEvent::UserPromptSubmit, None, || json!({"prompt": message}));
        }
    }

    fn emit(&mut self, event: HookEvent, tool: Option<&str>, payload: impl FnOnce() -> Value) {
        self.held.conversation().emit(event, tool, payload);
    }
}

struct Observed<'a> {
    inner: EventStream<'a>,
    turn: ObservedTurn<'a>,
}

impl Stream for Observed<'_> {
    type Item = Result<BackendEvent, BackendError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.inner.as_mut().poll_next(cx));
        if let Some(item) = &item {
            self.turn.on(item);
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}
