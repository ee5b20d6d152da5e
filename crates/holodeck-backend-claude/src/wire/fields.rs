//! Takes typed values out of JSON objects. A value of the wrong type counts as absent, so that a new CLI version cannot
//! stop the reader.

use serde_json::{Map, Value};

/// Takes fields out of an object. A field of the wrong type counts as absent.
pub(super) trait Fields {
    fn take_text(&mut self, name: &str) -> Option<String>;
    fn take_map(&mut self, name: &str) -> Option<Map<String, Value>>;
    fn take_list(&mut self, name: &str) -> Vec<Value>;
    /// Any value but `null`.
    fn take_value(&mut self, name: &str) -> Option<Value>;
    fn number(&self, name: &str) -> Option<u64>;
    fn float(&self, name: &str) -> Option<f64>;
    /// `false` unless the value is `true`.
    fn flag(&self, name: &str) -> bool;
    fn status(&self, name: &str) -> Option<u16>;
}

impl Fields for Map<String, Value> {
    fn take_text(&mut self, name: &str) -> Option<String> {
        match self.get_mut(name) {
            Some(Value::String(text)) => Some(std::mem::take(text)),
            _ => None,
        }
    }

    fn take_map(&mut self, name: &str) -> Option<Map<String, Value>> {
        match self.get_mut(name) {
            Some(Value::Object(map)) => Some(std::mem::take(map)),
            _ => None,
        }
    }

    fn take_list(&mut self, name: &str) -> Vec<Value> {
        match self.get_mut(name) {
            Some(Value::Array(list)) => std::mem::take(list),
            _ => Vec::new(),
        }
    }

    fn take_value(&mut self, name: &str) -> Option<Value> {
        self.get_mut(name)
            .map(Value::take)
            .filter(|value| !value.is_null())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    fn float(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }

    fn status(&self, name: &str) -> Option<u16> {
        self.number(name)?.try_into().ok()
    }
}

/// The strings of a list.
pub(super) fn texts(list: Vec<Value>) -> Vec<String> {
    list.into_iter()
        .filter_map(|value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
        .collect()
}

/// The objects of a list.
pub(super) fn maps(list: Vec<Value>) -> Vec<Map<String, Value>> {
    list.into_iter()
        .filter_map(|value| match value {
            Value::Object(map) => Some(map),
            _ => None,
        })
        .collect()
}
