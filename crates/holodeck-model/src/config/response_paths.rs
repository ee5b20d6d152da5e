//! Where the parts of an answer are in the JSON of a target.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// The paths of the parts of an answer, each a JSONPath (RFC 9535).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsePaths {
    /// The text of the answer: exactly one string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<ResponsePath>,
    /// The tool calls of the service, each with `name` and `arguments`, or in the form of OpenAI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<ResponsePath>,
    /// The results of the calls, each with `call_id` (or in the order of the calls) and `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_results: Option<ResponsePath>,
    /// The texts of the passages that the answer was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieval_context: Option<ResponsePath>,
    /// The tokens: an object with `prompt_tokens` and `completion_tokens`, or `input_tokens` and `output_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ResponsePath>,
    /// The cost of the answer in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<ResponsePath>,
    /// The reason for which the answer ended, such as `stop` or `length`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<ResponsePath>,
    /// An error that the service reports in its answer: where it matches, the case is an error. It may always be absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ResponsePath>,
    /// The service's own id of the conversation, which the next message has as `session_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<ResponsePath>,
}

impl ResponsePaths {
    /// Each path with the name of its part.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &ResponsePath)> {
        let Self {
            text,
            tool_calls,
            tool_results,
            retrieval_context,
            usage,
            cost,
            finish_reason,
            error,
            session,
        } = self;
        let paths = [
            ("text", text),
            ("tool_calls", tool_calls),
            ("tool_results", tool_results),
            ("retrieval_context", retrieval_context),
            ("usage", usage),
            ("cost", cost),
            ("finish_reason", finish_reason),
            ("error", error),
            ("session", session),
        ];
        paths
            .into_iter()
            .filter_map(|(name, path)| Some((name, path.as_ref()?)))
    }
}

/// A JSONPath, and whether it may match nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ResponsePath {
    /// A path that must match.
    Path(#[schemars(regex(pattern = r"\S"))] String),
    /// A path with more about it.
    Detailed(DetailedPath),
}

/// A JSONPath with more about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DetailedPath {
    /// The JSONPath.
    #[schemars(regex(pattern = r"\S"))]
    pub path: String,
    /// Whether an answer may lack it.
    #[serde(default)]
    pub optional: bool,
}

impl ResponsePath {
    /// The JSONPath as written.
    pub fn path(&self) -> &str {
        match self {
            Self::Path(path) => path,
            Self::Detailed(detailed) => &detailed.path,
        }
    }

    /// Whether an answer may lack it.
    pub fn is_optional(&self) -> bool {
        match self {
            Self::Path(_) => false,
            Self::Detailed(detailed) => detailed.optional,
        }
    }
}

impl<'de> Deserialize<'de> for ResponsePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathVisitor;

        impl<'de> Visitor<'de> for PathVisitor {
            type Value = ResponsePath;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSONPath, or a mapping with `path` and `optional`")
            }

            fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<Self::Value, E> {
                Ok(ResponsePath::Path(path.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                DetailedPath::deserialize(MapAccessDeserializer::new(map)).map(ResponsePath::Detailed)
            }
        }

        deserializer.deserialize_any(PathVisitor)
    }
}
