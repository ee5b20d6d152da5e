//! Enums whose variant is selected by a `type` key.
//!
//! They have no serde `tag`: that would buffer the mapping and lose every position inside it. The YAML deserializer
//! takes the variant from `type` instead, and this module writes the key back.

use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::Value;

use super::JsonMap;

/// Writes a variant with its `type` first.
pub(crate) fn serialize_tagged<T: Serialize, S: Serializer>(
    kind: &str,
    inner: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut tagged = JsonMap::new();
    tagged.insert("type".to_owned(), Value::from(kind));
    match serde_json::to_value(inner).map_err(S::Error::custom)? {
        Value::Object(fields) => tagged.extend(fields),
        _ => return Err(S::Error::custom("a tagged variant must be a struct")),
    }
    tagged.serialize(serializer)
}

/// `kind()` and `Serialize` for an enum of newtype variants.
macro_rules! tagged_enum {
    ($name:ident { $($variant:ident => $kind:literal),+ $(,)? }) => {
        impl $name {
            /// The `type` as written in YAML.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind,)+ }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(inner) => crate::value::serialize_tagged($kind, inner, serializer),)+
                }
            }
        }
    };
}

pub(crate) use tagged_enum;
