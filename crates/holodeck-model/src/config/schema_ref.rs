//! JSON Schemas written inline or kept in a file.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use crate::value::{JsonMap, PathRef};

/// A JSON Schema: a mapping, or the path of a JSON file.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaRef {
    /// Written in the YAML.
    Inline(Value),
    /// Kept in a file.
    File {
        /// The path as written.
        path: PathRef,
        /// The content of the file; the loader sets it.
        schema: Option<Value>,
    },
}

/// `response_format`: the schema that the answer must match.
pub type ResponseFormat = SchemaRef;

impl SchemaRef {
    /// The schema. Absent only before the loader has read the file.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Inline(schema) => Some(schema),
            Self::File { schema, .. } => schema.as_ref(),
        }
    }
}

impl Serialize for SchemaRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inline(schema) => schema.serialize(serializer),
            Self::File { path, .. } => path.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SchemaRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SchemaVisitor;

        impl<'de> Visitor<'de> for SchemaVisitor {
            type Value = SchemaRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON Schema or the path of a JSON file")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SchemaRef, E> {
                Ok(SchemaRef::File {
                    path: PathRef::new(text, ""),
                    schema: None,
                })
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<SchemaRef, D::Error> {
                deserializer.deserialize_any(SchemaVisitor)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<SchemaRef, A::Error> {
                let text: String = parts.next_element()?.unwrap_or_default();
                let base: String = parts.next_element()?.unwrap_or_default();
                Ok(SchemaRef::File {
                    path: PathRef::new(text, base),
                    schema: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SchemaRef, A::Error> {
                let schema = JsonMap::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SchemaRef::Inline(Value::Object(schema)))
            }
        }

        deserializer.deserialize_newtype_struct(PathRef::NEWTYPE, SchemaVisitor)
    }
}

impl JsonSchema for SchemaRef {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SchemaRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "pattern": "\\S" },
            { "type": "object", "additionalProperties": true },
        ] })
    }
}
