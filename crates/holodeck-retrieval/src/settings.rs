//! Reads the options of a `database` block. An option that the store does not support is an error.

use std::ops::RangeInclusive;

use holodeck_model::JsonMap;
use serde_json::Value;

use crate::RetrievalError;

/// The additional keys of a `database:` that go to its connector.
pub(crate) struct Settings<'a> {
    store: &'static str,
    options: &'a JsonMap,
}

impl<'a> Settings<'a> {
    /// Returns an error that names the first key the connector does not support.
    pub(crate) fn new(
        store: &'static str,
        options: &'a JsonMap,
        known: &[&str],
    ) -> Result<Self, RetrievalError> {
        let settings = Self { store, options };
        match options.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                Err(settings.error(format!("unknown option `{key}`; options: {}", known.join(", "))))
            }
            None => Ok(settings),
        }
    }

    /// The first of these keys that is set, as a string.
    pub(crate) fn text(&self, names: &[&'static str]) -> Result<Option<String>, RetrievalError> {
        match self.find(names) {
            None => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text.clone())),
            Some((_, Value::Number(number))) => Ok(Some(number.to_string())),
            Some((_, Value::Bool(bool))) => Ok(Some(bool.to_string())),
            Some((name, _)) => Err(self.error(format!("`{name}` must be a string"))),
        }
    }

    /// The first of these keys that is set, as a whole number.
    pub(crate) fn number(&self, names: &[&'static str]) -> Result<Option<u64>, RetrievalError> {
        let Some((name, value)) = self.find(names) else {
            return Ok(None);
        };
        let number = value
            .as_u64()
            .or_else(|| value.as_str().and_then(|text| text.parse().ok()));
        number
            .map(Some)
            .ok_or_else(|| self.error(format!("`{name}` must be a whole number")))
    }

    /// The first of these keys that is set, as a mapping of strings.
    pub(crate) fn texts(&self, names: &[&'static str]) -> Result<Vec<(String, String)>, RetrievalError> {
        let Some((name, value)) = self.find(names) else {
            return Ok(Vec::new());
        };
        let wrong = || self.error(format!("`{name}` must be a mapping of strings"));
        let map = value.as_object().ok_or_else(wrong)?;
        map.iter()
            .map(|(key, value)| Ok((key.clone(), value.as_str().ok_or_else(wrong)?.to_owned())))
            .collect()
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> RetrievalError {
        RetrievalError::Store {
            store: self.store.to_owned(),
            reason: reason.into(),
        }
    }

    fn find(&self, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        names.iter().find_map(|name| {
            let value = self.options.get(*name)?;
            (!value.is_null()).then_some((*name, value))
        })
    }
}

/// A collection name that a server accepts, derived from any string: lowercase letters, digits and underscores, within
/// `lengths`. A hash distinguishes names that had to be changed or cut.
pub(crate) fn collection_name(text: &str, lengths: RangeInclusive<usize>) -> String {
    use sha2::{Digest as _, Sha256};

    let plain: String = text
        .chars()
        .map(|c| match c {
            'a'..='z' | '0'..='9' | '_' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '_',
        })
        .collect();
    let lossless = text
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'));
    if lossless && lengths.contains(&plain.len()) {
        return plain;
    }
    let hash = Sha256::digest(text.as_bytes());
    let mark = hash
        .iter()
        .take(4)
        .fold(0_u32, |mark, byte| (mark << 8) | u32::from(*byte));
    let mark = format!("{mark:08x}");
    let start: String = plain
        .chars()
        .take(lengths.end().saturating_sub(mark.len() + 1))
        .collect();
    format!("{start}_{mark}")
}

#[cfg(test)]
mod tests {
    use holodeck_model::JsonMap;
    use serde_json::{Value, json};

    use super::{Settings, collection_name};

    fn map(value: Value) -> JsonMap {
        match value {
            Value::Object(map) => map,
            _ => unreachable!(),
        }
    }

    #[test]
    fn an_unknown_key_is_named() {
        let options = map(json!({"tabel": "x"}));
        let error = Settings::new("postgres", &options, &["table"]).err().unwrap();
        assert_eq!(
            error.to_string(),
            "postgres: unknown option `tabel`; options: table"
        );
    }

    #[test]
    fn values_are_read_by_their_kind() {
        let options = map(json!({"a": "1", "b": 2, "c": [], "d": null}));
        let settings = Settings::new("qdrant", &options, &["a", "b", "c", "d"]).unwrap();
        assert_eq!(settings.number(&["d", "a"]).unwrap(), Some(1));
        assert_eq!(settings.text(&["b"]).unwrap().as_deref(), Some("2"));
        assert_eq!(settings.text(&["d"]).unwrap(), None);
        assert_eq!(
            settings.number(&["c"]).unwrap_err().to_string(),
            "qdrant: `c` must be a whole number"
        );
    }

    #[test]
    fn two_texts_never_have_the_same_name() {
        assert_eq!(collection_name("support-kb", 1..=50), "support_kb");
        assert_ne!(collection_name("Support kb", 1..=50), "support_kb");
        assert_eq!(
            collection_name("support kb", 1..=20).len(),
            "support_kb_".len() + 8
        );
        assert_eq!(collection_name(&"x".repeat(100), 1..=50).len(), 50);
        assert_eq!(collection_name("kb", 1..=50), "kb");
        assert!(collection_name("kb", 3..=50).len() > 2);
    }
}
