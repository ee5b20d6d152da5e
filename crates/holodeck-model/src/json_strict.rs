//! Reads JSON that decides about a verdict. A text with two readings is an error: no key of an object may appear twice.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::json_mend::{mend_json, tighten_json};

/// Parses JSON in which no object has a key twice, at any depth.
pub fn parse_json_strictly(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str(json).map(|UniqueKeys(value)| value)
}

/// Parses JSON that decides about a verdict, even if it contains unpaired surrogates or raw control characters in a text. A
/// key that appears twice in an object is an error.
pub fn parse_deciding(json: &str) -> serde_json::Result<Value> {
    parse_json_strictly(json).or_else(|error| {
        let mended = mend_json(json.as_bytes()).and_then(|mended| parse_json_strictly(&mended).ok());
        // What JSON does not know as a number stays an error.
        let has_only_text = || !json.contains("Infinity") && !json.contains("NaN");
        let tight = || {
            has_only_text()
                .then(|| parse_json_strictly(&tighten_json(json)).ok())
                .flatten()
        };
        mended.or_else(tight).ok_or(error)
    })
}

/// Any JSON in which no object has a key twice, at any depth; to be read as a part of another value.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers take it apart")]
pub struct UniqueKeys(pub Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor).map(Self)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueKeys(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} appears twice")));
            }
            let UniqueKeys(value) = object.next_value()?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_appears_twice_is_an_error_at_any_depth() {
        for text in [
            r#"{"score": 2, "score": 8}"#,
            r#"{"score": 8, "score": 8}"#,
            r#"{"a": 1, "b": {"c": [0, {"d": null, "d": true}]}}"#,
            r#"[{"a": 1}, {"a": 1, "b": 2, "a": 3}]"#,
            r#"{"score": 2, "\u0073core": 8}"#,
            r#"{"": 1, "": 2}"#,
        ] {
            let error = parse_json_strictly(text).unwrap_err().to_string();
            assert!(error.contains("appears twice"), "{text}: {error}");
            assert!(serde_json::from_str::<Value>(text).is_ok());
        }
    }

    #[test]
    fn one_key_in_several_objects_is_fine() {
        let text = r#"{"a": {"a": [{"a": 1.5}, {"a": -1}, {"A": "a"}]}, "b": true, "c": null}"#;
        let value = json!({"a": {"a": [{"a": 1.5}, {"a": -1}, {"A": "a"}]}, "b": true, "c": null});
        assert_eq!(parse_json_strictly(text).unwrap(), value);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,3}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_has_one_reading_is_read_as_ever(value in any_json()) {
            let text = value.to_string();
            prop_assert_eq!(parse_json_strictly(&text).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
