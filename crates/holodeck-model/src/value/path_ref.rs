//! A path written in a YAML file, with the directory of that file.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Visitor},
};

/// A path as written, relative to the YAML file that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRef {
    text: String,
    base: PathBuf,
}

impl PathRef {
    /// The newtype name that makes the YAML deserializer pass the base directory too.
    pub const NEWTYPE: &str = "$holodeck::PathRef";

    /// A path relative to `base`.
    pub fn new(text: impl Into<String>, base: impl Into<PathBuf>) -> Self {
        Self {
            text: text.into(),
            base: base.into(),
        }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The directory of the YAML file that names it.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The path to open.
    pub fn path(&self) -> PathBuf {
        self.base.join(&self.text)
    }
}

impl fmt::Display for PathRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for PathRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for PathRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathVisitor;

        impl<'de> Visitor<'de> for PathVisitor {
            type Value = PathRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PathRef, E> {
                Ok(PathRef::new(text, ""))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<PathRef, D::Error> {
                Ok(PathRef::new(String::deserialize(deserializer)?, ""))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<PathRef, A::Error> {
                let missing = || de::Error::custom("a path must have a text and a base");
                let text: String = parts.next_element()?.ok_or_else(missing)?;
                let base: String = parts.next_element()?.ok_or_else(missing)?;
                Ok(PathRef::new(text, base))
            }
        }

        deserializer.deserialize_newtype_struct(Self::NEWTYPE, PathVisitor)
    }
}

impl JsonSchema for PathRef {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PathRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "\\S", "x-path": true })
    }
}
