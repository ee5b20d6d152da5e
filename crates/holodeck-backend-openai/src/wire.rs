//! Reads responses of OpenAI-compatible servers. Everything except `choices` is optional; a field of an unexpected type
//! counts as absent.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

mod content;
mod plain;
mod usage;

pub(crate) use content::Content;
pub(crate) use plain::plain;
pub(crate) use usage::Usage;

/// A chunk of a stream, or a whole answer: they differ only in `delta` and `message`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) choices: Option<Vec<Choice<'a>>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) usage: Option<Usage>,
    pub(crate) error: Option<Value>,
    /// `error` when the chunk itself is one, as vLLM and FastChat send it.
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) object: Option<Cow<'a, str>>,
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
    #[serde(deserialize_with = "lenient")]
    pub(crate) logprobs: Option<LogProbs>,
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) finish_reason: Option<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) content: Content<'a>,
    /// DeepSeek, vLLM, llama.cpp.
    #[serde(borrow)]
    pub(crate) reasoning_content: Content<'a>,
    /// OpenRouter, Ollama, newer vLLM. Some servers send both with the same text.
    #[serde(borrow)]
    pub(crate) reasoning: Content<'a>,
    #[serde(borrow, deserialize_with = "plain")]
    pub(crate) refusal: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) tool_calls: Option<Vec<CallFragment>>,
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
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallFragment {
    #[serde(deserialize_with = "lenient")]
    pub(crate) index: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) function: Option<FunctionFragment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FunctionFragment {
    #[serde(deserialize_with = "lenient")]
    pub(crate) name: Option<String>,
    /// A string of JSON; some servers send the object itself.
    pub(crate) arguments: Value,
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
