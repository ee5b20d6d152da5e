//! The lines of a recording and the version of their format.

use holodeck_backend_api::{
    Adaptation, BackendEvent, CallDetails, ModelRequest, NumberOdds, ProviderFields, Redactions, Spending,
    TokenUsage, ToolCall, ToolUsage,
};
use holodeck_model::{Redactor, hex_prefix};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::turn_events;

/// The format this version writes and reads.
pub const FORMAT_VERSION: u64 = 2;

/// The first line of a cassette.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) holodeck_cassette: u64,
}

/// One recorded model call, turn or tool result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) recorded_at: Timestamp,
    pub(crate) latency_ms: u64,
    pub(crate) request: ModelRequest,
    pub(crate) response: Response,
}

/// The provider of a recorded tool result: the call is recorded as a request to the tool, with its arguments and the
/// digests of the files behind it, if any, as the body.
pub(crate) const TOOL: &str = "holodeck:tool";

/// The provider of a recorded tool list; the body is the declaration of the tools in the YAML.
pub(crate) const TOOL_LIST: &str = "holodeck:tools";

/// The provider of the tools of one message, recorded if they differ from the initial list; the body identifies the
/// message.
pub(crate) const TOOLS_SHOWN: &str = "holodeck:tools_shown";

/// The provider of the tools that a filter selected for a message; the body holds the message.
pub(crate) const CHOICE: &str = "holodeck:tool_filtering";

/// The provider of how similar texts are to a message; the body holds all of them.
pub(crate) const SIMILARITY: &str = "holodeck:similarity";

/// Whether entries of a provider are no answers of a model that was asked.
pub(crate) fn is_beside_models(provider: &str) -> bool {
    is_tool_provider(provider) || provider == SIMILARITY
}

/// Whether entries of a provider are about tools, and are not answers of a model.
pub(crate) fn is_tool_provider(provider: &str) -> bool {
    [TOOL, TOOL_LIST, TOOLS_SHOWN, CHOICE].contains(&provider)
}

/// An image in a tool result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordedImage {
    pub(crate) media_type: String,
    pub(crate) base64: String,
}

/// The assembled answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reasoning: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    /// The parts of the request that were sent in another form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) adapted: Vec<Adaptation>,
    /// Notices about the answer for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notices: Vec<String>,
    /// The odds of the numbers in the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) number_odds: Vec<NumberOdds>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) refusal: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenUsage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) images: Vec<RecordedImage>,
    /// All events of a turn; the fields above are then empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<BackendEvent>,
    /// Token usage of model calls that tools made for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spent: Vec<ToolUsage>,
    /// Further details of a tool call.
    #[serde(default, skip_serializing_if = "CallDetails::is_empty")]
    pub(crate) details: CallDetails,
    /// Which parts were masked; `answer` also covers a tool result and its passages. Absent if nothing was masked.
    #[serde(default, skip_serializing_if = "Redactions::is_empty")]
    pub(crate) redacted: Redactions,
    pub(crate) stop_reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
}

impl Response {
    /// The content, for comparisons: without ids, which are unique to each answer, and without usage and times.
    pub(crate) fn answer(&self) -> Value {
        let mut answer = serde_json::to_value(self).unwrap_or_default();
        remove_ids(&mut answer);
        if let Some(answer) = answer.as_object_mut() {
            // Without its ids. A masked answer differs from one that contains the characters of a mask.
            answer.insert("redacted".to_owned(), (!self.redacted.is_empty()).into());
        }
        answer
    }

    /// Masks secrets, and records which parts had some.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        if !self.events.is_empty() {
            let result = turn_events::result(&self.events, turn_events::outcome(&self.stop_reason));
            self.redacted = Redactions::of(&result, redactor);
        }
        let texts = [&mut self.text, &mut self.refusal].into_iter();
        for text in texts.chain(self.details.texts_mut()) {
            self.redacted.answer |= redactor.mask_text_with_digests(text);
        }
        for call in &mut self.tool_calls {
            if redactor.mask_value_with_digests(&mut call.arguments) {
                self.redacted.arguments.push(call.call_id.clone());
            }
            let fields = call.provider_fields.as_deref_mut();
            for value in fields.into_iter().flat_map(ProviderFields::values_mut) {
                redactor.mask_value_with_digests(value);
            }
        }
        for text in [&mut self.reasoning, &mut self.stop_reason]
            .into_iter()
            .chain(&mut self.notices)
        {
            redactor.mask_text_with_digests(text);
        }
        for event in &mut self.events {
            turn_events::redact(event, redactor);
        }
    }

    /// Reports the recorded usage of tools again: the totals of a replay equal those of the recorded run.
    pub(crate) fn replay_spending(&self, spending: &Spending) {
        for spent in &self.spent {
            spending.add(spent.clone());
        }
    }
}

const NOT_CONTENT: [&str; 9] = [
    "adapted",
    "notices",
    "message_id",
    "call_id",
    "provider_fields",
    "parent_call_id",
    "usage",
    "spent",
    "duration_ms",
];

fn remove_ids(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !NOT_CONTENT.contains(&name.as_str()));
            fields.values_mut().for_each(remove_ids);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_ids),
        _ => {}
    }
}

/// The key of a request: a hash of everything the model sees, independent of the order of object keys.
pub fn request_key(request: &ModelRequest) -> String {
    let mut hash = Sha256::new();
    for part in [&request.provider, &request.model] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let canonical = canonical(&request.body);
    hash.update(canonical.to_string().as_bytes());
    hex_prefix(&hash.finalize(), 16)
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
            body: body.into(),
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
