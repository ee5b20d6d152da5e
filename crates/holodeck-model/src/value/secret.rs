//! Reads secrets as text and never writes them out.

use indexmap::IndexMap;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;

use super::JsonMap;
use crate::redact::{MASK, names_a_secret};

/// Names with values that must not be shown: environment variables and headers.
pub type SecretMap = IndexMap<String, SecretString>;

/// Reads an optional secret.
pub(crate) fn read_secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
}

/// Writes a secret as `***`.
#[expect(clippy::ref_option, reason = "serde requires this signature")]
pub(crate) fn write_secret<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(_) => serializer.serialize_str(MASK),
        None => serializer.serialize_none(),
    }
}

/// Reads names with secret values; `null` is an empty map.
pub(crate) fn read_secrets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretMap, D::Error> {
    let values = Option::<IndexMap<String, String>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(values
        .into_iter()
        .map(|(name, value)| (name, SecretString::from(value)))
        .collect())
}

/// Writes the names with `***` for each value.
pub(crate) fn write_secrets<S: Serializer>(secrets: &SecretMap, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(secrets.keys().map(|name| (name, MASK)))
}

/// Options of a connector that may contain a secret although their names do not indicate it.
const SECRET_OPTIONS: [&str; 2] = ["headers", "url"];

/// Writes the options of a connector, which have no types of their own, with `***` for those that are secrets.
pub(crate) fn write_options<S: Serializer>(options: &JsonMap, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(options.iter().map(|(name, value)| {
        let secret = names_a_secret(name) || SECRET_OPTIONS.contains(&name.as_str());
        (name, if secret { mask_leaves(value) } else { value.clone() })
    }))
}

fn mask_leaves(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), mask_leaves(value)))
            .collect(),
        Value::Null => Value::Null,
        _ => MASK.into(),
    }
}
