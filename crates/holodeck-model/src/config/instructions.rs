//! Where the system prompt comes from.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::value::PathRef;

/// The system prompt, or none: an assistant behind an endpoint may bring its own.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum InstructionsConfig {
    /// No system message is sent.
    None(NoInstructions),
    /// A prompt.
    Prompt(PromptSource),
}

/// The word for no system message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoInstructions {
    /// The assistant behind the endpoint has its own instructions.
    None,
}

impl JsonSchema for NoInstructions {
    fn schema_name() -> Cow<'static, str> {
        "NoInstructions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^none$",
            "x-form": "`none`, or a mapping with `file` or `inline`",
        })
    }
}

/// The system prompt: a file or a text, exactly one of them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptSource {
    /// A text file. A `---` block at its top (version, author, description, tags) is not part of the prompt.
    pub file: Option<PathRef>,
    /// The prompt itself.
    #[schemars(regex(pattern = r"\S"))]
    pub inline: Option<String>,
}

impl InstructionsConfig {
    /// The prompt, if there is one.
    pub fn prompt(&self) -> Option<&PromptSource> {
        match self {
            Self::None(_) => None,
            Self::Prompt(source) => Some(source),
        }
    }
}

impl<'de> Deserialize<'de> for InstructionsConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SourceVisitor;

        impl<'de> Visitor<'de> for SourceVisitor {
            type Value = InstructionsConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, or a mapping with `file` or `inline`")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                match word {
                    "none" => Ok(InstructionsConfig::None(NoInstructions::None)),
                    _ => Err(E::custom(
                        "`instructions` is `none`, or a mapping with `file` or `inline`",
                    )),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let source = PromptSource::deserialize(MapAccessDeserializer::new(map))?;
                Ok(InstructionsConfig::Prompt(source))
            }
        }

        deserializer.deserialize_any(SourceVisitor)
    }
}
