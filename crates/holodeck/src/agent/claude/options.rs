//! Translates the YAML of an agent into options of Claude Code.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{
    Approver, BackendError, CallRefusal, Explanation, Thinking, ToolCall, ToolCx, ToolError, ToolHost,
    ToolOutput, ToolSpec,
};
use holodeck_backend_claude::{
    ClaudeOptions, Edits, Limits, McpServer, McpServers, Reuse, ThinkingOff, Worktrees,
};
use holodeck_mcp_bridge::ClaudeServers;
use holodeck_model::{
    ApprovalPolicy, ClaudeConfig, ClaudeModels, Env, HOLODECK_SERVER, McpTool, Occasion, PathRef, Reasoning,
    ServerAccess, SubagentConfig, ToolAccess, ToolConfig, ToolNames, ToolOrigin, io_reason, mcp_tool_name,
    path_access, read_text_input, without_pattern,
};
use holodeck_validators::{ClaudeCli, ClaudeEnv};
use holodeck_yaml::LoadedAgent;
use serde_json::{Value, json};

mod sandbox;

use self::sandbox::sandbox_settings;
use super::machine;
use crate::{
    agent::{answer_format::answer_format, logins::has_login},
    commands::skills::skill_tools,
};

/// Variables of the machine that the CLI needs and that contain no credentials of the model.
pub(crate) const MACHINE: [&str; 17] = [
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
/// The size limit of a sub-agent's `prompt_file`.
const MAX_PROMPT_BYTES: u64 = 1024 * 1024;

/// Everything that decides how Claude Code runs for an agent.
pub(super) struct AgentSetup<'a> {
    /// The agent.
    pub agent: &'a LoadedAgent,
    /// The occasion on which it is opened.
    pub occasion: Occasion,
    /// The program.
    pub cli: &'a ClaudeCli,
    /// Its credentials.
    pub credentials: &'a ClaudeEnv,
    /// The environment as it was when the program started.
    pub env: &'a Env,
    /// The agent's own tools.
    pub tools: Arc<dyn ToolHost>,
    /// Decides about tool calls that need approval.
    pub approver: Arc<dyn Approver>,
    /// The policy of `approvals:` and the permission mode.
    pub policy: &'a ApprovalPolicy,
    /// Whether built-in tools that may change something are available.
    pub side_effects: BuiltinChanges,
    /// Whether conversations may share processes.
    pub reuse: Reuse,
    /// The folder of the administrator's files.
    pub managed: &'a Path,
    /// Further variables of the CLI, for instance its telemetry endpoint.
    pub variables: Vec<(String, String)>,
}

/// Whether built-in tools that may change something are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltinChanges {
    /// Those that the YAML enables.
    AsConfigured,
    /// Those that the YAML enables, and a warning lists them: `--allow-side-effects` was given.
    Allowed,
    /// None: a test runs without `--allow-side-effects`.
    Withheld,
}

/// The options of Claude Code for an agent of a YAML file.
pub(super) fn options(setup: &AgentSetup<'_>) -> Result<ClaudeOptions, BackendError> {
    let agent = setup.agent;
    let config = &agent.config;
    let claude = config.claude.clone().unwrap_or_default();
    let servers = servers(setup)?;
    let (names, access) = tool_access(setup)?;
    let problems = setup.policy.problems();
    if !problems.is_empty() {
        return Err(BackendError::config(problems.join("\n")));
    }
    let (program, script) = setup.cli.command();
    let folder = match &claude.working_directory {
        Some(folder) => folder.path(),
        None => agent.dir.clone(),
    };
    let sources = machine::setting_sources(&claude.setting_sources);
    check_programs(setup, &sources, &folder)?;
    let mut options = ClaudeOptions::new(program)
        .version(setup.cli.version)
        .model(config.answerer())
        .system_prompt(&agent.instructions.text)
        .working_directory(folder)
        .max_turns(claude.max_turns.unwrap_or(MAX_TURNS))
        .betas(claude.betas.iter().cloned())
        .worktrees(match setup.side_effects {
            BuiltinChanges::Withheld => Worktrees::Refused,
            BuiltinChanges::AsConfigured | BuiltinChanges::Allowed => Worktrees::Allowed,
        })
        .setting_sources(sources.iter().copied())
        .reuse(setup.reuse)
        .approver(Arc::clone(&setup.approver));
    if sources.contains(&"user") {
        for (name, file) in machine::user_files(setup.env) {
            options = options.config_file(name, file);
        }
    }
    options = add_managed(options, setup.managed)?;
    for name in MACHINE {
        if let Some(value) = setup.env.get(name) {
            options = options.env(name, value.to_owned());
        }
    }
    for (name, value) in &setup.credentials.vars {
        options = options.env(name, value.clone());
    }
    let further = claude.additional_directories.iter().map(PathRef::path);
    // The CLI refuses to start with one that does not exist.
    for folder in further.filter(|folder| folder.is_dir()) {
        options = options.additional_directory(folder);
    }
    for place in setup.policy.given_back() {
        options = options.notice(format!(
            "a rule of `approvals` with `paths` lets the agent use `{place}`, a file of HoloDeck or of this test"
        ));
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
    if let Some(script) = script {
        options = options.script(script);
    }
    if let Some(usd) = claude.max_budget_usd {
        options = options.max_budget_usd(usd);
    }
    if let Some(model) = &claude.fallback_model {
        options = options.fallback_model(model);
    }
    options = add_reasoning(
        options,
        &ClaudeModels::embedded().reasoning(&config.answerer(), &claude),
    );
    if let Some(tokens) = config.model.as_ref().and_then(|model| model.max_tokens) {
        options = options.max_tokens(tokens);
    }
    if let Some(format) = answer_format(agent)? {
        options = options.response_format(format);
    }
    if claude.permission_mode == Some(holodeck_model::PermissionMode::AcceptEdits) {
        options = options.edits(Edits::Accept);
    }
    options = add_builtin_tools(options, &claude, setup);
    if let Some(sandbox) = claude.sandbox.as_ref().filter(|sandbox| sandbox.enabled)
        && has_shell(&claude, setup)
    {
        options = options.sandbox(sandbox_settings(sandbox));
    }
    options = add_own_tools(options, setup, &names, &access);
    for (name, subagent) in &claude.agents {
        options = options.agent(name, define_agent(subagent, &names)?);
        if let Some(commands) = commands_of(subagent) {
            options = options.subagent_commands(name, commands);
        }
    }
    let max_parallel = claude.subagents.as_ref();
    let max_parallel = max_parallel.and_then(|subagents| usize::try_from(subagents.max_parallel).ok());
    if let Some(max_parallel) = max_parallel.and_then(NonZeroUsize::new) {
        options = options.parallel_agents(max_parallel);
    }
    let limits = Limits {
        tool_calls: agent.execution.parallel_tool_calls.value,
        ..Limits::default()
    };
    Ok(options
        .disallowed_tools(disallowed_tools(&claude, &names))
        .denied_files(setup.policy.cli_denials())
        .mcp_servers(servers)
        .limits(limits)
        .tool_access(names, access))
}

/// A test without `--allow-side-effects` runs no program of the settings.
fn check_programs(setup: &AgentSetup<'_>, sources: &[&str], folder: &Path) -> Result<(), BackendError> {
    if setup.side_effects != BuiltinChanges::Withheld {
        return Ok(());
    }
    let programs = machine::programs(sources, folder, setup.env);
    if programs.is_empty() {
        return Ok(());
    }
    let programs: Vec<String> = programs.into_iter().collect();
    let message = format!(
        "`claude.setting_sources` would run programs in this test: {}",
        programs.join(", ")
    );
    Err(BackendError::config(Explanation::new(message).with_hint(
        "`--allow-side-effects` runs them; or remove the source from `setting_sources`",
    )))
}

/// Files of an administrator apply to every start of the CLI: they are named, and no tool of their servers is offered.
fn add_managed(options: ClaudeOptions, folder: &Path) -> Result<ClaudeOptions, BackendError> {
    let files = machine::managed_files(folder);
    if files.is_empty() {
        return Ok(options);
    }
    let files: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    let mut options = options.notice(format!(
        "managed settings of this machine apply to the Claude Code CLI: {}",
        files.join(", ")
    ));
    if let Some(servers) = machine::managed_servers(folder).map_err(BackendError::config)? {
        options = options.managed_servers(servers);
    }
    Ok(options)
}

/// Adds the built-in tools that the YAML enables.
fn add_builtin_tools(options: ClaudeOptions, claude: &ClaudeConfig, setup: &AgentSetup<'_>) -> ClaudeOptions {
    let mut names = claude.all_built_in_tools();
    let withheld: Vec<&str> = match setup.side_effects {
        BuiltinChanges::AsConfigured | BuiltinChanges::Allowed => Vec::new(),
        BuiltinChanges::Withheld => names
            .extract_if(.., |name| ClaudeConfig::may_change_something(name))
            .collect(),
    };
    let commands = claude.allowed_commands();
    // The CLI would run these without asking, but rules and patterns apply to them too.
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
    let of_subagents = claude.tools_of_subagents_only();
    let (of_subagents, own): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| of_subagents.contains(name));
    let options = options.governed_tools(governed).builtin_tools(own);
    let mut options = options.subagent_tools(of_subagents);
    if let Some(commands) = commands {
        options = options.allowed_commands(commands);
    }
    if !withheld.is_empty() {
        options = options.notice(format!(
            "this test runs without {}, which may change something; `--allow-side-effects` enables what the \
             YAML configures",
            quote_names(&withheld)
        ));
    }
    if !allowed.is_empty() {
        options = options.notice(format!(
            "this test runs with {}, which may change something on this machine, because of `--allow-side-effects`",
            quote_names(&allowed)
        ));
    }
    options
}

fn quote_names(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// The names of the tools, including those of servers that run in this process, and the access lists. A name that no
/// tool can have is an error.
fn tool_access(setup: &AgentSetup<'_>) -> Result<(ToolNames, ToolAccess), BackendError> {
    let config = &setup.agent.config;
    let (mut names, access) = (
        ToolNames::of(config),
        ToolAccess::of(config).with_places(|field| setup.agent.locate(field)),
    );
    let local: Vec<String> = local_servers(setup).into_iter().map(str::to_owned).collect();
    let specs = setup.tools.specs();
    names.list_shown(&local, &specs.iter().map(|spec| spec.name.as_str()));
    for spec in specs {
        names.add_host_tool(&spec.name);
    }
    // Skills are tools only where a command is executed, and can be named everywhere.
    for skill in skill_tools(setup.agent) {
        names.add_host_tool(&skill);
    }
    let unresolved = access.unresolved(&names);
    if unresolved.is_empty() {
        return Ok((names, access));
    }
    let problems: Vec<_> = unresolved.iter().map(ToString::to_string).collect();
    Err(BackendError::config(problems.join("\n")))
}

/// Adds the agent's own tools that it may use.
fn add_own_tools(
    options: ClaudeOptions,
    setup: &AgentSetup<'_>,
    names: &ToolNames,
    access: &ToolAccess,
) -> ClaudeOptions {
    let mut options = options;
    let mut server_tools = Vec::new();
    for server in local_servers(setup) {
        let key = names.server_key(server).unwrap_or(server);
        let prefix = mcp_tool_name(key, "");
        let specs = setup.tools.specs().iter();
        let is_own = |spec: &&ToolSpec| {
            let tool = names.identify(&spec.name);
            tool.is_some_and(|tool| tool.origin == ToolOrigin::External && tool.declared == server)
        };
        let specs = specs.filter(is_own);
        server_tools.extend(specs.clone().map(|spec| spec.name.clone()));
        let specs = specs.filter(|spec| access.allows_call(names, &spec.name));
        let specs: Vec<_> = specs.filter_map(|spec| strip_prefix(spec, &prefix)).collect();
        if specs.is_empty() {
            continue;
        }
        let host = Arc::clone(&setup.tools);
        options = options.tool_server(key, Arc::new(PrefixedTools { prefix, specs, host }));
    }
    let own = setup.tools.specs().iter();
    let own = own.filter(|spec| !server_tools.contains(&spec.name));
    let specs: Vec<ToolSpec> = own
        .filter(|spec| access.allows_call(names, &wire_name(spec)))
        .cloned()
        .collect();
    let approved = specs
        .iter()
        .filter(|spec| !setup.policy.has_rule_for(&wire_name(spec)));
    let approved: Vec<_> = approved.map(|spec| spec.name.clone()).collect();
    let host = Arc::clone(&setup.tools);
    options
        .tool_host(Arc::new(ToolSubset { specs, host }))
        .approved_tools(approved)
}

/// The CLI's name for a tool of this process.
fn wire_name(spec: &ToolSpec) -> String {
    mcp_tool_name(HOLODECK_SERVER, &spec.name)
}

/// Servers whose tools run in this process, but look as if the CLI ran them: those with a mock, and those to which
/// HoloDeck connects itself.
fn local_servers<'a>(setup: &AgentSetup<'a>) -> Vec<&'a str> {
    let names = ToolNames::of(&setup.agent.config);
    let tools = setup.agent.config.tools.iter();
    let local = tools.filter_map(|tool| match tool {
        ToolConfig::Mcp(server) if is_local(server, setup, &names) => Some(server.name.as_str()),
        _ => None,
    });
    local.collect()
}

fn is_local(server: &McpTool, setup: &AgentSetup<'_>, names: &ToolNames) -> bool {
    server.mock.is_some() || has_own_client(server, setup.occasion, names, setup.env)
}

fn strip_prefix(spec: &ToolSpec, prefix: &str) -> Option<ToolSpec> {
    let name = spec.name.strip_prefix(prefix)?.to_owned();
    Some(ToolSpec { name, ..spec.clone() })
}

/// The tools of a host whose names begin with `prefix`, offered without it.
struct PrefixedTools {
    prefix: String,
    specs: Vec<ToolSpec>,
    host: Arc<dyn ToolHost>,
}

#[async_trait]
impl ToolHost for PrefixedTools {
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
struct ToolSubset {
    specs: Vec<ToolSpec>,
    host: Arc<dyn ToolHost>,
}

#[async_trait]
impl ToolHost for ToolSubset {
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

/// The tools and commands that are always refused, in the CLI's syntax. Patterns of paths are those of the policy.
fn disallowed_tools(claude: &ClaudeConfig, names: &ToolNames) -> Vec<String> {
    let excluded = claude.bash.iter().flat_map(|bash| &bash.excluded_commands);
    let excluded = excluded.map(|command| format!("Bash({}:*)", command.trim()));
    let named = claude.disallowed_tools.iter().flatten();
    let named = named.filter(|entry| !entry.contains('(') || path_access(without_pattern(entry)).is_none());
    excluded
        .chain(named.flat_map(|name| names.for_cli(name)))
        .collect()
}

/// How much the model reasons. Settings that have no effect on it were reported when the agent was loaded.
fn add_reasoning(options: ClaudeOptions, reasoning: &Reasoning) -> ClaudeOptions {
    let thinking = match reasoning.budget {
        _ if reasoning.off => Some(Thinking::Off),
        budget => budget.map(Thinking::Budget),
    };
    let mut options = options.thinking(thinking);
    if reasoning.off_for_all {
        options = options.thinking_off(ThinkingOff::OfProcess);
    }
    if let Some(level) = reasoning.effort {
        options = options.effort(level.as_str());
    }
    options
}

/// Whether the agent or a sub-agent has a shell.
fn has_shell(claude: &ClaudeConfig, setup: &AgentSetup<'_>) -> bool {
    setup.side_effects != BuiltinChanges::Withheld && claude.all_built_in_tools().contains(&"Bash")
}

/// The commands that a sub-agent may run, where its `tools` name the shell only with patterns as in `Bash(git *)`.
fn commands_of(subagent: &SubagentConfig) -> Option<Vec<String>> {
    let shell = subagent.tools.iter().flatten();
    let shell = shell.filter(|name| without_pattern(name) == "Bash");
    let patterns: Option<Vec<String>> = shell
        .map(|name| {
            let (_, pattern) = name.split_once('(')?;
            Some(pattern.trim_end().trim_end_matches(')').trim().to_owned())
        })
        .collect();
    patterns.filter(|patterns| !patterns.is_empty())
}

/// The definition of a sub-agent in the CLI's format.
fn define_agent(subagent: &SubagentConfig, names: &ToolNames) -> Result<Value, BackendError> {
    let prompt = match (&subagent.prompt, &subagent.prompt_file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(file)) => read_text_input(&file.path(), MAX_PROMPT_BYTES).map_err(|error| {
            BackendError::init(format!(
                "can't read `{}`: {}",
                file.path().display(),
                io_reason(&error)
            ))
        })?,
        (None, None) => String::new(),
    };
    let mut definition = json!({"description": subagent.description, "prompt": prompt});
    if let Some(definition) = definition.as_object_mut() {
        if let Some(tools) = &subagent.tools {
            // Its commands are checked here.
            let shown = |name: &String| match without_pattern(name) {
                "Bash" => vec!["Bash".to_owned()],
                _ => names.for_cli(name),
            };
            let tools: Vec<_> = tools.iter().flat_map(shown).collect();
            definition.insert("tools".to_owned(), json!(tools));
        }
        if let Some(model) = &subagent.model {
            definition.insert("model".to_owned(), json!(model));
        }
    }
    Ok(definition)
}

/// The external MCP servers, in a document for the CLI, without those whose tools the agent may not use.
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
            ToolConfig::Mcp(tool) if !is_local(tool, setup, &names) && is_used(tool) => Some(tool),
            _ => None,
        })
        .collect();
    if tools.is_empty() {
        return Ok(McpServers::default());
    }
    let secrets = &setup.credentials.secret_names;
    let servers =
        ClaudeServers::translate(&tools, &setup.agent.dir, setup.env, secrets).map_err(|errors| {
            BackendError::init(
                errors
                    .iter()
                    .map(|error| error.message.clone())
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
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

/// Whether HoloDeck connects to a server for the Claude CLI, which does not know which server a tool is from if the names of
/// two servers begin alike: it hides one of two tools with one name. The CLI gets no token of a login either.
pub(crate) fn has_own_client(server: &McpTool, occasion: Occasion, names: &ToolNames, env: &Env) -> bool {
    server.needs_own_client(occasion) || names.shares_names(&server.name) || has_login(server, env)
}

#[cfg(test)]
mod tests;
