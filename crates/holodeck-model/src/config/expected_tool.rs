//! Which tools a test expects to be called.

use std::{borrow::Cow, fmt};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeMap,
};

use super::ArgMatcher;

/// A tool call that a test expects: its name, arguments if they matter, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedTool {
    /// Name of the tool.
    pub name: String,
    /// Arguments that must match; others are free.
    pub args: IndexMap<String, ArgMatcher>,
    /// How many calls must match at least.
    pub count: u32,
}

impl ExpectedTool {
    /// An expectation of one call with any arguments.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            args: IndexMap::new(),
            count: 1,
        }
    }

    /// Whether only the name matters.
    pub fn is_simple(&self) -> bool {
        self.args.is_empty() && self.count <= 1
    }
}

/// Whether the order of the expected calls matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrder {
    /// It does not.
    #[default]
    Any,
    /// The expected calls happen in the order of the list; further calls between them are free.
    Strict,
}

/// A call with what is expected of it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExpectedCall {
    /// Name of the tool.
    #[schemars(regex(pattern = r"\S"))]
    name: String,
    /// Arguments that must match: literal values or matchers.
    #[serde(default, deserialize_with = "crate::value::nullable")]
    #[schemars(with = "Option<IndexMap<String, ArgMatcher>>")]
    args: IndexMap<String, ArgMatcher>,
    /// How many calls must match at least.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    count: u32,
}

fn one() -> u32 {
    1
}

impl<'de> Deserialize<'de> for ExpectedTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrCall;

        impl<'de> Visitor<'de> for NameOrCall {
            type Value = ExpectedTool;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a tool or a mapping with `name`, `args` and `count`")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<ExpectedTool, E> {
                Ok(ExpectedTool::named(name))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ExpectedTool, A::Error> {
                let ExpectedCall { name, args, count } =
                    Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ExpectedTool { name, args, count })
            }
        }

        deserializer.deserialize_str(NameOrCall)
    }
}

impl Serialize for ExpectedTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_simple() {
            return serializer.serialize_str(&self.name);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if !self.args.is_empty() {
            map.serialize_entry("args", &self.args)?;
        }
        if self.count != 1 {
            map.serialize_entry("count", &self.count)?;
        }
        map.end()
    }
}

impl JsonSchema for ExpectedTool {
    fn schema_name() -> Cow<'static, str> {
        "ExpectedTool".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let call = generator.subschema_for::<ExpectedCall>();
        schemars::json_schema!({
            "description": "A tool call that a test expects: a name, or a mapping with arguments and a count.",
            "anyOf": [{ "type": "string", "pattern": "\\S" }, call],
        })
    }
}
