//! Validates answers against a JSON Schema.

use holodeck_backend_api::AnswerFormat;
use jsonschema::Validator;
use serde_json::Value;

/// Answers that satisfy a JSON Schema.
#[derive(Debug)]
pub struct SchemaFormat {
    schema: Value,
    validator: Validator,
}

impl SchemaFormat {
    /// The format of `schema`; an error if the schema is not usable.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::validator_for(schema)
            .map_err(|error| format!("`response_format` is not a usable JSON Schema: {error}"))?;
        Ok(Self {
            schema: schema.clone(),
            validator,
        })
    }
}

impl AnswerFormat for SchemaFormat {
    fn schema(&self) -> &Value {
        &self.schema
    }

    fn check(&self, answer: &Value) -> Result<(), String> {
        self.validator.validate(answer).map_err(|error| {
            let place = error.instance_path().to_string();
            if place.is_empty() {
                error.to_string()
            } else {
                format!("{error} at `{place}`")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_reported_with_its_place() {
        let schema = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]});
        let format = SchemaFormat::new(&schema).unwrap();
        assert_eq!(format.schema(), &schema);
        assert_eq!(format.check(&json!({"id": 7})), Ok(()));
        assert_eq!(
            format.check(&json!({"id": "x"})).unwrap_err(),
            "\"x\" is not of type \"integer\" at `/id`"
        );
        assert_eq!(
            format.check(&json!({})).unwrap_err(),
            "\"id\" is a required property"
        );
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused() {
        let error = SchemaFormat::new(&json!({"type": 7})).unwrap_err();
        assert!(
            error.starts_with("`response_format` is not a usable JSON Schema: "),
            "{error}"
        );
    }
}
