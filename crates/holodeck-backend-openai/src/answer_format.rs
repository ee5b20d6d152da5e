use std::sync::atomic::{AtomicBool, Ordering};

use holodeck_backend_api::BackendError;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::driver::lenient;

mod strict;

/// The form an agent's answers must have, and how the endpoint is told of it.
#[derive(Debug)]
pub(crate) struct AnswerFormat {
    schema: Value,
    validator: Validator,
    response_format: Value,
    /// The endpoint takes no `response_format`; the schema goes into the instructions.
    instruct: AtomicBool,
}

/// How the schema of the answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// As `response_format`.
    Native,
    /// As text of the system prompt.
    Instructed,
}

impl AnswerFormat {
    pub(crate) fn new(schema: &Value) -> Result<Self, BackendError> {
        let validator = jsonschema::validator_for(schema).map_err(|error| BackendError::Init {
            message: format!("`response_format` is not a usable JSON Schema: {error}"),
        })?;
        Ok(Self {
            response_format: response_format(schema),
            schema: schema.clone(),
            validator,
            instruct: AtomicBool::new(false),
        })
    }

    pub(crate) fn telling(&self) -> Telling {
        if self.instruct.load(Ordering::Relaxed) {
            Telling::Instructed
        } else {
            Telling::Native
        }
    }

    /// From now on the schema is told as text.
    pub(crate) fn instruct(&self) {
        self.instruct.store(true, Ordering::Relaxed);
    }

    /// The request's `response_format`.
    pub(crate) fn native(&self) -> &Value {
        &self.response_format
    }

    /// What the system prompt says where there is no `response_format`.
    pub(crate) fn instructions(&self) -> String {
        format!(
            "Answer with one JSON value that satisfies this JSON Schema, and with nothing else: no explanation, no \
             code fence.\n{}",
            self.schema
        )
    }

    /// What the model is told when its answer does not fit.
    pub(crate) fn repair(problem: &str) -> String {
        format!(
            "That is not the JSON that was asked for: {problem}. Answer again, with the corrected JSON only."
        )
    }

    /// The answer as a value that satisfies the schema, or what is wrong with it.
    pub(crate) fn read(&self, answer: &str) -> Result<Value, String> {
        let answer = without_fence(answer);
        let value = serde_json::from_str(answer)
            .or_else(|error| lenient(answer.as_bytes()).ok_or(error))
            .map_err(|error| format!("it is not JSON ({error})"))?;
        match self.validator.validate(&value) {
            Ok(()) => Ok(value),
            Err(error) => {
                let place = error.instance_path().to_string();
                Err(if place.is_empty() {
                    error.to_string()
                } else {
                    format!("{error} at `{place}`")
                })
            }
        }
    }
}

/// Whether an endpoint says that it does not take the `response_format` it was sent.
pub(crate) fn refuses_format(error: &BackendError) -> bool {
    let BackendError::Provider {
        status: Some(400 | 404 | 415 | 422 | 501),
        message,
        param,
        ..
    } = error
    else {
        return false;
    };
    let named = |text: &str| text.contains("response_format") || text.contains("json_schema");
    param.as_deref().is_some_and(named) || named(message)
}

fn response_format(schema: &Value) -> Value {
    let mut spec = json!({"name": name(schema), "schema": schema});
    if strict::qualifies(schema)
        && let Some(spec) = spec.as_object_mut()
    {
        spec.insert("strict".to_owned(), json!(true));
    }
    json!({"type": "json_schema", "json_schema": spec})
}

/// A name of the schema in the characters that are allowed for it.
fn name(schema: &Value) -> String {
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

/// The inside of a Markdown code fence, if the whole answer is one.
fn without_fence(answer: &str) -> &str {
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
    use pretty_assertions::assert_eq;

    use super::*;

    fn format() -> AnswerFormat {
        AnswerFormat::new(&json!({
            "title": "An order!",
            "type": "object",
            "properties": {"id": {"type": "integer"}},
            "required": ["id"],
        }))
        .unwrap()
    }

    #[test]
    fn answers_with_and_without_a_fence() {
        for answer in [
            "{\"id\": 7}",
            " \n{\"id\": 7}\n",
            "```json\n{\"id\": 7}\n```",
            "```\n{\"id\": 7}```",
        ] {
            assert_eq!(format().read(answer), Ok(json!({"id": 7})), "{answer}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        assert_eq!(
            format().read("{\"id\": \"x\"}").unwrap_err(),
            "\"x\" is not of type \"integer\" at `/id`"
        );
        assert_eq!(format().read("{}").unwrap_err(), "\"id\" is a required property");
        assert!(
            format()
                .read("sure: {}")
                .unwrap_err()
                .starts_with("it is not JSON")
        );
    }

    #[test]
    fn the_format_is_named_after_the_title() {
        let format = format();
        assert_eq!(format.native()["json_schema"]["name"], "An_order_");
        assert_eq!(format.native()["json_schema"].get("strict"), None);
        assert_eq!(name(&json!({})), "answer");
        assert_eq!(name(&json!({"title": "答え"})), "answer");
    }

    #[test]
    fn a_schema_that_is_none_is_refused_at_the_start() {
        let error = AnswerFormat::new(&json!({"type": 7})).unwrap_err();
        assert!(matches!(error, BackendError::Init { .. }));
    }

    #[test]
    fn only_a_refusal_that_names_the_format_counts() {
        let error = |status, message: &str, param: Option<&str>| BackendError::Provider {
            status: Some(status),
            code: None,
            message: message.to_owned(),
            param: param.map(str::to_owned),
            retryable: false,
            retry_after: None,
        };
        assert!(refuses_format(&error(
            400,
            "unknown field `response_format`",
            None
        )));
        assert!(refuses_format(&error(
            400,
            "invalid",
            Some("response_format.type")
        )));
        assert!(refuses_format(&error(
            422,
            "'json_schema' is not one of ['text']",
            None
        )));
        assert!(!refuses_format(&error(400, "context too long", None)));
        assert!(!refuses_format(&error(401, "response_format", None)));
    }
}
