//! Reads a message of the model, or a piece of one. Fields that are not known are kept.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{CallFragment, Content, FunctionFragment, call_fragments, function_fragment, plain};

/// A message, or a piece of one.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    pub(crate) content: Content<'a>,
    /// DeepSeek, vLLM, llama.cpp.
    pub(crate) reasoning_content: Option<Content<'a>>,
    /// OpenRouter, Ollama, newer vLLM. Some servers send both with the same text.
    pub(crate) reasoning: Option<Content<'a>>,
    pub(crate) refusal: Option<Cow<'a, str>>,
    pub(crate) tool_calls: Vec<CallFragment>,
    /// The older form of a single call.
    pub(crate) function_call: Option<FunctionFragment>,
    /// Fields that are not known here.
    pub(crate) others: Map<String, Value>,
}

/// Reads by one of the functions of the wire.
macro_rules! readers {
    ($($name:ident: $type:ty = $read:expr;)*) => {$(
        struct $name<'a>($type, std::marker::PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $read(deserializer).map(|value| Self(value, std::marker::PhantomData))
            }
        }
    )*};
}

readers! {
    Text: Option<Cow<'a, str>> = plain;
    MaybeContent: Option<Content<'a>> = plain;
    Calls: Vec<CallFragment> = call_fragments;
    Function: Option<FunctionFragment> = function_fragment;
}

/// The name of a field.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        plain(deserializer).map(|name| Self(name.unwrap_or_default()))
    }
}

impl Message<'_> {
    /// Whether it has something to grade: text, a call or a refusal.
    pub(crate) fn says_something(&self) -> bool {
        !self.content.text.is_empty()
            || !self.content.refusal.is_empty()
            || !self.tool_calls.is_empty()
            || self.function_call.is_some()
            || self.refusal.as_deref().is_some_and(|text| !text.is_empty())
    }

    /// Whether it says the same as another one.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.content == other.content
            && self.tool_calls == other.tool_calls
            && self.function_call == other.function_call
            && self.refusal == other.refusal
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut message = Message::default();
        let mut seen = [false; FIELDS.len()];
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            // A second value would be another reading.
            let known = FIELDS.iter().position(|known| *known == name);
            if let Some(seen) = known.and_then(|known| seen.get_mut(known))
                && std::mem::replace(seen, true)
            {
                return Err(A::Error::custom(format_args!("`{name}` appears twice")));
            }
            match &*name {
                "content" => message.content = map.next_value()?,
                "reasoning_content" => message.reasoning_content = map.next_value::<MaybeContent<'_>>()?.0,
                "reasoning" => message.reasoning = map.next_value::<MaybeContent<'_>>()?.0,
                "refusal" => message.refusal = map.next_value::<Text<'_>>()?.0,
                "tool_calls" => message.tool_calls = map.next_value::<Calls<'_>>()?.0,
                "function_call" => message.function_call = map.next_value::<Function<'_>>()?.0,
                name if is_opaque(name) => {
                    message.others.insert(name.to_owned(), map.next_value()?);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(message)
    }
}

/// Fields of a message that every server knows or that belong to the piece of the stream.
const KNOWN: [&str; 8] = [
    "role",
    "content",
    "tool_calls",
    "function_call",
    "refusal",
    "audio",
    "annotations",
    "index",
];

/// Whether a field of a message goes back as it came.
pub(crate) fn is_opaque(name: &str) -> bool {
    !KNOWN.contains(&name)
}

/// The fields that decide what an answer is.
const FIELDS: [&str; 6] = [
    "content",
    "reasoning_content",
    "reasoning",
    "refusal",
    "tool_calls",
    "function_call",
];
