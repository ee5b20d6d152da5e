//! Tests that the scripted chat server streams, cuts, gates and refuses as scripted.

use futures::StreamExt as _;
use holodeck_http::{
    CallOptions, Headers, HttpClient, HttpError, HttpOptions, HttpUrl, Response, RetryPolicy,
};
use holodeck_testkit::{Gate, ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn body() -> Value {
    json!({
        "model": "m",
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi"}],
    })
}

async fn post_to(server: &ModelServer, path: &str, body: &Value) -> Result<Response, HttpError> {
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    let url = HttpUrl::parse(&server.url()).unwrap().join(path);
    let options = CallOptions {
        timeout: None,
        retry: RetryPolicy::none(),
        pacer: None,
    };
    client.post_json(&url, &Headers::new(), body, &options).await
}

async fn post(server: &ModelServer) -> Result<Response, HttpError> {
    post_to(server, "v1/chat/completions", &body()).await
}

/// The data of each event, and the error the stream ended with.
async fn events(response: Response) -> (Vec<String>, Option<HttpError>) {
    let mut stream = response.events().await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event.data),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

fn text_of(events: &[String]) -> String {
    let deltas = events
        .iter()
        .filter_map(|data| serde_json::from_str::<Value>(data).ok());
    deltas
        .filter_map(|chunk| {
            chunk["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
}

#[tokio::test]
async fn text_is_streamed_in_pieces_with_usage_and_done() {
    let server = ModelServer::replies([Reply::text("hello world").in_pieces(3)]);
    let (events, error) = events(post(&server).await.unwrap()).await;
    assert!(error.is_none());
    assert_eq!(text_of(&events), "hello world");
    assert_eq!(events.len(), 1 + 3 + 1 + 1 + 1);
    assert_eq!(events.last().unwrap(), "[DONE]");
    let requests = server.finish();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(requests[0].texts("user"), ["hi"]);
}

#[tokio::test]
async fn a_body_split_anywhere_holds_the_same_events() {
    let reply = Reply::text("hällo").and_tool_call("c", "f", "{}").in_pieces(2);
    let server = ModelServer::replies([reply.clone(), reply.split_every(7)]);
    let (whole, _) = events(post(&server).await.unwrap()).await;
    let (split, _) = events(post(&server).await.unwrap()).await;
    assert_eq!(whole, split);
    server.finish();
}

#[tokio::test]
async fn what_was_sent_before_a_cut_arrives() {
    let server = ModelServer::replies([
        Reply::text("abc").in_pieces(3).cut_after(3),
        Reply::text("abc").in_pieces(3).stop_after(2),
    ]);
    let (cut, error) = events(post(&server).await.unwrap()).await;
    assert_eq!(text_of(&cut), "ab");
    assert!(matches!(error, Some(HttpError::Body { .. })), "{error:?}");
    let (stopped, error) = events(post(&server).await.unwrap()).await;
    assert_eq!(text_of(&stopped), "a");
    assert!(error.is_none());
    server.finish();
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_request() {
    let server = ModelServer::replies([Reply::hang(), Reply::text("ab").in_pieces(2).hang_after(2)]);
    {
        let hanging = post(&server);
        let mut hanging = std::pin::pin!(hanging);
        tokio::select! {
            _ = &mut hanging => panic!("it does not hang"),
            () = server.until_open(1) => {}
        }
    }
    server.until_open(0).await;
    let response = post(&server).await.unwrap();
    assert_eq!(server.open(), 1);
    drop(response);
    server.until_open(0).await;
    server.finish();
}

#[tokio::test]
async fn a_gate_holds_a_reply_back() {
    let gate = Gate::new();
    let server = ModelServer::replies([Reply::text("now").behind(&gate)]);
    let (response, ()) = tokio::join!(post(&server), async {
        server.until_open(1).await;
        gate.open();
    });
    assert_eq!(text_of(&events(response.unwrap()).await.0), "now");
    server.finish();
}

#[tokio::test]
async fn errors_pages_and_floods() {
    let server = ModelServer::replies([
        Reply::openai_error(429, "slow down", Some("rate_limit"), None).retry_after(7),
        Reply::html(200, "Sign in"),
        Reply::flood(1_000_000),
        Reply::text("{}").as_json(),
    ]);
    let error = post(&server).await.unwrap_err();
    assert_eq!(
        (error.status(), error.retry_after().unwrap().as_secs()),
        (Some(429), 7)
    );
    let page = post(&server).await.unwrap();
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let (flood, error) = events(post(&server).await.unwrap()).await;
    assert!(error.is_none());
    assert!(text_of(&flood).len() >= 1_000_000);
    let object = post(&server).await.unwrap().json().await.unwrap();
    assert_eq!(object["choices"][0]["message"]["content"], "{}");
    server.finish();
}

#[tokio::test]
async fn a_wrong_request_is_answered_and_remembered() {
    let server = ModelServer::replies([]);
    let error = post_to(&server, "chat/completions", &json!({"messages": []}))
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(400));
    let received = server.finish_unchecked();
    assert_eq!(
        received.violations,
        [
            "request 1: `stream` does not say whether to stream",
            "request 1: `model` is missing",
            "request 1: `messages` is no list with something in it",
        ]
    );
}

#[tokio::test]
#[should_panic(expected = "1 scripted replies were never asked for")]
async fn a_reply_left_over_fails_the_test() {
    ModelServer::replies([Reply::text("unused")]).finish();
}

#[tokio::test]
#[should_panic(expected = "the script has no reply left")]
async fn a_request_too_many_fails_the_test() {
    let server = ModelServer::replies([]);
    assert!(post(&server).await.is_err());
}

#[tokio::test]
async fn another_path_is_not_found() {
    let server = ModelServer::answering(|_| Reply::text("x"));
    let error = post_to(&server, "v2/completions", &body()).await.unwrap_err();
    assert_eq!(error.status(), Some(404));
    server.finish();
}

#[tokio::test]
async fn canned_answers_need_no_valid_request() {
    let server = ModelServer::canned(&Reply::text("hi"));
    let (answer, _) = events(post_to(&server, "any", &Value::Null).await.unwrap()).await;
    assert_eq!(text_of(&answer), "hi");
    assert!(server.finish().is_empty());
}
