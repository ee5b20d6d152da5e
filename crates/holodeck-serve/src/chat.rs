//! The calls of HoloDeck 0.7.1, for clients that were written for it.

use std::collections::HashMap;

use axum::{Extension, extract::State, response::Response};
use base64::Engine as _;
use holodeck_chat::RunError;
use holodeck_events::{StoredEvent, Subscription};
use holodeck_model::events::{AgentExecutionResult, EventBody};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use crate::{
    App,
    answering::{Busy, wait_for_runs},
    extract::{Json, Segment},
    files::{Form, UploadedFile, remove_all, store_all},
    guard::User,
    idempotency::{Key, KeyedPlace, RequestKey},
    messages::{Message, Started, repeated, start},
    outlet::Outlet,
    pieces::RESULT,
    problem::{Problem, Result},
};

#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    message: String,
    session_id: Option<String>,
    #[serde(default)]
    files: Option<Vec<FileContent>>,
}

/// A file in a JSON body.
#[derive(Debug, Deserialize)]
pub(crate) struct FileContent {
    /// Base64.
    content: String,
    filename: Option<String>,
}

/// A run, its events, and the id that its answer has.
struct Answer {
    started: Started,
    events: Subscription,
    message_id: String,
}

/// A 0.7.1 chat request, from JSON or a form.
#[derive(Clone)]
struct Asked {
    message: String,
    session_id: Option<String>,
    files: Vec<UploadedFile>,
}

impl ChatRequest {
    fn into_asked(self) -> Result<Asked> {
        let read = |file: FileContent| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(&file.content);
            let bytes = bytes.map_err(|_| Problem::invalid("the `content` of a file is not Base64"))?;
            let name = file.filename.unwrap_or_default();
            Ok(UploadedFile { name, bytes })
        };
        let files = self.files.unwrap_or_default().into_iter().map(read);
        Ok(Asked {
            message: self.message,
            session_id: self.session_id,
            files: files.collect::<Result<_>>()?,
        })
    }
}

impl Form {
    fn into_asked(mut self) -> Result<Asked> {
        let message = self.take("message");
        let message = message.ok_or_else(|| Problem::invalid("the form has no field `message`"))?;
        Ok(Asked {
            message,
            session_id: self.take("session_id").filter(|id| !id.is_empty()),
            files: self.files,
        })
    }
}

impl Asked {
    /// The content of the request, which another one with the same key must have, too.
    fn digest(&self) -> Value {
        let files = self.files.iter().map(|file| {
            let hash = Sha256::digest(&file.bytes);
            json!([file.name, hash.as_slice()])
        });
        json!({ "message": self.message, "files": files.collect::<Vec<_>>() })
    }
}

async fn begin(app: &App, user: &str, agent: &str, mut asked: Asked, key: Option<String>) -> Result<Answer> {
    app.agent(Some(agent))?;
    let session_id = app.stored_id_of(asked.session_id.take(), user).await?;
    let started = match (session_id, key) {
        // As a message that has a client's id.
        (Some(session_id), key) => begin_in(app, user, agent, asked, Some(session_id), key).await?,
        (None, None) => begin_in(app, user, agent, asked, None, None).await?,
        (None, Some(key)) => {
            let key = RequestKey::new("chat", user, &format!("{agent} {key}"), &asked.digest());
            begin_keyed(app, user, agent, asked, &key).await?
        }
    };
    let run = app.store().run(&started.run_id).await?;
    let head = app
        .store()
        .session(&started.session_id)
        .await?
        .and_then(|session| session.head);
    let before = run.map_or(head, |run| run.first_index.checked_sub(1));
    Ok(Answer {
        events: app.subscribe(&started.session_id, before).await?,
        message_id: started.run_id.clone(),
        started,
    })
}

/// The answer to a request with a key and without a conversation: that of the first one, or a new one in the key's own.
async fn begin_keyed(app: &App, user: &str, agent: &str, asked: Asked, key: &RequestKey) -> Result<Started> {
    let (mut skip, mut busy) = (0, Busy::default());
    let served = app.agent(Some(agent))?;
    loop {
        let (session_id, number) = match key.place(&**app.store(), served, user, skip).await? {
            KeyedPlace::New { session_id, number } => (session_id, number),
            KeyedPlace::Answered { run_id, .. } => return repeated(app, run_id).await,
        };
        let id = Some(key.message_id.clone());
        match begin_in(app, user, agent, asked.clone(), Some(session_id.clone()), id).await {
            Ok(started) => return Ok(started),
            Err(problem) if problem.code() == "SESSION_DELETED" => {
                wait_for_runs(app, &session_id).await;
                skip = number + 1;
            }
            Err(problem) => busy.allow(problem, &session_id)?,
        }
    }
}

/// Begins the answer in this conversation, or in a new one. With an id, a message that was sent before is answered by the
/// same run.
async fn begin_in(
    app: &App,
    user: &str,
    agent: &str,
    asked: Asked,
    session_id: Option<String>,
    id: Option<String>,
) -> Result<Started> {
    let service = &app.agent(Some(agent))?.service;
    let ids = store_all(service, user, asked.files).await?;
    let mut message = Message::new(asked.message).with_attachments(ids.clone());
    message.client_message_id = id;
    let started = start(app, user, session_id, Some(agent), message).await;
    if !matches!(&started, Ok(started) if started.handle.is_some()) {
        remove_all(service, user, &ids).await;
    }
    started
}

impl Answer {
    /// The next event of the run itself; `None` after its end, also if it ended before its first event.
    async fn next(&mut self) -> Result<Option<StoredEvent>> {
        loop {
            let withdrawn = async {
                if let Some(run) = &mut self.started.handle
                    && let Err(error) = run.finish().await
                    && !matches!(error, RunError::Execution(_))
                {
                    return;
                }
                // Its end is an event.
                std::future::pending::<()>().await;
            };
            let event = tokio::select! {
                biased;
                event = self.events.next() => event?,
                () = withdrawn => None,
            };
            let Some(event) = event else {
                return Ok(None);
            };
            let meta = &event.event().meta;
            if meta.run_id.as_ref() != Some(&self.started.run_id) || meta.parent_tool_use_id.is_some() {
                continue;
            }
            return Ok((!event.event().body.is_terminal()).then_some(event));
        }
    }
}

/// Answers when the run is over.
pub(crate) async fn chat(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(agent): Segment,
    Key(key): Key,
    Json(request): Json<ChatRequest>,
) -> Result<axum::Json<Value>> {
    answer_whole(&app, &user, &agent, request.into_asked()?, key).await
}

/// As [`chat`], with files in a form.
pub(crate) async fn chat_form(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(agent): Segment,
    Key(key): Key,
    form: Form,
) -> Result<axum::Json<Value>> {
    answer_whole(&app, &user, &agent, form.into_asked()?, key).await
}

async fn answer_whole(
    app: &App,
    user: &str,
    agent: &str,
    asked: Asked,
    key: Option<String>,
) -> Result<axum::Json<Value>> {
    let mut answer = begin(app, user, agent, asked, key).await?;
    let mut calls: Vec<Value> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    while let Some(event) = answer.next().await? {
        match &event.event().body {
            EventBody::ToolUse(call) => {
                places.insert(call.tool_use_id.clone(), calls.len());
                calls.push(json!({ "name": call.tool_name, "arguments": call.args, "status": "error" }));
            }
            EventBody::ToolResult(result) => {
                let call = places
                    .get(&result.tool_use_id)
                    .and_then(|place| calls.get_mut(*place));
                if let Some(call) = call.and_then(Value::as_object_mut) {
                    call.insert("status".to_owned(), status(result.success).into());
                }
            }
            _ => {}
        }
    }
    let session_id = answer.started.session_id.clone();
    let result = answer.started.finish(app).await?;
    Ok(axum::Json(json!({
        "message_id": answer.message_id,
        "content": result.response,
        "session_id": session_id,
        "tool_calls": calls,
        "tokens_used": tokens(&result),
        "execution_time_ms": result.duration_ms.unwrap_or_default(),
    })))
}

/// Streams what happens.
pub(crate) async fn stream(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(agent): Segment,
    Key(key): Key,
    Json(request): Json<ChatRequest>,
) -> Result<Response> {
    answer_in_pieces(&app, &user, &agent, request.into_asked()?, key).await
}

/// As [`stream`], with files in a form.
pub(crate) async fn stream_form(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(agent): Segment,
    Key(key): Key,
    form: Form,
) -> Result<Response> {
    answer_in_pieces(&app, &user, &agent, form.into_asked()?, key).await
}

async fn answer_in_pieces(
    app: &App,
    user: &str,
    agent: &str,
    asked: Asked,
    key: Option<String>,
) -> Result<Response> {
    let answer = begin(app, user, agent, asked, key).await?;
    let (outlet, response) = Outlet::open(app);
    app.tasks().spawn(produce(answer, outlet));
    Ok(response)
}

async fn produce(mut answer: Answer, mut outlet: Outlet) {
    let app = outlet.app().clone();
    // The last client that leaves may end the run.
    let _follower = app.follow(&answer.started.session_id);
    let mut bytes: usize = 0;
    let message_id = answer.message_id.clone();
    let ids = json!({ "session_id": answer.started.session_id, "message_id": message_id });
    let mut is_open = outlet.named("stream_start", &ids).await;
    while is_open {
        outlet.ready().await;
        answer.events.release();
        let event = tokio::select! {
            biased;
            () = outlet.closed() => return,
            event = answer.next() => event,
            () = sleep(app.options().heartbeat) => {
                is_open = outlet.heartbeat().await;
                continue;
            }
        };
        let Ok(Some(event)) = event else { break };
        match &event.event().body {
            EventBody::MessageChunk(chunk) => {
                let delta = json!({ "delta": chunk.content, "message_id": message_id });
                bytes += chunk.content.len();
                is_open = outlet.named("message_delta", &delta).await;
            }
            EventBody::ToolUse(call) => {
                let id = &call.tool_use_id;
                let begin = json!({ "tool_call_id": id, "name": call.tool_name, "message_id": message_id });
                let args = json!({ "tool_call_id": id, "args_delta": call.args.to_string() });
                is_open = outlet.named("tool_call_start", &begin).await
                    && outlet.named("tool_call_args", &args).await;
            }
            EventBody::ToolResult(result) => {
                let end = json!({ "tool_call_id": result.tool_use_id, "status": status(result.success) });
                is_open = outlet.named("tool_call_end", &end).await;
            }
            _ => {}
        }
    }
    drop(answer.events);
    if !is_open || !outlet.reserve(bytes.saturating_mul(RESULT)).await {
        return;
    }
    match answer.started.finish(&app).await {
        Ok(result) => {
            let end = json!({
                "message_id": message_id,
                "tokens_used": tokens(&result),
                "execution_time_ms": result.duration_ms.unwrap_or_default(),
            });
            outlet.named("stream_end", &end).await;
        }
        Err(problem) => {
            let error = json!({
                "type": "about:blank",
                "title": "Agent Error",
                "status": problem.status().as_u16(),
                "detail": problem.detail(),
            });
            outlet.named("error", &error).await;
        }
    }
}

/// Deletes a conversation, and ends what is answered in it. Also for one that does not exist.
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(session_id): Segment,
) -> Result<StatusCode> {
    let Ok(session) = app.session(&session_id, &user).await else {
        return Ok(StatusCode::NO_CONTENT);
    };
    crate::sessions::remove(&app, &session, true).await
}

fn status(success: bool) -> &'static str {
    if success { "success" } else { "error" }
}

/// The tokens of a run, in the words that many clients know.
pub(crate) fn tokens(result: &AgentExecutionResult) -> Value {
    let Some(usage) = &result.usage else {
        return Value::Null;
    };
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    })
}
