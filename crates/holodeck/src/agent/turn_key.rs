//! The key of recorded turns of an agent on Claude Code, or of a target: everything that decides what it answers.
//!
//! It is computed only from the YAML and the files it names, since a replay has no CLI, server or index.

use holodeck_backend_api::Occasion;
use holodeck_cassette::AgentContext;
use holodeck_model::{AnswersFrom, ClaudeConfig, Redactor, ResolvedAgent, SideEffectGate, TargetConfig};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::agent::{
    fingerprint::{IdentityError, WITHOUT_EFFECT, file_digests},
    inventory::FileOwner,
};

/// Everything of `agent` that its model sees or that decides what its tools answer.
pub(crate) fn turn_key(
    agent: &ResolvedAgent,
    occasion: Occasion,
    side_effects: SideEffectGate,
) -> Result<AgentContext, IdentityError> {
    let config = &agent.config;
    let claude = config.claude.clone().unwrap_or_default();
    let mut parts = Map::new();
    let mut add = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            parts.insert(name.to_owned(), value);
        }
    };
    add("instructions", agent.instructions.text.as_str().into());
    add(
        "response_format",
        agent.response_format.clone().unwrap_or_default(),
    );
    add("claude", claude_settings(&claude));
    add(
        "max_tokens",
        config.model.as_ref().and_then(|model| model.max_tokens).into(),
    );
    add(
        "builtin_tools",
        json!(builtin_tools(&claude, occasion, side_effects)),
    );
    add("tools", config.tools.iter().map(to_value).collect());
    add(
        "approvals",
        config.approvals.as_ref().map(to_value).unwrap_or_default(),
    );
    let embeddings = config.embedding_provider.as_ref().filter(|_| {
        let mut tools = config.real_tools();
        tools.any(|(_, tool)| tool.is_indexed())
    });
    add(
        "embedding_provider",
        embeddings.map_or(
            Value::Null,
            |embeddings| json!({"provider": embeddings.provider, "name": embeddings.name}),
        ),
    );
    add(
        "target",
        config.target.as_ref().map(target_settings).unwrap_or_default(),
    );
    add("files", Value::Object(files(agent)?));
    Ok(AgentContext {
        provider: match config.answers_from() {
            Some(AnswersFrom::Target(_)) => "target",
            _ => "anthropic",
        }
        .to_owned(),
        model: config.answerer(),
        content: Value::Object(parts),
    })
}

/// A part of the YAML without unset fields and secrets.
fn to_value(part: &impl Serialize) -> Value {
    let mut part = serde_json::to_value(part).unwrap_or_default();
    if let Some(part) = part.as_object_mut() {
        part.retain(|_, value| !value.is_null());
    }
    // Only the names of secrets count: a replaced token changes nothing that the model sees.
    Redactor::default().configuration(&mut part);
    part
}

/// The settings of `target` that can change an answer.
fn target_settings(target: &TargetConfig) -> Value {
    let mut target = to_value(target);
    if let Some(target) = target.as_object_mut() {
        target.remove("timeout");
    }
    target
}

/// The settings of `claude:` that can change an answer.
fn claude_settings(claude: &ClaudeConfig) -> Value {
    let mut claude = to_value(claude);
    let defaults = to_value(&ClaudeConfig::default());
    if let Some(claude) = claude.as_object_mut() {
        claude.retain(|name, value| {
            !WITHOUT_EFFECT.contains(&name.as_str())
                // They observe.
                && name != "hooks"
                && defaults.get(name).is_none_or(|default| default != value)
        });
    }
    claude
}

/// The available built-in tools: a test withholds those that may change something.
fn builtin_tools(claude: &ClaudeConfig, occasion: Occasion, side_effects: SideEffectGate) -> Vec<&str> {
    let mut tools = claude.all_built_in_tools();
    if occasion == Occasion::Test && side_effects == SideEffectGate::Closed {
        tools.retain(|tool| !ClaudeConfig::may_change_something(tool));
    }
    tools
}

/// Digests of the files of tools and sub-agents, by the part of the YAML that names them.
fn files(agent: &ResolvedAgent) -> Result<Map<String, Value>, IdentityError> {
    let files = file_digests(agent, FileOwner::shapes_turns)?.into_iter();
    let named = files.map(|(owner, files)| {
        let part = match owner {
            FileOwner::Tool(tool) => tool.name().to_owned(),
            other => other.to_string(),
        };
        (part, json!(files))
    });
    Ok(named.collect())
}

#[cfg(test)]
mod tests;
