use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Text as a string or as a list of parts. Reasoning parts are kept apart.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) text: String,
    pub(crate) reasoning: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut content = Self::default();
        match Value::deserialize(deserializer)? {
            Value::String(text) => content.text = text,
            Value::Array(parts) => parts.iter().for_each(|part| content.part(part)),
            _ => {}
        }
        Ok(content)
    }
}

impl Content {
    fn part(&mut self, part: &Value) {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        match kind {
            "text" | "output_text" => self.text.push_str(text(part.get("text").unwrap_or(part))),
            "thinking" | "reasoning" => {
                let inner = part.get(kind).or_else(|| part.get("text"));
                match inner {
                    Some(Value::Array(parts)) => {
                        for part in parts {
                            self.reasoning.push_str(part.get("text").map_or("", text));
                        }
                    }
                    Some(inner) => self.reasoning.push_str(text(inner)),
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
    fn the_forms_servers_send() {
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
        ] {
            let content: Content = serde_json::from_value(value).unwrap();
            assert_eq!(
                (content.text.as_str(), content.reasoning.as_str()),
                (text, reasoning)
            );
        }
    }
}
