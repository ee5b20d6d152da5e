use std::{collections::BTreeMap, fmt, num::NonZeroUsize, path::PathBuf, sync::Arc, time::Duration};

use holodeck_backend_api::{Approver, ToolHost};
use holodeck_mcp_bridge::ServerNeed;
use holodeck_validators::{ClaudeCli, CliVersion};
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::Tools;

/// How Claude Code is run. Whatever is not asked for is off: no tools, no settings of the machine, no `CLAUDE.md`.
#[derive(Clone)]
pub struct ClaudeOptions {
    pub(crate) cli: PathBuf,
    /// The script, where the program is what runs it.
    pub(crate) script: Option<PathBuf>,
    pub(crate) version: Option<CliVersion>,
    pub(crate) env: BTreeMap<String, SecretString>,
    pub(crate) home_links: Vec<(String, PathBuf)>,
    pub(crate) model: Option<String>,
    pub(crate) fallback_model: Option<String>,
    pub(crate) system_prompt: String,
    pub(crate) builtin_tools: Vec<String>,
    pub(crate) disallowed_tools: Vec<String>,
    pub(crate) approved_tools: Vec<String>,
    pub(crate) governed_tools: Vec<String>,
    pub(crate) tools: Option<Arc<dyn ToolHost>>,
    pub(crate) tool_servers: Vec<(String, Arc<dyn ToolHost>)>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) edits: Edits,
    pub(crate) max_turns: Option<u32>,
    pub(crate) max_budget_usd: Option<f64>,
    pub(crate) thinking: Thinking,
    pub(crate) effort: Option<String>,
    pub(crate) response_format: Option<Value>,
    pub(crate) mcp_servers: McpServers,
    pub(crate) working_directory: Option<PathBuf>,
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
    /// The document that `--mcp-config` takes. It may hold secrets.
    pub document: Option<SecretString>,
    /// The servers in it.
    pub servers: Vec<McpServer>,
}

/// An external MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// Its name in the document.
    pub name: String,
    /// What it means that it does not start.
    pub need: ServerNeed,
    /// Its tools that may be called; `None`: all.
    pub allowed_tools: Option<Vec<String>>,
}

/// Thinking before answering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// As the model does by default.
    #[default]
    AsTheModelDoes,
    /// None.
    Disabled,
    /// At most so many tokens. Newer models decide themselves and follow the effort instead.
    Budget(u32),
}

/// Whether edits of files need an answer of the approver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edits {
    /// Every edit is asked about.
    #[default]
    Ask,
    /// Edits in the working directory are not asked about.
    Accept,
}

/// Whether separate conversations may share a process one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Where nothing of one conversation can reach the next.
    #[default]
    WhereSafe,
    /// Never.
    Never,
}

/// Times and numbers that hold whatever the CLI does.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the CLI may take to answer the handshake.
    pub handshake: Duration,
    /// How long a required MCP server may take to start.
    pub mcp_start: Duration,
    /// How long it may take to forget a conversation, which takes it milliseconds.
    pub clear: Duration,
    /// How long the CLI may take to end by itself once its input is closed.
    pub close: Duration,
    /// Processes that are started at the same time.
    pub starts: NonZeroUsize,
    /// Attempts to start a process.
    pub attempts: u32,
    /// How often the CLI tries a model call again.
    pub api_retries: u32,
    /// Calls of the agent's own tools that run at the same time in one conversation.
    pub tool_calls: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_mins(1),
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
    /// The program at this path, or of this name on the `PATH` of [`env`](Self::env).
    pub fn new(cli: impl Into<PathBuf>) -> Self {
        Self {
            cli: cli.into(),
            script: None,
            version: None,
            env: BTreeMap::new(),
            home_links: Vec::new(),
            model: None,
            fallback_model: None,
            system_prompt: String::new(),
            builtin_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            approved_tools: Vec::new(),
            governed_tools: Vec::new(),
            tools: None,
            tool_servers: Vec::new(),
            approver: None,
            edits: Edits::default(),
            max_turns: None,
            max_budget_usd: None,
            thinking: Thinking::default(),
            effort: None,
            response_format: None,
            mcp_servers: McpServers::default(),
            working_directory: None,
            temporary_folder: std::env::temp_dir(),
            setting_sources: Vec::new(),
            agents: Map::new(),
            parallel_agents: None,
            reuse: Reuse::default(),
            notices: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// A CLI that was found.
    pub fn of_cli(cli: &ClaudeCli) -> Self {
        let (program, script) = cli.command();
        Self {
            script: script.map(Into::into),
            version: Some(cli.version),
            ..Self::new(program)
        }
    }

    /// The CLI's version, when it is known; otherwise what depends on it is assumed to be there.
    pub fn version(mut self, version: CliVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Adds a variable of the child, for instance `ANTHROPIC_API_KEY`. It sees no others but `PATH` and its own
    /// `HOME`, which is a private one.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Shows the child a folder of the machine below its private home.
    pub fn home_link(mut self, below_home: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        self.home_links.push((below_home.into(), folder.into()));
        self
    }

    /// The model: an alias or a whole name.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The model to use when the first one is overloaded.
    pub fn fallback_model(mut self, model: impl Into<String>) -> Self {
        self.fallback_model = Some(model.into());
        self
    }

    /// The instructions. They replace those of Claude Code.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// Built-in tools that exist, for instance `Read` or `WebSearch`.
    pub fn builtin_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.builtin_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Tools, or uses of them such as `Bash(rm *)`, that are refused whatever else is said.
    pub fn disallowed_tools<T: Into<String>>(mut self, rules: impl IntoIterator<Item = T>) -> Self {
        self.disallowed_tools = rules.into_iter().map(Into::into).collect();
        self
    }

    /// Own tools that run without the approver being asked. By default all of them.
    pub fn approved_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.approved_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Built-in tools about which the approver is asked although the CLI would not.
    pub fn governed_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.governed_tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Own tools, all approved.
    pub fn tools(self, tools: Tools) -> Self {
        self.tool_host(Arc::new(tools))
    }

    /// Own tools behind a host, all approved.
    pub fn tool_host(mut self, host: Arc<dyn ToolHost>) -> Self {
        self.approved_tools = host.specs().iter().map(|spec| spec.name.clone()).collect();
        self.tools = Some(host);
        self
    }

    /// Tools of ours that look like those of an external server `name`: the model calls them `mcp__<name>__<tool>`, and
    /// the approver is asked.
    pub fn tool_server(mut self, name: impl Into<String>, host: Arc<dyn ToolHost>) -> Self {
        self.tool_servers.push((name.into(), host));
        self
    }

    /// Decides whether a call may run, unless a turn brings an approver of its own. Without one, every call that needs
    /// a decision is rejected.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Whether edits of files are asked about.
    pub fn edits(mut self, edits: Edits) -> Self {
        self.edits = edits;
        self
    }

    /// How often the model may be called for one message.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// What one message may cost.
    pub fn max_budget_usd(mut self, usd: f64) -> Self {
        self.max_budget_usd = Some(usd);
        self
    }

    /// Thinking before answering.
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.thinking = thinking;
        self
    }

    /// How hard the model thinks: `low`, `medium`, `high`, `max`.
    pub fn effort(mut self, effort: impl Into<String>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// JSON Schema of every answer.
    pub fn response_format(mut self, schema: Value) -> Self {
        self.response_format = Some(schema);
        self
    }

    /// External MCP servers.
    pub fn mcp_servers(mut self, servers: McpServers) -> Self {
        self.mcp_servers = servers;
        self
    }

    /// Where the CLI runs; by default a private, empty folder.
    pub fn working_directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.working_directory = Some(folder.into());
        self
    }

    /// Where the private folders of processes are made; by default where the system has temporary files.
    pub fn temporary_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary_folder = folder.into();
        self
    }

    /// Settings of the machine that apply: `user`, `project`, `local`. With `project`, `CLAUDE.md` is read.
    pub fn setting_sources<T: Into<String>>(mut self, sources: impl IntoIterator<Item = T>) -> Self {
        self.setting_sources = sources.into_iter().map(Into::into).collect();
        self
    }

    /// A sub-agent in the CLI's own form: `description`, `prompt`, `tools`, `model`.
    pub fn agent(mut self, name: impl Into<String>, definition: Value) -> Self {
        self.agents.insert(name.into(), definition);
        self
    }

    /// How many sub-agents run at the same time; more wait.
    pub fn parallel_agents(mut self, agents: NonZeroUsize) -> Self {
        self.parallel_agents = Some(agents);
        self
    }

    /// Whether separate conversations may share a process.
    pub fn reuse(mut self, reuse: Reuse) -> Self {
        self.reuse = reuse;
        self
    }

    /// Something to be said with the first turn.
    pub fn notice(mut self, message: impl Into<String>) -> Self {
        self.notices.push(message.into());
        self
    }

    /// Times and numbers that hold whatever the CLI does.
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
            .field("mcp_servers", &self.mcp_servers.servers)
            .finish_non_exhaustive()
    }
}
