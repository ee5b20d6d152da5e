//! What the model of an agent on Claude Code sees, as the key of its recorded turns holds it; and for every agent, what is
//! behind its tools.
//!
//! It is told from the YAML and the files it names alone: a replay has no CLI, no server and no index to ask.

use std::{
    io,
    path::{Path, PathBuf},
};

use holodeck_backend_api::Occasion;
use holodeck_cassette::{AgentSeen, Cassette, digest, file_digest};
use holodeck_documents::{Pictures, Source, WalkOptions, walk};
use holodeck_model::{
    ClaudeConfig, FunctionTool, LoadedAgent, PathRef, PromptTool, Redactor, SettingSource, SideEffectGate,
    ToolConfig,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Keys of `claude:` that the model does not feel.
const UNFELT: [&str; 6] = [
    "cli_path",
    "disable_default_hooks",
    "disable_subprocess_env_scrub",
    "i_understand_this_is_unsafe",
    "max_concurrent_sessions",
    "session_memory_estimate_mib",
];

/// What the CLI reads in the agent's folder once `setting_sources` lets it.
const SETTINGS: [&str; 5] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
    ".claude/settings.local.json",
];

/// Where runs are kept, in the agent's folder.
const RESULTS: &str = "results";

/// With more files than these a source has one digest.
const LISTED: usize = 32;

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
    add("files", Value::Object(files(agent, &claude)));
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

fn of_claude(claude: &ClaudeConfig) -> Value {
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

/// Digests of the files behind tools and sub-agents, by the name of the tool, and of the CLI's own settings.
fn files(agent: &LoadedAgent, claude: &ClaudeConfig) -> Map<String, Value> {
    let mut files = Map::new();
    let of_tools = files_of_tools(agent);
    files.extend(of_tools.map(|(tool, found)| (tool.name().to_owned(), found)));
    let prompts = claude
        .agents
        .values()
        .filter_map(|agent| agent.prompt_file.as_ref());
    let prompts = named(prompts);
    if !prompts.is_null() {
        files.insert("claude.agents".to_owned(), prompts);
    }
    let ours = |source: &SettingSource| *source != SettingSource::User;
    if claude.setting_sources.iter().any(ours) {
        let folder = claude.working_directory.as_ref();
        let folder = folder.map_or_else(|| agent.dir.clone(), PathRef::path);
        let settings = SETTINGS.iter().map(|name| (*name, folder.join(name)));
        let settings = listed(settings);
        if !settings.is_null() {
            files.insert("claude.setting_sources".to_owned(), settings);
        }
    }
    files
}

/// Digests of the files that the YAML names for tools which have no `mock`.
pub(crate) fn files_of_tools(agent: &LoadedAgent) -> impl Iterator<Item = (&ToolConfig, Value)> {
    let real = agent.config.tools.iter().filter(|tool| !tool.is_mocked());
    real.filter_map(|tool| {
        let files = match tool {
            ToolConfig::Vectorstore(tool) => documents(&tool.source, tool.follow_links, agent),
            ToolConfig::HierarchicalDocument(tool) => documents(&tool.source, tool.follow_links, agent),
            ToolConfig::Function(FunctionTool { file, command, .. }) => named(file.iter().chain(command)),
            ToolConfig::Prompt(PromptTool { file, .. }) => named(file),
            ToolConfig::Mcp(_) => Value::Null,
        };
        (!files.is_null()).then_some((tool, files))
    })
}

/// The files that a tool searches, but for the agent's own and those that its runs leave. What is on the web is not
/// fetched: its address is all that is looked at.
fn documents(source: &PathRef, follow_links: bool, agent: &LoadedAgent) -> Value {
    let Ok(Source::Files(path)) = Source::parse(source.as_str()) else {
        return Value::Null;
    };
    let options = WalkOptions {
        // Whether they can be read depends on the machine.
        pictures: Pictures::Taken,
        links: follow_links.into(),
        ..WalkOptions::default()
    };
    match walk(&path, source.base(), &options) {
        Ok(walked) => {
            let ours = [agent.path.clone(), agent.dir.join(RESULTS)];
            let ours: Vec<_> = ours.iter().filter_map(|path| path.canonicalize().ok()).collect();
            let is_ours = |path: &Path| {
                let path = path.canonicalize();
                path.is_ok_and(|path| ours.iter().any(|ours| path.starts_with(ours)))
            };
            let files = walked.files.iter();
            let files = files.filter(|file| !is_ours(&file.path) && !Cassette::is_one(&file.path));
            listed(files.map(|file| (file.name.as_str(), file.path.clone())))
        }
        Err(_) => Value::Null,
    }
}

fn named<'a>(paths: impl IntoIterator<Item = &'a PathRef>) -> Value {
    let paths = paths.into_iter();
    listed(paths.map(|path| (path.as_str().trim_start_matches("./"), path.path())))
}

/// Digests by name; one for all if there are many. A file that is not there is not named: a `command` may be one of
/// the machine.
fn listed<'a>(files: impl Iterator<Item = (&'a str, PathBuf)>) -> Value {
    let found: Map<String, Value> = files
        .filter_map(|(name, path)| Some((name.to_owned(), content(&path)?.into())))
        .collect();
    match found.len() {
        0 => Value::Null,
        few if few <= LISTED => Value::Object(found),
        many => {
            let all = Value::Object(found).to_string();
            json!({ format!("all {many} files"): digest(all.as_bytes()) })
        }
    }
}

fn content(path: &Path) -> Option<String> {
    match file_digest(path) {
        Ok(digest) => Some(digest),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // Not what was recorded, whatever that was.
        Err(error) => Some(format!("unreadable: {}", error.kind())),
    }
}

#[cfg(test)]
mod tests;
