//! Reads responses of OpenAI-compatible servers. Everything except `choices` is optional; a field of an unexpected type
//! counts as absent.

use std::borrow::Cow;

use holodeck_model::UniqueKeys;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Map, Value};

use crate::json::{halves, numbers};

mod content;
mod message;
mod object;
mod plain;
mod usage;

pub(crate) use content::Content;
pub(crate) use message::{Message, is_opaque};
pub(crate) use object::Object;
pub(crate) use plain::plain;
pub(crate) use usage::{Timings, Usage};

/// A chunk of a stream, or a whole answer: they differ only in `delta` and `message`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) choices: Option<Vec<Object<Choice<'a>>>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) usage: Option<Usage>,
    /// Groq's place of the usage.
    #[serde(deserialize_with = "lenient")]
    pub(crate) x_groq: Option<NestedUsage>,
    /// llama.cpp's place of it.
    #[serde(deserialize_with = "lenient")]
    pub(crate) timings: Option<Timings>,
    pub(crate) error: Option<Value>,
    /// MiniMax's place of an error, beside an answer or in its place.
    pub(crate) base_resp: Option<Value>,
    /// `error` when the chunk itself is one, as vLLM and FastChat send it.
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) object: Option<Cow<'a, str>>,
}

impl Chunk<'_> {
    /// Whether it has nothing but perhaps choices that is known here.
    pub(crate) fn is_unknown_beside_choices(&self) -> bool {
        let is_chunk = self
            .object
            .as_deref()
            .is_some_and(|object| object.contains("completion"));
        !is_chunk && self.usage.is_none() && self.x_groq.is_none() && self.timings.is_none()
    }
}

/// Usage in an object of the server's own.
#[derive(Debug, Deserialize)]
pub(crate) struct NestedUsage {
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) usage: Option<Usage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice<'a> {
    /// OpenRouter reports a provider's failure here.
    pub(crate) error: Option<Value>,
    #[serde(deserialize_with = "plain")]
    pub(crate) index: Option<u64>,
    #[serde(borrow)]
    pub(crate) delta: Option<Box<Message<'a>>>,
    #[serde(borrow)]
    pub(crate) message: Option<Box<Message<'a>>>,
    /// The text of the older API of completions.
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) text: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) logprobs: Option<LogProbs>,
    pub(crate) finish_reason: Option<Reason>,
    /// Moonshot's place of the usage.
    #[serde(deserialize_with = "lenient")]
    pub(crate) usage: Option<Usage>,
}

/// Why an answer ended. What is not text must not count as absent, so it becomes its JSON text.
#[derive(Debug)]
pub(crate) struct Reason(pub(crate) String);

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::String(word) => halves::join(&word).into_owned(),
            mut other => {
                halves::join_in(&mut other);
                numbers::unwrap(&other.to_string()).into_owned()
            }
        }))
    }
}

/// The tokens of a chunk.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct LogProbs {
    #[serde(default)]
    pub(crate) content: Option<Vec<Token>>,
}

/// A token, and what else the model could have written in its place.
#[derive(Debug, Deserialize)]
pub(crate) struct Token {
    #[serde(rename = "token")]
    pub(crate) text: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) logprob: Option<f64>,
    /// Its bytes, since a token may be a part of a character.
    #[serde(default)]
    pub(crate) bytes: Option<Vec<u8>>,
    #[serde(default)]
    pub(crate) top_logprobs: Option<Vec<Alternative>>,
}

/// A token that the model could have written.
#[derive(Debug, Deserialize)]
pub(crate) struct Alternative {
    #[serde(rename = "token")]
    pub(crate) text: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) logprob: Option<f64>,
}

/// A tool call or a piece of one.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CallFragment {
    #[serde(deserialize_with = "lenient")]
    pub(crate) index: Option<u64>,
    /// Never in pieces.
    #[serde(deserialize_with = "whole_text")]
    pub(crate) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) function: Option<FunctionFragment>,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl CallFragment {
    /// A call in the older form, which has neither id nor index.
    pub(crate) fn of_function(function: FunctionFragment) -> Self {
        Self {
            function: Some(function),
            ..Self::default()
        }
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct FunctionFragment {
    /// Never in pieces.
    #[serde(deserialize_with = "whole_text")]
    pub(crate) name: Option<String>,
    /// A string of JSON; some servers send the object itself.
    pub(crate) arguments: Value,
    /// Fields that are not known here.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// Reads tool calls. A call must not disappear, so what has not their form is an error.
fn call_fragments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CallFragment>, D::Error> {
    let entries = match UniqueKeys::deserialize(deserializer)?.0 {
        Value::Array(entries) => entries,
        Value::Object(entry) if !entry.is_empty() => vec![Value::Object(entry)],
        Value::Null | Value::Bool(false) | Value::Object(_) => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        _ => return Err(D::Error::custom("`tool_calls` is not a list")),
    };
    let entries = entries.into_iter().filter(|entry| !entry.is_null());
    let fragments = entries.map(|entry| match entry {
        Value::Object(_) => serde_json::from_value(entry).map_err(D::Error::custom),
        _ => Err(D::Error::custom("an entry of `tool_calls` is not a call")),
    });
    fragments.collect()
}

/// Reads a call in the older form. As with [`call_fragments`], what has not its form is an error.
fn function_fragment<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<FunctionFragment>, D::Error> {
    match UniqueKeys::deserialize(deserializer)?.0 {
        Value::Object(function) if !function.is_empty() => serde_json::from_value(Value::Object(function))
            .map(Some)
            .map_err(D::Error::custom),
        Value::Null | Value::Bool(false) | Value::Object(_) => Ok(None),
        Value::String(text) if text.is_empty() => Ok(None),
        Value::Array(list) if list.is_empty() => Ok(None),
        _ => Err(D::Error::custom("`function_call` is not a call")),
    }
}

/// Reads a text that does not come in pieces, so that no half of a letter in it waits for the other one.
fn whole_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: Option<String> = lenient(deserializer)?;
    Ok(text.map(|text| halves::join(&text).into_owned()))
}

/// Reads a value; one of another type counts as absent.
pub(crate) fn lenient<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let value = Value::deserialize(deserializer)?;
    Ok(if value.is_null() {
        None
    } else {
        serde_json::from_value(value).ok()
    })
}
