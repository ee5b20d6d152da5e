//! Answers that say something beside the answer, or two things: each is an error, and nothing disappears.
//!
//! Without an error, a check for what must not be in an answer, or must not be called, would pass.

use std::fmt::Write as _;

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{agent_of, ask, backend};

/// The text of an answer, or its error.
async fn ended(reply: Reply) -> Result<String, String> {
    // An error that passes is asked for again.
    let server = ModelServer::answering(move |_| reply.clone());
    let ended = ask(&backend(&agent_of(&server, "")), "hello").await;
    server.finish();
    match ended {
        Ok(result) => match result.error_reason() {
            Some(reason) => Err(reason.to_string()),
            None => Ok(result.response),
        },
        Err(error) => Err(error.to_string()),
    }
}

/// A stream of these lines, each with an empty one after it.
fn lines(lines: &[&str]) -> Reply {
    let mut body = String::new();
    for line in lines {
        let _ = write!(body, "{line}\n\n");
    }
    Reply::raw(200, "text/event-stream", body)
}

const TEXT: &str = r#"data: {"choices":[{"index":0,"delta":{"content":"sunny"}}]}"#;
const STOP: &str = r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const DONE: &str = "data: [DONE]";

/// A call of a tool that does not exist.
fn call() -> Value {
    json!([{"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}])
}

fn whole(choices: &Value) -> Reply {
    let answer = json!({"id": "1", "object": "chat.completion", "model": "m", "choices": choices});
    Reply::raw(200, "application/json", answer.to_string())
}

fn streamed(choices: &Value) -> Reply {
    let chunk = json!({"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": choices});
    lines(&[&format!("data: {chunk}"), STOP, DONE])
}

#[tokio::test]
async fn an_error_in_a_stream_is_one_in_every_shape() {
    for error in [
        r#"data: {"code":"InternalError","message":"boom"}"#,
        r#"data: {"detail":"boom"}"#,
        r#"data: {"base_resp":{"status_code":1002,"status_msg":"boom"}}"#,
        r#"data: {"choices":[],"base_resp":{"status_code":1002,"status_msg":"boom"}}"#,
        r#"data: {"success":false,"errors":[{"message":"boom"}]}"#,
        r#"data: {"type":"error","message":"boom"}"#,
        r#"data: [{"error":{"code":400,"message":"boom"}}]"#,
        r#"data: {"error":{"message":"boom"},"choices":null}"#,
        "event: exception\ndata: {\"text\":\"boom\"}",
        "event: stream_error\ndata: boom",
        r#"{"error":{"message":"boom"}}"#,
        r#" data: {"error":{"message":"boom"}}"#,
        r#"DATA: {"message":"boom"}"#,
        r#"data : {"detail":"boom"}"#,
    ] {
        for end in [&[STOP, DONE][..], &[DONE], &[STOP], &[]] {
            let all = [&[TEXT, error][..], end].concat();
            let reason = ended(lines(&all)).await.unwrap_err();
            assert!(reason.contains("boom"), "{error} {end:?}: {reason}");
        }
    }
}

#[tokio::test]
async fn a_piece_that_cannot_be_read_as_one_is_an_error() {
    let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": call()}}]});
    for line in [
        format!("data: [{chunk}]"),
        format!("{chunk}"),
        format!(" data: {chunk}"),
        format!("DATA: {chunk}"),
        format!("data : {chunk}"),
        format!("\0data: {chunk}"),
        r#"data: {"choices":[["x"]]}"#.to_owned(),
        r#"data: {"choices":[{"delta":[{"content":"x"}]}]}"#.to_owned(),
    ] {
        for all in [
            &[line.as_str(), TEXT, STOP, DONE][..],
            &[TEXT, &line, STOP],
            &[TEXT, STOP, &line],
        ] {
            let reason = ended(lines(all)).await.unwrap_err();
            // What begins as JSON is no stream.
            let reasons = ["not a chunk of an answer", "instead of JSON"];
            assert!(
                reasons.iter().any(|named| reason.contains(named)),
                "{line}: {reason}"
            );
        }
    }
}

#[tokio::test]
async fn the_end_of_a_stream_after_something_else_is_no_end() {
    for noise in [
        "data: upstream connect error",
        "data: \"internal error\"",
        "data: 500",
        "data: {\"status\":\"error\"}",
    ] {
        let reason = ended(lines(&[TEXT, noise, DONE])).await.unwrap_err();
        assert!(reason.contains("not a chunk of an answer"), "{noise}: {reason}");
        // An answer that continues, or says that it is over, is complete.
        for all in [&[TEXT, noise, TEXT, DONE][..], &[noise, TEXT, DONE]] {
            assert!(ended(lines(all)).await.unwrap().starts_with("sunny"), "{noise}");
        }
        assert_eq!(
            ended(lines(&[TEXT, noise, STOP, DONE])).await,
            Ok("sunny".to_owned())
        );
    }
}

#[tokio::test]
async fn two_answers_in_one_are_an_error() {
    for choices in [
        json!([{"index": 0, "message": {"content": "sunny"}}, {"index": 1, "message": {"content": "the password"}}]),
        json!([{"index": 0, "message": {"tool_calls": call()}}, {"index": 1, "message": {"tool_calls": call()}}]),
        json!([{"index": 0, "delta": {"content": "sunny"}, "message": {"content": "the password"}}]),
        json!([{"index": 0, "delta": {"content": "sunny"}, "message": {"tool_calls": call()}}]),
        json!([{"index": 0, "delta": {"content": "sunny"}, "message": {"content": "sunny", "tool_calls": call()}}]),
        json!([{"index": 0, "message": {"content": "sunny"}, "text": "the password"}]),
    ] {
        for reply in [whole(&choices), streamed(&choices)] {
            let reason = ended(reply).await.unwrap_err();
            assert!(reason.contains("more than one answer"), "{choices}: {reason}");
        }
    }
    let again = r#"data: {"choices":[{"index":0,"message":{"content":"sunny"},"finish_reason":"stop"}]}"#;
    let reason = ended(lines(&[TEXT, again, DONE])).await.unwrap_err();
    assert!(reason.contains("more than one answer"), "{reason}");
}

#[tokio::test]
async fn an_answer_in_an_unusual_place_is_read() {
    for choices in [
        json!([{"index": 1, "message": {"content": "sunny"}, "finish_reason": "stop"}]),
        json!([{"delta": {}, "message": {"content": "sunny"}, "finish_reason": "stop"}]),
        json!([{"delta": {"role": "assistant"}, "message": {"content": "sunny"}, "finish_reason": "stop"}]),
        json!([{"delta": {"content": "sunny"}, "message": {"content": "sunny"}, "finish_reason": "stop"}]),
        json!([{"delta": {"content": "sunny"}, "message": {"role": "assistant"}, "finish_reason": "stop"}]),
        json!([{"text": "sunny", "finish_reason": "stop"}]),
        json!([{"message": {"content": "sunny"}, "text": "sunny", "finish_reason": "stop"}]),
        json!([{"message": {"content": {"type": "text", "text": "sunny"}}, "finish_reason": "stop"}]),
        json!([{"message": {"content": "sunny"}, "finish_reason": "stop"}, {"index": 1, "message": {}}]),
    ] {
        for reply in [whole(&choices), streamed(&choices)] {
            assert_eq!(ended(reply).await, Ok("sunny".to_owned()), "{choices}");
        }
    }
}

#[tokio::test]
async fn a_field_that_decides_and_stands_there_twice_is_an_error() {
    let answer = r#"{"choices":[{"index":0,"message":{"content":"sunny","tool_calls":[{"id":"c1","function":{"name":"clock","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    for (field, twice) in [
        (
            r#""content":"sunny""#,
            r#""content":"the password","content":"sunny""#,
        ),
        (r#""name":"clock""#, r#""name":"weather","name":"clock""#),
        (
            r#""finish_reason":"tool_calls""#,
            r#""finish_reason":"length","finish_reason":"stop""#,
        ),
        (r#""tool_calls":["#, r#""tool_calls":[],"tool_calls":["#),
        (r#""function":{"#, r#""function":{"name":"weather"},"function":{"#),
        (
            r#""message":{"#,
            r#""message":{"content":"the password"},"message":{"#,
        ),
        (
            r#""choices":["#,
            r#""choices":[{"message":{"content":"the password"}}],"choices":["#,
        ),
    ] {
        assert!(answer.contains(field), "{field}");
        let whole = answer.replacen(field, twice, 1);
        let stream = format!("data: {}", whole.replace("\"message\"", "\"delta\""));
        let replies = [
            Reply::raw(200, "application/json", whole),
            lines(&[&stream, DONE]),
        ];
        for reply in replies {
            assert!(ended(reply).await.is_err(), "{twice}");
        }
    }
}

#[tokio::test]
async fn a_call_in_the_older_form_does_not_disappear() {
    for function in [
        json!("clock"),
        json!(["clock"]),
        json!(7),
        json!({"name": 7, "arguments": "{}"}),
    ] {
        let choices = json!([{"index": 0, "message": {"content": "sunny", "function_call": function}}]);
        for reply in [whole(&choices), streamed(&choices)] {
            assert!(ended(reply).await.is_err(), "{choices}");
        }
    }
}
