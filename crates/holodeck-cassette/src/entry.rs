use std::fmt::Write as _;

use holodeck_backend_api::{
    BackendEvent, CallDetails, ModelRequest, Spending, TokenUsage, ToolCall, ToolUsage,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The format this version writes and reads.
pub const FORMAT_VERSION: u64 = 2;

/// The first line of a cassette.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) holodeck_cassette: u64,
}

/// One recorded model call, turn, or answer of a tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) recorded_at: Timestamp,
    pub(crate) latency_ms: u64,
    pub(crate) request: ModelRequest,
    pub(crate) response: Response,
}

/// The provider under which an answer of a tool is kept: a call is written down as a request to the tool, its arguments
/// as the body, with the digests of the files behind it if there are any.
pub(crate) const TOOL: &str = "holodeck:tool";

/// The provider under which it is kept which tools there were; the body is what the YAML said of them.
pub(crate) const TOOL_LIST: &str = "holodeck:tools";

/// The provider under which it is kept which tools a message was shown when they were others than at the beginning; the
/// body says which message.
pub(crate) const TOOLS_SHOWN: &str = "holodeck:tools_shown";

/// The provider under which it is kept which tools were found to fit a message; the body holds the message.
pub(crate) const CHOICE: &str = "holodeck:tool_filtering";

/// Whether a provider is no model but stands for tools.
pub(crate) fn is_of_tools(provider: &str) -> bool {
    [TOOL, TOOL_LIST, TOOLS_SHOWN, CHOICE].contains(&provider)
}

/// A picture in a tool's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Picture {
    pub(crate) media_type: String,
    pub(crate) base64: String,
}

/// The answer, put together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reasoning: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) refusal: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenUsage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) images: Vec<Picture>,
    /// Of a turn, all its events; then the fields above are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<BackendEvent>,
    /// What tools asked models for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spent: Vec<ToolUsage>,
    /// Of a tool, what else is known of the call.
    #[serde(default, skip_serializing_if = "CallDetails::is_empty")]
    pub(crate) details: CallDetails,
    pub(crate) stop_reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
}

impl Response {
    /// What it says: without ids, which no two answers share, and without what it took.
    pub(crate) fn answer(&self) -> Value {
        let mut answer = serde_json::to_value(self).unwrap_or_default();
        without_ids(&mut answer);
        answer
    }

    /// Tells what was spent on this as if it were spent now: a replay tells what the recorded run took.
    pub(crate) fn repeat_spending(&self, spending: &Spending) {
        for spent in &self.spent {
            spending.add(spent.clone());
        }
    }
}

const NO_ANSWER: [&str; 6] = [
    "message_id",
    "call_id",
    "parent_call_id",
    "usage",
    "spent",
    "duration_ms",
];

fn without_ids(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !NO_ANSWER.contains(&name.as_str()));
            fields.values_mut().for_each(without_ids);
        }
        Value::Array(items) => items.iter_mut().for_each(without_ids),
        _ => {}
    }
}

/// The key of a request: a hash of everything the model sees, whatever the order of object keys.
pub fn request_key(request: &ModelRequest) -> String {
    let mut hash = Sha256::new();
    for part in [&request.provider, &request.model] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let canonical = canonical(&request.body);
    hash.update(canonical.to_string().as_bytes());
    hash.finalize()
        .iter()
        .take(16)
        .fold(String::with_capacity(32), |mut text, byte| {
            // Writing to a String can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            Value::Object(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.clone(), canonical(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(body: Value) -> ModelRequest {
        ModelRequest {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            body,
            unit: None,
        }
    }

    #[test]
    fn the_order_of_keys_does_not_matter_the_order_of_messages_does() {
        let a = request(json!({"a": 1, "messages": [{"role": "user", "content": "x"}, 2]}));
        let b = request(json!({"messages": [{"content": "x", "role": "user"}, 2], "a": 1}));
        let c = request(json!({"a": 1, "messages": [2, {"role": "user", "content": "x"}]}));
        assert_eq!(request_key(&a), request_key(&b));
        assert_ne!(request_key(&a), request_key(&c));
    }

    #[test]
    fn the_unit_is_not_part_of_the_key_and_the_model_is() {
        let a = request(json!({}));
        let b = ModelRequest {
            unit: Some("case".to_owned()),
            ..a.clone()
        };
        let c = ModelRequest {
            model: "n".to_owned(),
            ..a.clone()
        };
        assert_eq!(request_key(&a), request_key(&b));
        assert_ne!(request_key(&a), request_key(&c));
    }
}
