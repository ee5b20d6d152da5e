//! Letters that a server cuts in two and integers that a value cannot hold have marks of their own while an answer is read: none
//! of them leaves this crate, whatever text or number of an answer has one.

use std::{error::Error, fmt::Write as _, sync::Arc};

use holodeck_backend_api::{BackendError, BackendEvent};
use holodeck_testkit::{ModelServer, Reply, ScriptedTools};
use serde_json::{Value, json};

use crate::setup::{agent_of, equipped, run_turn};

const LONG: &str = "123456789012345678901234567890";

/// A letter that looks like a mark.
const LETTER: char = '\u{fa23d}';

/// Values in the place of a text: as JSON, and whether the letter was really sent.
fn values() -> Vec<(String, bool)> {
    let mut escaped = String::new();
    for unit in LETTER.encode_utf16(&mut [0; 2]) {
        let _ = write!(escaped, "\\u{unit:04x}");
    }
    let texts = ["\\ud83d", "\\ude00b"];
    let mut values: Vec<(String, bool)> = texts.map(|text| (format!("\"{text}\""), false)).to_vec();
    values.push((format!("\"{LETTER}\""), true));
    values.push((format!("\"x{escaped}\""), true));
    values.push((LONG.to_owned(), false));
    values.push((format!("[\"\\ud83d\",{LONG}]"), false));
    values
}

/// The texts of a value, and its keys, by number: each is replaced once.
fn replaced(value: &Value, by: &str) -> Vec<String> {
    const HERE: &str = "@here@";
    fn places(value: &Value, all: &mut Vec<Value>, whole: &dyn Fn(Value) -> Value) {
        match value {
            Value::String(_) => all.push(whole(HERE.into())),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    let put = |new: Value| {
                        let mut items = items.clone();
                        items[at] = new;
                        whole(items.into())
                    };
                    places(item, all, &put);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let put = |new: Value| {
                        let mut fields = fields.clone();
                        fields[name] = new;
                        whole(fields.into())
                    };
                    places(field, all, &put);
                    let mut more = fields.clone();
                    more.insert(HERE.to_owned(), field.clone());
                    all.push(whole(more.into()));
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    places(value, &mut all, &|value| value);
    let put = |value: Value| {
        let text = value.to_string();
        let place = format!("\"{HERE}\"");
        let is_key = text.contains(&format!("{place}:"));
        // Only a text can be a key.
        (!is_key || by.starts_with('"')).then(|| text.replace(&place, by))
    };
    all.into_iter().filter_map(put).collect()
}

/// Answers and errors with a text wherever servers have one.
fn answers() -> Vec<Value> {
    let call = json!({"index": 0, "id": "c1", "type": "function", "namespace": "n",
        "function": {"name": "echo", "arguments": "{\"a\":\"b\"}", "kind": "k"},
        "extra_content": {"google": {"thought_signature": "s"}}});
    let answer = |message: Value, reason: &str| {
        json!({"id": "id-1", "object": "chat.completion", "model": "m", "created": 1, "system_fingerprint": "fp",
            "choices": [{"index": 0, "message": message, "finish_reason": reason,
                "logprobs": {"content": [{"token": "t", "logprob": -0.1, "top_logprobs": [{"token": "u", "logprob": -1.0}]}]}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "kind": "u"}})
    };
    vec![
        answer(
            json!({"role": "assistant", "content": "text", "reasoning_content": "why", "provider": "p"}),
            "odd",
        ),
        answer(
            json!({"role": "assistant", "content": "text", "reasoning": "why", "reasoning_details": [{"type": "t", "text": "d"}]}),
            "stop",
        ),
        answer(
            json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "text"}]}),
            "stop",
        ),
        answer(
            json!({"role": "assistant", "content": null, "refusal": "no"}),
            "stop",
        ),
        answer(
            json!({"role": "assistant", "content": null, "reasoning_content": "why", "tool_calls": [call]}),
            "tool_calls",
        ),
        answer(
            json!({"role": "assistant", "content": null, "function_call": {"name": "echo", "arguments": "{}"}}),
            "function_call",
        ),
        answer(json!({"role": "assistant", "content": "text"}), "error"),
        json!({"error": {"message": "no", "type": "t", "code": "c", "param": "p", "status": "s"}, "request_id": "r"}),
        json!({"error": "no", "code": "c"}),
        json!({"detail": [{"msg": "no", "type": "t", "loc": ["body", "x"]}]}),
        json!({"object": "error", "message": "no", "code": 400, "param": "p"}),
        json!({"choices": [{"index": 0, "error": {"message": "no", "code": "c", "metadata": {"raw": "r"}}}]}),
        json!({"choices": [], "base_resp": {"status_code": 1004, "status_msg": "no"}}),
        json!({"errors": [{"message": "no", "code": "c"}]}),
        json!({"status": "unknown", "a": {"b": "c"}}),
        json!("a word"),
    ]
}

/// The ways in which a server sends an answer.
fn replies(json: &str) -> Vec<Reply> {
    let chunk = json.replace("\"message\":{\"role\"", "\"delta\":{\"role\"");
    let text = r#"{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
    vec![
        Reply::raw(200, "application/json", json.to_owned()),
        Reply::events([chunk.as_str(), "[DONE]"]),
        Reply::events([text, chunk.as_str(), "[DONE]"]),
        Reply::events([chunk.as_str(), text, "[DONE]"]),
        Reply::raw(
            200,
            "text/event-stream",
            format!("event: error\ndata: {json}\n\n"),
        ),
        Reply::raw(400, "application/json", json.to_owned()),
        Reply::raw(200, "application/json", json[..json.len() - 1].to_owned()),
        Reply::events([&chunk[..chunk.len() - 1], "[DONE]"]),
        Reply::raw(200, "text/event-stream", format!("{json}\n\n")),
    ]
}

/// All that a person or another crate can see of an error.
fn seen(error: &BackendError) -> String {
    let mut seen = format!("{error:?} {error} {}", error.explanation().text());
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(seen, " {cause} {cause:?}");
        source = cause.source();
    }
    seen
}

fn shown(events: &[BackendEvent]) -> String {
    let mut shown = String::new();
    for event in events {
        let mut event = event.clone();
        // What goes back to its server is shown to nobody; the next request has it.
        if let BackendEvent::ToolCall(call) = &mut event {
            call.provider_fields = None;
        }
        let _ = write!(
            shown,
            "{event:?} {} ",
            serde_json::to_string(&event).unwrap_or_default()
        );
    }
    shown
}

/// The letters that a text may have only if they were sent.
fn marks(text: &str) -> Vec<char> {
    // `Debug` writes them as escapes.
    let escapes = text.split("\\u{").skip(1).filter_map(|rest| {
        let (digits, _) = rest.split_once('}')?;
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    });
    let is_mark = |c: &char| ('\u{fa000}'..='\u{fa7ff}').contains(c);
    text.chars().chain(escapes).filter(is_mark).collect()
}

#[tokio::test]
async fn no_mark_leaves_the_reader() {
    for answer in answers() {
        for (value, is_sent) in values() {
            for (number, json) in replaced(&answer, &value).into_iter().enumerate() {
                // Each value is in each place, and each of both is sent in most of the ways.
                let ways = replies(&json);
                let way = (number + value.len()) % ways.len();
                {
                    let reply = ways[way].clone();
                    let server = ModelServer::answering(move |request| {
                        let is_first = request.messages().iter().all(|message| message["role"] != "tool");
                        if is_first {
                            reply.clone()
                        } else {
                            Reply::text("done")
                        }
                    });
                    let backend = equipped(&agent_of(&server, ""), Arc::new(ScriptedTools::default()));
                    let (events, error) = run_turn(&backend).await;
                    let mut all = shown(&events);
                    all += &error.as_ref().map(seen).unwrap_or_default();
                    for request in server.finish_unchecked().requests {
                        all += &request.body.to_string();
                    }
                    assert!(!all.contains("holodeck.integer"), "{way}: {json}\n{all}");
                    let found = marks(&all);
                    let expected = |mark: &char| is_sent && *mark == LETTER;
                    assert!(found.iter().all(expected), "{way}: {json}\n{found:?}\n{all}");
                    if is_sent {
                        assert!(
                            !all.contains('\u{fffd}') && !all.contains("\\u{fffd}"),
                            "{way}: {json}\n{all}"
                        );
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_reason_that_is_no_word_is_shown_as_it_was_sent() {
    for reason in [LONG, "7", "true", "[1,2]"] {
        let answer = format!(r#"{{"choices":[{{"message":{{"content":"hi"}},"finish_reason":{reason}}}]}}"#);
        let server = ModelServer::replies([Reply::raw(200, "application/json", answer)]);
        let backend = equipped(&agent_of(&server, ""), Arc::new(ScriptedTools::default()));
        let (events, error) = run_turn(&backend).await;
        assert!(error.is_none(), "{error:?}");
        let notice = format!("the unknown finish_reason `{reason}`");
        assert!(shown(&events).contains(&notice), "{reason}: {events:?}");
        server.finish();
    }
}
