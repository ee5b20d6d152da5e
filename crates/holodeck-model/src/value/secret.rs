//! Secrets: read as text, never written out.

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serializer};

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
