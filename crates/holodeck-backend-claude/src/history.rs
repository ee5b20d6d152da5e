//! Earlier messages in the form in which the CLI keeps a conversation, so that it can be told what came before.

use holodeck_backend_api::{ContextMessage, Role};
use serde_json::json;
use uuid::Uuid;

use crate::home::Home;

/// A conversation of `messages`, one JSON object per line.
pub(crate) fn conversation(id: &str, home: &Home, messages: &[ContextMessage]) -> String {
    let mut lines = String::new();
    let mut parent: Option<String> = None;
    for message in messages {
        let uuid = Uuid::new_v4().to_string();
        let (kind, body) = match message.role {
            Role::User => ("user", json!({"role": "user", "content": message.content})),
            Role::Assistant => (
                "assistant",
                json!({
                    "id": format!("msg_{}", Uuid::new_v4().simple()),
                    "type": "message",
                    "role": "assistant",
                    "model": "earlier",
                    "content": [{"type": "text", "text": message.content}],
                    "stop_reason": "end_turn",
                    "stop_sequence": null,
                    "usage": {"input_tokens": 0, "output_tokens": 0},
                }),
            ),
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
