//! Tests that requests which a real server would refuse are named, and valid ones are not.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
}

fn user() -> Value {
    json!({"role": "user", "content": "hi"})
}

fn answer(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": ""})
}

fn check(messages: &Value) -> Vec<String> {
    body_violations(&json!({"messages": messages}))
}

#[test]
fn a_conversation_with_parallel_calls_is_fine() {
    let messages = json!([
        {"role": "system", "content": "be brief"},
        user(),
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
        answer("b"),
        answer("a"),
        {"role": "assistant", "content": "done"},
        user(),
    ]);
    assert_eq!(check(&messages), Vec::<String>::new());
}

#[test]
fn each_call_is_answered_exactly_once_before_anything_else() {
    let assistant = json!({"role": "assistant", "content": null, "tool_calls": [call("a")]});
    for (messages, expected) in [
        (
            json!([user(), assistant]),
            "message 3: tool call `a` has no answer before it",
        ),
        (
            json!([user(), assistant, user()]),
            "message 3: tool call `a` has no answer before it",
        ),
        (
            json!([user(), assistant, answer("a"), answer("a")]),
            "message 4: answers tool call `a`, which does not wait for an answer",
        ),
        (
            json!([user(), answer("x")]),
            "message 2: answers tool call `x`, which does not wait for an answer",
        ),
        (
            json!([user(), assistant, answer("a"), assistant, answer("a")]),
            "message 4: tool call id `a` was used before",
        ),
    ] {
        assert!(check(&messages).iter().any(|text| text == expected), "{messages}");
    }
}

#[test]
fn what_a_server_would_refuse_is_named() {
    let body = json!({
        "messages": [user(), {"role": "system", "content": "late"}, {"role": "robot", "content": ""}],
        "tools": [{"type": "function", "function": {"name": "a b", "parameters": {"type": "object"}}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": {
            "type": "object", "properties": {"n": {"type": "integer"}},
        }}},
        "max_tokens": 1,
        "max_completion_tokens": 1,
        "top_p": null,
        "api_key": "sk",
    });
    assert_eq!(
        body_violations(&body),
        [
            "message 2: `system` is not the first message",
            "message 3: unknown role `robot`",
            "message 3: `robot` without usable content",
            "the last message is neither the user's nor a tool's",
            "tool `a b` is no function with a usable name",
            "strict schema, but the root allows additional properties",
            "strict schema, but the root does not require `n`",
            "both `max_tokens` and `max_completion_tokens`",
            "`top_p` is null instead of absent",
            "`api_key` has no place in a body",
        ]
    );
}
