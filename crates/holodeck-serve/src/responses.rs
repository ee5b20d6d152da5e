//! OpenAI's interface of responses: each answer is stored as a run of the user, which a later request can continue.

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use holodeck_chat::{RunError, RunRequest};
use holodeck_events::{RunInfo, StoreError, StoredEvent, history};
use http::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    App, ServedAgent,
    answering::{Answering, Busy, Finished, Keeping, wait_for_runs},
    completion_request::check_wishes,
    extract::{Json, Segment},
    guard::User,
    idempotency::{Key, KeyedPlace, RequestKey},
    outlet::Outlet,
    pieces::{Next, Pieces, RESULT},
    problem::{Problem, Result},
    response_request::Wanted,
};

/// The beginning of the ids of responses; the rest is the id of the run.
const ID: &str = "resp_";

pub(crate) async fn create(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Key(key): Key,
    Json(body): Json<Map<String, Value>>,
) -> Result<Response> {
    let key = key.map(|key| RequestKey::new("responses", &user, &key, &Value::Object(body.clone())));
    let mut wanted = Wanted::read(body)?;
    let agent = app.agent(Some(&wanted.model));
    let agent = agent.map_err(|problem| problem.about("model"))?;
    check_wishes(agent, &mut wanted.wishes, "max_output_tokens")?;
    let answering = begin(&app, &user, agent, &mut wanted, key).await?;
    let answer = Answer {
        id: format!("{ID}{}", answering.run_id),
        item: format!("msg_{}", answering.run_id),
        created: jiff::Timestamp::now().as_second(),
        model: agent.name.clone(),
        previous: wanted.previous,
        store: wanted.store,
    };
    if wanted.stream {
        let (outlet, response) = Outlet::open(&app);
        app.tasks().spawn(answer.stream(answering, outlet));
        return Ok(response);
    }
    let finished = answering.finish().await?;
    let text = finished.result.response.clone();
    Ok(axum::Json(answer.finished(&finished, &text)).into_response())
}

/// A response of this user that has an end.
pub(crate) async fn show(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(id): Segment,
) -> Result<axum::Json<Value>> {
    let run = find(&app, &user, &id)
        .await
        .map_err(|problem| problem.about("response_id"))?;
    let session = app.stored_session(&run.session_id, &user).await?;
    let agent = app.agent_of(&session)?;
    let answer = Answer {
        id,
        item: format!("msg_{}", run.run_id),
        created: session.last_at.as_second(),
        model: agent.name.clone(),
        previous: None,
        store: true,
    };
    if run.last_index.is_none() {
        return Ok(axum::Json(answer.body("in_progress", "", None)));
    }
    let finished = Answering::elsewhere(&app, run.session_id, run.run_id)
        .finish()
        .await?;
    let text = finished.result.response.clone();
    Ok(axum::Json(answer.finished(&finished, &text)))
}

/// The run of a response.
async fn find(app: &App, user: &str, id: &str) -> Result<RunInfo> {
    let not_found = || {
        let detail = format!("there is no response `{}`", id.escape_debug());
        Problem::new(StatusCode::NOT_FOUND, "RESPONSE_NOT_FOUND", detail)
    };
    let run_id = id.strip_prefix(ID).ok_or_else(not_found)?;
    let run = app.store().run(run_id).await?;
    run.filter(|run| run.owner.as_deref() == Some(user))
        .ok_or_else(not_found)
}

/// Begins the answer in the conversation that it continues, or in a new one.
async fn begin(
    app: &App,
    user: &str,
    agent: &ServedAgent,
    wanted: &mut Wanted,
    key: Option<RequestKey>,
) -> Result<Answering> {
    // First: the answer to the same request stays, also where what it continued is gone.
    if let Some(key) = &key
        && let KeyedPlace::Answered { session_id, run_id } = key.place(&**app.store(), agent, user, 0).await?
    {
        return Ok(Answering::elsewhere(app, session_id, run_id));
    }
    let previous = match &wanted.previous {
        Some(id) => Some(continued(app, user, agent, id).await?),
        None => None,
    };
    let mut request = RunRequest {
        user_id: Some(user.to_owned()),
        images: std::mem::take(&mut wanted.images),
        wishes: wanted.wishes.clone(),
        ..RunRequest::new("", std::mem::take(&mut wanted.message))
    };
    let (mut skip, mut busy) = (0, Busy::default());
    loop {
        let session_id = match &key {
            None => Uuid::now_v7().to_string(),
            Some(key) => match key.place(&**app.store(), agent, user, skip).await? {
                KeyedPlace::Answered { session_id, run_id } => {
                    return Ok(Answering::elsewhere(app, session_id, run_id));
                }
                KeyedPlace::New { session_id, number } => {
                    request.client_message_id = Some(key.message_id.clone());
                    skip = number;
                    session_id
                }
            },
        };
        if !wanted.store && key.is_none() {
            request.session_id = Some(session_id);
            request.opening = Some(match &previous {
                Some(run) => {
                    let events = app.store().read_after(&run.session_id, None).await?;
                    let before = events
                        .iter()
                        .filter(|event| Some(event.index()) <= run.last_index);
                    history(before.map(StoredEvent::event))
                }
                None => std::mem::take(&mut wanted.history),
            });
            return Answering::unstored(app, agent, request).await;
        }
        let place = app.admit(agent)?;
        let prepared = match &previous {
            Some(run) => {
                let forked = app
                    .store()
                    .fork_session(&run.session_id, run.last_index, &session_id, Some(user))
                    .await;
                forked.map(|_| ()).map_err(RunError::Store)
            }
            None if wanted.history.is_empty() => Ok(()),
            None => {
                agent
                    .service
                    .import(&session_id, Some(user), wanted.history.clone())
                    .await
            }
        };
        let started = match prepared {
            // The same request is already in it.
            Ok(()) | Err(RunError::Store(StoreError::SessionExists { .. })) => {
                request.session_id = Some(session_id.clone());
                let keeping = match key {
                    Some(_) => Keeping::Answer,
                    None => Keeping::Nothing,
                };
                Answering::stored(app, agent, place, request.clone(), keeping).await
            }
            Err(error) => Err(error),
        };
        match started {
            Ok(answering) => return Ok(answering),
            Err(RunError::Store(StoreError::AlreadySent { run_id })) => {
                return Ok(Answering::elsewhere(app, session_id, run_id));
            }
            Err(RunError::Store(StoreError::SessionDeleted { .. })) if key.is_some() => {
                wait_for_runs(app, &session_id).await;
                skip += 1;
            }
            Err(error) if key.is_some() => busy.allow(error, &session_id)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The run of the response that a request continues.
async fn continued(app: &App, user: &str, agent: &ServedAgent, id: &str) -> Result<RunInfo> {
    const NAME: &str = "previous_response_id";
    let run = find(app, user, id).await.map_err(|problem| problem.about(NAME))?;
    if run.last_index.is_none() {
        let detail = "the previous response is still in progress";
        return Err(Problem::new(StatusCode::CONFLICT, "RUN_IN_PROGRESS", detail)
            .about(NAME)
            .retry_after(1));
    }
    let session = app.stored_session(&run.session_id, user).await?;
    if app.agent_of(&session)?.name != agent.name {
        return Err(Problem::invalid("`previous_response_id` is an answer of another model").about(NAME));
    }
    Ok(run)
}

/// The fields that all parts of a response share.
struct Answer {
    id: String,
    item: String,
    created: i64,
    model: String,
    previous: Option<String>,
    store: bool,
}

impl Answer {
    fn finished(&self, finished: &Finished, text: &str) -> Value {
        let (status, reason) = match finished.reason() {
            "length" => ("incomplete", Some("max_output_tokens")),
            "content_filter" => ("incomplete", Some("content_filter")),
            _ => ("completed", None),
        };
        let body = self.body(status, text, reason);
        let Some(usage) = &finished.result.usage else {
            return body;
        };
        let usage = json!({
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.total_tokens,
        });
        with(body, "usage", usage)
    }

    fn body(&self, status: &str, text: &str, reason: Option<&str>) -> Value {
        let output = match status {
            "in_progress" | "failed" => json!([]),
            _ => json!([self.message(status, Some(text))]),
        };
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": null,
            "incomplete_details": reason.map(|reason| json!({ "reason": reason })),
            "instructions": null,
            "max_output_tokens": null,
            "metadata": {},
            "model": self.model,
            "output": output,
            "output_text": text,
            "parallel_tool_calls": true,
            "previous_response_id": self.previous,
            "store": self.store,
            "temperature": null,
            "text": { "format": { "type": "text" } },
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": null,
        })
    }

    fn message(&self, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.map(part).into_iter().collect();
        json!({ "type": "message", "id": self.item, "status": status, "role": "assistant", "content": content })
    }

    /// Sends the text while it arrives; messages before the last one, too.
    async fn stream(self, answering: Answering, outlet: Outlet) {
        let mut events = Frames { outlet, number: 0 };
        let Some(mut pieces) = Pieces::of(&answering).await else {
            return;
        };
        let empty = self.body("in_progress", "", None);
        let at = json!({ "item_id": self.item, "output_index": 0, "content_index": 0 });
        let begun = events.say("response.created", json!({ "response": empty })).await
            && events
                .say("response.in_progress", json!({ "response": empty }))
                .await
            && events
                .say(
                    "response.output_item.added",
                    json!({ "output_index": 0, "item": self.message("in_progress", None) }),
                )
                .await
            && events
                .say("response.content_part.added", with(at.clone(), "part", part("")))
                .await;
        let mut bytes = 0;
        if !begun {
            return;
        }
        loop {
            let piece = match pieces.next(&mut events.outlet).await {
                Next::Text(piece) => piece,
                Next::Over => break,
                Next::Left => return,
            };
            bytes += piece.len();
            let delta = with(at.clone(), "delta", piece.into());
            let delta = with(delta, "logprobs", json!([]));
            if !events.say("response.output_text.delta", delta).await {
                return;
            }
        }
        drop(pieces);
        if !events.outlet.reserve(bytes.saturating_mul(RESULT)).await {
            return;
        }
        let text = Pieces::text_of(&answering).await;
        let finished = match answering.finish().await {
            Ok(finished) => finished,
            Err(problem) => {
                self.fail(&mut events, &text.unwrap_or_default(), &problem).await;
                return;
            }
        };
        let Some(text) = text else {
            let problem = Problem::session_not_found(&finished.result.session_id);
            self.fail(&mut events, "", &problem).await;
            return;
        };
        let body = self.finished(&finished, &text);
        let status = body
            .get("status")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let item = self.message(&status, Some(&text));
        let done = with(at.clone(), "text", text.as_str().into());
        let done = with(done, "logprobs", json!([]));
        let _ = events.say("response.output_text.done", done).await
            && events
                .say("response.content_part.done", with(at, "part", part(&text)))
                .await
            && events
                .say(
                    "response.output_item.done",
                    json!({ "output_index": 0, "item": item }),
                )
                .await
            && events
                .say(&format!("response.{status}"), json!({ "response": body }))
                .await;
    }

    async fn fail(&self, events: &mut Frames, text: &str, problem: &Problem) {
        let error = json!({ "code": "server_error", "message": problem.detail() });
        let body = with(self.body("failed", text, None), "error", error);
        events.say("response.failed", json!({ "response": body })).await;
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [] })
}

fn with(mut fields: Value, name: &str, value: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
    fields
}

/// The events of a stream, which are numbered.
struct Frames {
    outlet: Outlet,
    number: u64,
}

impl Frames {
    async fn say(&mut self, name: &str, fields: Value) -> bool {
        let fields = with(fields, "type", name.into());
        let fields = with(fields, "sequence_number", self.number.into());
        self.number += 1;
        self.outlet.named(name, &fields).await
    }
}
