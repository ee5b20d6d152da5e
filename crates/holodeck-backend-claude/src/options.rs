//! Settings with which Claude Code is started. Everything that could let the machine influence an answer is off by
//! default.

use std::{collections::BTreeMap, fmt, num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use holodeck_backend_api::{AnswerFormat, Approver, Thinking, ToolHost, ToolNames};
use holodeck_model::{CliText, CliVersion, ServerNeed, ToolAccess};
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::Tools;

/// How to run Claude Code. Everything is off by default: no tools, no settings of the machine, no `CLAUDE.md`.
#[derive(Clone)]
pub struct ClaudeOptions {
    pub(crate) cli: PathBuf,
    /// The CLI's script, if `cli` is an interpreter.
    pub(crate) script: Option<PathBuf>,
    pub(crate) version: Option<CliVersion>,
    pub(crate) env: BTreeMap<String, SecretString>,
    pub(crate) home_links: Vec<(String, PathBuf)>,
    pub(crate) config_files: Vec<(String, PathBuf)>,
    /// The servers of an administrator's file; `None` if there is none.
    pub(crate) managed_servers: Option<Vec<String>>,
    pub(crate) model: Option<String>,
    pub(crate) fallback_model: Option<String>,
    pub(crate) system_prompt: String,
    pub(crate) builtin_tools: Vec<String>,
    pub(crate) subagent_tools: Vec<String>,
    pub(crate) subagent_commands: BTreeMap<String, Vec<String>>,
    pub(crate) disallowed_tools: Vec<String>,
    pub(crate) denied_files: Vec<CliText>,
    pub(crate) approved_tools: Vec<String>,
    pub(crate) allowed_commands: Option<Vec<String>>,
    pub(crate) names: ToolNames,
    pub(crate) access: ToolAccess,
    pub(crate) governed_tools: Vec<String>,
    pub(crate) tools: Option<Arc<dyn ToolHost>>,
    pub(crate) tool_servers: Vec<(String, Arc<dyn ToolHost>)>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) edits: Edits,
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_budget_usd: Option<f64>,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) thinking_off: ThinkingOff,
    pub(crate) effort: Option<String>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) betas: Vec<String>,
    pub(crate) sandbox: Option<Value>,
    pub(crate) worktrees: Worktrees,
    pub(crate) response_format: Option<Arc<dyn AnswerFormat>>,
    pub(crate) mcp_servers: McpServers,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) additional_directories: Vec<PathBuf>,
    pub(crate) temporary_folder: PathBuf,
    pub(crate) setting_sources: Vec<String>,
    pub(crate) agents: Map<String, Value>,
    pub(crate) parallel_agents: Option<NonZeroUsize>,
    pub(crate) reuse: Reuse,
    pub(crate) notices: Vec<String>,
    pub(crate) limits: Limits,
}

/// External MCP servers.
#[derive(Clone, Default)]
pub struct McpServers {
    /// The servers in the format of `--mcp-config`. It may contain secrets, and is sent over the control channel.
    pub document: Option<SecretString>,
    /// The servers in it.
    pub servers: Vec<McpServer>,
}

/// An external MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// Its name in the document.
    pub name: String,
    /// Whether the agent can run without it.
    pub need: ServerNeed,
    /// The tools that may be called; `None` allows all.
    pub allowed_tools: Option<Vec<String>>,
}

/// Whether edits of files need approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edits {
    /// Every edit needs approval.
    #[default]
    Ask,
    /// Edits in the working directory need no approval.
    Accept,
}

/// How [`Thinking::Off`] is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingOff {
    /// For one model.
    #[default]
    OfModel,
    /// For all models of the process: on some, the CLI offers no other way. A turn cannot turn it on.
    OfProcess,
}

/// Whether sub-agents may work in copies of the repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worktrees {
    /// Where one asks for it.
    #[default]
    Allowed,
    /// Never: it leaves folders behind.
    Refused,
}

/// Whether consecutive conversations may share a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// If no state of one conversation can reach the next.
    #[default]
    WhereSafe,
    /// Never.
    Never,
}

/// Time limits and counts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the CLI may take to answer the handshake.
    pub handshake: Duration,
    /// How long a program that prints something else than messages may take to answer it.
    pub printed: Duration,
    /// How long a required MCP server may take to start.
    pub mcp_start: Duration,
    /// How long the CLI may take to clear a conversation, which usually takes milliseconds.
    pub clear: Duration,
    /// How long the CLI may take to exit after its input is closed.
    pub close: Duration,
    /// How many processes may start at the same time.
    pub starts: NonZeroUsize,
    /// How many times to try to start a process.
    pub attempts: u32,
    /// How many times the CLI retries a model call.
    pub api_retries: u32,
    /// How many calls of the agent's own tools may run at the same time in one conversation.
    pub tool_calls: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(30),
            printed: Duration::from_secs(5),
            mcp_start: Duration::from_secs(30),
            clear: Duration::from_secs(5),
            close: Duration::from_secs(3),
            starts: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            attempts: 3,
            api_retries: 3,
            tool_calls: NonZeroUsize::MIN.saturating_add(7),
        }
    }
}

impl ClaudeOptions {
    /// Options for the program at this path, or with this name in the `PATH` of [`env`](Self::env).
    pub fn new(cli: impl Into<PathBuf>) -> Self {
        Self {
            cli: cli.into(),
            script: None,
            version: None,
            env: BTreeMap::new(),
            home_links: Vec::new(),
            config_files: Vec::new(),
            managed_servers: None,
            model: None,
            fallback_model: None,
            system_prompt: String::new(),
            builtin_tools: Vec::new(),
            subagent_tools: Vec::new(),
            subagent_commands: BTreeMap::new(),
            disallowed_tools: Vec::new(),
            denied_files: Vec::new(),
            approved_tools: Vec::new(),
            allowed_commands: None,
            names: ToolNames::with_builtins(),
            access: ToolAccess::default(),
            governed_tools: Vec::new(),
            tools: None,
            tool_servers: Vec::new(),
            approver: None,
            edits: Edits::default(),
            max_turns: None,
            max_budget_usd: None,
            thinking: None,
            thinking_off: ThinkingOff::default(),
            effort: None,
            max_tokens: None,
            betas: Vec::new(),
            sandbox: None,
            worktrees: Worktrees::default(),
            response_format: None,
            mcp_servers: McpServers::default(),
            working_directory: None,
            additional_directories: Vec::new(),
            temporary_folder: std::env::temp_dir(),
            setting_sources: Vec::new(),
            agents: Map::new(),
            parallel_agents: None,
            reuse: Reuse::default(),
            notices: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Sets the CLI's script, if the program is an interpreter.
    pub fn script(mut self, script: impl Into<PathBuf>) -> Self {
        self.script = Some(script.into());
        self
    }

    /// Sets the CLI's version. Without it, all features are assumed to be available.
    pub fn version(mut self, version: CliVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Adds an environment variable for the child, for example `ANTHROPIC_API_KEY`. It gets no other variables except
    /// `PATH` and a private `HOME`.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Links a folder of the machine into the child's private home.
    pub fn home_link(mut self, below_home: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        self.home_links.push((below_home.into(), folder.into()));
        self
    }

    /// Sets the model: an alias or a full name.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the model to use if the first one is overloaded.
    pub fn fallback_model(mut self, model: impl Into<String>) -> Self {
        self.fallback_model = Some(model.into());
        self
    }

    /// Sets the instructions. They replace those of Claude Code.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// Sets the built-in tools to offer, for example `Read` or `WebSearch`.
    pub fn builtin_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.builtin_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets built-in tools that only those sub-agents have whose definitions name them in `tools`.
    pub fn subagent_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.subagent_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the commands that the shell of a sub-agent may run, with patterns such as `git *`.
    pub fn subagent_commands(
        mut self,
        agent: impl Into<String>,
        patterns: impl IntoIterator<Item = String>,
    ) -> Self {
        self.subagent_commands
            .insert(agent.into(), patterns.into_iter().collect());
        self
    }

    /// Adds tools, or uses such as `Bash(rm *)`, that are always refused.
    pub fn disallowed_tools<T: Into<String>>(mut self, rules: impl IntoIterator<Item = T>) -> Self {
        self.disallowed_tools.extend(rules.into_iter().map(Into::into));
        self
    }

    /// Adds rules by which the CLI itself denies files, such as `Read(//etc/**)`.
    pub fn denied_files(mut self, rules: impl IntoIterator<Item = CliText>) -> Self {
        self.denied_files.extend(rules);
        self
    }

    /// Sets the own tools that run without approval. By default all of them.
    pub fn approved_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.approved_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets built-in tools that need approval although the CLI would not ask for it.
    pub fn governed_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.governed_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the names of the tools, and which of them the agent may use.
    pub fn tool_access(mut self, names: ToolNames, access: ToolAccess) -> Self {
        self.names = names;
        self.access = access;
        self
    }

    /// Sets the commands that the shell may run, with patterns such as `git *`. Every command then needs approval.
    pub fn allowed_commands<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        self.allowed_commands = Some(patterns.into_iter().map(Into::into).collect());
        self
    }

    /// Sets own tools that run without approval.
    pub fn tools(self, tools: Tools) -> Self {
        self.tool_host(Arc::new(tools))
    }

    /// Sets the host of own tools that run without approval.
    pub fn tool_host(mut self, host: Arc<dyn ToolHost>) -> Self {
        self.approved_tools = host.specs().iter().map(|spec| spec.name.clone()).collect();
        for spec in host.specs() {
            self.names.add_host_tool(&spec.name);
        }
        self.tools = Some(host);
        self
    }

    /// Adds tools of the host that look like those of an external server `name`: the model calls them
    /// `mcp__<name>__<tool>`, and they need approval.
    pub fn tool_server(mut self, name: impl Into<String>, host: Arc<dyn ToolHost>) -> Self {
        self.tool_servers.push((name.into(), host));
        self
    }

    /// Sets the approver for turns that have no approver of their own. Without one, every call that needs approval is
    /// rejected.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Sets whether edits of files need approval.
    pub fn edits(mut self, edits: Edits) -> Self {
        self.edits = edits;
        self
    }

    /// Limits the model calls for one message.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Limits the cost of one message.
    pub fn max_budget_usd(mut self, usd: f64) -> Self {
        self.max_budget_usd = Some(usd);
        self
    }

    /// Sets thinking before answering.
    pub fn thinking(mut self, thinking: impl Into<Option<Thinking>>) -> Self {
        self.thinking = thinking.into();
        self
    }

    /// Sets how [`Thinking::Off`] is set.
    pub fn thinking_off(mut self, thinking_off: ThinkingOff) -> Self {
        self.thinking_off = thinking_off;
        self
    }

    /// Limits the tokens of one answer of a model. A longer one is continued, up to three times.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Adds beta features of the Messages API.
    pub fn betas<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.betas.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the sandbox of the shell in the CLI's own format. If it cannot be set up, the CLI does not start.
    pub fn sandbox(mut self, settings: Value) -> Self {
        self.sandbox = Some(settings);
        self
    }

    /// Sets whether sub-agents may work in copies of the repository.
    pub fn worktrees(mut self, worktrees: Worktrees) -> Self {
        self.worktrees = worktrees;
        self
    }

    /// Sets how hard the model thinks: `low`, `medium`, `high`, `xhigh`, `max`.
    pub fn effort(mut self, effort: impl Into<String>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// Sets the format that every answer must match.
    pub fn response_format(mut self, format: Arc<dyn AnswerFormat>) -> Self {
        self.response_format = Some(format);
        self
    }

    /// Sets external MCP servers.
    pub fn mcp_servers(mut self, servers: McpServers) -> Self {
        self.mcp_servers = servers;
        self
    }

    /// Shows a file or folder to the CLI as part of the user's settings: a file as a copy, as the CLI may write it.
    pub fn config_file(mut self, name: impl Into<String>, real: impl Into<PathBuf>) -> Self {
        self.config_files.push((name.into(), real.into()));
        self
    }

    /// Sets the MCP servers that an administrator's file has. The CLI then refuses a command line that excludes others; none
    /// of their tools is offered.
    pub fn managed_servers(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.managed_servers = Some(names.into_iter().collect());
        self
    }

    /// Sets the working directory of the CLI; by default a private, empty folder.
    pub fn working_directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.working_directory = Some(folder.into());
        self
    }

    /// Adds a folder whose files count as those of the working directory.
    pub fn additional_directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.additional_directories.push(folder.into());
        self
    }

    /// Sets where to create the private folders of processes; by default the system's temporary folder.
    pub fn temporary_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary_folder = folder.into();
        self
    }

    /// Sets which settings of the machine apply: `user`, `project`, `local`. With `project`, `CLAUDE.md` is read.
    pub fn setting_sources<T: Into<String>>(mut self, sources: impl IntoIterator<Item = T>) -> Self {
        self.setting_sources = sources.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a sub-agent in the CLI's own format: `description`, `prompt`, `tools`, `model`.
    pub fn agent(mut self, name: impl Into<String>, definition: Value) -> Self {
        self.agents.insert(name.into(), definition);
        self
    }

    /// Limits how many sub-agents run at the same time; others wait.
    pub fn parallel_agents(mut self, agents: NonZeroUsize) -> Self {
        self.parallel_agents = Some(agents);
        self
    }

    /// Sets whether consecutive conversations may share a process.
    pub fn reuse(mut self, reuse: Reuse) -> Self {
        self.reuse = reuse;
        self
    }

    /// Adds a notice that the first turn emits.
    pub fn notice(mut self, message: impl Into<String>) -> Self {
        self.notices.push(message.into());
        self
    }

    /// Sets time limits and counts.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl fmt::Debug for ClaudeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeOptions")
            .field("cli", &self.cli)
            .field("model", &self.model)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("builtin_tools", &self.builtin_tools)
            .field("subagent_tools", &self.subagent_tools)
            .field("subagent_commands", &self.subagent_commands)
            .field("mcp_servers", &self.mcp_servers.servers)
            .finish_non_exhaustive()
    }
}
