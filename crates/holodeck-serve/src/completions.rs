//! The endpoint that OpenAI clients know. Nothing is stored: the client sends the whole conversation each time.

use std::sync::Arc;

use axum::{
    extract::{FromRequest as _, Request, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use holodeck_backend_api::HistoryItem;
use holodeck_chat::{AgentRunService, RunHandle, RunRequest};
use holodeck_events::{EventStore, StoredEvent};
use holodeck_model::events::{AgentExecutionResult, EventBody, StopFamily, StopReason};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{
        mpsc::{self, Sender},
        oneshot,
    },
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    App, ServedAgent,
    app::Place,
    chat::tokens,
    extract::Json,
    problem::Problem,
    stream::{HEARTBEAT, frames, send},
};

#[derive(Debug, Deserialize)]
pub(crate) struct CompletionRequest {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(default)]
    functions: Option<Value>,
    n: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: Option<Value>,
}

/// An error in the form that OpenAI clients read.
struct Refusal(Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl Refusal {
    fn body(&self) -> Value {
        let kind = if self.0.status().is_server_error() {
            "server_error"
        } else {
            "invalid_request_error"
        };
        json!({ "error": {
            "message": self.0.detail(),
            "type": kind,
            "code": self.0.code().to_lowercase(),
            "param": null,
        }})
    }
}

/// Answers the last message of a conversation.
pub(crate) async fn complete(State(app): State<App>, request: Request) -> Response {
    let answered = async {
        let Json(request) = Json::<CompletionRequest>::from_request(request, &app).await?;
        answer(&app, request).await
    };
    answered.await.unwrap_or_else(|Refusal(problem)| {
        let status = problem.status();
        let body = Refusal(problem).body();
        (status, axum::Json(body)).into_response()
    })
}

async fn answer(app: &App, request: CompletionRequest) -> Result<Response, Refusal> {
    let is_given = |tools: &Option<Value>| {
        tools
            .as_ref()
            .is_some_and(|tools| !tools.is_null() && tools.as_array().is_none_or(|tools| !tools.is_empty()))
    };
    if is_given(&request.tools) || is_given(&request.functions) {
        let detail = "the agent has its own tools; `tools` of the client are not accepted";
        return Err(Problem::invalid(detail).into());
    }
    if request.n.is_some_and(|n| n != 1) {
        return Err(Problem::invalid("`n` must be 1").into());
    }
    let agent = app.agent(Some(&request.model))?;
    let (history, message) = read_messages(&request.messages)?;
    let place = app.admit(agent)?;
    let service = (agent.unstored)();
    let session_id = "completion";
    service
        .import(session_id, None, history)
        .await
        .map_err(Problem::from)?;
    let answer = Answer {
        created: jiff::Timestamp::now().as_second(),
        model: agent.name.clone(),
    };
    let started = service.start(RunRequest::new(session_id, message), None).await;
    let run = started.map_err(Problem::from)?;
    let unfinished = Unfinished::begin(app, run, service, place);
    if request.stream {
        let (sender, receiver) = mpsc::channel(2);
        let with_usage = request
            .stream_options
            .is_some_and(|options| options.include_usage);
        app.tasks()
            .spawn(answer.stream(app.clone(), unfinished, with_usage, sender));
        return Ok(frames(receiver));
    }
    let id = format!("chatcmpl-{}", unfinished.run.run_id());
    let (result, reason) = unfinished.finish().await?;
    Ok(axum::Json(answer.whole(&id, &result, reason)).into_response())
}

/// The conversation so far, and the message to answer.
fn read_messages(messages: &[Message]) -> Result<(Vec<HistoryItem>, String), Problem> {
    let mut history: Vec<HistoryItem> = Vec::new();
    // What a client puts beside the agent's own instructions belongs to the next message of the user.
    let mut preface: Vec<String> = Vec::new();
    for message in messages {
        let text = text_of(message)?;
        match message.role.as_str() {
            "system" | "developer" => preface.push(text),
            "user" => {
                preface.push(text);
                history.push(HistoryItem::user(std::mem::take(&mut preface).join("\n\n")));
            }
            "assistant" => history.push(HistoryItem::assistant(text)),
            other => {
                return Err(Problem::invalid(format!(
                    "messages of role `{other}` are not accepted"
                )));
            }
        }
    }
    match history.pop() {
        Some(HistoryItem::User { text }) if preface.is_empty() => Ok((history, text)),
        _ => Err(Problem::invalid("the last message must be one of the user")),
    }
}

fn text_of(message: &Message) -> Result<String, Problem> {
    match &message.content {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| {
                let is_text = part.get("type").and_then(Value::as_str) == Some("text");
                part.get("text")
                    .and_then(Value::as_str)
                    .filter(|_| is_text)
                    .map(str::to_owned)
            };
            let parts: Option<Vec<String>> = parts.iter().map(text).collect();
            let refused = || Problem::not_supported("only parts of type `text` are accepted in `content`");
            Ok(parts.ok_or_else(refused)?.join("\n"))
        }
        None | Some(Value::Null) if message.role == "assistant" => Ok(String::new()),
        _ => Err(Problem::invalid("`content` must be a text or an array of parts")),
    }
}

/// A run for one client. Dropping it cancels the run: no other client can read the answer.
struct Unfinished {
    run: RunHandle,
    store: Arc<dyn EventStore>,
    ended: oneshot::Receiver<Ended>,
    _stop: DropGuard,
}

/// The result, and why the answer ended.
type Ended = Result<(AgentExecutionResult, &'static str), Problem>;

impl Unfinished {
    /// Follows a run to its end, and closes its service then.
    fn begin(app: &App, run: RunHandle, service: AgentRunService, place: Place) -> Self {
        let stop = CancellationToken::new();
        let (sender, ended) = oneshot::channel();
        let unfinished = Self {
            run: run.clone(),
            store: Arc::clone(service.store()),
            ended,
            _stop: stop.clone().drop_guard(),
        };
        let app = app.clone();
        app.metrics().count_started();
        app.tasks().clone().spawn(async move {
            let mut run = run;
            let ending = run.clone();
            let leave = async {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = app.closing().cancelled() => {}
                }
                ending.cancel();
            };
            let (result, ()) = tokio::join!(
                async {
                    let result = run.finish().await;
                    stop.cancel();
                    result
                },
                leave
            );
            app.metrics().count_ended(result.is_ok());
            app.metrics().count_violations(service.contract_violations());
            let reason = finish_reason(&**service.store(), &run).await;
            service.close().await;
            drop(place);
            let result = result.map_err(Problem::from);
            // The client may have left.
            let _ = sender.send(result.map(|result| (result, reason)));
        });
        unfinished
    }

    async fn finish(self) -> Ended {
        self.ended.await.unwrap_or_else(|_| Err(Problem::closing()))
    }
}

/// Why the answer ended, in the words of the endpoint.
async fn finish_reason(store: &dyn EventStore, run: &RunHandle) -> &'static str {
    let events = store.read_after(run.session_id(), None).await;
    let family = events.iter().flatten().find_map(|event| {
        let EventBody::Complete(end) = &event.event().body else {
            return None;
        };
        let of_run = event.event().meta.run_id.as_deref() == Some(run.run_id());
        end.stop_reason
            .as_ref()
            .filter(|_| of_run)
            .map(StopReason::family)
    });
    match family {
        Some(StopFamily::Truncated | StopFamily::Unknown) => "length",
        Some(StopFamily::Refusal) => "content_filter",
        Some(StopFamily::End | StopFamily::Calls | StopFamily::Failure) | None => "stop",
    }
}

/// The fields that all parts of an answer share.
struct Answer {
    created: i64,
    model: String,
}

impl Answer {
    fn whole(&self, id: &str, result: &AgentExecutionResult, reason: &str) -> Value {
        json!({
            "id": id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": result.response },
                "finish_reason": reason,
                "logprobs": null,
            }],
            "usage": tokens(result),
        })
    }

    fn chunk(&self, id: &str, delta: &Value, finish_reason: Option<&str>) -> Value {
        json!({
            "id": id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }],
        })
    }

    /// Sends the text while it arrives; messages before the last one, too.
    async fn stream(self, app: App, unfinished: Unfinished, with_usage: bool, sender: Sender<Bytes>) {
        let id = format!("chatcmpl-{}", unfinished.run.run_id());
        let say = async |value: Value| send(&app, &sender, format!("data: {value}\n\n").into()).await;
        let run_id = unfinished.run.run_id().to_owned();
        let events = unfinished
            .store
            .subscribe(unfinished.run.session_id(), None)
            .await;
        let Ok(mut events) = events else { return };
        if !say(self.chunk(&id, &json!({ "role": "assistant", "content": "" }), None)).await {
            return;
        }
        let mut written = Written::default();
        loop {
            let event = tokio::select! {
                biased;
                () = sender.closed() => return,
                event = events.next() => event,
                () = sleep(app.options().heartbeat) => {
                    if !send(&app, &sender, HEARTBEAT).await {
                        return;
                    }
                    continue;
                }
            };
            let Ok(Some(event)) = event else { break };
            if event.event().meta.run_id.as_ref() != Some(&run_id) {
                continue;
            }
            if event.event().body.is_terminal() {
                break;
            }
            let text = written.text(&event);
            if !text.is_empty() && !say(self.chunk(&id, &json!({ "content": text }), None)).await {
                return;
            }
        }
        let (result, reason) = match unfinished.finish().await {
            Ok(ended) => ended,
            Err(problem) => {
                say(Refusal(problem).body()).await;
                return;
            }
        };
        let mut is_open = say(self.chunk(&id, &json!({}), Some(reason))).await;
        if with_usage && is_open {
            let mut last = self.chunk(&id, &json!({}), None);
            if let Some(last) = last.as_object_mut() {
                last.insert("choices".to_owned(), json!([]));
                last.insert("usage".to_owned(), tokens(&result));
            }
            is_open = say(last).await;
        }
        if is_open {
            send(&app, &sender, Bytes::from_static(b"data: [DONE]\n\n")).await;
        }
    }
}

/// The text that was sent so far.
#[derive(Default)]
struct Written {
    is_after_message: bool,
}

impl Written {
    /// The text that an event adds. An empty line separates messages.
    fn text(&mut self, event: &StoredEvent) -> String {
        if event.event().meta.parent_tool_use_id.is_some() {
            return String::new();
        }
        match &event.event().body {
            EventBody::MessageChunk(chunk) => {
                let gap = if std::mem::take(&mut self.is_after_message) {
                    "\n\n"
                } else {
                    ""
                };
                format!("{gap}{}", chunk.content)
            }
            EventBody::Message(message) => {
                self.is_after_message |= !message.content.is_empty();
                String::new()
            }
            _ => String::new(),
        }
    }
}

/// The agents, as models.
pub(crate) async fn models(State(app): State<App>) -> axum::Json<Value> {
    let model = |agent: &ServedAgent| json!({ "id": agent.name, "object": "model", "created": 0, "owned_by": "holodeck" });
    let data: Vec<Value> = app.agents().map(model).collect();
    axum::Json(json!({ "object": "list", "data": data }))
}
