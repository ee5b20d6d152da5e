//! Services as their documentation and their users describe them, one file each in `fixtures/dialects/services`: each is
//! asked through the real driver, and `docs/compatibility.md` lists what these tests run.
//!
//! A file has rules, of which the first that fits a request answers it, and for each scenario what must come out.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    Adaptation, AgentBackend, AgentSession, BackendError, BackendEvent, ExecutionResult, HistoryItem,
    ModelCalls, ModelDelta, ModelRequest, ModelStream, Opening, Outcome, SideEffects, ToolCall, ToolCx,
    ToolError, ToolHost, ToolOutput, ToolResult, ToolSpec, TurnRequest,
};
use holodeck_backend_openai::OpenAiBackend;
use holodeck_model::Env;
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::setup::{self, agent};

/// A service.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    #[serde(rename = "service")]
    pub(crate) name: String,
    /// Where it differs from OpenAI's own.
    pub(crate) differs: String,
    pub(crate) evidence: Evidence,
    /// The day on which the script was written.
    pub(crate) scripted: String,
    #[serde(default = "openai")]
    provider: String,
    /// The end of its address.
    #[serde(default)]
    path: String,
    serves: Vec<Rule>,
    pub(crate) expects: Expected,
}

fn openai() -> String {
    "openai".to_owned()
}

/// Where the script comes from. The words of its answers are ours.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Evidence {
    /// The vendor's own texts and sources.
    pub(crate) documented: Vec<String>,
    /// Reports and clients of others.
    pub(crate) reported: Vec<String>,
    /// Details for which no source was read.
    pub(crate) unconfirmed: Vec<String>,
}

/// The outcome that each scenario must have.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// A question that needs the tool.
    pub(crate) tools: Option<Value>,
    /// A question without one.
    pub(crate) plain: Option<Value>,
    /// An answer in JSON.
    pub(crate) structured: Option<Value>,
    /// A conversation whose calls another service made.
    pub(crate) history: Option<Value>,
    #[serde(default)]
    pub(crate) errors: Vec<ExpectedError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedError {
    question: String,
    /// The kind of the error.
    pub(crate) is: String,
    says: String,
}

/// An answer, and the requests that get it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    when: When,
    #[serde(default = "ok")]
    status: u16,
    #[serde(rename = "type")]
    content_type: Option<String>,
    /// The pieces of a stream.
    events: Option<Vec<Value>>,
    whole: Option<Value>,
    body: Option<Value>,
}

fn ok() -> u16 {
    200
}

/// Every condition that is set must hold.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct When {
    has: Vec<String>,
    equals: BTreeMap<String, Value>,
    after_results: bool,
    /// In the last message of the user.
    question: Option<String>,
    /// The field that a message with calls lacks.
    assistant_lacks: Option<String>,
    /// The field that the first call of a message lacks.
    assistant_call_lacks: Option<String>,
    /// An id of a call is not nine letters and digits.
    other_ids: bool,
    first: bool,
}

impl When {
    fn fits(&self, request: &ReceivedRequest) -> bool {
        let messages = request.messages();
        let has_results = messages.iter().any(|message| message["role"] == "tool");
        let asked = messages.iter().rev().find(|message| message["role"] == "user");
        let asked = asked
            .and_then(|message| message["content"].as_str())
            .unwrap_or_default();
        let with_calls = || messages.iter().filter(|message| message["tool_calls"].is_array());
        let other_id = |id: &Value| {
            let id = id.as_str().unwrap_or_default();
            id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let mut ids = messages.iter().flat_map(|message| {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            calls.map(|call| &call["id"]).chain(message.get("tool_call_id"))
        });
        self.has.iter().all(|place| request.body.pointer(place).is_some())
            && self
                .equals
                .iter()
                .all(|(place, value)| request.body.pointer(place) == Some(value))
            && (!self.after_results || has_results)
            && self
                .question
                .as_ref()
                .is_none_or(|question| asked.contains(question))
            && self
                .assistant_lacks
                .as_ref()
                .is_none_or(|field| with_calls().any(|message| message.get(field).is_none()))
            && self
                .assistant_call_lacks
                .as_ref()
                .is_none_or(|field| with_calls().any(|message| message["tool_calls"][0].get(field).is_none()))
            && (!self.other_ids || ids.any(other_id))
            && (!self.first || request.index == 0)
    }
}

impl Rule {
    fn reply(&self) -> Reply {
        if let Some(events) = &self.events {
            let lines = events.iter().map(line_of);
            let body: String = lines.chain(["data: [DONE]\n\n".to_owned()]).collect();
            return Reply::raw(200, "text/event-stream", body);
        }
        let body = self
            .whole
            .as_ref()
            .map(whole_answer)
            .or_else(|| self.body.clone());
        let content_type = self.content_type.as_deref().unwrap_or("application/json");
        Reply::raw(self.status, content_type, body.unwrap_or_default().to_string())
    }
}

/// A line of a stream: as it stands, or a chunk.
fn line_of(event: &Value) -> String {
    if let Some(line) = event.as_str() {
        return format!("{line}\n\n");
    }
    let chunk = match event.get("chunk") {
        Some(chunk) => chunk.clone(),
        None => completion(event, "chat.completion.chunk", "delta"),
    };
    format!("data: {chunk}\n\n")
}

fn whole_answer(whole: &Value) -> Value {
    completion(whole, "chat.completion", "message")
}

/// Completes what a file leaves out because every service sends it.
fn completion(short: &Value, object: &str, message: &str) -> Value {
    let mut choice = json!({"index": 0, message: short[message], "finish_reason": short.get("finish")});
    extend(&mut choice, short.get("choice"));
    let mut completion =
        json!({"id": "c1", "object": object, "created": 1, "model": "m", "choices": [choice]});
    extend(&mut completion, short.get("also"));
    completion
}

fn extend(object: &mut Value, more: Option<&Value>) {
    if let (Some(object), Some(Value::Object(more))) = (object.as_object_mut(), more) {
        object.extend(more.clone());
    }
}

/// The folder with the services.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dialects/services")
}

/// The services, by name.
pub(crate) fn services() -> Vec<Service> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        serde_json::from_str::<Service>(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut services: Vec<Service> = files.map(read).collect();
    services.sort_by_key(|service| service.name.to_lowercase());
    services
}

/// The only tool.
struct Weather {
    specs: Vec<ToolSpec>,
    called: Mutex<Vec<Value>>,
}

impl Weather {
    fn new() -> Self {
        Self {
            specs: vec![ToolSpec {
                name: "weather".to_owned(),
                description: "The weather of a city.".to_owned(),
                parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
                side_effects: SideEffects::None,
            }],
            called: Mutex::default(),
        }
    }
}

#[async_trait]
impl ToolHost for Weather {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn call(&self, call: &ToolCall, _: ToolCx) -> Result<ToolOutput, ToolError> {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.push(json!([call.name, call.arguments]));
        Ok(ToolOutput::ok("sunny"))
    }
}

/// The driver, and what it adapted.
struct Adapting {
    calls: Arc<dyn ModelCalls>,
    adapted: Arc<Mutex<Vec<Adaptation>>>,
}

#[async_trait]
impl ModelCalls for Adapting {
    async fn call(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<ModelStream, BackendError> {
        let adapted = Arc::clone(&self.adapted);
        let deltas = self.calls.call(request, cancel).await?;
        Ok(Box::pin(deltas.inspect(move |delta| {
            if let Ok(ModelDelta::Adapted(adaptation)) = delta {
                let mut adapted = adapted.lock().unwrap_or_else(PoisonError::into_inner);
                if !adapted.contains(adaptation) {
                    adapted.push(adaptation.clone());
                }
            }
        })))
    }
}

/// A service that runs, and an agent that asks it.
struct Running {
    server: ModelServer,
    backend: OpenAiBackend,
    tools: Arc<Weather>,
    adapted: Arc<Mutex<Vec<Adaptation>>>,
}

/// How the agent of a scenario differs.
#[derive(Clone, Copy)]
enum Equipment {
    Nothing,
    Tool,
    Format,
}

impl Service {
    fn start(&self, equipment: Equipment) -> Running {
        let (name, rules) = (self.name.clone(), self.serves.clone());
        let server = ModelServer::answering(move |request| {
            let rule = rules.iter().find(|rule| rule.when.fits(request));
            rule.unwrap_or_else(|| panic!("{name}: no rule for {}", request.body))
                .reply()
        });
        let model = format!(
            "  provider: {}\n  name: m\n  endpoint: {}{}\n  api_key: k\n  max_tokens: 50",
            self.provider,
            server.url(),
            self.path
        );
        let rest = match equipment {
            Equipment::Format => {
                "response_format: {type: object, properties: {city: {type: string}}, required: [city], \
                 additionalProperties: false}\n"
            }
            Equipment::Nothing | Equipment::Tool => "",
        };
        let agent = agent(&model, rest);
        let adapted = Arc::default();
        let calls = Adapting {
            calls: Arc::new(setup::calls(&agent, &Env::empty()).unwrap()),
            adapted: Arc::clone(&adapted),
        };
        let tools = Arc::new(Weather::new());
        let host: Arc<dyn ToolHost> = match equipment {
            Equipment::Tool => Arc::clone(&tools) as Arc<dyn ToolHost>,
            Equipment::Nothing | Equipment::Format => Arc::new(holodeck_backend_api::NoTools),
        };
        let backend = OpenAiBackend::new(
            &agent,
            setup::model(&agent),
            setup::format(&agent),
            host,
            Arc::new(calls),
        );
        Running {
            server,
            backend,
            tools,
            adapted,
        }
    }

    /// The outcome of a question.
    async fn ask(&self, equipment: Equipment, history: Vec<HistoryItem>, question: &str) -> Value {
        let running = self.start(equipment);
        let mut session = running
            .backend
            .open_session(Opening::after(history))
            .await
            .unwrap();
        let asked = turn(&mut *session, question).await;
        drop(session);
        running.finish(asked)
    }
}

/// The events of a turn, or its error.
async fn turn(session: &mut dyn AgentSession, question: &str) -> Result<Vec<BackendEvent>, BackendError> {
    let mut stream = session.turn(TurnRequest::new(question));
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event?);
    }
    Ok(events)
}

impl Running {
    /// The outcome of a turn, with what was adapted and the calls that ran.
    fn finish(self, asked: Result<Vec<BackendEvent>, BackendError>) -> Value {
        let received = self.server.finish_unchecked();
        received.assert();
        let mut outcome = match asked {
            Ok(events) => outcome_of(&events),
            Err(error) => error_of(&error),
        };
        let called = self
            .tools
            .called
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if !called.is_empty() {
            outcome.insert("calls".to_owned(), Value::Array(called));
        }
        let adapted = self.adapted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts: Vec<&str> = adapted.iter().map(|adaptation| &*adaptation.part).collect();
        parts.sort_unstable();
        if !parts.is_empty() {
            outcome.insert("adapted".to_owned(), json!(parts));
        }
        Value::Object(outcome)
    }
}

fn outcome_of(events: &[BackendEvent]) -> Map<String, Value> {
    let mut outcome = Map::new();
    let (mut reasoning, mut ended) = (String::new(), None);
    for event in events {
        match event {
            BackendEvent::Thinking { text } => reasoning.push_str(text),
            BackendEvent::TurnEnd { stop_reason, .. } if !stop_reason.is_aborted() => {
                ended = Some(stop_reason.to_string());
            }
            BackendEvent::End(result) => add_result(result, &mut outcome),
            _ => {}
        }
    }
    if !reasoning.is_empty() {
        outcome.insert("reasoning".to_owned(), json!(reasoning));
    }
    outcome.insert("ended".to_owned(), json!(ended));
    outcome
}

fn add_result(result: &ExecutionResult, outcome: &mut Map<String, Value>) {
    outcome.insert("answer".to_owned(), json!(result.response));
    if let Some(usage) = result.token_usage {
        outcome.insert(
            "usage".to_owned(),
            json!([usage.prompt_tokens, usage.completion_tokens]),
        );
    }
    if let Some(value) = &result.structured_output {
        outcome.insert("structured".to_owned(), value.clone());
    }
    if let Some(reason) = &result.truncated_by {
        outcome.insert("truncated".to_owned(), json!(reason.as_str()));
    }
    match result.outcome {
        Outcome::Completed => {}
        Outcome::Refused => {
            outcome.insert("error".to_owned(), json!("refusal"));
        }
        _ => {
            outcome.insert("error".to_owned(), json!("failed"));
        }
    }
}

fn error_of(error: &BackendError) -> Map<String, Value> {
    let text = error.explanation().text();
    let kind = match error {
        _ if error.is_credentials() => "credentials",
        BackendError::Provider {
            status: Some(429), ..
        } => "rate limit",
        _ if text.contains("context length") => "too long",
        _ => "error",
    };
    json!({"error": kind, "answer": text})
        .as_object()
        .cloned()
        .unwrap_or_default()
}

/// A conversation whose call another service made, with an id of its own.
fn foreign_history() -> Vec<HistoryItem> {
    let call = ToolCall {
        name: "weather".to_owned(),
        arguments: json!({"city": "Paris"}),
        call_id: "call_8hYl2ZkT0aBcDeF".to_owned(),
        provider_fields: None,
    };
    let result = ToolResult {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        result: "sunny".to_owned(),
        is_error: false,
        duration_ms: None,
        details: holodeck_backend_api::CallDetails::default(),
    };
    vec![
        HistoryItem::user("Weather?"),
        HistoryItem::Call(call),
        HistoryItem::Result(result),
        HistoryItem::assistant("Sunny."),
    ]
}

#[tokio::test]
async fn each_service_answers_as_its_row_says() {
    for service in services() {
        let Expected {
            tools,
            plain,
            structured,
            history,
            errors,
        } = &service.expects;
        let scenarios = [
            (tools, Equipment::Tool, Vec::new(), "What is the weather?"),
            (plain, Equipment::Nothing, Vec::new(), "hello"),
            (structured, Equipment::Format, Vec::new(), "Which city?"),
            (history, Equipment::Tool, foreign_history(), "And now?"),
        ];
        let mut count = 0;
        for (expected, equipment, history, question) in scenarios {
            if let Some(expected) = expected {
                count += 1;
                let found = service.ask(equipment, history, question).await;
                assert_eq!(found, *expected, "{}: {question}", service.name);
            }
        }
        assert!(count >= 2, "{}: too little is asked", service.name);
        for error in errors {
            let found = service.ask(Equipment::Tool, Vec::new(), &error.question).await;
            let text: Cow<'_, str> = found["answer"].as_str().unwrap_or_default().into();
            assert_eq!(found["error"], error.is, "{}: {found}", service.name);
            assert!(
                text.contains(&error.says),
                "{}: `{}` is not in: {text}",
                service.name,
                error.says
            );
        }
        assert_eq!(service.scripted.len(), 10, "{}", service.name);
    }
}
