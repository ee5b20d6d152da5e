//! How an argument of a tool call is compared.

mod matching;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Number, Value, json};

use crate::value::{JsonMap, Pattern};

/// The expected value of an argument, or a condition on it.
///
/// A mapping is a matcher only if all its keys are matcher keys and there is only one (a lower bound may be combined
/// with an upper one). A mapping with `fuzzy` or `regex` and another key is an error; every other value is a literal.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgMatcher {
    /// Exactly this value.
    Literal(Value),
    /// This string, ignoring case, whitespace, separators and the notation of numbers.
    Fuzzy(String),
    /// The whole argument matches this expression.
    Regex(Pattern),
    /// A number within bounds.
    Range {
        /// The lower bound.
        lower: Option<Bound>,
        /// The upper bound.
        upper: Option<Bound>,
    },
    /// A number near this one.
    Approx {
        /// The number.
        value: Number,
        /// How far the argument may be from it.
        tolerance: Number,
    },
    /// A string that contains this string, or a list that contains this value.
    Contains(Value),
    /// A mapping that has at least these entries, or a list that has at least these values.
    Subset(Value),
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The number.
    pub value: Number,
    /// Whether the number itself is allowed.
    pub inclusive: bool,
}

impl ArgMatcher {
    /// The keys that make a mapping a matcher.
    pub const KEYS: [&str; 9] = [
        "fuzzy", "regex", "gt", "gte", "lt", "lte", "approx", "contains", "subset",
    ];

    /// The matcher keys of 0.7.1.
    pub fn is_old_key(key: &str) -> bool {
        matches!(key, "fuzzy" | "regex")
    }

    /// Whether a mapping with these keys is a matcher.
    pub fn is_matcher<'a>(keys: impl ExactSizeIterator<Item = &'a str> + Clone) -> bool {
        if !keys.clone().all(|key| Self::KEYS.contains(&key)) {
            return false;
        }
        match keys.len() {
            1 => true,
            2 => {
                let lower = keys.clone().filter(|key| matches!(*key, "gt" | "gte")).count();
                let upper = keys.filter(|key| matches!(*key, "lt" | "lte")).count();
                lower == 1 && upper == 1
            }
            _ => false,
        }
    }

    /// Reads a matcher or a literal; an error names the key that is wrong and why.
    pub fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(map)
                if Self::is_matcher(map.keys().map(String::as_str).collect::<Vec<_>>().into_iter()) =>
            {
                Self::from_map(&map)
            }
            // 0.7.1 rejects these too.
            Value::Object(map) if map.keys().any(|key| Self::is_old_key(key)) => {
                Err("`fuzzy` and `regex` cannot be combined with other keys".to_owned())
            }
            literal => Ok(Self::Literal(literal)),
        }
    }

    fn from_map(map: &JsonMap) -> Result<Self, String> {
        let number = |key: &str| match map.get(key) {
            None => Ok(None),
            Some(value) => value
                .as_number()
                .map(|number| Some(number.clone()))
                .ok_or_else(|| format!("`{key}` must be a number")),
        };
        if let Some(value) = map.get("fuzzy") {
            return scalar_text(value)
                .map(Self::Fuzzy)
                .ok_or_else(|| "`fuzzy` must be a string".to_owned());
        }
        if let Some(value) = map.get("regex") {
            let text = scalar_text(value).ok_or_else(|| "`regex` must be a string".to_owned())?;
            return Pattern::new(&text)
                .map(Self::Regex)
                .map_err(|error| format!("`regex` does not compile: {error}"));
        }
        if let Some(value) = map.get("approx") {
            let field = |key: &str| {
                value
                    .get(key)
                    .and_then(Value::as_number)
                    .cloned()
                    .ok_or_else(|| format!("`approx` needs a number `{key}`"))
            };
            return Ok(Self::Approx {
                value: field("value")?,
                tolerance: field("tolerance")?,
            });
        }
        if let Some(value) = map.get("contains") {
            return Ok(Self::Contains(value.clone()));
        }
        if let Some(value) = map.get("subset") {
            return Ok(Self::Subset(value.clone()));
        }
        let bound = |exclusive: &str, inclusive: &str| -> Result<Option<Bound>, String> {
            Ok(match (number(exclusive)?, number(inclusive)?) {
                (Some(value), _) => Some(Bound {
                    value,
                    inclusive: false,
                }),
                (None, Some(value)) => Some(Bound {
                    value,
                    inclusive: true,
                }),
                (None, None) => None,
            })
        };
        Ok(Self::Range {
            lower: bound("gt", "gte")?,
            upper: bound("lt", "lte")?,
        })
    }

    /// The matcher as written in YAML.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Fuzzy(text) => json!({ "fuzzy": text }),
            Self::Regex(pattern) => json!({ "regex": pattern.as_str() }),
            Self::Range { lower, upper } => {
                let mut map = JsonMap::new();
                if let Some(bound) = lower {
                    map.insert(
                        if bound.inclusive { "gte" } else { "gt" }.to_owned(),
                        bound.value.clone().into(),
                    );
                }
                if let Some(bound) = upper {
                    map.insert(
                        if bound.inclusive { "lte" } else { "lt" }.to_owned(),
                        bound.value.clone().into(),
                    );
                }
                Value::Object(map)
            }
            Self::Approx { value, tolerance } => {
                json!({ "approx": { "value": value, "tolerance": tolerance } })
            }
            Self::Contains(value) => json!({ "contains": value }),
            Self::Subset(value) => json!({ "subset": value }),
        }
    }
}

/// A string, or a number as a string.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl<'de> Deserialize<'de> for ArgMatcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for ArgMatcher {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl JsonSchema for ArgMatcher {
    fn schema_name() -> Cow<'static, str> {
        "ArgMatcher".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A literal value, or a mapping with one of `fuzzy`, `regex`, `gt`, `gte`, `lt`, `lte` \
                (a lower bound may be combined with an upper one), `approx` (with `value` and `tolerance`), `contains`, \
                `subset`."
        })
    }
}
