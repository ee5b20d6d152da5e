//! Writes a conversation in the CLI's own format, so that the CLI can resume it.

use holodeck_backend_api::{HistoryItem, ToolSpec};
use holodeck_model::{HOLODECK_SERVER, mcp_tool_name};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::home::Home;

/// Formats `items` as one JSON object per line. Calls of `own` tools get the names that the CLI gives them.
pub(crate) fn format_conversation(id: &str, home: &Home, items: &[HistoryItem], own: &[ToolSpec]) -> String {
    let mut lines = String::new();
    let mut parent: Option<String> = None;
    let mut items = items.iter().peekable();
    while let Some(item) = items.next() {
        let uuid = Uuid::new_v4().to_string();
        let (kind, body) = match item {
            HistoryItem::User { text } => ("user", user(&json!(text))),
            HistoryItem::Result(_) => {
                let mut results = vec![block(item, own)];
                while let Some(next @ HistoryItem::Result(_)) = items.peek() {
                    results.push(block(next, own));
                    items.next();
                }
                ("user", user(&Value::Array(results)))
            }
            _ => {
                let mut blocks = vec![block(item, own)];
                while let Some(next @ HistoryItem::Call(_)) = items.peek() {
                    blocks.push(block(next, own));
                    items.next();
                }
                ("assistant", assistant(&blocks))
            }
        };
        let line = json!({
            "parentUuid": parent,
            "isSidechain": false,
            "type": kind,
            "message": body,
            "uuid": uuid,
            "timestamp": "1970-01-01T00:00:00.000Z",
            "userType": "external",
            "cwd": home.working_directory(),
            "sessionId": id,
            "version": "2.1.113",
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
        parent = Some(uuid);
    }
    lines
}

fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(blocks: &[Value]) -> Value {
    let calls = blocks.iter().any(|block| block.get("input").is_some());
    json!({
        "id": format!("msg_{}", Uuid::new_v4().simple()),
        "type": "message",
        "role": "assistant",
        "model": "earlier",
        "content": blocks,
        "stop_reason": if calls { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    })
}

fn block(item: &HistoryItem, own: &[ToolSpec]) -> Value {
    match item {
        HistoryItem::Call(call) => {
            let name = if own.iter().any(|spec| spec.name == call.name) {
                mcp_tool_name(HOLODECK_SERVER, &call.name)
            } else {
                call.name.clone()
            };
            json!({"type": "tool_use", "id": call.call_id, "name": name, "input": call.arguments})
        }
        HistoryItem::Result(result) => json!({
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result.result,
            "is_error": result.is_error,
        }),
        other => json!({"type": "text", "text": other.text().unwrap_or_default()}),
    }
}
