//! Reads the fields of requests of OpenAI clients: null is as absent, and 1.0 is 1. Errors name the field.

use holodeck_model::json_kind;
use serde_json::{Map, Value};

use crate::problem::{Problem, Result};

/// The fields of an object in a request.
pub(crate) struct Fields {
    fields: Map<String, Value>,
    /// Where the object is, as in `stream_options.`; empty for the request itself.
    place: String,
}

/// The kind of value that a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Flag,
    /// A whole number from 0.
    Count,
    /// A whole number.
    Whole,
    Number,
    Object,
    List,
    TextOrList,
    TextOrObject,
}

impl Fields {
    /// The fields of a request.
    pub(crate) fn new(fields: Map<String, Value>) -> Self {
        Self {
            fields,
            place: String::new(),
        }
    }

    /// The fields of an object in a list.
    pub(crate) fn of(value: Value, place: &str) -> Result<Self> {
        match value {
            Value::Object(fields) => Ok(Self {
                fields,
                place: format!("{place}."),
            }),
            other => Err(wrong(place, Kind::Object, &other)),
        }
    }

    /// The place of a field, for errors.
    pub(crate) fn place(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }

    /// Takes the value of a field, unless it is absent or null.
    pub(crate) fn take(&mut self, name: &str, kind: Kind) -> Result<Option<Value>> {
        match self.fields.shift_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) if kind.fits(&value) => Ok(Some(value)),
            Some(value) => Err(wrong(&self.place(name), kind, &value)),
        }
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        let value = self.take(name, Kind::Text)?;
        Ok(value.and_then(|value| match value {
            Value::String(text) => Some(text),
            _ => None,
        }))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        Ok(self.take(name, Kind::Flag)?.and_then(|value| value.as_bool()))
    }

    pub(crate) fn count(&mut self, name: &str) -> Result<Option<u32>> {
        let value = self.take(name, Kind::Count)?;
        Ok(value
            .and_then(|value| whole(&value))
            .and_then(|number| u32::try_from(number).ok()))
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        let value = self.take(name, Kind::List)?;
        Ok(value.and_then(|value| match value {
            Value::Array(items) => Some(items),
            _ => None,
        }))
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Self>> {
        let place = self.place(name);
        let value = self.take(name, Kind::Object)?;
        value.map(|value| Self::of(value, &place)).transpose()
    }

    /// Checks fields that have no effect here.
    pub(crate) fn ignore(&mut self, names: &[(&str, Kind)]) -> Result<()> {
        for (name, kind) in names {
            self.take(name, *kind)?;
        }
        Ok(())
    }

    /// Refuses fields, except with a value that asks for nothing.
    pub(crate) fn refuse(&mut self, refused: &[Refused]) -> Result<()> {
        for Refused {
            name,
            kind,
            allowed,
            why,
        } in refused
        {
            let value = self.take(name, *kind)?;
            if value
                .is_some_and(|value| !asks_for_nothing(&value) && !allowed.iter().any(|word| value == *word))
            {
                let place = self.place(name);
                return Err(Problem::invalid(format!("`{place}` is not accepted: {why}")).about(place));
            }
        }
        Ok(())
    }

    /// An error about a field.
    pub(crate) fn invalid(&self, name: &str, why: &str) -> Problem {
        let place = self.place(name);
        Problem::invalid(format!("`{place}` {why}")).about(place)
    }
}

/// A field that is refused by name.
pub(crate) struct Refused {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Words that are accepted nevertheless.
    pub(crate) allowed: &'static [&'static str],
    pub(crate) why: &'static str,
}

fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => whole(value) == Some(0),
        Value::Null => true,
        Value::String(_) => false,
    }
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Count => whole(value).is_some_and(|number| u32::try_from(number).is_ok()),
            Self::Whole => whole(value).is_some(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
            Self::TextOrList => value.is_string() || value.is_array(),
            Self::TextOrObject => value.is_string() || value.is_object(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Flag => "true or false",
            Self::Count => "a whole number from 0",
            Self::Whole => "a whole number",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::List => "a list",
            Self::TextOrList => "a text or a list",
            Self::TextOrObject => "a text or an object",
        }
    }
}

/// A whole number, also one that is written as 1.0.
#[allow(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "only whole numbers in the range that a float counts exactly"
)]
fn whole(value: &Value) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        (number.trunc() == number && number.abs() <= EXACT).then_some(number as i64)
    })
}

fn wrong(place: &str, kind: Kind, value: &Value) -> Problem {
    let found = match value {
        Value::Number(_) => "another number",
        other => json_kind(other),
    };
    Problem::invalid(format!("`{place}` must be {}, found {found}", kind.words())).about(place)
}
