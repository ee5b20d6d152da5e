//! Models with tools: promptfoo asks such a model once and takes its calls as the answer, which our own loop of tools does not.

use holodeck_yaml::{ForeignNode, ForeignValue};
use serde_json::{Map, Value, json};

use super::{Importer, providers::Answering};
use crate::{ImportedFile, writer::variable};

const CHAT_TARGET: &str = include_str!("chat_target.mjs");

/// The address of OpenAI.
const OPENAI: &str = "OPENAI_BASE_URL:-https://api.openai.com/v1";

/// The keywords of a schema that the grader of calls knows, and those that decide nothing.
const KEYWORDS: [&str; 10] = [
    "type",
    "enum",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "description",
    "title",
    "default",
    "examples",
];

/// The fields of a configuration that say which tools there are.
const TOOL_FIELDS: [&str; 2] = ["tools", "tool_choice"];

impl Importer<'_> {
    /// A model of OpenAI with tools as a function that asks it once; nothing if it has none.
    pub(super) fn tool_model(
        &mut self,
        id: &str,
        config: &ForeignNode,
    ) -> Option<Result<Answering, (String, &'static str)>> {
        let tools = config.get("tools")?;
        let chats = id
            .strip_prefix("openai:")
            .is_some_and(|rest| rest.starts_with("chat:") || !rest.contains(':'));
        if !chats
            || tools
                .items()
                .is_none_or(|items| items.iter().any(|tool| tool.text().is_some()))
        {
            return None;
        }
        let entries = config.entries().iter();
        let others = entries.filter(|(key, _)| !TOOL_FIELDS.contains(&key.as_str()));
        let others = ForeignValue::Map(others.cloned().collect());
        let others = ForeignNode::new(config.path.clone(), config.line, others);
        let mut model = match self.model(id, &others) {
            Ok(model) => model?,
            Err(error) => return Some(Err(error)),
        };
        let name = model.shift_remove("name").unwrap_or_default();
        let text = |value: Option<Value>, default: String| match value {
            Some(Value::String(text)) => text,
            _ => default,
        };
        let url = text(model.shift_remove("endpoint"), variable(OPENAI));
        let key = text(model.shift_remove("api_key"), variable("OPENAI_API_KEY"));
        model.shift_remove("provider");
        if !model.contains_key("max_tokens") {
            return Some(Err((
                "tools of a reasoning model".to_owned(),
                "`tools` of the agent",
            )));
        }
        let mut settings = Map::new();
        settings.insert("model".to_owned(), name.clone());
        settings.extend(model);
        for field in TOOL_FIELDS {
            if let Some(value) = config.get(field) {
                settings.insert(field.to_owned(), value.to_json());
            }
        }
        let count = self.tool_models.len() + 1;
        let path = format!("targets/chat-{count}.mjs");
        let source = CHAT_TARGET.replace("SETTINGS", &Value::Object(settings).to_string());
        self.tool_models.push(path.clone());
        let mut fields = Map::new();
        fields.insert(
            "target".to_owned(),
            json!({
                "type": "function", "file": path, "function": "answer",
                "env": {"CHAT_URL": url, "CHAT_KEY": key},
            }),
        );
        Some(Ok(Answering {
            fields,
            is_model: false,
            tools: Some(tools.to_json()),
            takes_vars: false,
            judge: Some(json!({"provider": "openai", "name": name})),
            files: vec![ImportedFile {
                path: path.into(),
                text: source,
            }],
        }))
    }
}

/// The metric of an assertion about the calls in an answer; the reason if there is none.
pub(super) fn settings_of_calls(
    base: &str,
    inverse: bool,
    tools: Option<&Value>,
    value: &Value,
    threshold: Option<f64>,
) -> Result<Value, String> {
    let Some(Value::Array(tools)) = tools else {
        return Err("the provider has no tools that are taken over".to_owned());
    };
    if base == "tool-call-f1" {
        let names = match value {
            Value::Array(items) => items.iter().map(crate::template::javascript_text).collect(),
            Value::String(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
            _ => Vec::new(),
        };
        if names.is_empty() {
            return Err("its `value` names no tool".to_owned());
        }
        return Ok(json!({
            "kind": "f1", "inverse": inverse, "names": names, "threshold": threshold.unwrap_or(1.0),
        }));
    }
    if inverse {
        return Err("negated".to_owned());
    }
    for tool in tools {
        let function = tool.get("function").unwrap_or(&Value::Null);
        if tool.get("type").and_then(Value::as_str) != Some("function") || function.get("name").is_none() {
            return Err("one of the tools is not a function".to_owned());
        }
        if let Some(schema) = function.get("parameters") {
            check_schema(schema)?;
        }
    }
    Ok(json!({"kind": "valid", "inverse": false, "tools": tools}))
}

/// Refuses a schema that the grader would read otherwise.
fn check_schema(schema: &Value) -> Result<(), String> {
    let Some(fields) = schema.as_object() else {
        return Err("a schema of its tools is not a mapping".to_owned());
    };
    if let Some(other) = fields.keys().find(|key| !KEYWORDS.contains(&key.as_str())) {
        return Err(format!("a schema of its tools has `{other}`"));
    }
    if fields
        .get("additionalProperties")
        .is_some_and(|value| !value.is_boolean())
    {
        return Err("a schema of its tools has a schema as `additionalProperties`".to_owned());
    }
    if let Some(items) = fields.get("items") {
        check_schema(items)?;
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flat_map(Map::values)
        .try_for_each(check_schema)
}
