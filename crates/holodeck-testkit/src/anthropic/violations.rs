//! Finds what the real Messages API would reject in a request.

use std::collections::HashSet;

use serde_json::Value;

use crate::{ReceivedRequest, invariants::Violations};

/// Maximum number of cache breakpoints.
const CACHE_BREAKPOINTS: usize = 4;

/// The violations of a Messages API request: transport, parameters, tools, and a conversation that answers each tool
/// call exactly once.
pub fn messages_violations(request: &ReceivedRequest) -> Vec<String> {
    let mut found = Violations::default();
    transport(request, &mut found);
    let body = &request.body;
    if !body.is_object() {
        found.add("the body is not a JSON object");
        return found.into_texts();
    }
    parameters(request, &mut found);
    tools(&body["tools"], &mut found);
    match body["messages"].as_array() {
        Some(messages) if !messages.is_empty() => conversation(messages, &mut found),
        _ => found.add("`messages` is no list with something in it"),
    }
    let breakpoints = count_breakpoints(body);
    found.unless(breakpoints <= CACHE_BREAKPOINTS, || {
        format!("{breakpoints} blocks with `cache_control`, at most {CACHE_BREAKPOINTS} are allowed")
    });
    found.into_texts()
}

fn transport(request: &ReceivedRequest, found: &mut Violations) {
    found.unless(request.method == "POST", || {
        format!("method {} instead of POST", request.method)
    });
    found.unless(
        request
            .header("content-type")
            .is_some_and(|value| value.starts_with("application/json")),
        || "the content type is not application/json".to_owned(),
    );
    if of_vertex(request) {
        return;
    }
    found.unless(request.header("anthropic-version").is_some(), || {
        "the header `anthropic-version` is missing".to_owned()
    });
    let credentials = ["x-api-key", "authorization"].map(|name| request.header(name).is_some());
    found.unless(credentials.contains(&true), || {
        "neither `x-api-key` nor `authorization`".to_owned()
    });
}

/// Vertex has the model in the path and the version in the body.
fn of_vertex(request: &ReceivedRequest) -> bool {
    request.route().to_ascii_lowercase().ends_with("rawpredict")
}

fn parameters(request: &ReceivedRequest, found: &mut Violations) {
    let body = &request.body;
    if of_vertex(request) {
        found.unless(body["anthropic_version"].is_string(), || {
            "`anthropic_version` is missing".to_owned()
        });
    } else {
        let named = body["model"].as_str().is_some_and(|name| !name.is_empty());
        found.unless(named, || "`model` is missing".to_owned());
    }
    let most = body["max_tokens"].as_u64().unwrap_or_default();
    found.unless(most > 0, || "`max_tokens` is no positive number".to_owned());
    match &body["system"] {
        Value::Null | Value::String(_) => {}
        Value::Array(blocks) => {
            let texts = blocks
                .iter()
                .all(|block| block["type"] == "text" && has_text(block));
            found.unless(texts, || {
                "`system` holds something that is no text, or an empty one".to_owned()
            });
        }
        _ => found.add("`system` is neither a text nor a list"),
    }
    let thinking = &body["thinking"];
    match thinking["type"].as_str() {
        Some("enabled") => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
            found.unless((1024..most.max(1024)).contains(&budget), || {
                format!("a thinking budget of {budget} tokens: it is from 1024 to below `max_tokens`")
            });
        }
        Some("adaptive" | "disabled") => {}
        Some(other) => found.add(&format!("`thinking.type` is `{other}`")),
        None => found.unless(thinking.is_null(), || "`thinking` without type".to_owned()),
    }
}

fn tools(tools: &Value, found: &mut Violations) {
    let mut names = HashSet::new();
    for tool in tools.as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        found.unless(is_name(name), || {
            format!("tool `{name}` has a name that is not usable")
        });
        found.unless(names.insert(name), || format!("tool `{name}` is listed twice"));
        // Built-in tools are identified by their type.
        let custom = tool["type"].is_null() || tool["type"] == "custom";
        found.unless(!custom || tool["input_schema"]["type"] == "object", || {
            format!("the input of tool `{name}` is no object schema")
        });
    }
}

fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn conversation(messages: &[Value], found: &mut Violations) {
    let mut calls = Calls::default();
    let mut before = None;
    for (message, number) in messages.iter().zip(1..) {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "system" {
            // Newer models accept instructions within the conversation, before the assistant's turn.
            found.unless(before == Some("user"), || {
                format!("message {number}: `system` does not follow the user")
            });
            found.unless(
                !matches!(&message["content"], Value::Null) && message["content"] != "",
                || format!("message {number}: `system` without text"),
            );
            continue;
        }
        if !["user", "assistant"].contains(&role) {
            found.add(&format!("message {number}: unknown role `{role}`"));
        }
        // The API merges consecutive user messages; clients rely on it.
        found.unless(role == "user" || before != Some(role), || {
            format!("message {number}: `{role}` twice in a row")
        });
        found.unless(before.is_some() || role == "user", || {
            "the first message is not the user's".to_owned()
        });
        before = Some(role);
        if role == "assistant" {
            calls.must_be_answered(number, found);
        }
        match &message["content"] {
            Value::String(text) => found.unless(!text.is_empty(), || {
                format!("message {number}: `{role}` without text")
            }),
            Value::Array(blocks) if !blocks.is_empty() => {
                calls.results(blocks, role, number, found);
                for block in blocks {
                    check_block(block, number, found);
                    if block["type"] == "tool_use" {
                        calls.open(block, role, number, found);
                    }
                }
            }
            _ => found.add(&format!("message {number}: `{role}` without usable content")),
        }
        if role == "user" {
            calls.must_be_answered(number, found);
        }
    }
    calls.must_be_answered(messages.len() + 1, found);
    found.unless(before == Some("user"), || {
        "the last message is not the user's".to_owned()
    });
}

fn check_block(block: &Value, number: i32, found: &mut Violations) {
    let kind = block["type"].as_str().unwrap_or_default();
    let fine = match kind {
        "text" => has_text(block),
        "thinking" => block["thinking"].is_string() && not_empty(&block["signature"]),
        "redacted_thinking" => not_empty(&block["data"]),
        "image" | "document" => block["source"].is_object(),
        "tool_result" => match &block["content"] {
            Value::Null | Value::String(_) => true,
            Value::Array(inner) => inner
                .iter()
                .all(|block| block["type"] != "text" || block["text"].is_string()),
            _ => false,
        },
        "" => false,
        // Checked elsewhere, or newer than this list.
        _ => true,
    };
    found.unless(fine, || format!("message {number}: a malformed block `{kind}`"));
}

fn has_text(block: &Value) -> bool {
    not_empty(&block["text"])
}

fn not_empty(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

#[derive(Default)]
struct Calls {
    seen: HashSet<String>,
    open: Vec<String>,
}

impl Calls {
    fn open(&mut self, block: &Value, role: &str, number: i32, found: &mut Violations) {
        let id = block["id"].as_str().unwrap_or_default();
        found.unless(role == "assistant", || {
            format!("message {number}: `{role}` calls a tool")
        });
        found.unless(!id.is_empty(), || {
            format!("message {number}: a tool call without id")
        });
        found.unless(self.seen.insert(id.to_owned()), || {
            format!("message {number}: tool call id `{id}` was used before")
        });
        found.unless(not_empty(&block["name"]), || {
            format!("message {number}: call `{id}` has no name")
        });
        found.unless(block["input"].is_object(), || {
            format!("message {number}: the input of call `{id}` is no object")
        });
        self.open.push(id.to_owned());
    }

    /// Takes the answers in a message.
    fn results(&mut self, blocks: &[Value], role: &str, number: i32, found: &mut Violations) {
        let mut others_before = false;
        for block in blocks {
            if block["type"] != "tool_result" {
                others_before = true;
                continue;
            }
            let id = block["tool_use_id"].as_str().unwrap_or_default();
            found.unless(role == "user", || {
                format!("message {number}: `{role}` answers a tool call")
            });
            found.unless(!others_before, || {
                format!("message {number}: the answer to call `{id}` comes after something else")
            });
            match self.open.iter().position(|open| open == id) {
                Some(place) => {
                    self.open.remove(place);
                }
                None => found.add(&format!(
                    "message {number}: answers tool call `{id}`, which does not wait for an answer"
                )),
            }
        }
    }

    fn must_be_answered(&mut self, number: impl std::fmt::Display, found: &mut Violations) {
        for id in self.open.drain(..) {
            found.add(&format!(
                "message {number}: tool call `{id}` has no answer by here"
            ));
        }
    }
}

fn count_breakpoints(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count_breakpoints).sum(),
        Value::Object(fields) => {
            let own = usize::from(fields.get("cache_control").is_some_and(Value::is_object));
            // A schema or an input may contain a field with this name.
            let inner = fields
                .iter()
                .filter(|(name, _)| !["input_schema", "input", "cache_control"].contains(&name.as_str()));
            own + inner.map(|(_, value)| count_breakpoints(value)).sum::<usize>()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
