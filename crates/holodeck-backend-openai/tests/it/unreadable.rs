//! Answers that cannot be understood: each makes one error that names the server, shows the first bytes without secrets and
//! says what to do next.

use holodeck_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::setup::{agent, ask, backend, model_of};

const KEY: &str = "sk-very-secret-0123";

/// A word at the beginning of every answer.
const MARK: &str = "first-bytes";

/// A message and a reason for its end, as a whole answer and as a stream of one piece.
fn in_both_forms(message: &Value, reason: &Value) -> [Reply; 2] {
    let answer = |field: &str| {
        let id = format!("{MARK} {KEY}");
        json!({"id": id, "choices": [{"index": 0, field: message, "finish_reason": reason}]}).to_string()
    };
    [
        Reply::raw(200, "application/json", answer("message")),
        Reply::events([answer("delta").as_str(), "[DONE]"]),
    ]
}

fn call(function: &Value) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})
}

/// Answers that cannot be understood, by what their error says.
fn answers() -> Vec<(&'static str, Reply)> {
    let mut answers = Vec::new();
    let twice = r#"{"city": "Oslo", "city": "Rome"}"#;
    for (said, message, reason) in [
        (
            "without a name",
            call(&json!({"arguments": "{}"})),
            json!("tool_calls"),
        ),
        (
            "without a name",
            call(&json!({"name": "", "arguments": "{}"})),
            json!("stop"),
        ),
        ("without a name", call(&Value::Null), json!("stop")),
        (
            "reported tool calls but sent none",
            json!({"content": "hm"}),
            json!("tool_calls"),
        ),
        (
            "did not complete its answer",
            json!({"content": "hm"}),
            json!("error"),
        ),
        (
            "did not complete its answer",
            json!({"content": null}),
            json!("MALFORMED_FUNCTION_CALL"),
        ),
        (
            "two readings",
            call(&json!({"name": "f", "arguments": twice})),
            json!("tool_calls"),
        ),
    ] {
        answers.extend(in_both_forms(&message, &reason).map(|reply| (said, reply)));
    }
    let choice = |index: usize, text: &str| json!({"index": index, "delta": {"content": text}, "finish_reason": "stop"});
    let several = json!({"id": MARK, "choices": [choice(0, "yes"), choice(1, "no")]}).to_string();
    answers.push((
        "more than one answer",
        Reply::events([several.as_str(), "[DONE]"]),
    ));
    let piece = |arguments: &str| {
        json!({"id": MARK, "choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": null, "arguments": arguments}}]}}]})
            .to_string()
    };
    let named = piece("{}").replace("\"name\":null", "\"name\":\"f\"");
    let stray = [named.as_str(), &piece("{\"a\": 1}"), "[DONE]"];
    answers.push(("arguments of a tool call without the call", Reply::events(stray)));
    let text = json!({"id": MARK, "choices": [{"delta": {"content": "half"}}]}).to_string();
    let ended = "the stream ended early";
    answers.push((
        ended,
        Reply::raw(200, "text/event-stream", format!("data: {text}\n\n")),
    ));
    answers.push((
        ended,
        Reply::raw(200, "text/event-stream", format!(": {MARK} {KEY}\n\n")),
    ));
    answers.push((ended, Reply::text("half an answer").model(MARK).cut_after(2)));
    for (said, kind, body) in [
        (
            "not a chunk",
            "text/event-stream",
            format!("data: {{\"{MARK} {KEY}\": [}}\n\n"),
        ),
        (
            "not a chunk",
            "text/event-stream",
            format!("data: {{\"{MARK}\": [{}{KEY}}}\n\n", "x".repeat(95)),
        ),
        (
            ended,
            "text/event-stream",
            format!(": ping\n\n{MARK} {KEY}: 1\n\n"),
        ),
        (
            "not a chunk",
            "text/event-stream",
            format!("data: {MARK} {KEY}\n\n"),
        ),
        (
            "not a chat completion",
            "application/json",
            json!({"status": MARK, "key": KEY}).to_string(),
        ),
        (
            "instead of JSON",
            "application/json",
            format!("{{\"{MARK} {KEY}\": ["),
        ),
        (
            "an HTML page",
            "text/html",
            format!("<html><title>{MARK} {KEY}</title></html>"),
        ),
        ("with text instead of", "text/plain", format!("{MARK} {KEY}")),
    ] {
        answers.push((said, Reply::raw(200, kind, body)));
    }
    answers
}

/// Answers that are encoded, or say so, though no request asks for it.
fn encoded() -> Vec<Reply> {
    // The rest is no block of its format.
    let gzip = [
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xff, 0xff,
    ];
    let mut replies = Vec::new();
    for encoding in ["gzip", "br", "zstd", "deflate", "x-odd", "gzip, br"] {
        for kind in ["application/json", "text/event-stream", "text/plain"] {
            let mut body = gzip.to_vec();
            body.extend(format!("{MARK} {KEY}").into_bytes());
            let reply = Reply::raw(200, kind, body);
            replies.push(reply.header("content-encoding", encoding));
        }
    }
    replies
}

#[tokio::test]
async fn an_encoding_that_cannot_be_read_is_named_in_place_of_its_bytes() {
    for reply in encoded() {
        let server = ModelServer::answering(move |_| reply.clone());
        let model = format!("{}\n  api_key: {KEY}", model_of(&server));
        let error = ask(&backend(&agent(&model, "")), "hello").await.unwrap_err();
        let (message, hint) = (error.to_string(), error.explanation().hint.unwrap_or_default());
        for part in [
            "is compressed with ",
            "which was not asked for",
            &format!("{}/v1/chat/completions", server.url()),
        ] {
            assert!(message.contains(part), "`{part}` is missing: {message}");
        }
        assert!(
            !message.contains("sk-very") && !message.contains(MARK),
            "{message}"
        );
        assert!(hint.contains("compression"), "{hint}");
        assert_eq!(server.finish().len(), 1);
    }
}

#[tokio::test]
async fn an_encoding_that_only_the_header_names_does_not_matter() {
    let whole = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let piece = r#"{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
    for encoding in ["utf-8", "UTF-8", "identity", "none", "gzip"] {
        for reply in [
            Reply::raw(200, "application/json", whole),
            Reply::events([piece, "[DONE]"]),
        ] {
            let server = ModelServer::replies([reply.header("content-encoding", encoding)]);
            let result = ask(&backend(&agent(&model_of(&server), "")), "hello")
                .await
                .unwrap();
            assert_eq!(result.response, "hi", "{encoding}");
            server.finish();
        }
    }
}

#[tokio::test]
async fn each_error_has_the_server_the_first_bytes_and_the_next_step() {
    for (said, reply) in answers() {
        let server = ModelServer::answering(move |_| reply.clone());
        let model = format!("{}\n  api_key: {KEY}", model_of(&server));
        let ended = ask(&backend(&agent(&model, "")), "hello").await;
        let (message, hint) = match ended {
            Err(error) => (error.to_string(), error.explanation().hint),
            Ok(result) => panic!("{said}: {result:?}"),
        };
        for part in [said, &format!("{}/v1/chat/completions", server.url()), MARK] {
            assert!(message.contains(part), "`{part}` is missing: {message}");
        }
        assert!(!message.contains("sk-very"), "{message}");
        assert!(hint.is_some(), "no next step: {message}");
        server.finish();
    }
}
