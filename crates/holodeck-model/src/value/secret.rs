//! Secrets: read as text, never written out.

use indexmap::IndexMap;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serializer};

/// Names with values that must not be shown: environment variables and headers.
pub type SecretMap = IndexMap<String, SecretString>;

/// Reads an optional secret.
pub(crate) fn read_secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
}

/// Writes a secret as `***`.
#[expect(clippy::ref_option, reason = "the signature serde asks for")]
pub(crate) fn write_secret<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(_) => serializer.serialize_str("***"),
        None => serializer.serialize_none(),
    }
}

/// Reads names with secret values; `null` is none.
pub(crate) fn read_secrets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretMap, D::Error> {
    let values = Option::<IndexMap<String, String>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(values
        .into_iter()
        .map(|(name, value)| (name, SecretString::from(value)))
        .collect())
}

/// Writes the names with `***` for each value.
pub(crate) fn write_secrets<S: Serializer>(secrets: &SecretMap, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(secrets.keys().map(|name| (name, "***")))
}
