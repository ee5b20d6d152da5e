//! Validates answers against a JSON Schema.

use holodeck_backend_api::AnswerFormat;
use holodeck_model::{JSON_LEVELS, json_levels, long_integers::rounded_to_whole};
use jsonschema::Validator;
use serde_json::{Map, Value};

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

/// Words in the names of keys that explain a value, or say what it can be.
const NOT_VALUES: [&str; 19] = [
    "reason",
    "reasoning",
    "reasons",
    "explanation",
    "rationale",
    "justification",
    "comment",
    "comments",
    "note",
    "notes",
    "description",
    "confidence",
    "max",
    "maximum",
    "min",
    "minimum",
    "range",
    "scale",
    "type",
];

/// Words in the names of keys that give a verdict in a number, as a score does.
const VERDICTS: [&str; 5] = ["rating", "grade", "overall", "final", "verdict"];

/// Whether a key that a schema does not have may name the number of one that it has: `rating` for `score`.
fn names_verdict(key: &str, schema: &Value) -> bool {
    let kind = schema.get("type");
    let is_number = kind.is_some_and(|kind| kind == "integer" || kind == "number");
    let key = words_of(key);
    let explains = key.iter().any(|word| NOT_VALUES.contains(&word.as_str()));
    is_number && !explains && key.iter().any(|word| VERDICTS.contains(&word.as_str()))
}

/// The words of a key in lower case: `finalScore` and `final_score` have the same.
fn words_of(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in key.chars() {
        let begins = !c.is_alphanumeric() || c.is_uppercase() && was_lower;
        if begins {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a key that a schema does not have may be another reading of one that it has: `Score` or `final_score` for `score`.
fn is_near(key: &str, name: &str, schema: &Value) -> bool {
    let (key, name) = (words_of(key), words_of(name));
    if key.concat() == name.concat() {
        return true;
    }
    let is_free_text =
        schema.get("type").is_some_and(|kind| kind == "string") && schema.get("enum").is_none();
    let contains = !name.is_empty() && key.windows(name.len()).any(|words| words == name);
    let explains = key.iter().any(|word| NOT_VALUES.contains(&word.as_str()));
    contains && !is_free_text && !explains
}

/// Refuses an object in which a key beside those of the schema gives one of these another value.
fn check_near_keys(fields: &Map<String, Value>, properties: &Map<String, Value>) -> Result<(), String> {
    let others = fields.iter().filter(|(key, _)| !properties.contains_key(*key));
    for (key, other) in others {
        for (name, schema) in properties {
            let is_near = is_near(key, name, schema);
            let may_differ = |_: &&Value| is_near || names_verdict(key, schema);
            let Some(value) = fields.get(name).filter(may_differ) else {
                continue;
            };
            let (mut value, mut other) = (value.clone(), other.clone());
            fit(&mut value, schema)?;
            fit(&mut other, schema)?;
            if value != other && (is_near || other.is_number()) {
                return Err(format!("it has `{name}` and, with another value, `{key}`"));
            }
        }
    }
    Ok(())
}

/// Writes numbers that are texts as numbers, and removes keys that the schema excludes.
fn fit(value: &mut Value, schema: &Value) -> Result<(), String> {
    let is = |kind: &str| schema.get("type").is_some_and(|found| found == kind);
    match value {
        Value::String(text) if is("integer") || is("number") => {
            if let Ok(number @ Value::Number(_)) = serde_json::from_str::<Value>(text.trim()) {
                if let Some(number) = rounded_to_whole(text.trim()) {
                    return Err(rounded(number));
                }
                *value = number;
                fit(value, schema)?;
            }
        }
        Value::Number(number) if is("integer") => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = whole.into();
            }
        }
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let Some(properties) = properties else {
                return Ok(());
            };
            if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
                check_near_keys(fields, properties)?;
                fields.retain(|name, _| properties.contains_key(name));
            }
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = properties.get(name) {
                    fit(value, schema)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items.iter_mut() {
                    fit(item, schema)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The refusal of a number that cannot be read as it was written.
fn rounded(number: &str) -> String {
    let shown: String = number.chars().take(24).collect();
    let cut = if shown.len() < number.len() { "…" } else { "" };
    format!("its number {shown}{cut} has a fraction that would be lost")
}

impl AnswerFormat for SchemaFormat {
    fn schema(&self) -> &Value {
        &self.schema
    }

    fn is_loose(&self) -> bool {
        self.is_loose
    }

    fn fit(&self, json: &str, mut answer: Value) -> Result<Value, String> {
        // Also of a format that is taken by its word: 9.99999999999999999 is not an integer.
        if let Some(number) = rounded_to_whole(json) {
            return Err(rounded(number));
        }
        if self.is_loose {
            fit(&mut answer, &self.schema)?;
        }
        Ok(answer)
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
            let answer =
                json!({"score": score, "reason": "5", "verdicts": [{"number": "2", "x": 1}], "y": 2});
            let answer = loose.fit(&answer.to_string(), answer)?;
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
        assert_eq!(strict.fit(&answer.to_string(), answer.clone()), Ok(answer));
        assert!(!strict.is_loose() && loose.is_loose());
    }

    #[test]
    fn a_number_is_never_rounded_to_a_score() {
        let score = json!({"type": "integer", "enum": [0, 9, 10]});
        let schema = json!({"type": "object", "properties": {"score": score}, "required": ["score"]});
        let loose = SchemaFormat::new(&schema).unwrap().loose();
        let strict = SchemaFormat::new(&schema).unwrap();
        let read = |json: &str| loose.read(json);
        for number in [
            "1e400",
            "-1e400",
            "18446744073709551616",
            "10000000000000000000000000",
            "11",
            "NaN",
            "Infinity",
            "9, \"score\": 10",
        ] {
            let json = format!("{{\"score\": {number}}}");
            assert!(
                loose.read(&json).is_err() && strict.read(&json).is_err(),
                "{json}"
            );
        }
        for nines in 1..40 {
            for number in [
                format!("9.{}", "9".repeat(nines)),
                format!("10.{}1", "0".repeat(nines)),
                format!("0.{}1", "0".repeat(nines)),
                format!("1e-{nines}"),
                format!("99{}e-{}", "9".repeat(nines), nines + 1),
                "1e-400".to_owned(),
            ] {
                for json in [
                    format!("{{\"score\": {number}}}"),
                    format!("{{\"score\": \" {number}\"}}"),
                ] {
                    assert!(read(&json).is_err(), "{json}: {:?}", read(&json));
                    assert!(strict.read(&json).is_err(), "{json}");
                }
            }
            for number in [
                format!("10.{}", "0".repeat(nines)),
                format!("1{}e-{}", "0".repeat(nines), nines - 1),
                "1e1".to_owned(),
            ] {
                for json in [
                    format!("{{\"score\": {number}}}"),
                    format!("{{\"score\": \"{number}\"}}"),
                ] {
                    assert_eq!(read(&json), Ok(json!({"score": 10})), "{json}");
                }
            }
        }
    }

    #[test]
    fn a_key_beside_a_score_that_may_be_another_reading_is_refused() {
        let verdict = json!({"type": "string", "enum": ["yes", "no"]});
        let item =
            json!({"type": "object", "properties": {"verdict": verdict}, "additionalProperties": false});
        let schema = json!({
            "type": "object",
            "properties": {
                "score": {"type": "integer"},
                "reason": {"type": "string"},
                "verdicts": {"type": "array", "items": item},
            },
            "additionalProperties": false,
        });
        let loose = SchemaFormat::new(&schema).unwrap().loose();
        let fit = |key: &str, other: Value, place: usize| {
            let mut fields = vec![
                ("score", json!(8)),
                ("reason", json!("polite")),
                ("verdicts", json!([])),
            ];
            fields.insert(place, (key, other));
            let fields: Map<String, Value> = fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect();
            loose.fit("", fields.into())
        };
        for place in 0..4 {
            for key in [
                "Score",
                "SCORE",
                " score",
                "score_",
                "sCore",
                "final_score",
                "finalScore",
                "FinalScore",
                "final score",
                "overall-score",
                "score_2",
                "Final.Score",
            ] {
                for other in [
                    json!(2),
                    json!("2"),
                    json!("8/10"),
                    json!("two"),
                    json!(null),
                    json!(8.5),
                ] {
                    assert!(fit(key, other.clone(), place).is_err(), "{key}: {other}");
                }
                for same in [json!(8), json!("8"), json!(8.0)] {
                    assert!(fit(key, same.clone(), place).is_ok(), "{key}: {same}");
                }
            }
            for key in [
                "rating",
                "Final rating",
                "grade",
                "overall",
                "final",
                "overallGrade",
                "verdict",
            ] {
                for other in [json!(2), json!("2"), json!(7.5)] {
                    assert!(fit(key, other.clone(), place).is_err(), "{key}: {other}");
                }
                for other in [json!(8), json!("8"), json!("pass"), json!(true), json!(null)] {
                    assert!(fit(key, other.clone(), place).is_ok(), "{key}: {other}");
                }
            }
            for key in ["Reason", "verdicts_", "Verdicts", "final_verdicts"] {
                assert!(fit(key, json!("x"), place).is_err(), "{key}");
            }
            for key in [
                "score_explanation",
                "max_score",
                "scoreRange",
                "scored",
                "underscore",
                "details",
                "confidence",
                "why",
                "score_reason",
                "reason_long",
            ] {
                assert!(fit(key, json!(2), place).is_ok(), "{key}");
            }
        }
        let nested = json!({"verdicts": [{"verdict": "yes", "final_verdict": "no"}]});
        assert_eq!(
            loose.fit("", nested).unwrap_err(),
            "it has `verdict` and, with another value, `final_verdict`"
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
