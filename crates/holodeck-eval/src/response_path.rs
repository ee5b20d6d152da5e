//! `response_path`: selects a part of a JSON answer.

mod raw;

use std::borrow::Cow;

use holodeck_model::{has_lost_digits, json_kind, parse_json_strictly};
use serde_json::Value;

use crate::json_text::quote;
use crate::{EvalInput, MetricError};

/// A path such as `order.lines[0].price`.
pub(crate) struct ResponsePath {
    text: String,
    steps: Vec<Step>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl ResponsePath {
    /// Parses a path: names separated by full stops, each with any number of `[n]`.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        for segment in text.split('.') {
            let (name, indices) = segment.split_at(segment.find('[').unwrap_or(segment.len()));
            let has_valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !has_valid_start
                || !name
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
            {
                return Err(format!(
                    "response_path `{text}`: each part must start with a valid name"
                ));
            }
            steps.push(Step::Key(name.to_owned()));
            let mut rest = indices;
            while let Some(inner) = rest.strip_prefix('[') {
                let (index, after) = inner
                    .split_once(']')
                    .ok_or_else(|| format!("response_path `{text}`: missing `]`"))?;
                let index = index
                    .parse()
                    .map_err(|_| format!("response_path `{text}`: `[{index}]` is not an index"))?;
                steps.push(Step::Index(index));
                rest = after;
            }
            if !rest.is_empty() {
                return Err(format!(
                    "response_path `{text}`: unexpected `{rest}` after an index"
                ));
            }
        }
        Ok(Self {
            text: text.to_owned(),
            steps,
        })
    }

    /// The single value at the path, formatted as Python's `str()` does.
    pub(crate) fn text<'a>(&self, input: &EvalInput<'a>) -> Result<Cow<'a, str>, MetricError> {
        match self.value(input)?.as_ref() {
            container @ (Value::Object(_) | Value::Array(_)) => {
                Err(self.error(format!("points to {}, not to a single value", json_kind(container))))
            }
            // An integer that exceeds every integer type was read as a double.
            Value::Number(number) if number.is_f64() && input.structured_output.is_none() => {
                let integer = raw::leaf(input.response, &self.steps).filter(|text| raw::is_integer(text));
                let text = integer.map_or_else(
                    || holodeck_model::python_str(&number.clone().into()),
                    str::to_owned,
                );
                Ok(Cow::Owned(text))
            }
            // Structured output was parsed elsewhere, and the text of the answer may differ from it.
            Value::Number(number) if input.structured_output.is_some() && has_lost_digits(number) => {
                Err(self.error(format!(
                    "points to {number}, which is beyond 64 bits and has lost digits; use a string in the schema"
                )))
            }
            leaf => Ok(Cow::Owned(holodeck_model::python_str(leaf))),
        }
    }

    /// The value at the path.
    pub(crate) fn value<'a>(&self, input: &EvalInput<'a>) -> Result<Cow<'a, Value>, MetricError> {
        if let Some(value) = input.structured_output {
            return self.find(value).map(Cow::Borrowed);
        }
        let value = parse_json_strictly(input.response).map_err(|error| {
            self.error(format!(
                "the answer is not JSON ({error}): {}",
                quote(input.response)
            ))
        })?;
        self.find(&value).cloned().map(Cow::Owned)
    }

    fn find<'v>(&self, value: &'v Value) -> Result<&'v Value, MetricError> {
        let mut at = value;
        for step in &self.steps {
            at = match (step, at) {
                (Step::Key(key), Value::Object(entries)) => entries.get(key).ok_or_else(|| {
                    let known: Vec<&str> = entries.keys().map(String::as_str).collect();
                    self.error(format!("there is no `{key}`, only {}", list(&known)))
                })?,
                (Step::Index(index), Value::Array(items)) => items.get(*index).ok_or_else(|| {
                    self.error(format!(
                        "there is no [{index}] in a list of length {}",
                        items.len()
                    ))
                })?,
                (Step::Key(key), other) => {
                    return Err(self.error(format!("cannot look up `{key}` in {}", json_kind(other))));
                }
                (Step::Index(index), other) => {
                    return Err(self.error(format!("cannot look up [{index}] in {}", json_kind(other))));
                }
            };
        }
        Ok(at)
    }

    fn error(&self, problem: String) -> MetricError {
        MetricError::ResponsePath {
            path: self.text.clone(),
            problem,
        }
    }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() {
        return "an empty object".to_owned();
    }
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
