//! An agent, and a scripted backend.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::stream;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, BackendEvent, CallDetails, EventStream, ExecutionResult,
    Opening, SessionControl, StopReason, TokenUsage, ToolCall, ToolResult, TurnRequest,
};
use holodeck_http::HttpOptions;
use holodeck_model::{Env, MemoryFiles, Redactor};
use holodeck_otel_bridge::{Telemetry, TelemetryOptions};
use holodeck_yaml::{LoadedAgent, load_agent};
use serde_json::{Value, json};

pub(crate) fn agent(provider: &str, observability: &Value) -> LoadedAgent {
    let endpoint = match provider {
        "openai" => "endpoint: http://localhost:1",
        _ => "",
    };
    let yaml = format!(
        "name: helper\nmodel:\n  provider: {provider}\n  name: m-1\n  api_key: sk-very-secret-key\n  {endpoint}\n\
         instructions:\n  inline: Be kind.\nobservability: {observability}\n"
    );
    let path = Path::new("/a/agent.yaml");
    let files = MemoryFiles::new().with(path, yaml);
    let load = load_agent(path, &Env::empty(), &files);
    load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics))
}

pub(crate) fn options() -> TelemetryOptions {
    TelemetryOptions {
        http: HttpOptions::default(),
        env: Env::empty(),
        console: || Box::new(io::sink()),
        redactor: Arc::new(Redactor::new(["sk-very-secret-key".to_owned()])),
        run: "holodeck test".to_owned(),
        parent: None,
        regraded: None,
    }
}

pub(crate) fn start(observability: &Value) -> Telemetry {
    Telemetry::start(&agent("openai", observability), &options())
}

/// A backend that asks the agent's own model.
pub(crate) fn wrap(telemetry: &Telemetry, backend: Arc<dyn AgentBackend>) -> Arc<dyn AgentBackend> {
    telemetry.wrap(
        backend,
        agent("openai", &json!({})).config.model.as_ref().unwrap(),
    )
}

/// Ends an export without a warning.
pub(crate) async fn export_all(telemetry: &Telemetry) {
    assert_eq!(telemetry.shutdown(Duration::from_secs(30)).await, None);
}

pub(crate) fn otlp(url: &str, traces: &Value) -> Value {
    json!({"enabled": true, "traces": traces, "exporters": {"otlp": {"endpoint": url}}})
}

pub(crate) type Script = Vec<Result<BackendEvent, BackendError>>;

/// Plays one script after the other.
pub(crate) struct Scripted(Mutex<VecDeque<Script>>);

impl Scripted {
    pub(crate) fn backend(scripts: impl IntoIterator<Item = Script>) -> Arc<dyn AgentBackend> {
        Arc::new(Self(Mutex::new(scripts.into_iter().collect())))
    }
}

#[async_trait]
impl AgentBackend for Scripted {
    async fn initialize(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn start(&self, _: TurnRequest) -> EventStream<'_> {
        Box::pin(stream::iter(self.0.lock().unwrap().pop_front().unwrap()))
    }

    async fn open_session(&self, _: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        Ok(Box::new(Session(std::mem::take(&mut *self.0.lock().unwrap()))))
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

struct Session(VecDeque<Script>);

#[async_trait]
impl AgentSession for Session {
    fn turn(&mut self, _: TurnRequest) -> EventStream<'_> {
        Box::pin(stream::iter(self.0.pop_front().unwrap()))
    }

    fn control(&self) -> SessionControl {
        SessionControl::default()
    }

    async fn close(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

pub(crate) fn text(text: &str) -> BackendEvent {
    BackendEvent::Text {
        text: text.to_owned(),
    }
}

pub(crate) fn call(name: &str, id: &str, arguments: Value) -> BackendEvent {
    BackendEvent::ToolCall(ToolCall {
        name: name.to_owned(),
        arguments,
        call_id: id.to_owned(),
        provider_fields: None,
    })
}

pub(crate) fn result(id: &str, text: &str, is_error: bool) -> BackendEvent {
    BackendEvent::ToolResult(ToolResult {
        call_id: id.to_owned(),
        name: String::new(),
        result: text.to_owned(),
        is_error,
        duration_ms: None,
        details: CallDetails::default(),
    })
}

pub(crate) fn usage(prompt: u64, completion: u64) -> BackendEvent {
    BackendEvent::Usage(TokenUsage::new(prompt, completion))
}

pub(crate) fn turn_end(stop_reason: StopReason, id: &str) -> BackendEvent {
    BackendEvent::TurnEnd {
        stop_reason,
        message_id: Some(id.to_owned()),
        model: Some("m-1-2026".to_owned()),
    }
}

pub(crate) fn end(response: &str, usage: TokenUsage) -> BackendEvent {
    BackendEvent::End(Box::new(ExecutionResult {
        response: response.to_owned(),
        token_usage: Some(usage),
        num_turns: 1,
        model: Some("m-1-2026".to_owned()),
        ..ExecutionResult::default()
    }))
}

/// A question that needs one tool.
pub(crate) fn with_a_tool() -> Script {
    let events = [
        text("PRIVATE-THOUGHT "),
        call("search", "call_1", json!({"query": "PRIVATE-QUERY"})),
        usage(10, 5),
        turn_end(StopReason::ToolUse, "msg_1"),
        result("call_1", "PRIVATE-HIT", false),
        text("PRIVATE-ANSWER"),
        usage(20, 7),
        turn_end(StopReason::EndTurn, "msg_2"),
        end("PRIVATE-ANSWER", TokenUsage::new(30, 12)),
    ];
    events.into_iter().map(Ok).collect()
}

pub(crate) fn plain(answer: &str) -> Script {
    let events = [
        text(answer),
        usage(1, 1),
        turn_end(StopReason::EndTurn, "msg"),
        end(answer, TokenUsage::new(1, 1)),
    ];
    events.into_iter().map(Ok).collect()
}

pub(crate) fn request(message: &str) -> TurnRequest {
    TurnRequest {
        unit: Some("case-1".to_owned()),
        ..TurnRequest::new(message)
    }
}
