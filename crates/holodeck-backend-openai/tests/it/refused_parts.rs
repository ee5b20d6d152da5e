//! Every part of a request that servers refuse, in every form in which they say so; and errors that only mention a part.

use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, ModelCalls as _, ModelDelta, ModelRequest};
use holodeck_backend_openai::HttpModelCalls;
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::Env;
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::setup::{agent_of, calls_through};

/// The last question, which has the names of all parts and words of refusals.
const PROMPT: &str = "Why is it that stream, stream_options, max_tokens, max_completion_tokens, response_format, logprobs, \
                      reasoning_content and tool_call_id are not supported, unknown or unexpected?";

/// The parts by their name in a report, each with the places that a server may name.
fn parts() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        (
            "response_format",
            vec![
                json!(["response_format"]),
                json!(["response_format", "json_schema", "schema"]),
            ],
        ),
        ("logprobs", vec![json!(["logprobs"]), json!(["top_logprobs"])]),
        (
            "provider_fields",
            vec![json!(["messages", 1, "reasoning_content"])],
        ),
        (
            "tool_call_id",
            vec![
                json!(["messages", 1, "tool_calls", 0, "id"]),
                json!(["messages", 2, "tool_call_id"]),
            ],
        ),
        ("max_tokens", vec![json!(["max_tokens"])]),
        (
            "stream_options",
            vec![
                json!(["stream_options"]),
                json!(["stream_options", "include_usage"]),
            ],
        ),
        ("stream", vec![json!(["stream"])]),
    ]
}

/// A request with all of them.
fn everything() -> Value {
    json!({
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "reasoning_content": "I echo.", "tool_calls": [
                {"id": "call_8hYl2ZkT0aBcDeF", "type": "function", "function": {"name": "echo", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_8hYl2ZkT0aBcDeF", "content": "tea"},
            {"role": "user", "content": PROMPT},
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "logprobs": true, "top_logprobs": 20, "max_tokens": 9,
    })
}

/// A request with those alone that every request has.
fn little() -> Value {
    json!({"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 9})
}

/// The parts that a request has.
fn present(request: &ReceivedRequest) -> Vec<&'static str> {
    let body = &request.body;
    let messages = request.messages();
    let any = |pointer: &str, is: fn(&Value) -> bool| {
        messages
            .iter()
            .filter_map(|message| message.pointer(pointer))
            .any(is)
    };
    let is_foreign = |id: &Value| id.as_str().is_some_and(|id| id.len() != 9);
    let mut parts = Vec::new();
    for (part, is_there) in [
        ("response_format", body.get("response_format").is_some()),
        (
            "logprobs",
            body.get("logprobs").is_some() || body.get("top_logprobs").is_some(),
        ),
        ("provider_fields", any("/reasoning_content", |_| true)),
        (
            "tool_call_id",
            any("/tool_calls/0/id", is_foreign) || any("/tool_call_id", is_foreign),
        ),
        ("max_tokens", body.get("max_tokens").is_some()),
        ("stream_options", body.get("stream_options").is_some()),
        ("stream", body["stream"] == true),
    ] {
        if is_there {
            parts.push(part);
        }
    }
    parts
}

/// How a server writes the place: `messages[1].tool_calls[0].id`.
fn path(place: &Value) -> String {
    let segments = (0_usize..).zip(place.as_array().unwrap());
    segments
        .map(|(at, segment)| match segment.as_str() {
            Some(name) if at == 0 => name.to_owned(),
            Some(name) => format!(".{name}"),
            None => format!("[{segment}]"),
        })
        .collect()
}

/// A form of a refusal: its name, its content type and its body.
type Form = (&'static str, &'static str, String);

/// The forms of a refusal that names this place.
fn forms(place: &Value) -> Vec<Form> {
    let path = path(place);
    let json = |name, body: Value| (name, "application/json", body.to_string());
    let loc: Vec<Value> = [json!("body")]
        .into_iter()
        .chain(place.as_array().unwrap().clone())
        .collect();
    let extra = json!({"type": "extra_forbidden", "loc": loc, "msg": "Extra inputs are not permitted", "input": PROMPT});
    let sentence = format!("Unsupported parameter: '{path}' is not supported with this model.");
    let inner = json!({"error": {"message": sentence, "type": "invalid_request_error", "param": path}});
    vec![
        json(
            "param",
            json!({"error": {
                "message": "This is not supported here.", "type": "invalid_request_error", "param": path, "code": null,
            }}),
        ),
        json(
            "param beside other words",
            json!({"error": {
                "message": sentence, "type": "invalid_request_error", "param": path, "code": "unsupported_parameter",
            }}),
        ),
        json(
            "message",
            json!({"error": {"message": sentence, "type": "invalid_request_error", "param": null}}),
        ),
        json(
            "status of its own",
            json!([{"error": {
                "code": 400, "status": "INVALID_ARGUMENT",
                "message": format!("Invalid JSON payload received. Unknown name \"{path}\": Cannot find field."),
            }}]),
        ),
        json("list", json!({"detail": [extra]})),
        json(
            "older list",
            json!({"detail": [{"loc": loc, "msg": "extra fields not permitted", "type": "value_error.extra"}]}),
        ),
        json(
            "list in a message",
            json!({"object": "error", "message": {"detail": [extra]}, "type": "invalid_request_error"}),
        ),
        json("detail", json!({"detail": sentence})),
        json("text of an error", json!({"error": sentence})),
        json(
            "top level",
            json!({"object": "error", "message": sentence, "type": "BadRequestError"}),
        ),
        json(
            "list of errors",
            json!({"success": false, "errors": [{"code": 7003, "message": sentence}]}),
        ),
        json(
            "nested as JSON",
            json!({"error": {"message": inner.to_string(), "type": "invalid_request_error", "param": null}}),
        ),
        json(
            "nested as text",
            json!({"error": {
                "message": format!(
                    "proxy.BadRequestError: Error code: 400 - {{'error': {{'message': '{path} is not allowed', 'param': None}}}}"
                ),
                "type": null, "param": "None", "code": "400",
            }}),
        ),
        json(
            "raw beside the message",
            json!({"error": {
                "message": "Provider returned error", "code": 400, "metadata": {"raw": inner.to_string()},
            }}),
        ),
        ("bare text", "text/plain", format!("unknown field `{path}`")),
        (
            "page",
            "text/html",
            format!("<html><body><p>unexpected field {path}</p></body></html>"),
        ),
    ]
}

/// How the refusal and the answer arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Delivery {
    Status(u16),
    /// In an answer that began with 200, as a whole.
    InWhole,
    /// In a stream that began with 200.
    InStream,
}

/// The refusal as it arrives, if the form can arrive so.
fn deliver((name, content_type, body): &Form, delivery: Delivery) -> Option<Reply> {
    // What says no message is no error of an answer.
    let is_error = *content_type == "application/json"
        && !["list in a message", "raw beside the message"].contains(name);
    match delivery {
        Delivery::Status(status) => Some(Reply::raw(status, content_type, body.clone())),
        Delivery::InWhole => is_error.then(|| Reply::raw(200, content_type, body.clone())),
        Delivery::InStream => is_error.then(|| Reply::events([body.as_str(), "[DONE]"])),
    }
}

fn client() -> HttpClient {
    HttpClient::new(&HttpOptions::default()).unwrap()
}

/// A driver that has learnt nothing.
fn calls_of(client: &HttpClient, server: &ModelServer) -> HttpModelCalls {
    calls_through(client.clone(), &agent_of(server, ""), &Env::empty()).unwrap()
}

/// The answer to a question, and the parts that were adapted, each as often as it was reported.
async fn question(calls: &HttpModelCalls, body: &Value) -> (Result<String, BackendError>, Vec<String>) {
    let request = ModelRequest {
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        body: body.clone().into(),
        unit: None,
    };
    let mut deltas = calls.call(&request, &CancellationToken::new()).await.unwrap();
    let (mut text, mut adapted) = (String::new(), Vec::new());
    while let Some(delta) = deltas.next().await {
        match delta {
            Ok(ModelDelta::Text(more)) => text.push_str(&more),
            Ok(ModelDelta::Adapted(adaptation)) => adapted.push(adaptation.part),
            Ok(_) => {}
            Err(error) => return (Err(error), adapted),
        }
    }
    (Ok(text), adapted)
}

#[tokio::test]
async fn a_refused_part_is_adapted_once_whatever_the_form_of_the_refusal() {
    let client = client();
    let deliveries = [400, 422, 500, 501].map(Delivery::Status);
    let mut wrong = Vec::new();
    let mut cells = 0_usize;
    for (part, places) in parts() {
        for (place, delivery) in places.iter().flat_map(|place| {
            deliveries
                .into_iter()
                .chain([Delivery::InWhole, Delivery::InStream])
                .map(move |delivery| (place, delivery))
        }) {
            for form in forms(place) {
                let Some(refusal) = deliver(&form, delivery) else {
                    continue;
                };
                {
                    cells += 1;
                    // Each form has both, at different places.
                    let is_whole = cells.is_multiple_of(2);
                    let refusal = refusal.clone();
                    let server = ModelServer::answering(move |request| {
                        if present(request).contains(&part) {
                            refusal.clone()
                        } else if is_whole || request.body["stream"] == false {
                            Reply::text("fine").as_json()
                        } else {
                            Reply::text("fine")
                        }
                    });
                    let calls = calls_of(&client, &server);
                    let mut seen = Vec::new();
                    for _ in 0..2 {
                        let (text, adapted) = question(&calls, &everything()).await;
                        seen.push((text.unwrap_or_else(|error| error.to_string()), adapted));
                    }
                    let requests: Vec<Vec<&str>> = server.finish().iter().map(present).collect();
                    let others = || {
                        // Without a stream there are no options of one.
                        let is_implied = |name: &str| part == "stream" && name == "stream_options";
                        let all = parts().into_iter().map(|(name, _)| name);
                        all.filter(|name| *name != part && !is_implied(name))
                            .collect::<Vec<_>>()
                    };
                    let all: Vec<&str> = parts().into_iter().map(|(name, _)| name).collect();
                    let answered = ("fine".to_owned(), vec![part.to_owned()]);
                    if seen != [answered.clone(), answered] || requests != [all, others(), others()] {
                        wrong.push(format!(
                            "{part} at {place} as {} by {delivery:?}, whole: {is_whole}: {} requests, {seen:?}",
                            form.0,
                            requests.len()
                        ));
                    }
                }
            }
        }
    }
    assert!(cells > 700, "{cells}");
    assert!(
        wrong.is_empty(),
        "{} of {cells}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Errors that have the names of parts in them and are about something else.
fn mentions() -> Vec<(&'static str, Vec<u16>, Value)> {
    let error = |message: String, code: Value, param: Value| json!({"error": {"message": message, "type": "invalid_request_error", "code": code, "param": param}});
    let quoted: String = PROMPT.chars().take(60).collect();
    vec![
        (
            "a filter without a code",
            vec![400, 403, 422],
            error(
                format!("Invalid prompt: your prompt was flagged as potentially violating our usage policy: {PROMPT}"),
                json!("invalid_prompt"),
                Value::Null,
            ),
        ),
        (
            "a filter of the input",
            vec![400, 403, 422],
            error(
                format!("Input data may contain inappropriate content. stream_options, max_tokens, {quoted}"),
                json!("data_inspection_failed"),
                Value::Null,
            ),
        ),
        (
            "a moderation",
            vec![400, 403, 422],
            json!({"error": {"code": 403, "message": "Your chosen model requires moderation and your input was flagged",
                "metadata": {"reasons": ["stream"], "flagged_input": PROMPT}}}),
        ),
        (
            "a rate limit",
            vec![400, 403, 422, 429],
            error(
                "Rate limit reached for requests with stream: max_tokens, stream_options and response_format are not \
                 supported until you slow down"
                    .to_owned(),
                json!("rate_limit_exceeded"),
                Value::Null,
            ),
        ),
        (
            "a quota",
            vec![400, 403, 429],
            error(
                "You exceeded your current quota; max_tokens and stream are not allowed".to_owned(),
                json!("insufficient_quota"),
                Value::Null,
            ),
        ),
        (
            "a wrong key",
            vec![400, 401, 403],
            error(
                "Incorrect API key provided: stream*******logprobs, unknown or unexpected".to_owned(),
                json!("invalid_api_key"),
                Value::Null,
            ),
        ),
        (
            "a key without a code",
            vec![400, 401, 403],
            json!({"detail": "API key not valid: stream_options, max_tokens, response_format are not allowed"}),
        ),
        (
            "a length",
            vec![400, 413, 422],
            error(
                "This model's maximum context length is 10 tokens; max_tokens or max_completion_tokens is unsupported \
                 with a stream of this length, and so is response_format"
                    .to_owned(),
                json!("context_length_exceeded"),
                json!("messages"),
            ),
        ),
        (
            "content of a message, by its param",
            vec![400, 422],
            error(
                format!("Invalid content: '{PROMPT}'"),
                Value::Null,
                json!("messages[3].content"),
            ),
        ),
        (
            "content of a message, in a list",
            vec![400, 422],
            json!({"detail": [{"type": "string_type", "loc": ["body", "messages", 3, "content"],
                "msg": "Input should be a valid string", "input": PROMPT}]}),
        ),
        (
            "a missing field, with the whole request",
            vec![400, 422],
            json!({"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required",
                "input": with_transport(everything())}]}),
        ),
        (
            "a model of this name",
            vec![404],
            error(
                "The model `streamlake-logprob` does not exist or you have no access to it.".to_owned(),
                json!("model_not_found"),
                json!("model"),
            ),
        ),
        (
            "a model of this name, without a param",
            vec![404],
            json!({"detail": "model streaming-1 not found"}),
        ),
    ]
}

/// As it is sent.
fn with_transport(mut body: Value) -> Value {
    let fields = body.as_object_mut().unwrap();
    fields.insert("stream".to_owned(), json!(true));
    fields.insert("stream_options".to_owned(), json!({"include_usage": true}));
    body
}

#[tokio::test]
async fn an_error_that_only_mentions_a_part_adapts_nothing() {
    let client = client();
    let mut wrong = Vec::new();
    for (name, statuses, body) in mentions() {
        for status in statuses {
            for sent in [everything(), little()] {
                let reply = Reply::error(status, &body);
                let server = ModelServer::answering(move |_| reply.clone());
                let calls = calls_of(&client, &server);
                let (answer, adapted) = question(&calls, &sent).await;
                let requests: Vec<Vec<&str>> = server.finish().iter().map(present).collect();
                let first = requests[0].clone();
                // A limit passes.
                let is_limit = status == 429 && name == "a rate limit";
                let count = if is_limit { 4 } else { 1 };
                if requests != vec![first; count]
                    || !adapted.is_empty()
                    || answer.is_ok_and(|text| !text.is_empty())
                {
                    let is_full = sent.get("logprobs").is_some();
                    wrong.push(format!(
                        "{name}, {status}, everything: {is_full}: {requests:?}, {adapted:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn an_error_of_content_that_quotes_the_question_adapts_nothing() {
    let client = client();
    let cut: String = PROMPT.chars().take(70).collect();
    for message in [
        format!("Invalid content: '{PROMPT}'"),
        format!("Cannot read \"{cut}...\""),
        format!("Cannot read {}", Value::from(PROMPT)),
        format!("CANNOT READ {}", PROMPT.to_uppercase()),
    ] {
        for body in [
            json!({"error": {"message": message, "param": null}}).to_string(),
            json!({"detail": message}).to_string(),
            json!({"message": message}).to_string(),
            message.clone(),
        ] {
            for status in [400, 403, 404, 422] {
                let reply = Reply::raw(status, "application/json", body.clone());
                let server = ModelServer::answering(move |_| reply.clone());
                let calls = calls_of(&client, &server);
                let (answer, adapted) = question(&calls, &little()).await;
                assert!(answer.is_err() && adapted.is_empty(), "{status}: {body}");
                let requests: Vec<Vec<&str>> = server.finish().iter().map(present).collect();
                assert_eq!(
                    requests,
                    [["max_tokens", "stream_options", "stream"]],
                    "{status}: {body}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_at_the_server_is_no_refusal_of_streams() {
    let client = client();
    for (status, message) in [
        (
            500,
            "stream error: stream ID 3; INTERNAL_ERROR; received from peer",
        ),
        (500, "the stream was disconnected before completion"),
        (502, "streaming is not supported while the upstream is down"),
        (503, "too many streams"),
    ] {
        for is_in_answer in [false, true] {
            let failure = if is_in_answer {
                Reply::events([json!({"error": {"message": message, "code": status}})
                    .to_string()
                    .as_str()])
            } else {
                Reply::openai_error(status, message, None, None)
            };
            let count = std::sync::atomic::AtomicUsize::new(0);
            let server = ModelServer::answering(move |_| {
                match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                    0 => failure.clone(),
                    _ => Reply::text("fine"),
                }
            });
            let calls = calls_of(&client, &server);
            let (answer, adapted) = question(&calls, &little()).await;
            assert_eq!(
                (answer.unwrap().as_str(), adapted),
                ("fine", vec![]),
                "{status} {message}"
            );
            let requests: Vec<Vec<&str>> = server.finish().iter().map(present).collect();
            assert_eq!(
                requests,
                [["max_tokens", "stream_options", "stream"]; 2],
                "{status} {message}"
            );
        }
    }
}
