//! What the model of an agent on Claude Code sees, as the key of its recorded turns holds it.
//!
//! It is made of the YAML and the files it names alone: a replay has no CLI, no server and no index to ask.

use holodeck_backend_api::Occasion;
use holodeck_cassette::AgentSeen;
use holodeck_model::{ClaudeConfig, LoadedAgent, Redactor, SideEffectGate};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::fingerprint::{files_of_claude, files_of_tools};

/// Keys of `claude:` that the model does not feel.
const UNFELT: [&str; 6] = [
    "cli_path",
    "disable_default_hooks",
    "disable_subprocess_env_scrub",
    "i_understand_this_is_unsafe",
    "max_concurrent_sessions",
    "session_memory_estimate_mib",
];

/// Everything of `agent` that its model sees, or that says what its tools answer.
pub(crate) fn seen(agent: &LoadedAgent, occasion: Occasion, side_effects: SideEffectGate) -> AgentSeen {
    let config = &agent.config;
    let claude = config.claude.clone().unwrap_or_default();
    let mut seen = Map::new();
    let mut add = |name: &str, value: Value| {
        let nothing = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !nothing {
            seen.insert(name.to_owned(), value);
        }
    };
    add("instructions", agent.instructions.text.as_str().into());
    add(
        "response_format",
        agent.response_format.clone().unwrap_or_default(),
    );
    add("claude", of_claude(&claude));
    add(
        "builtin_tools",
        json!(builtin_tools(&claude, occasion, side_effects)),
    );
    add("tools", config.tools.iter().map(written).collect());
    add(
        "approvals",
        config.approvals.as_ref().map(written).unwrap_or_default(),
    );
    let embeddings = config.embedding_provider.as_ref().filter(|_| {
        let mut tools = config.tools.iter();
        tools.any(|tool| tool.is_indexed() && !tool.is_mocked())
    });
    add(
        "embedding_provider",
        embeddings.map_or(
            Value::Null,
            |embeddings| json!({"provider": embeddings.provider, "name": embeddings.name}),
        ),
    );
    add("files", Value::Object(files(agent)));
    AgentSeen {
        provider: "anthropic".to_owned(),
        model: config.model.name.clone(),
        seen: Value::Object(seen),
    }
}

/// Something of the YAML, without what is not said.
fn written(part: &impl Serialize) -> Value {
    let mut part = serde_json::to_value(part).unwrap_or_default();
    if let Some(part) = part.as_object_mut() {
        part.retain(|_, value| !value.is_null());
    }
    // Secrets count by their names: a token that is replaced changes nothing the model sees.
    Redactor::default().configuration(&mut part);
    part
}

/// What `claude:` changes of an answer.
pub(crate) fn of_claude(claude: &ClaudeConfig) -> Value {
    let mut claude = written(claude);
    let unsaid = written(&ClaudeConfig::default());
    if let Some(claude) = claude.as_object_mut() {
        claude.retain(|name, value| {
            !UNFELT.contains(&name.as_str()) && unsaid.get(name).is_none_or(|unsaid| unsaid != value)
        });
    }
    claude
}

/// Those that are there: a test withholds what may change something.
fn builtin_tools(claude: &ClaudeConfig, occasion: Occasion, side_effects: SideEffectGate) -> Vec<&str> {
    let mut tools = claude.built_in_tools();
    if occasion == Occasion::Test && side_effects == SideEffectGate::Closed {
        tools.retain(|tool| !ClaudeConfig::may_change_something(tool));
    }
    tools
}

/// Digests of the files behind tools and sub-agents, by what names them.
fn files(agent: &LoadedAgent) -> Map<String, Value> {
    let of_tools = files_of_tools(agent).map(|(tool, files)| (tool.name().to_owned(), json!(files)));
    let of_claude = files_of_claude(agent).into_iter();
    let of_claude = of_claude.map(|(part, files)| (part.to_owned(), json!(files)));
    of_tools.chain(of_claude).collect()
}

#[cfg(test)]
mod tests;
