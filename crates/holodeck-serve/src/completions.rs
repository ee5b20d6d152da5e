//! The endpoint that OpenAI clients know. The client sends the whole conversation each time, and only a request with an
//! `Idempotency-Key` is stored.

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use holodeck_chat::RunRequest;
use holodeck_model::events::AgentExecutionResult;
use serde_json::{Map, Value, json};

use crate::{
    App, ServedAgent,
    answering::Answering,
    chat::tokens,
    completion_request::{Wanted, check_wishes},
    extract::{Json, Segment},
    guard::User,
    idempotency::{Key, RequestKey},
    openai_errors::error_body,
    outlet::Outlet,
    pieces::{Next, Pieces, RESULT},
    problem::{Problem, Result},
};

/// The conversation of an answer of which nothing is stored.
const SESSION: &str = "completion";

/// Answers the last message of a conversation.
pub(crate) async fn complete(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Key(key): Key,
    Json(body): Json<Map<String, Value>>,
) -> Result<Response> {
    let key = key.map(|key| RequestKey::new(SESSION, &user, &key, &Value::Object(body.clone())));
    let names_limit = |name: &str| body.get(name).is_some_and(|limit| !limit.is_null());
    let limit = if names_limit("max_completion_tokens") {
        "max_completion_tokens"
    } else {
        "max_tokens"
    };
    let Wanted {
        model,
        history,
        message,
        images,
        mut wishes,
        stream,
        with_usage,
    } = Wanted::read(body)?;
    let agent = app
        .agent(Some(&model))
        .map_err(|problem| problem.about("model"))?;
    check_wishes(agent, &mut wishes, limit)?;
    let request = RunRequest {
        images,
        wishes,
        opening: Some(history),
        ..RunRequest::new(SESSION, message)
    };
    let answer = Answer {
        created: jiff::Timestamp::now().as_second(),
        model: agent.name.clone(),
    };
    let answering = match key {
        Some(key) => Answering::keyed(&app, agent, &user, &key, request).await?,
        None => Answering::unstored(&app, agent, request).await?,
    };
    if stream {
        let (outlet, response) = Outlet::open(&app);
        app.tasks().spawn(answer.stream(answering, with_usage, outlet));
        return Ok(response);
    }
    let id = format!("chatcmpl-{}", answering.run_id);
    let finished = answering.finish().await?;
    let reason = finished.reason();
    Ok(axum::Json(answer.whole(&id, &finished.result, reason)).into_response())
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
    async fn stream(self, answering: Answering, with_usage: bool, mut outlet: Outlet) {
        let id = format!("chatcmpl-{}", answering.run_id);
        let mut bytes = 0;
        let Some(mut pieces) = Pieces::of(&answering).await else {
            return;
        };
        let begin = self.chunk(&id, &json!({ "role": "assistant", "content": "" }), None);
        if !outlet.data(&begin).await {
            return;
        }
        loop {
            match pieces.next(&mut outlet).await {
                Next::Text(text) => {
                    bytes += text.len();
                    if !outlet
                        .data(&self.chunk(&id, &json!({ "content": text }), None))
                        .await
                    {
                        return;
                    }
                }
                Next::Over => break,
                Next::Left => return,
            }
        }
        if !outlet.reserve(bytes.saturating_mul(RESULT)).await {
            return;
        }
        let finished = match answering.finish().await {
            Ok(finished) => finished,
            Err(problem) => {
                outlet.data(&error_body(&problem)).await;
                return;
            }
        };
        let reason = finished.reason();
        let mut is_open = outlet.data(&self.chunk(&id, &json!({}), Some(reason))).await;
        if with_usage && is_open {
            let mut last = self.chunk(&id, &json!({}), None);
            if let Some(last) = last.as_object_mut() {
                last.insert("choices".to_owned(), json!([]));
                last.insert("usage".to_owned(), tokens(&finished.result));
            }
            is_open = outlet.data(&last).await;
        }
        if is_open {
            outlet.send(Bytes::from_static(b"data: [DONE]\n\n")).await;
        }
    }
}

/// An agent, as a model.
fn model(agent: &ServedAgent) -> Value {
    json!({ "id": agent.name, "object": "model", "created": 0, "owned_by": "holodeck" })
}

/// The agents, as models.
pub(crate) async fn models(State(app): State<App>) -> axum::Json<Value> {
    let data: Vec<Value> = app.agents().map(model).collect();
    axum::Json(json!({ "object": "list", "data": data }))
}

pub(crate) async fn one_model(
    State(app): State<App>,
    Segment(name): Segment,
) -> Result<axum::Json<Value>, Problem> {
    let agent = app.agent(Some(&name)).map_err(|problem| problem.about("model"))?;
    Ok(axum::Json(model(agent)))
}
