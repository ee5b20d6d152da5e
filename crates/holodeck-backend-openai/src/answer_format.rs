//! Sends the schema of structured answers to the endpoint, and validates and repairs what comes back.

use std::sync::Arc;

use holodeck_backend_api::{AnswerFormat, ToolCall};
use serde_json::{Value, json};

mod in_text;
mod strict;

/// The answer format as it is sent to the endpoint.
#[derive(Debug)]
pub(crate) struct SentFormat {
    format: Arc<dyn AnswerFormat>,
    response_format: Value,
}

impl SentFormat {
    pub(crate) fn new(format: Arc<dyn AnswerFormat>) -> Self {
        Self {
            response_format: response_format(format.schema()),
            format,
        }
    }

    /// The request's `response_format`.
    pub(crate) fn response_format(&self) -> &Value {
        &self.response_format
    }

    /// The message to the model when its answer does not match.
    pub(crate) fn repair_prompt(problem: &str) -> String {
        format!(
            "That is not the JSON that was asked for: {problem}. Answer again, with the corrected JSON only."
        )
    }

    /// The answer to `question` as a value that satisfies the schema, or what is wrong with it.
    pub(crate) fn read(&self, answer: &str, question: &str) -> Result<Value, String> {
        if !self.format.is_loose() {
            return self.format.read(strip_fence(answer));
        }
        let found = in_text::find_object(answer)?;
        let value = self.format.read(found.json)?;
        let is_same = |other: Value| self.format.fit("", other).is_ok_and(|other| other == value);
        found.check_quoted(question, is_same)?;
        Ok(value)
    }

    /// Why an answer that calls tools is refused where the model was offered none; `None` if calls do not answer.
    pub(crate) fn check_calls(&self, calls: &[ToolCall]) -> Option<String> {
        let first = calls.first().filter(|_| self.format.is_loose())?;
        Some(format!("it calls a tool, `{}`, and there are none", first.name))
    }
}

fn response_format(schema: &Value) -> Value {
    let mut spec = json!({"name": schema_name(schema), "schema": schema});
    if strict::qualifies(schema)
        && let Some(spec) = spec.as_object_mut()
    {
        spec.insert("strict".to_owned(), json!(true));
    }
    json!({"type": "json_schema", "json_schema": spec})
}

/// A name for the schema in the allowed characters.
fn schema_name(schema: &Value) -> String {
    let title = schema.get("title").and_then(Value::as_str).unwrap_or_default();
    let name: String = title
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    if name.chars().any(|c| c.is_ascii_alphanumeric()) {
        name
    } else {
        "answer".to_owned()
    }
}

/// Removes the Markdown code fence around the answer, if there is one.
fn strip_fence(answer: &str) -> &str {
    let answer = answer.trim();
    let Some(inner) = answer
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
    else {
        return answer;
    };
    // The first line names the language.
    inner.split_once('\n').map_or(inner, |(_, inner)| inner).trim()
}

#[cfg(test)]
mod tests {
    use holodeck_validators::SchemaFormat;
    use pretty_assertions::assert_eq;

    use super::*;

    fn format() -> SentFormat {
        let schema = json!({
            "title": "An order!",
            "type": "object",
            "properties": {"id": {"type": "integer"}},
            "required": ["id"],
        });
        SentFormat::new(Arc::new(SchemaFormat::new(&schema).unwrap()))
    }

    #[test]
    fn answers_with_and_without_a_fence() {
        for answer in [
            "{\"id\": 7}",
            " \n{\"id\": 7}\n",
            "```json\n{\"id\": 7}\n```",
            "```\n{\"id\": 7}```",
        ] {
            assert_eq!(format().read(answer, ""), Ok(json!({"id": 7})), "{answer}");
        }
    }

    #[test]
    fn problems_are_reported_with_their_place() {
        assert_eq!(
            format().read("{\"id\": \"x\"}", "").unwrap_err(),
            "\"x\" is not of type \"integer\" at `/id`"
        );
        assert_eq!(
            format().read("{}", "").unwrap_err(),
            "\"id\" is a required property"
        );
        assert!(
            format()
                .read("sure: {}", "")
                .unwrap_err()
                .starts_with("it is not JSON")
        );
    }

    #[test]
    fn the_format_is_named_after_the_title() {
        let format = format();
        assert_eq!(format.response_format()["json_schema"]["name"], "An_order_");
        assert_eq!(format.response_format()["json_schema"].get("strict"), None);
        assert_eq!(schema_name(&json!({})), "answer");
        assert_eq!(schema_name(&json!({"title": "答え"})), "answer");
    }
}
