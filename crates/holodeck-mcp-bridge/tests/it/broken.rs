//! Answers that are no JSON: each is at once the error of the call that waits for it, with the server and the first bytes, and a line
//! of a log is none. Numbers keep their digits.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::field::{Scripted, rules};
use crate::setup::{call, text};

const SECRET: &str = "sesame-open-0123";

const TOOL: &str = "mcp__s__look";

/// A valid answer with its id left open.
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"sunny"}]}}"#;

/// Answers of a program that are no JSON.
fn broken() -> Vec<String> {
    let mut broken: Vec<String> = (r#"{"jsonrpc""#.len()..ANSWER.len())
        .step_by(4)
        .map(|cut| ANSWER[..cut].to_owned())
        .collect();
    for bracket in ['{', '}', '[', ']', ',', ':', '"'] {
        let places = ANSWER.match_indices(bracket).filter(|(place, _)| *place > 10);
        broken.extend(places.map(|(place, _)| format!("{}{}", &ANSWER[..place], &ANSWER[place + 1..])));
    }
    broken.push(ANSWER.replace("sunny", "su\nnny"));
    broken.push(ANSWER.replace("sunny", SECRET).replace("]}}", "]}"));
    broken.push(ANSWER.replace("@ID@", "@ID@,"));
    broken.push(
        ANSWER
            .replace("{\"jsonrpc\"", "{\n\"jsonrpc\"")
            .replace(",\"", ",\n\""),
    );
    broken.push(format!("\u{feff}{}", &ANSWER[..40]));
    broken
}

fn one_each(transport: &str, rule: impl Fn(&str) -> Value) -> (usize, Value) {
    let mut all = broken();
    // A body may have several lines.
    all.retain(|text| {
        transport == "stdio" || serde_json::from_str::<Value>(&text.replace("@ID@", "1")).is_err()
    });
    let each = all.iter().map(|text| {
        let mut rule = rule(text);
        rule["method"] = json!("tools/call");
        rule["times"] = json!(1);
        rule
    });
    (all.len(), rules(transport, each.collect::<Vec<_>>()))
}

async fn fails_at_once(count: usize, script: Value) {
    let has_headers = script["transport"] != "stdio";
    let secret = if has_headers {
        format!("headers: {{x-key: {SECRET}}}")
    } else {
        format!("env: {{KEY: {SECRET}}}")
    };
    // Nothing but an error at once ends these calls.
    let server = Scripted::with(script, &format!("request_timeout: 600\n{secret}")).await;
    let connected = server.connect().await;
    for number in 0..count {
        let output = call(&connected, TOOL, json!({})).await.unwrap();
        assert!(output.is_error, "{number}: {}", output.text);
        for part in ["the MCP server `s`", "begins with `"] {
            assert!(output.text.contains(part), "{number}: {}", output.text);
        }
        assert!(!output.text.contains("sesame"), "{number}: {}", output.text);
    }
    assert_eq!(text(&connected, TOOL, json!({})).await, "sunny");
}

#[tokio::test]
async fn a_broken_line_of_a_program_ends_the_call() {
    let (count, script) = one_each("stdio", |text| json!({ "raw": text }));
    fails_at_once(count, script).await;
}

#[tokio::test]
async fn a_broken_body_ends_the_call() {
    let (count, script) = one_each("http", |text| json!({ "raw": text }));
    fails_at_once(count, script).await;
}

#[tokio::test]
async fn a_broken_event_ends_the_call() {
    let headers = json!({ "content-type": "text/event-stream" });
    let (count, script) = one_each("http", |text| {
        let lines: Vec<String> = text.lines().map(|line| format!("data: {line}\n")).collect();
        let body = format!("event: message\n{}\n", lines.concat());
        json!({ "http": { "status": 200, "headers": headers, "body": body } })
    });
    fails_at_once(count, script).await;
}

#[tokio::test]
async fn a_broken_event_of_the_older_transport_ends_the_call() {
    let (count, script) = one_each("sse", |text| json!({ "raw": text }));
    fails_at_once(count, script).await;
}

#[tokio::test]
async fn a_broken_frame_of_a_websocket_ends_the_call() {
    let (count, script) = one_each("websocket", |text| json!({ "raw": text }));
    fails_at_once(count, script).await;
}

/// The older transport answers a request in two places: a refusal of the request itself ends the call, too.
#[tokio::test]
async fn a_request_that_the_older_transport_refuses_ends_the_call() {
    let statuses = [400, 413, 422, 500, 501];
    let refuse = |status: &i32| {
        let http = json!({ "status": status, "headers": {}, "body": format!("no {SECRET}") });
        json!({ "method": "tools/call", "times": 1, "http": http })
    };
    let script = rules("sse", statuses.iter().map(refuse).collect::<Vec<_>>());
    let more = format!("request_timeout: 600\nheaders: {{x-key: {SECRET}}}");
    let server = Scripted::with(script, &more).await;
    let connected = server.connect().await;
    for status in statuses {
        let error = match call(&connected, TOOL, json!({})).await {
            Ok(output) => {
                assert!(output.is_error, "{status}: {}", output.text);
                output.text
            }
            Err(error) => error.to_string(),
        };
        assert!(error.contains(&status.to_string()), "{status}: {error}");
        assert!(!error.contains("sesame"), "{status}: {error}");
    }
    assert_eq!(text(&connected, TOOL, json!({})).await, "sunny");
}

#[tokio::test]
async fn a_line_of_a_log_is_no_answer() {
    let logs = [
        "INFO ready",
        "{'event': 'call', 'id': 3}",
        "{ starting }",
        "[info] {\"jsonrpc\": ",
        "{\"level\": \"info\", ",
        "DEBUG sent {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{",
        "\"found\"",
        "[1, 2",
    ];
    let rule = |log: &&str| json!({ "method": "tools/call", "times": 1, "raw": format!("{log}\n{ANSWER}") });
    let script = rules("stdio", logs.iter().map(rule).collect::<Vec<_>>());
    let server = Scripted::with(script, "").await;
    let connected = server.connect().await;
    for log in logs {
        assert_eq!(text(&connected, TOOL, json!({})).await, "sunny", "{log}");
    }
}

#[tokio::test]
async fn an_answer_without_an_id_belongs_to_the_only_call() {
    let answers = [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no JSON"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{"isError":true,"content":"no JSON"}}"#,
    ];
    for transport in ["stdio", "http", "sse", "websocket"] {
        let rule = |answer: &&str| json!({ "method": "tools/call", "times": 1, "raw": answer });
        let script = rules(transport, answers.iter().map(rule).collect::<Vec<_>>());
        let server = Scripted::with(script, "request_timeout: 600").await;
        let connected = server.connect().await;
        for answer in answers {
            let output = call(&connected, TOOL, json!({})).await.unwrap();
            assert_eq!(
                (output.text.as_str(), output.is_error),
                ("no JSON", true),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn long_integers_of_a_result_keep_their_digits() {
    let long = "123456789012345678901234567890";
    let results = [
        (
            format!(r#"{{"structuredContent":{{"a":[{long}],"b":-{long}}}}}"#),
            format!(r#"{{"a":[{long}],"b":-{long}}}"#),
        ),
        (format!(r#"{{"content":[{long}]}}"#), long.to_owned()),
        (format!(r#"{{"content":{long}}}"#), long.to_owned()),
        (
            format!(r#"{{"content":[{{"type":"text","text":{long}}}]}}"#),
            long.to_owned(),
        ),
        (
            format!(
                r#"{{"content":[{{"type":"text","text":"{{\"a\": {long}}}"}}],"structuredContent":{{"a":{long}}}}}"#
            ),
            format!(r#"{{"a": {long}}}"#),
        ),
        // Another number is no repetition.
        (
            format!(
                r#"{{"content":[{{"type":"text","text":"{{\"a\": {long}}}"}}],"structuredContent":{{"a":{long}1}}}}"#
            ),
            format!("{{\"a\": {long}}}\n{{\"a\":{long}1}}"),
        ),
    ];
    for transport in ["stdio", "http", "sse", "websocket"] {
        let rule = |(result, _): &(String, String)| {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#);
            json!({ "method": "tools/call", "times": 1, "raw": answer })
        };
        let script = rules(transport, results.iter().map(rule).collect::<Vec<_>>());
        let server = Scripted::with(script, "").await;
        let connected = server.connect().await;
        for (result, expected) in &results {
            assert_eq!(text(&connected, TOOL, json!({})).await, *expected, "{result}");
        }
    }
}
