//! Reads JSON that decides about a verdict. A text with two readings is an error: no key of an object may appear twice.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// Parses JSON in which no object has a key twice, at any depth.
pub fn parse_json_strictly(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str::<UniqueKeys>(json)?;
    serde_json::from_str(json)
}

/// Any JSON in which no object has a key twice.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = object.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} appears twice")));
            }
            keys.insert(key);
            object.next_value::<Self>()?;
        }
        Ok(self)
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
