//! Builds the command line of the CLI, which every user of the machine can see and which is limited in length;
//! instructions are therefore passed in a file, and MCP servers over the control channel.

use std::{ffi::OsString, io, path::Path};

use holodeck_model::{CliText, HOLODECK_SERVER, mcp_tool_name};
use serde_json::Value;
use uuid::Uuid;

use holodeck_backend_api::Thinking;

use crate::{ClaudeOptions, Edits, home::Home, subagents::main_agent};

/// The API rejects smaller budgets.
pub(crate) const MIN_THINKING_TOKENS: u32 = 1024;

/// How a conversation starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConversationStart {
    /// A new conversation. The CLI stores it under this id, so that it can be resumed.
    New { id: String },
    /// A stored conversation, up to the message `at`.
    Resume { id: String, at: Option<String> },
}

impl ConversationStart {
    /// A new conversation with a random id.
    pub(crate) fn new() -> Self {
        Self::New {
            id: Uuid::new_v4().to_string(),
        }
    }

    /// The CLI's id of the conversation.
    pub(crate) fn session(&self) -> &str {
        match self {
            Self::New { id } | Self::Resume { id, .. } => id,
        }
    }
}

impl ClaudeOptions {
    /// The arguments that start a new conversation, for inspection only: the files that they name no longer exist.
    #[doc(hidden)]
    pub fn arguments(&self) -> io::Result<Vec<OsString>> {
        let home = Home::create(self)?;
        Ok(argv(self, &home, &ConversationStart::new(), &[]))
    }
}

/// Builds the arguments. `withheld` are tools of external servers that are not offered.
pub(crate) fn argv(
    options: &ClaudeOptions,
    home: &Home,
    start: &ConversationStart,
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
    let tools = options.builtin_tools.iter().chain(&options.subagent_tools);
    let tools: Vec<&str> = tools.map(String::as_str).collect();
    args.pair("--tools", &tools.join(","));
    let main = main_agent(options);
    if let Some(main) = &main {
        args.pair("--agent", main);
    }
    // Where an administrator manages the servers, the CLI does not start with this.
    if options.managed_servers.is_none() || options.mcp_servers.document.is_some() {
        args.flag("--strict-mcp-config");
    }
    let approved = approval_rules(options);
    if !approved.is_empty() {
        args.pair("--allowedTools", &approved.join(","));
    }
    let private = home.denials();
    let managed = options.managed_servers.iter().flatten();
    let managed: Vec<String> = managed.map(|server| format!("mcp__{server}")).collect();
    let files: Vec<String> = options.denied_files.iter().filter_map(CliText::as_text).collect();
    let refused = options
        .disallowed_tools
        .iter()
        .chain(&files)
        .chain(withheld)
        .chain(&private)
        .chain(&managed);
    // The agent itself is no sub-agent.
    let main = main.map(|main| format!("Agent({main})"));
    // One argument for each: a path may contain a comma.
    args.flag("--disallowedTools");
    refused.chain(&main).for_each(|rule| args.flag(rule));
    if let Some(settings) = home.settings() {
        args.path("--settings", settings);
    }
    for folder in &options.additional_directories {
        args.path("--add-dir", folder);
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
        None => {}
        Some(Thinking::Off) => args.pair("--thinking", "disabled"),
        Some(Thinking::Budget(tokens)) => {
            args.pair(
                "--max-thinking-tokens",
                &tokens.max(MIN_THINKING_TOKENS).to_string(),
            );
        }
    }
    if let Some(effort) = &options.effort {
        args.pair("--effort", effort);
    }
    if let Some(format) = &options.response_format {
        args.pair("--json-schema", &without_dialect(format.schema()).to_string());
    }
    match start {
        ConversationStart::New { id } => args.joined("--session-id", id),
        ConversationStart::Resume { id, at } => {
            args.joined("--resume", id);
            if let Some(message) = at {
                args.joined("--resume-session-at", message);
            }
        }
    }
    args.0
}

/// Removes `$schema`: the CLI rejects every dialect except its own. The answer is checked again with the full schema.
fn without_dialect(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    schema
}

/// The rules that allow own tools without approval.
fn approval_rules(options: &ClaudeOptions) -> Vec<String> {
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

    /// For values that may start with a dash or be empty.
    fn joined(&mut self, name: &str, value: &str) {
        self.0.push(format!("{name}={value}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_resumed_at_a_message() {
        let options = ClaudeOptions::new("/opt/node").script("/opt/claude");
        let start = ConversationStart::Resume {
            id: "a".to_owned(),
            at: Some("m".to_owned()),
        };
        let home = Home::create(&options).unwrap();
        let arguments = argv(&options, &home, &start, &["mcp__files__write".to_owned()]);
        assert_eq!(arguments.first().unwrap(), "/opt/claude");
        assert!(arguments.ends_with(&["--resume=a", "--resume-session-at=m"].map(OsString::from)));
        let refused = ["--disallowedTools", "mcp__files__write"].map(OsString::from);
        assert!(arguments.windows(2).any(|pair| pair == refused), "{arguments:?}");
    }
}
