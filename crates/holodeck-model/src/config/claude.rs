//! Settings of the Claude backend.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{HooksConfig, SandboxConfig};
use crate::value::{PathRef, nullable};

/// How long a `response_format` may be for the CLI: the operating system limits the length of an argument.
pub const MAX_CLAUDE_SCHEMA_BYTES: usize = 120 * 1024;

/// How the Anthropic provider signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthProvider {
    /// With `ANTHROPIC_API_KEY`.
    ApiKey,
    /// With `CLAUDE_CODE_OAUTH_TOKEN`.
    OauthToken,
    /// Through Amazon Bedrock.
    Bedrock,
    /// Through Google Vertex AI.
    Vertex,
    /// Through Azure AI Foundry.
    Foundry,
    /// With `ANTHROPIC_AUTH_TOKEN` at `model.endpoint`.
    Custom,
}

/// Settings of the Claude backend. Everything that is not enabled is off.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("x-refused" = json!({
    "plugins": "a plugin decides about calls beside the rules of the agent",
})))]
pub struct ClaudeConfig {
    /// The Claude Code program; `HOLODECK_CLAUDE_CLI` takes precedence. Default: found on `PATH` or in usual places.
    pub cli_path: Option<PathRef>,
    /// Directory the agent works in.
    pub working_directory: Option<PathRef>,
    /// Further directories whose files the agent may use as those of its working directory.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<PathRef>>")]
    pub additional_directories: Vec<PathRef>,
    /// Which actions need approval. If absent, unlike with `manual`, a test approves what the YAML enables.
    pub permission_mode: Option<PermissionMode>,
    /// How often the model may be called for one question.
    #[schemars(range(min = 1))]
    pub max_turns: Option<u32>,
    /// How many processes of the CLI run at the same time.
    #[schemars(range(min = 1, max = 500))]
    pub max_concurrent_sessions: Option<u32>,
    /// Memory one process is expected to take; `holodeck serve` runs as many as fit.
    #[schemars(range(min = 50, max = 2000))]
    pub session_memory_estimate_mib: u32,
    /// Thinking before answering.
    pub extended_thinking: Option<ExtendedThinkingConfig>,
    /// Whether the agent may search the web.
    pub web_search: bool,
    /// The shell.
    pub bash: Option<BashConfig>,
    /// The sandbox of the shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxConfig>,
    /// Access to files.
    pub file_system: Option<FileSystemConfig>,
    /// Programs that observe the conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HooksConfig>,
    /// Sub-agents by name.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<IndexMap<String, SubagentConfig>>")]
    pub agents: IndexMap<String, SubagentConfig>,
    /// How sub-agents run.
    pub subagents: Option<SubagentsConfig>,
    /// Tools that may be used; absent: all that are configured.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that must not be used.
    pub disallowed_tools: Option<Vec<String>>,
    /// Reasoning effort of the model.
    pub effort: Option<Effort>,
    /// Beta features of the Messages API, by their names for its header `anthropic-beta`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>", inner(regex(pattern = r"\S")))]
    pub betas: Vec<String>,
    /// The highest cost of one question.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_budget_usd: Option<f64>,
    /// The model to use when the first one is overloaded.
    pub fallback_model: Option<String>,
    /// Which settings of the machine apply; by default none.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<SettingSource>>")]
    pub setting_sources: Vec<SettingSource>,
    /// Confirms `permission_mode: acceptAll`, which approves every call; without it there is a warning.
    pub i_understand_this_is_unsafe: bool,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "this backend has no hooks of its own"))]
    pub disable_default_hooks: bool,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "model credentials are never passed to MCP servers"))]
    pub disable_subprocess_env_scrub: bool,
}

impl Default for ClaudeConfig {
    fn default() -> Self {
        Self {
            cli_path: None,
            working_directory: None,
            additional_directories: Vec::new(),
            permission_mode: None,
            max_turns: None,
            max_concurrent_sessions: None,
            session_memory_estimate_mib: 500,
            extended_thinking: None,
            web_search: false,
            bash: None,
            sandbox: None,
            file_system: None,
            hooks: None,
            agents: IndexMap::new(),
            subagents: None,
            allowed_tools: None,
            disallowed_tools: None,
            effort: None,
            betas: Vec::new(),
            max_budget_usd: None,
            fallback_model: None,
            setting_sources: Vec::new(),
            i_understand_this_is_unsafe: false,
            disable_default_hooks: false,
            disable_subprocess_env_scrub: false,
        }
    }
}

impl ClaudeConfig {
    /// The known built-in tools of the CLI, including former ones.
    pub const CLI_TOOLS: &[&str] = &[
        "Agent",
        "AskUserQuestion",
        "Bash",
        "BashOutput",
        "CronCreate",
        "CronDelete",
        "CronList",
        "Edit",
        "EnterPlanMode",
        "EnterWorktree",
        "ExitPlanMode",
        "ExitWorktree",
        "Glob",
        "Grep",
        "KillShell",
        "LS",
        "ListAgents",
        "ListMcpResourcesTool",
        "Monitor",
        "MultiEdit",
        "NotebookEdit",
        "NotebookRead",
        "Read",
        "ReadMcpResourceDirTool",
        "ReadMcpResourceTool",
        "ReportFindings",
        "ScheduleWakeup",
        "SendMessage",
        "Skill",
        "Task",
        "TaskOutput",
        "TaskStop",
        "TodoWrite",
        "ToolSearch",
        "WebFetch",
        "WebSearch",
        "Workflow",
        "Write",
    ];

    /// Built-in tools that change nothing outside the conversation.
    const READERS: &[&str] = &[
        "Agent",
        "AskUserQuestion",
        "BashOutput",
        "CronList",
        "Glob",
        "Grep",
        "LS",
        "ListAgents",
        "ListMcpResourcesTool",
        "NotebookRead",
        "Read",
        "ReadMcpResourceDirTool",
        "ReadMcpResourceTool",
        "Skill",
        "Task",
        "TaskOutput",
        "TodoWrite",
        "ToolSearch",
        "WebFetch",
        "WebSearch",
    ];

    /// Whether a built-in tool may change files or run programs: tests reject it without `--allow-side-effects`.
    pub fn may_change_something(tool: &str) -> bool {
        !Self::READERS.contains(&tool)
    }

    /// Whether the agent may start sub-agents.
    pub fn has_subagents(&self) -> bool {
        let enabled = self.subagents.as_ref().and_then(|subagents| subagents.enabled);
        enabled.unwrap_or(!self.agents.is_empty())
    }

    /// The enabled built-in tools, by their CLI names: those that are switched on or in `allowed_tools`, without those
    /// that `allowed_tools` omits or `disallowed_tools` names.
    pub fn built_in_tools(&self) -> Vec<&str> {
        let files = self.file_system.as_ref();
        let groups: [(bool, &[&str]); 6] = [
            (files.is_some_and(|files| files.read), &["Read", "Glob", "Grep"]),
            (self.bash.as_ref().is_some_and(|bash| bash.enabled), &["Bash"]),
            (files.is_some_and(|files| files.write), &["Write"]),
            (files.is_some_and(|files| files.edit), &["Edit"]),
            (self.web_search, &["WebSearch"]),
            (self.has_subagents(), &["Agent"]),
        ];
        let switched_on = groups
            .into_iter()
            .filter_map(|(on, tools)| on.then_some(tools))
            .flatten()
            .copied()
            .filter(|tool| self.is_allowed(tool));
        let mut tools: Vec<&str> = switched_on.collect();
        for name in self.allowed_tools.iter().flatten() {
            let name = tool_of_rule(name);
            if Self::CLI_TOOLS.contains(&name) && !tools.contains(&name) {
                tools.push(name);
            }
        }
        tools.retain(|tool| !self.is_denied(tool));
        tools
    }

    /// The built-in tools that sub-agents name and that the agent itself does not have. Lists exclude them as they do those
    /// of the agent.
    pub fn tools_of_subagents_only(&self) -> Vec<&str> {
        let own = self.built_in_tools();
        let has_subagents = self.has_subagents() && own.contains(&"Agent");
        let named = self.agents.values().filter(|_| has_subagents);
        let mut tools: Vec<&str> = Vec::new();
        for name in named.flat_map(|agent| agent.tools.iter().flatten()) {
            let name = tool_of_rule(name);
            let is_new = !own.contains(&name) && !tools.contains(&name);
            if is_new && Self::CLI_TOOLS.contains(&name) && self.is_allowed(name) && !self.is_denied(name) {
                tools.push(name);
            }
        }
        tools
    }

    /// The built-in tools of the agent and of its sub-agents.
    pub fn all_built_in_tools(&self) -> Vec<&str> {
        let mut tools = self.built_in_tools();
        tools.extend(self.tools_of_subagents_only());
        tools
    }

    /// The commands that the shell may run, where `allowed_tools` names it only with patterns as in `Bash(git *)`.
    pub fn allowed_commands(&self) -> Option<Vec<&str>> {
        let allowed = self.allowed_tools.as_ref()?;
        let mut patterns = Vec::new();
        for name in allowed.iter().filter(|name| tool_of_rule(name) == "Bash") {
            let (_, pattern) = name.split_once('(')?;
            patterns.push(pattern.trim_end().trim_end_matches(')').trim());
        }
        (!patterns.is_empty()).then_some(patterns)
    }

    fn is_denied(&self, tool: &str) -> bool {
        let mut denied = self.disallowed_tools.iter().flatten();
        denied.any(|name| current_name(name.trim()) == tool)
    }

    fn is_allowed(&self, tool: &str) -> bool {
        let allowed = self.allowed_tools.as_ref();
        allowed.is_none_or(|allowed| allowed.iter().any(|name| tool_of_rule(name) == tool))
    }
}

/// The tool of a name or a rule such as `Bash(git *)`.
fn tool_of_rule(name: &str) -> &str {
    current_name(name.split_once('(').map_or(name, |(tool, _)| tool).trim())
}

/// `Task` is the former name of `Agent`.
fn current_name(name: &str) -> &str {
    if name == "Task" { "Agent" } else { name }
}

/// Which actions need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Everything.
    Manual,
    /// Everything except file edits.
    AcceptEdits,
    /// Nothing.
    AcceptAll,
}

/// Thinking before answering.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExtendedThinkingConfig {
    /// Whether the model thinks.
    pub enabled: bool,
    /// Token budget for thinking; a value below 1024 is sent as 1024.
    #[schemars(range(min = 1000, max = 100_000))]
    pub budget_tokens: u32,
}

impl Default for ExtendedThinkingConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            budget_tokens: 10_000,
        }
    }
}

/// The shell.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BashConfig {
    /// Whether the agent has a shell.
    pub enabled: bool,
    /// Commands it must not run.
    pub excluded_commands: Vec<String>,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "`excluded_commands` restricts the shell"))]
    pub allow_unsafe: bool,
}

/// Access to files.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileSystemConfig {
    /// Whether the agent may read files.
    pub read: bool,
    /// Whether the agent may create files.
    pub write: bool,
    /// Whether the agent may change files.
    pub edit: bool,
}

/// How sub-agents run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubagentsConfig {
    /// Whether sub-agents are enabled; if absent, only if `agents` names any.
    pub enabled: Option<bool>,
    /// How many run at the same time.
    #[schemars(range(min = 1, max = 16))]
    pub max_parallel: u32,
}

impl Default for SubagentsConfig {
    fn default() -> Self {
        Self {
            enabled: None,
            max_parallel: 4,
        }
    }
}

/// A sub-agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubagentConfig {
    /// When to use it.
    #[schemars(regex(pattern = r"\S"))]
    pub description: String,
    /// Its instructions.
    #[schemars(regex(pattern = r"\S"))]
    pub prompt: Option<String>,
    /// A file with its instructions.
    pub prompt_file: Option<PathRef>,
    /// Tools it may use.
    pub tools: Option<Vec<String>>,
    /// Model it uses: an id, an alias such as `haiku`, or `inherit` for the agent's own.
    #[schemars(regex(pattern = r"\S"))]
    pub model: Option<String>,
}

/// Reasoning effort of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Little reasoning.
    Low,
    /// Some reasoning.
    Medium,
    /// Much reasoning.
    High,
    /// Very much reasoning.
    #[serde(rename = "xhigh")]
    XHigh,
    /// As much reasoning as possible.
    Max,
}

impl Effort {
    /// All levels, lowest first.
    pub const ALL: &[Self] = &[Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// Its name in the YAML and for the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The budget of thinking tokens in place of it, on Claude models without levels.
    pub fn budget(self) -> u32 {
        match self {
            Self::Low => 4_000,
            Self::Medium => 10_000,
            Self::High => 16_000,
            Self::XHigh => 24_000,
            Self::Max => 31_999,
        }
    }
}

/// A place where the CLI keeps settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// The user's.
    User,
    /// The project's, as committed.
    Project,
    /// The project's, on this machine.
    Local,
    /// All of them.
    All,
}
