//! The arguments of the CLI. They are visible to every user of the machine and limited in length, so instructions and
//! MCP servers travel in files.

use std::{ffi::OsString, path::Path};

use holodeck_model::{HOLODECK_SERVER, mcp_tool_name};
use serde_json::Value;
use uuid::Uuid;

use crate::{ClaudeOptions, Edits, Thinking, home::Home};

/// Below this the API refuses a budget.
const LEAST_THINKING: u32 = 1024;

/// What a conversation begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Nothing. It is kept under this id, so that it can be gone on with.
    Fresh { id: String },
    /// A conversation that is kept, up to this message.
    Resumed { id: String, at: Option<String> },
}

impl Begin {
    /// A new conversation.
    pub(crate) fn fresh() -> Self {
        Self::Fresh {
            id: Uuid::new_v4().to_string(),
        }
    }

    /// The conversation, by the CLI's own id.
    pub(crate) fn session(&self) -> &str {
        match self {
            Self::Fresh { id } | Self::Resumed { id, .. } => id,
        }
    }
}

/// `withheld` are tools of external servers that are not offered.
pub(crate) fn argv(
    options: &ClaudeOptions,
    home: &Home,
    begin: &Begin,
    withheld: &[String],
) -> Vec<OsString> {
    let mut args = Args::default();
    if let Some(script) = &options.script {
        args.0.push(script.into());
    }
    args.pair("--output-format", "stream-json");
    args.flag("--verbose");
    args.pair("--input-format", "stream-json");
    args.flag("--include-partial-messages");
    args.pair("--permission-prompt-tool", "stdio");
    args.pair(
        "--permission-mode",
        match options.edits {
            Edits::Ask => "default",
            Edits::Accept => "acceptEdits",
        },
    );
    args.joined("--setting-sources", &options.setting_sources.join(","));
    args.path("--system-prompt-file", home.system_prompt());
    args.pair("--tools", &options.builtin_tools.join(","));
    args.flag("--strict-mcp-config");
    if options.mcp_servers.document.is_some() {
        args.path("--mcp-config", home.mcp_config());
    }
    let approved = approved(options);
    if !approved.is_empty() {
        args.pair("--allowedTools", &approved.join(","));
    }
    let refused: Vec<&str> = options
        .disallowed_tools
        .iter()
        .chain(withheld)
        .map(String::as_str)
        .collect();
    if !refused.is_empty() {
        args.pair("--disallowedTools", &refused.join(","));
    }
    if let Some(model) = &options.model {
        args.pair("--model", model);
    }
    if let Some(model) = &options.fallback_model {
        args.pair("--fallback-model", model);
    }
    if let Some(turns) = options.max_turns {
        args.pair("--max-turns", &turns.to_string());
    }
    if let Some(usd) = options.max_budget_usd {
        args.pair("--max-budget-usd", &usd.to_string());
    }
    match options.thinking {
        Thinking::AsTheModelDoes => {}
        Thinking::Disabled => args.pair("--thinking", "disabled"),
        Thinking::Budget(tokens) => {
            args.pair("--max-thinking-tokens", &tokens.max(LEAST_THINKING).to_string());
        }
    }
    if let Some(effort) = &options.effort {
        args.pair("--effort", effort);
    }
    if let Some(schema) = &options.response_format {
        args.pair("--json-schema", &without_dialect(schema).to_string());
    }
    match begin {
        Begin::Fresh { id } => args.joined("--session-id", id),
        Begin::Resumed { id, at } => {
            args.joined("--resume", id);
            if let Some(message) = at {
                args.joined("--resume-session-at", message);
            }
        }
    }
    args.0
}

/// The CLI refuses every dialect but its own. What it overlooks of another one is found when we check the answer.
fn without_dialect(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    schema
}

/// The rules that let own tools run unasked.
fn approved(options: &ClaudeOptions) -> Vec<String> {
    let own = options.tools.iter().flat_map(|tools| tools.specs());
    own.filter(|spec| options.approved_tools.contains(&spec.name))
        .map(|spec| mcp_tool_name(HOLODECK_SERVER, &spec.name))
        .collect()
}

#[derive(Default)]
struct Args(Vec<OsString>);

impl Args {
    fn flag(&mut self, name: &str) {
        self.0.push(name.into());
    }

    fn pair(&mut self, name: &str, value: &str) {
        self.0.extend([name.into(), value.into()]);
    }

    fn path(&mut self, name: &str, value: &Path) {
        self.0.extend([name.into(), value.into()]);
    }

    /// For values that might begin with a dash, or be empty.
    fn joined(&mut self, name: &str, value: &str) {
        self.0.push(format!("{name}={value}").into());
    }
}

#[cfg(test)]
mod tests;
