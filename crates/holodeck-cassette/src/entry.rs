//! The lines of a recording and the version of their format.

use holodeck_backend_api::{
    Adaptation, BackendEvent, CallDetails, ModelRequest, NumberOdds, Redactions, Spending, TokenUsage,
    ToolCall, ToolUsage,
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
        for name in &mut self.details.namesakes {
            redactor.mask_text_with_digests(name);
        }
        let mask = |text: &mut String| {
            redactor.mask_text_with_digests(text);
        };
        for call in &mut self.tool_calls {
            // The results of a call carry the same id, which is masked in the same way.
            mask(&mut call.call_id);
            if redactor.mask_value_with_digests(&mut call.arguments) {
                self.redacted.arguments.push(call.call_id.clone());
            }
            call.edit(mask, |value| {
                redactor.mask_value_with_digests(value);
            });
        }
        self.redacted.arguments.iter_mut().for_each(mask);
        self.redacted.results.iter_mut().for_each(mask);
        [&mut self.reasoning, &mut self.stop_reason]
            .into_iter()
            .for_each(mask);
        [&mut self.message_id, &mut self.model]
            .into_iter()
            .flatten()
            .for_each(mask);
        self.notices.iter_mut().for_each(mask);
        for odds in &mut self.number_odds {
            mask(&mut odds.field);
        }
        for spent in &mut self.spent {
            mask(&mut spent.model);
            spent.answered_by.iter_mut().for_each(mask);
        }
        for image in &mut self.images {
            mask(&mut image.media_type);
        }
        for adapted in &mut self.adapted {
            [
                &mut adapted.endpoint,
                &mut adapted.model,
                &mut adapted.part,
                &mut adapted.note,
            ]
            .into_iter()
            .for_each(mask);
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
    use holodeck_backend_api::{Approval, ApprovalAsk, ApprovalDecision, DecidedBy, StopReason, ToolResult};
    use serde_json::json;

    use super::*;

    const SECRET: &str = "hunter2-hunter2-hunter2";

    /// The paths to all texts in a value.
    fn paths_of(value: &Value, path: &str, paths: &mut Vec<String>) {
        match value {
            Value::String(_) => paths.push(path.to_owned()),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    paths_of(item, &format!("{path}/{at}"), paths);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    paths_of(field, &format!("{path}/{name}"), paths);
                }
            }
            _ => {}
        }
    }

    /// A response with every field.
    fn full_response() -> Value {
        let call = json!({
            "name": "n", "arguments": {"a": "b"}, "call_id": "c1",
            "provider_fields": {"model": "m", "message": {"a": "b"}, "call": {"c": ["d"]}},
        });
        let result = json!({
            "call_id": "c1", "name": "n", "result": "r", "is_error": false, "duration_ms": 1,
            "namesakes": ["o"], "passages": [{"text": "p", "source": "s"}],
        });
        let call: ToolCall = serde_json::from_value(call).unwrap();
        let result: ToolResult = serde_json::from_value(result).unwrap();
        let mut ask = ApprovalAsk::about(&call);
        ask.description = Some("d".to_owned());
        ask.agent_id = Some("a".to_owned());
        ask.answer_schema = Some(Box::new(json!({"title": "t"})));
        let approved = ApprovalDecision::Approve {
            arguments: Some(json!({"a": "b"})),
        };
        let nested = BackendEvent::ApprovalAnswered {
            call_id: "c1".to_owned(),
            decision: ApprovalDecision::Reject {
                reason: "r".to_owned(),
            },
        };
        let events = vec![
            BackendEvent::Text { text: "t".to_owned() },
            BackendEvent::Thinking { text: "t".to_owned() },
            BackendEvent::ToolCall(call.clone()),
            BackendEvent::ApprovalAsked(Box::new(ask)),
            BackendEvent::ApprovalDecided(Approval {
                call_id: "c1".to_owned(),
                decision: approved,
                by: DecidedBy::Rule,
                basis: None,
            }),
            BackendEvent::ToolResult(result),
            BackendEvent::Nested {
                parent_call_id: "c1".to_owned(),
                event: Box::new(nested),
            },
            BackendEvent::StructuredOutput(json!({"a": "b"})),
            BackendEvent::OtherUsage {
                model: Some("m".to_owned()),
                usage: TokenUsage::new(1, 1),
            },
            BackendEvent::TurnEnd {
                stop_reason: StopReason::from("odd".to_owned()),
                message_id: Some("i".to_owned()),
                model: Some("m".to_owned()),
            },
        ];
        json!({
            "reasoning": "r", "text": "t",
            "adapted": [{"endpoint": "http://h", "model": "m", "part": "p", "note": "n"}],
            "notices": ["n"],
            "number_odds": [{"field": "f", "value": 1, "odds": []}],
            "refusal": "r",
            "tool_calls": [call],
            "images": [{"media_type": "image/png", "base64": ""}],
            "events": events,
            "spent": [{"model": "m", "answered_by": "a"}],
            "details": {"namesakes": ["n"], "passages": [{"text": "t", "source": "s"}]},
            "redacted": {"arguments": ["c1"], "results": ["c1"]},
            "stop_reason": "stop", "message_id": "i", "model": "m",
        })
    }

    #[test]
    fn a_secret_in_any_text_of_a_response_is_masked() {
        let redactor = Redactor::new([SECRET.to_owned()]);
        let full = full_response();
        let kept: Response = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&kept).unwrap(), full);
        let mut paths = Vec::new();
        paths_of(&full, "", &mut paths);
        let mut tried = 0;
        // An image is data.
        for path in paths.iter().filter(|path| !path.ends_with("/base64")) {
            for text in [SECRET.to_owned(), format!("call_{SECRET} x")] {
                let mut changed = full.clone();
                *changed.pointer_mut(path).unwrap() = text.into();
                let Ok(mut response) = serde_json::from_value::<Response>(changed) else {
                    continue;
                };
                response.redact(&redactor);
                let written = serde_json::to_string(&response).unwrap();
                assert!(!written.contains(SECRET), "{path}: {written}");
                tried += 1;
            }
        }
        assert!(tried > 90, "{tried}");
    }

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
