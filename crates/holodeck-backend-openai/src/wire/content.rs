//! Reads message content, which servers send as a string or as a list of parts.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::SeqAccess};
use serde_json::Value;

use super::plain::{Plain, plain};

/// Text as a string or as a list of parts. Reasoning parts are separate.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Content<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) reasoning: Cow<'a, str>,
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

    fn of_list<A: SeqAccess<'de>>(mut parts: A) -> Result<Option<Self>, A::Error> {
        let mut content = Self::default();
        while let Some(part) = parts.next_element::<Value>()? {
            content.push_part(&part);
            content.parts.push(part);
        }
        if content.reasoning.is_empty() {
            content.parts.clear();
        }
        Ok(Some(content))
    }
}

impl Content<'_> {
    fn push_part(&mut self, part: &Value) {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        match kind {
            "text" | "output_text" => *self.text.to_mut() += text(part.get("text").unwrap_or(part)),
            "thinking" | "reasoning" => {
                let inner = [kind, "text", "summary", "content"]
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
            _ => {}
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
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
            (json!(7), "", ""),
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
            assert_eq!((&*content.text, &*content.reasoning), (text, reasoning));
        }
    }
}
