//! Checks that a conversation answers each tool call exactly once, before anything else.

use std::collections::HashSet;

use serde_json::Value;

use super::Violations;

/// Checks a conversation: roles, contents, and that each tool call is answered exactly once before anything else.
pub(super) fn check(messages: &[Value], found: &mut Violations) {
    let mut calls = Calls::default();
    for (index, message) in messages.iter().enumerate() {
        let number = index + 1;
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            calls.must_be_answered(number, found);
        }
        match role {
            "system" | "developer" => found.unless(index == 0, || {
                format!("message {number}: `{role}` is not the first message")
            }),
            "user" => {}
            "assistant" => calls.open(message, number, found),
            "tool" => calls.answer(message, number, found),
            other => found.0.push(format!("message {number}: unknown role `{other}`")),
        }
        content(message, role, number, found);
    }
    calls.must_be_answered(messages.len() + 1, found);
    let last = messages.last().map(|message| &message["role"]);
    found.unless(last.is_some_and(|role| role == "user" || role == "tool"), || {
        "the last message is neither the user's nor a tool's".to_owned()
    });
}

fn content(message: &Value, role: &str, number: usize, found: &mut Violations) {
    let fine = match &message["content"] {
        Value::String(text) => role == "tool" || role == "assistant" || !text.is_empty(),
        Value::Array(parts) => !parts.is_empty(),
        Value::Null => role == "assistant" && message["tool_calls"].is_array(),
        _ => false,
    };
    found.unless(fine, || {
        format!("message {number}: `{role}` without usable content")
    });
}

#[derive(Default)]
struct Calls {
    seen: HashSet<String>,
    open: Vec<String>,
}

impl Calls {
    fn open(&mut self, message: &Value, number: usize, found: &mut Violations) {
        let Some(calls) = message.get("tool_calls") else {
            return;
        };
        let calls = calls.as_array().map_or(&[][..], Vec::as_slice);
        found.unless(!calls.is_empty(), || {
            format!("message {number}: `tool_calls` is no list with something in it")
        });
        for call in calls {
            let id = call["id"].as_str().unwrap_or_default();
            found.unless(!id.is_empty(), || {
                format!("message {number}: a tool call without id")
            });
            found.unless(self.seen.insert(id.to_owned()), || {
                format!("message {number}: tool call id `{id}` was used before")
            });
            let function = &call["function"];
            found.unless(call["type"] == "function", || {
                format!("message {number}: call `{id}` is no function call")
            });
            let named = function["name"].as_str().is_some_and(|name| !name.is_empty());
            found.unless(named, || format!("message {number}: call `{id}` has no name"));
            let arguments = function["arguments"].as_str().unwrap_or_default();
            let object = serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
            found.unless(object, || {
                format!("message {number}: the arguments of call `{id}` are no JSON object in a string")
            });
            self.open.push(id.to_owned());
        }
    }

    fn answer(&mut self, message: &Value, number: usize, found: &mut Violations) {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        match self.open.iter().position(|open| open == id) {
            Some(place) => {
                self.open.remove(place);
            }
            None => found.0.push(format!(
                "message {number}: answers tool call `{id}`, which does not wait for an answer"
            )),
        }
    }

    fn must_be_answered(&mut self, number: usize, found: &mut Violations) {
        for id in self.open.drain(..) {
            found.0.push(format!(
                "message {number}: tool call `{id}` has no answer before it"
            ));
        }
    }
}
