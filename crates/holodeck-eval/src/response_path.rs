//! `response_path`: a part of a JSON answer.

mod raw;

use std::borrow::Cow;

use serde_json::Value;

use crate::json_text::shown_text;
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
    /// Reads a path: names separated by full stops, each with any number of `[n]`.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        for segment in text.split('.') {
            let (name, indices) = segment.split_at(segment.find('[').unwrap_or(segment.len()));
            let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !starts_well
                || !name
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
            {
                return Err(format!("response_path `{text}` has no name where one belongs"));
            }
            steps.push(Step::Key(name.to_owned()));
            let mut rest = indices;
            while let Some(inner) = rest.strip_prefix('[') {
                let (index, after) = inner
                    .split_once(']')
                    .ok_or_else(|| format!("response_path `{text}` misses a `]`"))?;
                let index = index
                    .parse()
                    .map_err(|_| format!("response_path `{text}`: `[{index}]` is not an index"))?;
                steps.push(Step::Index(index));
                rest = after;
            }
            if !rest.is_empty() {
                return Err(format!("response_path `{text}`: `{rest}` after an index"));
            }
        }
        Ok(Self {
            text: text.to_owned(),
            steps,
        })
    }

    /// The single value at the path, as Python's `str()` writes it.
    pub(crate) fn text<'a>(&self, input: &EvalInput<'a>) -> Result<Cow<'a, str>, MetricError> {
        match self.value(input)?.as_ref() {
            container @ (Value::Object(_) | Value::Array(_)) => {
                Err(self.error(format!("leads to {}, not to a single value", kind(container))))
            }
            // An integer that no integer type holds was read as a double.
            Value::Number(number) if number.is_f64() && input.structured_output.is_none() => {
                let integer = raw::leaf(input.response, &self.steps).filter(|text| raw::is_integer(text));
                let text = integer.map_or_else(
                    || holodeck_model::python_str(&number.clone().into()),
                    str::to_owned,
                );
                Ok(Cow::Owned(text))
            }
            leaf => Ok(Cow::Owned(holodeck_model::python_str(leaf))),
        }
    }

    /// The value at the path.
    pub(crate) fn value<'a>(&self, input: &EvalInput<'a>) -> Result<Cow<'a, Value>, MetricError> {
        if let Some(value) = input.structured_output {
            return self.find(value).map(Cow::Borrowed);
        }
        let value: Value = serde_json::from_str(input.response).map_err(|error| {
            self.error(format!(
                "the answer is not JSON ({error}): {}",
                shown_text(input.response)
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
                    self.error(format!("there is no [{index}] in a list of {}", items.len()))
                })?,
                (Step::Key(key), other) => {
                    return Err(self.error(format!("`{key}` looked for in {}", kind(other))));
                }
                (Step::Index(index), other) => {
                    return Err(self.error(format!("[{index}] looked for in {}", kind(other))));
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

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
