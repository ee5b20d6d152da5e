//! Reads values directly from the input and ignores those of the wrong type, so that an unusual field does not fail an
//! answer.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// A type that is read directly from the input. A value of another kind counts as absent.
pub(crate) trait Plain<'de>: Sized {
    fn of_text(_: Cow<'de, str>) -> Option<Self> {
        None
    }

    fn of_count(_: u64) -> Option<Self> {
        None
    }

    /// Any other number, or a truth value.
    fn of_scalar(_: Value) -> Option<Self> {
        None
    }

    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn of_object<A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de> Plain<'de> for Cow<'de, str> {
    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        Some(text)
    }
}

impl Plain<'_> for u64 {
    fn of_count(count: u64) -> Option<Self> {
        Some(count)
    }
}

/// Reads a value without an intermediate copy, since a stream has many chunks that repeat the same fields.
pub(crate) fn plain<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Plain<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Reader(PhantomData))
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Plain<'de>> Visitor<'de> for Reader<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(T::of_text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(T::of_text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(T::of_count(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(T::of_scalar(Value::from(number)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(T::of_scalar(Value::from(number)))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(T::of_scalar(Value::from(value)))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::of_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        T::of_object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_kind_is_absent() {
        let text =
            |json: &'static str| plain::<Cow<'_, str>, _>(&mut serde_json::Deserializer::from_str(json));
        assert!(matches!(text("\"a\""), Ok(Some(Cow::Borrowed("a")))));
        assert_eq!(text("\"a\\n\"").unwrap().unwrap(), "a\n");
        let count = |json: &'static str| plain::<u64, _>(&mut serde_json::Deserializer::from_str(json));
        assert_eq!(count("3").unwrap(), Some(3));
        for other in [
            "null",
            "true",
            "-1",
            "1.5",
            "[1, {\"a\": []}]",
            "{\"a\": {\"b\": 1}}",
        ] {
            assert_eq!(text(other).unwrap(), None, "{other}");
            assert_eq!(count(other).unwrap(), None, "{other}");
        }
        assert_eq!((text("3").unwrap(), count("\"3\"").unwrap()), (None, None));
        assert!(text("\"a").is_err() && count("[1").is_err());
    }
}
