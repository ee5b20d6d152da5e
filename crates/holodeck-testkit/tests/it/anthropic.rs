//! Tests that the scripted Messages API streams and refuses like the real one.

use futures::StreamExt as _;
use holodeck_http::{
    CallOptions, Headers, HttpClient, HttpError, HttpOptions, HttpUrl, Response, RetryPolicy,
};
use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer, Gate, ToolResult};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn body() -> Value {
    json!({
        "model": "claude-x",
        "max_tokens": 100,
        "stream": true,
        "messages": [{"role": "user", "content": "hi"}],
    })
}

async fn post_to(server: &AnthropicServer, path: &str, body: &Value) -> Result<Response, HttpError> {
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    let url = HttpUrl::parse(&server.url()).unwrap().join(path);
    let mut headers = Headers::new();
    headers.insert("anthropic-version", "2023-06-01").unwrap();
    headers.insert("x-api-key", "k").unwrap();
    let options = CallOptions {
        timeout: None,
        retry: RetryPolicy::none(),
        pacer: None,
    };
    client.post_json(&url, &headers, body, &options).await
}

async fn post(server: &AnthropicServer) -> Result<Response, HttpError> {
    post_to(server, "v1/messages", &body()).await
}

/// The data of each event, and the error the stream ended with.
async fn events(response: Response) -> (Vec<Value>, Option<HttpError>) {
    let mut stream = response.events().await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(serde_json::from_str(&event.data).unwrap()),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn blocks_are_streamed_as_the_api_does() {
    let reply = AnthropicReply::nothing()
        .and_thinking("hm", "seal")
        .and_text("one two")
        .and_tool_use_as("toolu_1", "f", r#"{"a":1}"#)
        .in_pieces(2)
        .tokens(7, 3)
        .cached(2, 1);
    let server = AnthropicServer::replies([reply]);
    let (events, error) = events(post(&server).await.unwrap()).await;
    assert!(error.is_none());
    insta::assert_snapshot!(
        events
            .iter()
            .map(|event| event
                .to_string()
                .replace(events[0]["message"]["id"].as_str().unwrap(), "msg_…"))
            .collect::<Vec<_>>()
            .join("\n")
    );
    server.finish();
}

#[tokio::test]
async fn ids_are_never_the_same() {
    let server = AnthropicServer::answering(|_| {
        AnthropicReply::tool_use("f", &json!({})).and_tool_use("f", &json!({}))
    });
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (events, _) = events(post(&server).await.unwrap()).await;
        for event in &events {
            for id in [&event["message"]["id"], &event["content_block"]["id"]] {
                ids.extend(id.as_str().map(str::to_owned));
            }
        }
    }
    assert_eq!(ids.len(), 6);
    assert!(
        ids.iter()
            .all(|id| id.starts_with("msg_0") || id.starts_with("toolu_0"))
    );
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    server.finish();
}

#[tokio::test]
async fn who_asks_for_no_stream_gets_one_object() {
    let server = AnthropicServer::replies([AnthropicReply::text("hi").stop_sequence("END")]);
    let mut request = body();
    request.as_object_mut().unwrap().shift_remove("stream");
    let response = post_to(&server, "v1/messages", &request).await.unwrap();
    let object = response.json().await.unwrap();
    assert_eq!(object["content"], json!([{"type": "text", "text": "hi"}]));
    assert_eq!(object["model"], "claude-x");
    assert_eq!(
        (&object["stop_reason"], &object["stop_sequence"]),
        (&json!("stop_sequence"), &json!("END"))
    );
    server.finish();
}

#[tokio::test]
async fn a_request_tells_what_the_model_was_shown() {
    let server = AnthropicServer::replies([AnthropicReply::text("done").stop_reason("refusal")]);
    let request = json!({
        "model": "claude-x", "max_tokens": 100, "stream": true,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "reminder"}, {"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": [{"type": "text", "text": "no"}]},
            ]},
            {"role": "system", "content": "1000 tokens left"},
        ],
    });
    let (events, _) = events(post_to(&server, "v1/messages", &request).await.unwrap()).await;
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "refusal");
    let requests = server.finish();
    let request: &AnthropicRequest = &requests[0];
    assert_eq!(
        (request.model(), request.system()),
        ("claude-x", vec!["Be brief."])
    );
    assert_eq!((request.tool_names(), request.prompt()), (vec!["f"], "hi"));
    assert_eq!(
        request.tool_results(),
        [ToolResult {
            tool_use_id: "t".to_owned(),
            text: "no".to_owned(),
            is_error: true
        }]
    );
    assert_eq!(request.header("x-api-key"), Some("k"));
}

#[tokio::test]
async fn a_gate_holds_back_what_follows() {
    let gate = Gate::new();
    let server = AnthropicServer::replies([AnthropicReply::text("ab").in_pieces(2).gated_after(3, &gate)]);
    let mut stream = post(&server).await.unwrap().events().await.unwrap();
    for kind in ["message_start", "content_block_start", "content_block_delta"] {
        assert_eq!(stream.next().await.unwrap().unwrap().event, kind);
    }
    assert!(futures::FutureExt::now_or_never(stream.next()).is_none());
    server.until_asked(1).await;
    gate.open();
    assert_eq!(stream.count().await, 4);
    server.finish();
}

#[tokio::test]
async fn errors_come_as_a_status_or_within_the_stream() {
    let server = AnthropicServer::replies([
        AnthropicReply::error(529, "Overloaded"),
        AnthropicReply::error(429, "slow down").retry_after(7),
        AnthropicReply::text("abc").fails_after(2, "overloaded_error", "Overloaded"),
        AnthropicReply::text("abc").cut_after(2),
    ]);
    let overloaded = post(&server).await.unwrap_err();
    assert_eq!(overloaded.status(), Some(529));
    let limited = post(&server).await.unwrap_err();
    assert_eq!(limited.retry_after().unwrap().as_secs(), 7);
    let (failed, error) = events(post(&server).await.unwrap()).await;
    assert!(error.is_none());
    assert_eq!(kinds(&failed), ["message_start", "content_block_start", "error"]);
    assert_eq!(failed[2]["error"]["type"], "overloaded_error");
    let (cut, error) = events(post(&server).await.unwrap()).await;
    assert_eq!(kinds(&cut), ["message_start", "content_block_start"]);
    assert!(matches!(error, Some(HttpError::Body { .. })), "{error:?}");
    server.finish();
}

#[tokio::test]
async fn what_else_is_asked_for_needs_no_reply() {
    let server = AnthropicServer::replies([]);
    let counted = post_to(&server, "v1/messages/count_tokens", &body())
        .await
        .unwrap();
    assert!(counted.json().await.unwrap()["input_tokens"].as_u64().unwrap() > 0);
    let unknown = post_to(&server, "api/event_logging", &body()).await.unwrap_err();
    assert_eq!(unknown.status(), Some(404));
    assert_eq!(server.others().len(), 2);
    assert!(server.finish().is_empty());
}

#[tokio::test]
async fn a_wrong_request_is_refused_and_remembered() {
    let server = AnthropicServer::replies([]);
    let mut request = body();
    request["messages"] = json!([{"role": "assistant", "content": "hi"}]);
    let error = post_to(&server, "v1/messages", &request).await.unwrap_err();
    assert_eq!(error.status(), Some(400));
    let received = server.finish_unchecked();
    assert_eq!(
        received.violations,
        [
            "request 1: the first message is not the user's",
            "request 1: the last message is not the user's",
        ]
    );
}

#[tokio::test]
#[should_panic(expected = "1 scripted replies were never asked for")]
async fn a_reply_left_over_fails_the_test() {
    AnthropicServer::replies([AnthropicReply::text("unused")]).finish();
}

#[tokio::test]
async fn a_bench_answers_unread() {
    let server = AnthropicServer::unchecked(|request| AnthropicReply::text(request.prompt()));
    let (answer, _) = events(
        post_to(
            &server,
            "v1/messages",
            &json!({"stream": true, "messages": [{"role": "user", "content": "echo"}]}),
        )
        .await
        .unwrap(),
    )
    .await;
    assert_eq!(answer[2]["delta"]["text"], "echo");
    assert!(server.finish().is_empty());
}
