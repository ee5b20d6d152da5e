//! Answers that replace a tool.

use std::{borrow::Cow, fmt, time::Duration};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use super::ArgMatcher;
use crate::value::{JsonMap, nullable};

/// The answers of a tool that is not run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MockConfig {
    /// The answers, in the order in which they are given.
    pub answers: Vec<MockAnswer>,
    /// The result of a call when no answer is left for it.
    pub when_used_up: MockUsedUp,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct MockAnswer {
    /// Arguments that a call must have to get it; others are free.
    pub args: IndexMap<String, ArgMatcher>,
    /// The outcome of the call.
    pub outcome: MockOutcome,
    /// How long it takes.
    pub delay: Duration,
    /// How many calls get it; `None`: all.
    pub times: Option<u32>,
}

/// The outcome of a mocked call.
#[derive(Clone, Debug, PartialEq)]
pub enum MockOutcome {
    /// An answer; anything but a string is returned as JSON.
    Result(Value),
    /// An error that is reported to the model.
    Error(String),
    /// The tool cannot be run at all, which ends the turn.
    Unavailable(String),
}

/// The result of a call when no answer of the script is left for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MockUsedUp {
    /// None: the turn ends as `tool execution failed`.
    #[default]
    Fail,
    /// Repeat the last answer that matches.
    RepeatLast,
    /// Start again with the first answer.
    Restart,
}

/// The answers of an MCP server's tools, without the server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpMockConfig {
    /// The tools that the server has, by name, each with its answers.
    #[schemars(extend("minProperties" = 1))]
    pub tools: IndexMap<String, MockedMcpTool>,
}

/// A tool of a mocked MCP server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MockedMcpTool {
    /// The purpose of the tool; the server's description if absent.
    pub description: Option<String>,
    /// A JSON Schema for each argument; anything is accepted if absent.
    pub parameters: Option<IndexMap<String, JsonMap>>,
    /// The answers of the tool.
    pub mock: MockConfig,
}

/// Answers instead of the tool, which does not run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MockFields {
    /// The answer; anything but a string is returned as JSON.
    result: Option<Value>,
    /// An error as the answer; the model receives it and continues.
    error: Option<String>,
    /// Why the tool cannot be run at all; the turn ends as `tool execution failed`.
    unavailable: Option<String>,
    /// Milliseconds before it answers.
    delay_ms: Option<u64>,
    /// Answers in order: a call gets the first remaining answer that matches its arguments.
    #[schemars(length(min = 1))]
    script: Option<Vec<MockAnswer>>,
    /// The result of a call when no answer of the script is left for it.
    #[serde(default)]
    when_used_up: MockUsedUp,
}

/// One answer of a script.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerFields {
    /// Arguments that a call must have to get this answer: literal values or matchers; others are free.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<IndexMap<String, ArgMatcher>>")]
    args: IndexMap<String, ArgMatcher>,
    /// The answer; anything but a string is returned as JSON.
    result: Option<Value>,
    /// An error as the answer; the model receives it and continues.
    error: Option<String>,
    /// Why the tool cannot be run at all; the turn ends as `tool execution failed`.
    unavailable: Option<String>,
    /// Milliseconds before it answers.
    delay_ms: Option<u64>,
    /// How many calls get this answer.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    times: u32,
}

/// A tool of a mocked MCP server with its answers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct McpToolFields {
    /// The purpose of the tool; the server's description if absent.
    description: Option<String>,
    /// A JSON Schema for each argument; anything is accepted if absent.
    parameters: Option<IndexMap<String, JsonMap>>,
    /// The answer; anything but a string is returned as JSON.
    result: Option<Value>,
    /// An error as the answer; the model receives it and continues.
    error: Option<String>,
    /// Why the tool cannot be run at all; the turn ends as `tool execution failed`.
    unavailable: Option<String>,
    /// Milliseconds before it answers.
    delay_ms: Option<u64>,
    /// Answers in order: a call gets the first remaining answer that matches its arguments.
    #[schemars(length(min = 1))]
    script: Option<Vec<MockAnswer>>,
    /// The result of a call when no answer of the script is left for it.
    #[serde(default)]
    when_used_up: MockUsedUp,
}

fn one() -> u32 {
    1
}

impl MockConfig {
    /// Every call gets this answer.
    pub fn fixed(outcome: MockOutcome) -> Self {
        Self::always(outcome, None)
    }

    fn always(outcome: MockOutcome, delay_ms: Option<u64>) -> Self {
        Self {
            answers: vec![MockAnswer {
                args: IndexMap::new(),
                outcome,
                delay: Duration::from_millis(delay_ms.unwrap_or_default()),
                times: None,
            }],
            when_used_up: MockUsedUp::default(),
        }
    }

    fn scripted(answers: Vec<MockAnswer>, when_used_up: MockUsedUp, delay_ms: Option<u64>) -> Self {
        // The delay of the script applies to each answer without its own.
        let common = Duration::from_millis(delay_ms.unwrap_or_default());
        let delayed = |answer: MockAnswer| MockAnswer {
            delay: if answer.delay.is_zero() {
                common
            } else {
                answer.delay
            },
            ..answer
        };
        Self {
            answers: answers.into_iter().map(delayed).collect(),
            when_used_up,
        }
    }
}

impl MockAnswer {
    fn once(outcome: MockOutcome) -> Self {
        Self {
            args: IndexMap::new(),
            outcome,
            delay: Duration::ZERO,
            times: Some(1),
        }
    }

    /// Whether a call with these arguments may get it.
    pub fn fits(&self, arguments: &Value) -> bool {
        self.args
            .iter()
            .all(|(name, matcher)| arguments.get(name).is_some_and(|found| matcher.matches(found)))
    }
}

impl MockOutcome {
    fn text(text: &str) -> Self {
        Self::Result(Value::from(text))
    }

    /// The loader ensures that one of them is present.
    fn of(result: Option<Value>, error: Option<String>, unavailable: Option<String>) -> Self {
        match (result, error, unavailable) {
            (_, _, Some(reason)) => Self::Unavailable(reason),
            (_, Some(error), None) => Self::Error(error),
            (Some(result), None, None) => Self::Result(result),
            (None, None, None) => Self::text(""),
        }
    }
}

impl From<MockFields> for MockConfig {
    fn from(fields: MockFields) -> Self {
        match fields.script {
            Some(script) => Self::scripted(script, fields.when_used_up, fields.delay_ms),
            None => Self::always(
                MockOutcome::of(fields.result, fields.error, fields.unavailable),
                fields.delay_ms,
            ),
        }
    }
}

impl From<AnswerFields> for MockAnswer {
    fn from(fields: AnswerFields) -> Self {
        Self {
            args: fields.args,
            outcome: MockOutcome::of(fields.result, fields.error, fields.unavailable),
            delay: Duration::from_millis(fields.delay_ms.unwrap_or_default()),
            times: Some(fields.times),
        }
    }
}

impl From<McpToolFields> for MockedMcpTool {
    fn from(fields: McpToolFields) -> Self {
        Self {
            description: fields.description,
            parameters: fields.parameters,
            mock: MockFields {
                result: fields.result,
                error: fields.error,
                unavailable: fields.unavailable,
                delay_ms: fields.delay_ms,
                script: fields.script,
                when_used_up: fields.when_used_up,
            }
            .into(),
        }
    }
}

impl From<MockConfig> for MockedMcpTool {
    fn from(mock: MockConfig) -> Self {
        Self {
            mock,
            ..Self::default()
        }
    }
}

impl<'de> Deserialize<'de> for MockConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // So the YAML deserializer passes the raw text of a number; mappings and lists still arrive as such.
        deserializer.deserialize_str(MockVisitor::<MockFields, Self>::new())
    }
}

impl<'de> Deserialize<'de> for MockedMcpTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(MockVisitor::<McpToolFields, Self>::new())
    }
}

/// Reads a string, a list of answers, or a mapping.
struct MockVisitor<F, T>(std::marker::PhantomData<(F, T)>);

impl<F, T> MockVisitor<F, T> {
    fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<'de, F, T> Visitor<'de> for MockVisitor<F, T>
where
    F: Deserialize<'de> + Into<T>,
    T: From<MockConfig>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer, a list of answers or a mapping")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        Ok(MockConfig::fixed(MockOutcome::text(text)).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<T, A::Error> {
        let mut answers = Vec::new();
        while let Some(answer) = items.next_element()? {
            answers.push(answer);
        }
        Ok(MockConfig::scripted(answers, MockUsedUp::default(), None).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        Ok(F::deserialize(MapAccessDeserializer::new(map))?.into())
    }
}

impl<'de> Deserialize<'de> for MockAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnswerVisitor;

        impl<'de> Visitor<'de> for AnswerVisitor {
            type Value = MockAnswer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an answer")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MockAnswer, E> {
                Ok(MockAnswer::once(MockOutcome::text(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MockAnswer, A::Error> {
                Ok(AnswerFields::deserialize(MapAccessDeserializer::new(map))?.into())
            }
        }

        deserializer.deserialize_str(AnswerVisitor)
    }
}

impl Serialize for MockConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_map().serialize(serializer)
    }
}

impl MockConfig {
    fn to_map(&self) -> JsonMap {
        let script: Vec<Value> = self
            .answers
            .iter()
            .map(|answer| Value::Object(answer.to_map()))
            .collect();
        match self.answers.as_slice() {
            [MockAnswer { times: None, .. }] => {
                self.answers.first().map(MockAnswer::to_map).unwrap_or_default()
            }
            _ => JsonMap::from_iter([
                ("script".to_owned(), Value::Array(script)),
                (
                    "when_used_up".to_owned(),
                    serde_json::to_value(self.when_used_up).unwrap_or_default(),
                ),
            ]),
        }
    }
}

impl MockAnswer {
    fn to_map(&self) -> JsonMap {
        let mut map = JsonMap::new();
        if !self.args.is_empty() {
            let args = self.args.iter();
            let args = args.map(|(name, matcher)| (name.clone(), matcher.to_value()));
            map.insert("args".to_owned(), Value::Object(args.collect()));
        }
        let (key, value) = match &self.outcome {
            MockOutcome::Result(value) => ("result", value.clone()),
            MockOutcome::Error(text) => ("error", text.as_str().into()),
            MockOutcome::Unavailable(text) => ("unavailable", text.as_str().into()),
        };
        map.insert(key.to_owned(), value);
        if !self.delay.is_zero() {
            let delay = u64::try_from(self.delay.as_millis()).unwrap_or(u64::MAX);
            map.insert("delay_ms".to_owned(), delay.into());
        }
        if let Some(times) = self.times.filter(|times| *times > 1) {
            map.insert("times".to_owned(), times.into());
        }
        map
    }
}

impl Serialize for MockedMcpTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = self.mock.to_map();
        if let Some(description) = &self.description {
            map.insert("description".to_owned(), description.as_str().into());
        }
        if let Some(parameters) = &self.parameters {
            let parameters = serde_json::to_value(parameters).unwrap_or_default();
            map.insert("parameters".to_owned(), parameters);
        }
        map.serialize(serializer)
    }
}

impl JsonSchema for MockConfig {
    fn schema_name() -> Cow<'static, str> {
        "MockConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (fields, answer) = (
            generator.subschema_for::<MockFields>(),
            generator.subschema_for::<MockAnswer>(),
        );
        json_schema!({
            "description": "The tool's answer instead of running: a string, a list of answers, or a mapping.",
            "anyOf": [{ "type": "string" }, { "type": "array", "items": answer, "minItems": 1 }, fields],
        })
    }
}

impl JsonSchema for MockedMcpTool {
    fn schema_name() -> Cow<'static, str> {
        "MockedMcpTool".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (fields, answer) = (
            generator.subschema_for::<McpToolFields>(),
            generator.subschema_for::<MockAnswer>(),
        );
        json_schema!({
            "description": "A tool of a mocked server: a string, a list of answers, or a mapping.",
            "anyOf": [{ "type": "string" }, { "type": "array", "items": answer, "minItems": 1 }, fields],
        })
    }
}

impl JsonSchema for MockAnswer {
    fn schema_name() -> Cow<'static, str> {
        "MockAnswer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<AnswerFields>();
        json_schema!({
            "description": "An answer: a string, or a mapping with its outcome and the arguments it applies to.",
            "anyOf": [{ "type": "string" }, fields],
        })
    }
}
