use std::{num::NonZeroUsize, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{
    Approver, BackendError, CallRefusal, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_mcp_bridge::ClaudeServers;
use holodeck_model::{
    ApprovalPolicy, ClaudeConfig, Effort, Env, HOLODECK_SERVER, LoadedAgent, McpTool, ServerAccess,
    SettingSource, SubagentConfig, SubagentModel, ToolAccess, ToolConfig, ToolNames, mcp_tool_name,
    read_text_input,
};
use holodeck_validators::{ClaudeCli, ClaudeEnv};
use serde_json::{Map, Value, json};

use crate::{ClaudeOptions, Edits, McpServer, McpServers, Reuse, Thinking};

/// Variables of the machine that a child needs to work there, and that hold no credentials of the model.
const MACHINE: [&str; 17] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "SHELL",
    "USER",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "IS_SANDBOX",
];
const MAX_TURNS: u32 = 20;
/// The longest `prompt_file` of a sub-agent.
const MAX_PROMPT_BYTES: u64 = 1024 * 1024;

/// What of an agent's world decides how Claude Code is run for it.
pub struct AgentSetup<'a> {
    /// The agent.
    pub agent: &'a LoadedAgent,
    /// The program.
    pub cli: &'a ClaudeCli,
    /// How it signs in.
    pub credentials: &'a ClaudeEnv,
    /// The environment as it was when the program started.
    pub env: &'a Env,
    /// The agent's own tools.
    pub tools: Arc<dyn ToolHost>,
    /// Answers whatever needs an answer.
    pub approver: Arc<dyn Approver>,
    /// What `approvals:` and the permission mode say.
    pub policy: &'a ApprovalPolicy,
    /// Whether built-in tools that change something are there.
    pub side_effects: BuiltinChanges,
    /// Whether conversations may share processes.
    pub reuse: Reuse,
    /// Further variables of the child, for instance where it sends telemetry.
    pub variables: Vec<(String, String)>,
}

/// Whether built-in tools that change something are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinChanges {
    /// Those of the YAML are.
    AsConfigured,
    /// Those of the YAML are, and a warning names them: a test was allowed to change something.
    Allowed,
    /// None is: nobody said that a test may change something.
    Withheld,
}

impl ClaudeOptions {
    /// How Claude Code is run for an agent of a YAML file.
    pub fn of_agent(setup: &AgentSetup<'_>) -> Result<Self, BackendError> {
        let agent = setup.agent;
        let config = &agent.config;
        let claude = config.claude.clone().unwrap_or_default();
        let servers = servers(setup)?;
        let (names, access) = tool_access(setup)?;
        let mut options = Self::of_cli(setup.cli)
            .model(&config.model.name)
            .system_prompt(&agent.instructions.text)
            .working_directory(match &claude.working_directory {
                Some(folder) => folder.path(),
                None => agent.dir.clone(),
            })
            .max_turns(claude.max_turns.unwrap_or(MAX_TURNS))
            .thinking(thinking(&claude))
            .setting_sources(setting_sources(&claude))
            .reuse(setup.reuse)
            .approver(Arc::clone(&setup.approver));
        for name in MACHINE {
            if let Some(value) = setup.env.get(name) {
                options = options.env(name, value.to_owned());
            }
        }
        for (name, value) in &setup.credentials.vars {
            options = options.env(name, value.clone());
        }
        if let Some(folder) = setup.env.get("TMPDIR").filter(|folder| !folder.is_empty()) {
            options = options.temporary_folder(folder);
        }
        for (below, folder) in &setup.credentials.home_links {
            options = options.home_link(*below, folder);
        }
        for (name, value) in &setup.variables {
            options = options.env(name, value.clone());
        }
        options.max_budget_usd = claude.max_budget_usd;
        options.fallback_model.clone_from(&claude.fallback_model);
        options.effort = claude.effort.map(effort);
        options.response_format.clone_from(&agent.response_format);
        if claude.permission_mode == Some(holodeck_model::PermissionMode::AcceptEdits) {
            options.edits = Edits::Accept;
        }
        options = builtin_tools(options, &claude, setup);
        options = own_tools(options, setup, &names, &access);
        options.disallowed_tools = disallowed(&claude, &names);
        options.agents = agents(&claude, &names)?;
        options.parallel_agents = claude
            .subagents
            .as_ref()
            .and_then(|subagents| NonZeroUsize::new(usize::try_from(subagents.max_parallel).ok()?));
        options.limits.tool_calls = agent.execution.parallel_tool_calls.value;
        options.mcp_servers = servers;
        Ok(options.tool_access(names, access))
    }
}

/// The built-in tools that the YAML switches on, and no others.
fn builtin_tools(options: ClaudeOptions, claude: &ClaudeConfig, setup: &AgentSetup<'_>) -> ClaudeOptions {
    let mut names = claude.built_in_tools();
    let withheld: Vec<&str> = match setup.side_effects {
        BuiltinChanges::AsConfigured | BuiltinChanges::Allowed => Vec::new(),
        BuiltinChanges::Withheld => names
            .extract_if(.., |name| ClaudeConfig::may_change_something(name))
            .collect(),
    };
    let commands = claude.allowed_commands();
    // The CLI would let these run unasked; a rule or a pattern for them applies all the same.
    let governed: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| setup.policy.has_rule_for(name) || (commands.is_some() && *name == "Bash"))
        .collect();
    let allowed: Vec<&str> = match setup.side_effects {
        BuiltinChanges::AsConfigured | BuiltinChanges::Withheld => Vec::new(),
        BuiltinChanges::Allowed => names
            .iter()
            .copied()
            .filter(|name| ClaudeConfig::may_change_something(name))
            .collect(),
    };
    let mut options = options.governed_tools(governed).builtin_tools(names);
    if let Some(commands) = commands {
        options = options.allowed_commands(commands);
    }
    if !withheld.is_empty() {
        options = options.notice(format!(
            "this test runs without {}, which may change something; `--allow-side-effects` gives the agent what its \
             YAML enables",
            list(&withheld)
        ));
    }
    if !allowed.is_empty() {
        options = options.notice(format!(
            "this test runs with {}, which may change something on this machine, as `--allow-side-effects` says",
            list(&allowed)
        ));
    }
    options
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// The tools by their names, those of servers that run here included, and what the lists say of them. A name that no
/// tool can have is an error.
fn tool_access(setup: &AgentSetup<'_>) -> Result<(ToolNames, ToolAccess), BackendError> {
    let config = &setup.agent.config;
    let (mut names, access) = (ToolNames::of(config), ToolAccess::of_loaded(setup.agent));
    let here: Vec<String> = servers_here(setup).map(str::to_owned).collect();
    let specs = setup.tools.specs();
    names.list_shown(&here, &specs.iter().map(|spec| spec.name.as_str()));
    for spec in specs {
        names.host(&spec.name);
    }
    let unresolved = access.unresolved(&names);
    if unresolved.is_empty() {
        return Ok((names, access));
    }
    let problems: Vec<_> = unresolved.iter().map(ToString::to_string).collect();
    Err(BackendError::Config {
        message: problems.join("\n"),
    })
}

/// Those of the agent's own tools that it may use.
fn own_tools(
    options: ClaudeOptions,
    setup: &AgentSetup<'_>,
    names: &ToolNames,
    access: &ToolAccess,
) -> ClaudeOptions {
    let mut options = options;
    let mut of_servers = Vec::new();
    for server in servers_here(setup) {
        let key = names.server_key(server).unwrap_or(server);
        let prefix = mcp_tool_name(key, "");
        let specs = setup.tools.specs().iter();
        let specs = specs.filter(|spec| spec.name.starts_with(&prefix));
        of_servers.extend(specs.clone().map(|spec| spec.name.clone()));
        let specs = specs.filter(|spec| access.allows_call(names, &spec.name));
        let specs: Vec<_> = specs.filter_map(|spec| without_prefix(spec, &prefix)).collect();
        if specs.is_empty() {
            continue;
        }
        let host = Arc::clone(&setup.tools);
        options = options.tool_server(key, Arc::new(OfServer { prefix, specs, host }));
    }
    let own = setup.tools.specs().iter();
    let own = own.filter(|spec| !of_servers.contains(&spec.name));
    let specs: Vec<ToolSpec> = own
        .filter(|spec| access.allows_call(names, &on_the_wire(spec)))
        .cloned()
        .collect();
    let approved = specs
        .iter()
        .filter(|spec| !setup.policy.has_rule_for(&on_the_wire(spec)));
    let approved: Vec<_> = approved.map(|spec| spec.name.clone()).collect();
    let host = Arc::clone(&setup.tools);
    options
        .tool_host(Arc::new(Offered { specs, host }))
        .approved_tools(approved)
}

/// The CLI's name for a tool of our own process.
fn on_the_wire(spec: &ToolSpec) -> String {
    mcp_tool_name(HOLODECK_SERVER, &spec.name)
}

/// Servers whose tools run here and look as if they did not: those that answer from the YAML, and those that need more
/// of a client than the CLI is.
fn servers_here<'a>(setup: &AgentSetup<'a>) -> impl Iterator<Item = &'a str> {
    let tools = setup.agent.config.tools.iter();
    tools.filter_map(|tool| match tool {
        ToolConfig::Mcp(server) if is_here(server) => Some(server.name.as_str()),
        _ => None,
    })
}

fn is_here(server: &McpTool) -> bool {
    server.mock.is_some() || server.needs_our_client()
}

fn without_prefix(spec: &ToolSpec, prefix: &str) -> Option<ToolSpec> {
    let name = spec.name.strip_prefix(prefix)?.to_owned();
    Some(ToolSpec { name, ..spec.clone() })
}

/// Those of a host's tools whose names begin with `prefix`, called without it.
struct OfServer {
    prefix: String,
    specs: Vec<ToolSpec>,
    host: Arc<dyn ToolHost>,
}

#[async_trait]
impl ToolHost for OfServer {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let call = ToolCall {
            name: format!("{}{}", self.prefix, call.name),
            ..call.clone()
        };
        self.host.call(&call, cx).await
    }
}

/// Some of a host's tools.
struct Offered {
    specs: Vec<ToolSpec>,
    host: Arc<dyn ToolHost>,
}

#[async_trait]
impl ToolHost for Offered {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        if self.specs.iter().any(|spec| spec.name == call.name) {
            return self.host.call(call, cx).await;
        }
        let text = format!("there is no tool `{}`", call.name);
        Ok(ToolOutput::refused(CallRefusal::Unknown, text))
    }
}

/// What is refused whatever else is said, in the CLI's words for it.
fn disallowed(claude: &ClaudeConfig, names: &ToolNames) -> Vec<String> {
    let excluded = claude.bash.iter().flat_map(|bash| &bash.excluded_commands);
    let excluded = excluded.map(|command| format!("Bash({}:*)", command.trim()));
    let named = claude.disallowed_tools.iter().flatten();
    excluded
        .chain(named.flat_map(|name| names.for_cli(name)))
        .collect()
}

fn thinking(claude: &ClaudeConfig) -> Thinking {
    match (&claude.extended_thinking, claude.effort) {
        (Some(thinking), _) if thinking.enabled => Thinking::Budget(thinking.budget_tokens),
        (None, Some(_)) => Thinking::AsTheModelDoes,
        _ => Thinking::Disabled,
    }
}

fn effort(effort: Effort) -> String {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "max",
    }
    .to_owned()
}

fn setting_sources(claude: &ClaudeConfig) -> Vec<&'static str> {
    let wanted = |own: SettingSource| {
        let mut sources = claude.setting_sources.iter();
        sources.any(|source| *source == own || *source == SettingSource::All)
    };
    let names = [
        (SettingSource::User, "user"),
        (SettingSource::Project, "project"),
        (SettingSource::Local, "local"),
    ];
    let names = names.into_iter().filter(|(source, _)| wanted(*source));
    names.map(|(_, name)| name).collect()
}

fn agents(claude: &ClaudeConfig, names: &ToolNames) -> Result<Map<String, Value>, BackendError> {
    claude
        .agents
        .iter()
        .map(|(name, subagent)| Ok((name.clone(), definition(subagent, names)?)))
        .collect()
}

/// A sub-agent in the CLI's form.
fn definition(subagent: &SubagentConfig, names: &ToolNames) -> Result<Value, BackendError> {
    let prompt = match (&subagent.prompt, &subagent.prompt_file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(file)) => {
            read_text_input(&file.path(), MAX_PROMPT_BYTES).map_err(|error| BackendError::Init {
                message: format!("can't read `{}`: {error}", file.path().display()),
            })?
        }
        (None, None) => String::new(),
    };
    let mut definition = json!({"description": subagent.description, "prompt": prompt});
    if let Some(definition) = definition.as_object_mut() {
        if let Some(tools) = &subagent.tools {
            let tools: Vec<_> = tools.iter().flat_map(|name| names.for_cli(name)).collect();
            definition.insert("tools".to_owned(), json!(tools));
        }
        if let Some(model) = subagent.model {
            let model = match model {
                SubagentModel::Sonnet => "sonnet",
                SubagentModel::Opus => "opus",
                SubagentModel::Haiku => "haiku",
                SubagentModel::Inherit => "inherit",
            };
            definition.insert("model".to_owned(), json!(model));
        }
    }
    Ok(definition)
}

/// The external MCP servers, in a document for the CLI, but for those of which the agent may use nothing.
fn servers(setup: &AgentSetup<'_>) -> Result<McpServers, BackendError> {
    let config = &setup.agent.config;
    let (names, access) = (ToolNames::of(config), ToolAccess::of(config));
    let is_used = |tool: &McpTool| access.of_server(&names, &tool.name) != ServerAccess::None;
    let tools: Vec<&McpTool> = setup
        .agent
        .config
        .tools
        .iter()
        .filter_map(|tool| match tool {
            ToolConfig::Mcp(tool) if !is_here(tool) && is_used(tool) => Some(tool),
            _ => None,
        })
        .collect();
    if tools.is_empty() {
        return Ok(McpServers::default());
    }
    let secrets = &setup.credentials.secret_names;
    let servers =
        ClaudeServers::translate(&tools, &setup.agent.dir, setup.env, secrets).map_err(|errors| {
            BackendError::Init {
                message: errors
                    .iter()
                    .map(|error| error.message.clone())
                    .collect::<Vec<_>>()
                    .join("\n"),
            }
        })?;
    for warning in &servers.warnings {
        tracing::warn!("{}", warning.message);
    }
    let document = (!servers.servers.is_empty()).then(|| servers.document());
    Ok(McpServers {
        document,
        servers: servers
            .servers
            .into_iter()
            .map(|server| McpServer {
                name: server.name,
                need: server.need,
                allowed_tools: server.allowed_tools,
            })
            .collect(),
    })
}
