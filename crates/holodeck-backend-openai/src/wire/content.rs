//! Reads message content, which servers send as a string or as a list of parts.

use std::borrow::Cow;

use holodeck_model::UniqueKeys;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use super::plain::{Plain, plain};
use crate::json::numbers;

/// Text as a string or as a list of parts. Reasoning parts are separate.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Content<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) reasoning: Cow<'a, str>,
    pub(crate) refusal: Cow<'a, str>,
    /// The parts as they were sent, if they are not only text.
    pub(crate) parts: Vec<Value>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        plain(deserializer).map(Option::unwrap_or_default)
    }
}

impl<'de> Plain<'de> for Content<'de> {
    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        Some(Self {
            text,
            ..Self::default()
        })
    }

    fn of_count(count: u64) -> Option<Self> {
        Self::of_scalar(count.into())
    }

    /// The model wrote it, so it is text.
    fn of_scalar(value: Value) -> Option<Self> {
        Self::of_text(Cow::Owned(value.to_string()))
    }

    fn of_list<A: SeqAccess<'de>>(mut parts: A) -> Result<Option<Self>, A::Error> {
        let mut content = Self::default();
        while let Some(UniqueKeys(part)) = parts.next_element()? {
            content.push_part(&part).map_err(A::Error::custom)?;
            content.parts.push(part);
        }
        if content.reasoning.is_empty() {
            content.parts.clear();
        }
        Ok(Some(content))
    }

    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        let UniqueKeys(part) = UniqueKeys::deserialize(MapAccessDeserializer::new(object))?;
        let mut content = Self::default();
        content.push_part(&part).map_err(A::Error::custom)?;
        Ok(Some(content))
    }
}

impl Content<'_> {
    /// Adds a part. A call must not disappear, so one in the content is an error; a part of an unknown type is text if it has
    /// some.
    fn push_part(&mut self, part: &Value) -> Result<(), String> {
        if part.is_number() || part.is_boolean() {
            *self.text.to_mut() += &part.to_string();
            return Ok(());
        }
        if let Some(number) = numbers::digits(part) {
            *self.text.to_mut() += number;
            return Ok(());
        }
        let is_unknown = |object: &Map<String, Value>| {
            let names = ["type", "text", "content", "thought"];
            !object.is_empty() && names.iter().all(|name| !object.contains_key(*name))
        };
        if part.as_object().is_some_and(is_unknown) {
            return Err("a part of the content has neither a type nor a text".to_owned());
        }
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        let kind = kind.to_ascii_lowercase();
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        match kind.as_str() {
            "thinking" | "reasoning" => {
                let inner = [kind.as_str(), "text", "summary", "content"]
                    .into_iter()
                    .find_map(|name| part.get(name));
                match inner {
                    Some(Value::Array(parts)) => {
                        for part in parts {
                            *self.reasoning.to_mut() += part.get("text").map_or("", text);
                        }
                    }
                    Some(inner) => *self.reasoning.to_mut() += text(inner),
                    None => {}
                }
            }
            "refusal" => *self.refusal.to_mut() += text_of_part(part, &["refusal"]),
            kind if ["tool", "function", "call"]
                .iter()
                .any(|word| kind.contains(word)) =>
            {
                return Err(format!("a part of the content is a call (`{kind}`)"));
            }
            _ if is_thought => *self.reasoning.to_mut() += text_of_part(part, &[]),
            _ => *self.text.to_mut() += text_of_part(part, &[]),
        }
        Ok(())
    }
}

/// The text of a part, which is itself a text or has one in a field.
fn text_of_part<'p>(part: &'p Value, own: &[&str]) -> &'p str {
    if part.is_string() {
        return text(part);
    }
    let names = own.iter().chain(&["text", "content"]);
    let mut found = names.filter_map(|name| part.get(name));
    let found = found.find(|value| !value.is_null());
    found.map_or("", |value| text(value.get("value").unwrap_or(value)))
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .or_else(|| numbers::digits(value))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_that_servers_send() {
        for (value, text, reasoning) in [
            (json!("hi"), "hi", ""),
            (json!(null), "", ""),
            (json!(7), "7", ""),
            (json!(-0.5), "-0.5", ""),
            (json!(true), "true", ""),
            (json!({"type": "text", "text": "a"}), "a", ""),
            (
                json!([{"type": "Text", "text": "a"}, {"type": "markdown", "text": "b"}, {"type": "text", "content": "c"},
                       {"type": "text", "text": {"value": "d"}}, {"type": "reference", "reference_ids": [1]}]),
                "abcd",
                "",
            ),
            (
                json!([{"type": "text", "text": "hm", "thought": true}, {"type": "text", "text": "a"}]),
                "a",
                "hm",
            ),
            (
                json!([{"type": "text", "text": "a"}, {"text": "b"}, "c"]),
                "abc",
                "",
            ),
            (
                json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]),
                "a",
                "hm",
            ),
            (
                json!([{"type": "reasoning", "text": "hm"}, {"type": "image_url"}]),
                "",
                "hm",
            ),
            (
                json!([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm", "signature": "s"}]},
                       {"type": "text", "text": "a"}]),
                "a",
                "hm",
            ),
        ] {
            let content = Content::deserialize(&value).unwrap();
            assert_eq!(
                (&*content.text, &*content.reasoning),
                (text, reasoning),
                "{value}"
            );
            assert_eq!(content.refusal, "");
        }
    }

    #[test]
    fn a_refusal_in_a_part_is_one() {
        for part in [
            json!({"type": "refusal", "refusal": "no"}),
            json!({"type": "refusal", "text": "no"}),
        ] {
            let parts = json!([part]);
            let content = Content::deserialize(&parts).unwrap();
            assert_eq!((&*content.text, &*content.refusal), ("", "no"), "{parts}");
        }
    }

    #[test]
    fn a_call_in_the_content_is_an_error() {
        for kind in [
            "tool_use",
            "tool_call",
            "function",
            "function_call",
            "server_tool_use",
            "Tool_Use",
        ] {
            let part = json!({"type": kind, "name": "clock", "text": "a"});
            assert!(Content::deserialize(&json!([part])).is_err(), "{kind}");
            assert!(Content::deserialize(&part).is_err(), "{kind}");
        }
    }
}
