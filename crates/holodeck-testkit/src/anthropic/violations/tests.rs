//! Tests that valid requests have no violation and each invalid one is named.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::messages_violations;
use crate::ReceivedRequest;

fn request(body: Value) -> ReceivedRequest {
    let headers = [
        ("content-type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("x-api-key", "k"),
    ];
    ReceivedRequest {
        method: "POST".to_owned(),
        path: "/v1/messages?beta=true".to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        body,
        index: 0,
    }
}

fn of_messages(messages: &Value) -> Vec<String> {
    messages_violations(&request(
        json!({"model": "m", "max_tokens": 100, "messages": messages}),
    ))
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

#[test]
fn a_conversation_with_parallel_calls_is_fine() {
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, call("a"), call("b"),
        ]},
        {"role": "user", "content": [result("b"), result("a"), {"type": "text", "text": "and?"}]},
    ]);
    assert_eq!(of_messages(&messages), [""; 0]);
}

#[test]
fn calls_are_answered_once_and_at_once() {
    let asked = json!({"role": "user", "content": "hi"});
    let called = json!({"role": "assistant", "content": [call("a")]});
    let check = |answer: Value| of_messages(&json!([asked, called, {"role": "user", "content": answer}]));
    assert_eq!(
        check(json!("well?")),
        ["message 3: tool call `a` has no answer by here"]
    );
    assert_eq!(
        check(json!([result("a"), result("a")])),
        ["message 3: answers tool call `a`, which does not wait for an answer"]
    );
    assert_eq!(
        check(json!([result("x"), result("a")])),
        ["message 3: answers tool call `x`, which does not wait for an answer"]
    );
    assert_eq!(
        check(json!([{"type": "text", "text": "so"}, result("a")])),
        ["message 3: the answer to call `a` comes after something else"]
    );
    assert_eq!(
        of_messages(&json!([asked, called])),
        [
            "message 3: tool call `a` has no answer by here",
            "the last message is not the user's"
        ]
    );
}

#[test]
fn roles_and_contents() {
    assert_eq!(
        of_messages(&json!([{"role": "assistant", "content": "hi"}])),
        [
            "the first message is not the user's",
            "the last message is not the user's"
        ]
    );
    assert_eq!(
        of_messages(&json!([
            {"role": "user", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": ""}]},
            {"role": "assistant", "content": "b"},
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "d"},
        ])),
        [
            "message 2: a malformed block `text`",
            "message 4: `assistant` twice in a row",
        ]
    );
    let instructed = json!([
        {"role": "user", "content": "a"}, {"role": "system", "content": "today is Sunday"},
        {"role": "assistant", "content": "b"}, {"role": "system", "content": "too late"},
        {"role": "user", "content": "c"},
    ]);
    assert_eq!(
        of_messages(&instructed),
        ["message 4: `system` does not follow the user"]
    );
    let unsigned = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}]},
        {"role": "user", "content": "b"},
    ]);
    assert_eq!(
        of_messages(&unsigned),
        ["message 2: a malformed block `thinking`"]
    );
}

#[test]
fn parameters_tools_and_headers() {
    let breakpoint = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let mut wrong = request(json!({
        "max_tokens": 2000,
        "system": [breakpoint, breakpoint, breakpoint, breakpoint],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "tools": [
            {"name": "a b", "input_schema": {"type": "object"}},
            {"name": "c", "input_schema": {"type": "object", "properties": {"cache_control": {}}}},
            {"name": "c", "input_schema": {"type": "string"}},
            {"name": "web_search", "type": "web_search_20250305"},
        ],
        "messages": [{"role": "user", "content": [breakpoint]}],
    }));
    wrong.headers.truncate(1);
    assert_eq!(
        messages_violations(&wrong),
        [
            "the header `anthropic-version` is missing",
            "neither `x-api-key` nor `authorization`",
            "`model` is missing",
            "a thinking budget of 2000 tokens: it is from 1024 to below `max_tokens`",
            "tool `a b` has a name that is not usable",
            "tool `c` is listed twice",
            "the input of tool `c` is no object schema",
            "5 blocks with `cache_control`, at most 4 are allowed",
        ]
    );
}

#[test]
fn vertex_names_the_model_in_the_path() {
    let mut vertex = request(json!({
        "anthropic_version": "vertex-2023-10-16", "max_tokens": 10, "stream": true,
        "messages": [{"role": "user", "content": "hi"}],
    }));
    vertex.path =
        "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict".to_owned();
    vertex.headers.truncate(1);
    assert_eq!(messages_violations(&vertex), [""; 0]);
}
