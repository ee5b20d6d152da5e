//! Checks the arguments of a call against the tool's schema and describes problems to the model.

use jsonschema::Validator;
use serde_json::{Value, json};

/// Maximum number of problems that are reported to the model.
const MAX_PROBLEMS: usize = 5;

/// Checks a call's arguments against the tool's schema.
#[derive(Debug)]
pub(crate) struct Arguments(Option<Box<dyn Schema>>);

/// A compiled schema. A trait object, which is fast to compile (see `ARCHITECTURE.md`).
trait Schema: std::fmt::Debug + Send + Sync {
    fn problems(&self, arguments: &Value) -> Vec<String>;
}

impl Schema for Validator {
    fn problems(&self, arguments: &Value) -> Vec<String> {
        self.iter_errors(arguments)
            .map(|error| describe_problem(&error))
            .collect()
    }
}

impl Arguments {
    /// Compiles a schema; a reference to another document is an error and is never fetched.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        jsonschema::validator_for(schema)
            .map(|validator| Self(Some(Box::new(validator))))
            .map_err(|error| error.to_string())
    }

    /// Checks only that the arguments are an object; the tool checks the rest.
    pub(crate) fn unchecked() -> Self {
        Self(None)
    }

    /// Returns the arguments to call with, or a description of the problems for the model. Missing or blank arguments
    /// count as an empty object.
    pub(crate) fn check(&self, arguments: &Value) -> Result<Value, String> {
        let arguments = match arguments {
            Value::Null => json!({}),
            Value::String(text) if text.trim().is_empty() => json!({}),
            other => other.clone(),
        };
        if !arguments.is_object() {
            return Err("the arguments must be a JSON object".to_owned());
        }
        let Some(schema) = &self.0 else {
            return Ok(arguments);
        };
        let mut problems = schema.problems(&arguments);
        if problems.is_empty() {
            return Ok(arguments);
        }
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Err(problems.join("; "))
    }
}

fn describe_problem(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    let place = place.trim_start_matches('/').replace('/', ".");
    if place.is_empty() {
        return error.to_string();
    }
    format!("`{place}`: {error}")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(schema: &Value, arguments: &Value) -> Result<Value, String> {
        Arguments::new(schema).unwrap().check(arguments)
    }

    #[test]
    fn problems_are_reported_with_their_place() {
        let schema = json!({
            "type": "object",
            "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["id"],
            "additionalProperties": false,
        });
        assert_eq!(
            check(&schema, &json!({"id": 7, "tags": ["a"]})),
            Ok(json!({"id": 7, "tags": ["a"]}))
        );
        for (arguments, expected) in [
            (json!({}), "\"id\" is a required property"),
            (json!({"id": "7"}), "`id`: \"7\" is not of type \"integer\""),
            (
                json!({"id": 1, "tags": [1]}),
                "`tags.0`: 1 is not of type \"string\"",
            ),
            (json!("{\"id\":"), "the arguments must be a JSON object"),
            (json!([1]), "the arguments must be a JSON object"),
        ] {
            assert_eq!(check(&schema, &arguments), Err(expected.to_owned()));
        }
        let error = check(&schema, &json!({"tags": [1, 2, 3, 4, 5, 6, 7]})).unwrap_err();
        assert!(error.ends_with("; and 3 more"), "{error}");
    }

    #[test]
    fn missing_arguments_are_an_empty_object() {
        let schema = json!({"type": "object", "properties": {}});
        assert_eq!(check(&schema, &Value::Null), Ok(json!({})));
        assert_eq!(check(&schema, &json!(" ")), Ok(json!({})));
    }

    #[test]
    fn a_schema_is_checked_and_nothing_is_fetched() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"type": "text"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/hostname"}}}),
        ] {
            assert!(Arguments::new(&schema).is_err(), "{schema}");
        }
    }
}
