//! The answer is JSON, or follows a schema.

use std::borrow::Cow;

use holodeck_model::{StandardMetric, has_lost_digits, parse_json_strictly};
use jsonschema::{Retrieve, Uri, Validator};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Answer, Check, Finding};
use crate::MetricError;
use crate::json_text::quote;

/// Maximum number of reported schema violations.
const MAX_VIOLATIONS: usize = 3;

/// The answer is JSON.
pub(super) struct JsonValid;

impl Check for JsonValid {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let parsed = match answer.path {
            // A list or an object at the path is JSON; a string may contain JSON.
            Some(path) => match path.value(answer.input)?.as_ref() {
                Value::String(text) => parse(text, answer)?.map(drop),
                _ => Ok(()),
            },
            None => parse(answer.input.response, answer)?.map(drop),
        };
        Ok(match parsed {
            Ok(()) => Finding::met("the answer is JSON"),
            Err(problem) => Finding::missed(problem),
        })
    }
}

/// Parses JSON, or says why a text is none. JSON with a key that appears twice, and JSON that the parser cannot hold, such
/// as deeply nested lists or numbers that are out of range, is an error: it is neither proven to be JSON that can be
/// used, nor is it something else.
pub(super) fn parse(text: &str, answer: &Answer<'_>) -> Result<Result<Value, String>, MetricError> {
    let error = match parse_json_strictly(text) {
        Ok(value) => return Ok(Ok(value)),
        Err(error) => error,
    };
    // This reads the grammar only, without limits.
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Err(MetricError::Unreadable {
            metric: answer.metric.to_string(),
            problem: error.to_string(),
        }),
        Err(_) => Ok(Err(format!("the answer is not JSON ({error}): {}", quote(text)))),
    }
}

/// The answer is JSON that follows the schema.
pub(super) struct JsonSchema {
    schema: Validator,
    /// Whether the schema compares values with each other or with its own.
    compares_values: bool,
}

impl JsonSchema {
    pub(super) fn new(config: &StandardMetric) -> Result<Self, String> {
        let schema = config.schema.as_ref().ok_or("`schema` is missing")?;
        let schema = schema.value().ok_or("the schema's file was not read")?;
        if is_lossy(schema) {
            return Err(
                "`schema` compares with an integer beyond 64 bits, which is not exact; use a string"
                    .to_owned(),
            );
        }
        let validator = jsonschema::options()
            .with_retriever(NoRetriever)
            .should_validate_formats(true)
            .build(schema)
            .map_err(|error| format!("`schema` cannot be used: {error}"))?;
        Ok(Self {
            schema: validator,
            compares_values: compares_values(schema),
        })
    }
}

impl JsonSchema {
    /// The first violations of the schema; `None` if the value follows it.
    pub(super) fn violations(
        &self,
        value: &Value,
        answer: &Answer<'_>,
    ) -> Result<Option<String>, MetricError> {
        if self.compares_values && contains_lost_digits(value) {
            return Err(MetricError::Unreadable {
                metric: answer.metric.to_string(),
                problem: "an integer beyond 64 bits cannot be compared exactly; use a string".to_owned(),
            });
        }
        let violations: Vec<String> = self
            .schema
            .iter_errors(value)
            .take(MAX_VIOLATIONS)
            .map(|error| describe(&error))
            .collect();
        Ok((!violations.is_empty()).then(|| violations.join("; ")))
    }
}

impl Check for JsonSchema {
    fn find(&self, answer: &Answer<'_>) -> Result<Finding, MetricError> {
        let value = match answer.path {
            Some(path) => path.value(answer.input)?,
            None => match parse(answer.input.response, answer)? {
                Ok(value) => Cow::Owned(value),
                Err(problem) => return Ok(Finding::missed(problem)),
            },
        };
        Ok(match self.violations(&value, answer)? {
            None => Finding::met("the answer follows the schema"),
            Some(violations) => {
                Finding::missed(format!("the answer does not follow the schema: {violations}"))
            }
        })
    }
}

/// Whether a schema has a keyword that compares numbers.
fn compares_values(schema: &Value) -> bool {
    const COMPARING: [&str; 8] = [
        "const",
        "enum",
        "uniqueItems",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ];
    match schema {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| COMPARING.contains(&key.as_str()) || compares_values(value)),
        Value::Array(items) => items.iter().any(compares_values),
        _ => false,
    }
}

/// Whether a schema has a value of its own whose digits are lost.
fn is_lossy(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().any(|(key, value)| match key.as_str() {
            "const" | "enum" => contains_lost_digits(value),
            _ => is_lossy(value),
        }),
        Value::Array(items) => items.iter().any(is_lossy),
        _ => false,
    }
}

fn contains_lost_digits(value: &Value) -> bool {
    match value {
        Value::Number(number) => has_lost_digits(number),
        Value::Array(items) => items.iter().any(contains_lost_digits),
        Value::Object(fields) => fields.values().any(contains_lost_digits),
        _ => false,
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let at = error.instance_path().as_str();
    if at.is_empty() {
        error.to_string()
    } else {
        format!("{error} at {at}")
    }
}

/// Refuses references outside the schema: nothing is fetched from the network or from a file.
struct NoRetriever;

impl Retrieve for NoRetriever {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("`{uri}` is not part of the schema, and schemas are not fetched").into())
    }
}
