//! Validates answers against a JSON Schema.

use holodeck_backend_api::AnswerFormat;
use holodeck_model::{JSON_LEVELS, json_levels};
use jsonschema::Validator;
use serde_json::Value;

/// Answers that satisfy a JSON Schema.
#[derive(Debug)]
pub struct SchemaFormat {
    schema: Value,
    validator: Validator,
    is_loose: bool,
}

impl SchemaFormat {
    /// The format of `schema`; an error if the schema is not usable.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::validator_for(schema)
            .map_err(|error| format!("`response_format` is not a usable JSON Schema: {error}"))?;
        Ok(Self {
            schema: schema.clone(),
            validator,
            is_loose: false,
        })
    }

    /// Also reads answers that say the same in another form: with text around the object, with a number as text, and with
    /// keys that the schema does not know. For formats of our own, such as that of judges, never for those of users.
    #[must_use]
    pub fn loose(mut self) -> Self {
        self.is_loose = true;
        self
    }
}

/// A number without a fraction, such as 8.0, as an integer.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
}

/// Writes numbers that are texts as numbers, and removes keys that the schema excludes.
fn fit(value: &mut Value, schema: &Value) {
    let is = |kind: &str| schema.get("type").is_some_and(|found| found == kind);
    match value {
        Value::String(text) if is("integer") || is("number") => {
            if let Ok(number @ Value::Number(_)) = serde_json::from_str::<Value>(text.trim()) {
                *value = number;
                fit(value, schema);
            }
        }
        Value::Number(number) if is("integer") => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = whole.into();
            }
        }
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let Some(properties) = properties else { return };
            if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
                fields.retain(|name, _| properties.contains_key(name));
            }
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = properties.get(name) {
                    fit(value, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items.iter_mut() {
                    fit(item, schema);
                }
            }
        }
        _ => {}
    }
}

impl AnswerFormat for SchemaFormat {
    fn schema(&self) -> &Value {
        &self.schema
    }

    fn is_loose(&self) -> bool {
        self.is_loose
    }

    fn fit(&self, mut answer: Value) -> Value {
        if self.is_loose {
            fit(&mut answer, &self.schema);
        }
        answer
    }

    fn check(&self, answer: &Value) -> Result<(), String> {
        // With more, the record of a run could not be read again.
        if json_levels(answer) > JSON_LEVELS {
            return Err(format!("it has more than {JSON_LEVELS} levels"));
        }
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
    fn an_answer_that_no_record_could_hold_is_refused() {
        let format = SchemaFormat::new(&json!({"type": "object"})).unwrap();
        let nested = |levels| (1..levels).fold(json!({}), |within, _| json!({ "a": within }));
        assert_eq!(format.check(&nested(96)), Ok(()));
        assert_eq!(
            format.check(&nested(97)).unwrap_err(),
            "it has more than 96 levels"
        );
    }

    #[test]
    fn a_loose_format_takes_another_form_and_never_another_value() {
        let item = json!({"type": "object", "properties": {"number": {"type": "integer"}}, "additionalProperties": false});
        let schema = json!({
            "type": "object",
            "properties": {
                "score": {"type": "integer", "minimum": 0, "maximum": 10},
                "reason": {"type": "string"},
                "verdicts": {"type": "array", "items": item},
            },
            "required": ["score", "reason"],
            "additionalProperties": false,
        });
        let loose = SchemaFormat::new(&schema).unwrap().loose();
        let read = |score: Value| {
            let answer = loose
                .fit(json!({"score": score, "reason": "5", "verdicts": [{"number": "2", "x": 1}], "y": 2}));
            loose.check(&answer).map(|()| answer)
        };
        for score in [json!(8), json!("8"), json!(" 8 "), json!(8.0), json!("8.0")] {
            let answer = read(score).unwrap();
            assert_eq!(answer["score"].as_f64(), Some(8.0));
            assert_eq!(answer["reason"], "5", "a text that is to be a text stays one");
            assert_eq!(answer["verdicts"], json!([{"number": 2}]));
            assert!(answer.get("y").is_none());
        }
        for score in [
            json!("8/10"),
            json!("eight"),
            json!("80"),
            json!(80),
            json!("-1"),
            json!("7.5"),
            json!(null),
            json!(true),
            json!(""),
        ] {
            assert!(read(score.clone()).is_err(), "{score}");
        }
        // The format of a user is taken by its word.
        let strict = SchemaFormat::new(&schema).unwrap();
        let answer = json!({"score": "8", "reason": "", "y": 1});
        assert_eq!(strict.fit(answer.clone()), answer);
        assert!(!strict.is_loose() && loose.is_loose());
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
