//! The parts that shape the answers of an agent, each with a digest.
//!
//! The only definition of "the same agent". A resumed run compares all parts and names those that differ; the keys of
//! recordings contain the files and variables among them. What only limits an answer (timeouts, prices, concurrency) or
//! grades it (expectations, metrics) is not included. Only the names of secrets count, so that a token can rotate. The
//! parts are equal for every way to name the agent file, and in a copy of its folder. A file that cannot be read is an
//! error, never a part that is left out.

mod collect;
mod files;
mod programs;

use std::{collections::BTreeMap, path::PathBuf};

use holodeck_cassette::file_digest;
use holodeck_model::{
    ClaudeConfig, ConfigPart, Env, HooksConfig, IDENTITY_FORMAT, LegacyConfig, MetricConfig, PathRef,
    Provider, Redactor, ResolvedAgent, ToolConfig, canonical, digest_json,
    env::{ANTHROPIC_BASE_URL, HOLODECK_ROUTING_COMMANDS, HOLODECK_ROUTING_ENABLED, OPENAI_BASE_URL},
};
use holodeck_validators::ClaudeEnv;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::{
    Answers,
    agent::inventory::{FileOwner, Inventory, ModelRole, loop_metrics},
    commands::{
        agents,
        routed::{MAX_DELEGATION, is_routed},
    },
    load,
};

/// Keys of `claude:` that do not change answers.
pub(crate) const WITHOUT_EFFECT: [&str; 6] = [
    "cli_path",
    "disable_default_hooks",
    "disable_subprocess_env_scrub",
    "i_understand_this_is_unsafe",
    "max_concurrent_sessions",
    "session_memory_estimate_mib",
];

pub use collect::IdentityError;
use collect::{FileDigests, PathNames};
pub(crate) use files::{digests_of, file_digests, named_files, program_digests, settings_of_user};

/// The part that names the version of all others.
const FORMAT: &str = "identity format";

/// Each part that shapes the answers of `agent`, with its digest.
pub(crate) fn fingerprint(
    agent: &ResolvedAgent,
    env: &Env,
    answers: &Answers,
) -> Result<BTreeMap<String, String>, IdentityError> {
    let redactor = answers.redactor();
    let mut digests = parts_of_agent(agent, env, &redactor, &mut vec![real_path(agent)])?;
    digests.insert(FORMAT.to_owned(), IDENTITY_FORMAT.to_string());
    let mut parts = Parts::new(agent, &redactor);
    for (owner, files) in file_digests(agent, |owner| matches!(owner, FileOwner::TestCases))? {
        parts.add_files(&owner.to_string(), files);
    }
    match answers.replayed() {
        // A replay uses no endpoint.
        Some(replayed) => {
            let path = replayed.cassette.as_ref();
            let content = file_digest(path).map_err(|error| {
                let reason = holodeck_model::io_reason(&error);
                IdentityError::new(path, "execution.replay", format!("cannot be read: {reason}"))
            })?;
            parts.digests.insert("recording".to_owned(), content);
        }
        None => parts.add_endpoint(agent, env),
    }
    digests.append(&mut parts.digests);
    Ok(digests)
}

fn real_path(agent: &ResolvedAgent) -> PathBuf {
    agent.path.canonicalize().unwrap_or_else(|_| agent.path.clone())
}

/// The parts of an agent and of those to which it delegates; `stack` has the files of the agents that delegate to it, and
/// its own.
fn parts_of_agent(
    agent: &ResolvedAgent,
    env: &Env,
    redactor: &Redactor,
    stack: &mut Vec<PathBuf>,
) -> Result<BTreeMap<String, String>, IdentityError> {
    let mut parts = Parts::new(agent, redactor);
    parts.add_configuration(agent);
    for (owner, files) in file_digests(agent, FileOwner::shapes_answers)? {
        parts.add_files(&owner.to_string(), files);
    }
    parts.add_files("settings of the user", settings_of_user(agent, env)?);
    if let Some(seen) = agents::globs_seen(agent) {
        parts.add_value("files that `globs` match", json!(seen));
    }
    if is_routed(&agent.config) {
        for name in [HOLODECK_ROUTING_ENABLED, HOLODECK_ROUTING_COMMANDS] {
            // Set but empty differs from not set.
            parts.add_value(format!("variable {name}"), json!(env.get(name).map(str::trim)));
        }
    }
    let routing = agent.config.routing.as_ref();
    if let Some(legacy) = routing.and_then(|routing| routing.legacy.as_ref()) {
        let delegated = legacy_agent(legacy, env, redactor, stack)?;
        let delegated = delegated.into_iter();
        parts
            .digests
            .extend(delegated.map(|(name, digest)| (format!("legacy agent: {name}"), digest)));
    }
    Ok(parts.digests)
}

/// The parts of the agent of `routing.legacy`.
fn legacy_agent(
    legacy: &LegacyConfig,
    env: &Env,
    redactor: &Redactor,
    stack: &mut Vec<PathBuf>,
) -> Result<BTreeMap<String, String>, IdentityError> {
    let Some(path) = legacy.agent.as_ref().map(holodeck_model::PathRef::path) else {
        return Ok(BTreeMap::new());
    };
    let pointer = "routing.legacy.agent";
    let loaded = load(&path, env);
    let problem = loaded.diagnostics.iter().find(|found| found.is_error());
    let reason = problem.map(|found| {
        let place = found.primary.as_ref();
        let place = place.map_or_else(String::new, |place| format!(" ({place})"));
        format!("cannot be loaded: {}{place}", found.message)
    });
    let failure = |reason: Option<String>| {
        let reason = reason.unwrap_or_else(|| "cannot be loaded".to_owned());
        IdentityError::new(&path, pointer, reason)
    };
    let agent = match (loaded.agent, reason) {
        (Some(agent), None) => agent,
        (_, reason) => return Err(failure(reason)),
    };
    let real = real_path(&agent);
    // An agent that delegates to itself executes nothing further.
    if stack.contains(&real) || stack.len() >= MAX_DELEGATION {
        return Ok(BTreeMap::new());
    }
    stack.push(real);
    let mut digests = parts_of_agent(&agent, env, redactor, stack).map_err(|error| {
        // The field is one of this file, and not of the one that names it.
        let located = error.located(|field| agent.locate(field));
        if located.at.is_some() {
            located
        } else {
            IdentityError {
                pointer: pointer.to_owned(),
                ..located
            }
        }
    })?;
    let mut parts = Parts::new(&agent, redactor);
    parts.add_endpoint(&agent, env);
    digests.append(&mut parts.digests);
    stack.pop();
    Ok(digests)
}

struct Parts<'a> {
    redactor: &'a Redactor,
    names: PathNames,
    digests: BTreeMap<String, String>,
}

impl<'a> Parts<'a> {
    fn new(agent: &ResolvedAgent, redactor: &'a Redactor) -> Self {
        Self {
            redactor,
            names: PathNames::new(&agent.dir),
            digests: BTreeMap::new(),
        }
    }

    /// The canonical form of a part of the configuration.
    fn canonical<T: ConfigPart>(&self, value: &T) -> Value {
        canonical(value, &|path| self.names.name(path))
    }

    fn canonical_list<'v, T: ConfigPart>(&self, values: impl IntoIterator<Item = &'v T>) -> Value {
        values.into_iter().map(|value| self.canonical(value)).collect()
    }

    /// A part of the configuration, unless it is empty.
    fn add<T: ConfigPart>(&mut self, name: impl Into<String>, value: Option<&T>) {
        if let Some(value) = value {
            let value = self.canonical(value);
            self.add_value(name, value);
        }
    }

    /// A part, unless it is empty.
    fn add_value(&mut self, name: impl Into<String>, mut value: Value) {
        let empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !empty {
            self.redactor.value(&mut value);
            self.digests.insert(name.into(), digest_json(&value));
        }
    }

    /// A part of the configuration without some of its fields.
    fn add_without<T: ConfigPart>(&mut self, name: &str, value: Option<&T>, without: &[&str]) {
        let Some(value) = value else { return };
        let mut value = self.canonical(value);
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| !without.contains(&name.as_str()));
        }
        self.add_value(name, value);
    }

    fn add_configuration(&mut self, agent: &ResolvedAgent) {
        let config = &agent.config;
        // The endpoint is a separate part, and the request rate does not change answers.
        self.add_without("model", config.model.as_ref(), &["endpoint", "rpm"]);
        self.add_without("target", config.target.as_ref(), &["timeout"]);
        self.add_text("instructions", &agent.instructions.text);
        self.add_value(
            "response_format",
            agent.response_format.clone().unwrap_or_default(),
        );
        for tool in &config.tools {
            self.add_tool(tool);
        }
        self.add("tool_filtering", config.tool_filtering.as_ref());
        self.add("approvals", config.approvals.as_ref());
        // A user without a model of its own; its other fields are part of its case.
        let mut users = config.simulated_users(None);
        let needs_model = users.any(|(_, user)| user.model.is_none());
        let users = self.canonical_list(agent.default_judge().filter(|_| needs_model));
        self.add_value("model of simulated users", users);
        self.add("embedding_provider", config.embedding_provider.as_ref());
        self.add_claude(config.claude.as_ref());
        self.add_without("openai", config.openai.as_ref(), &WITHOUT_EFFECT);
        if let Some(quality) = agent.config.enabled_loop() {
            let inventory = Inventory::new(agent, None);
            let metrics = loop_metrics(agent, quality).map(|(_, metric)| metric);
            let metrics = self.canonical_list::<MetricConfig>(metrics);
            let judges = self.canonical_list(
                inventory
                    .each(&[ModelRole::LoopJudge])
                    .iter()
                    .map(|used| &used.config),
            );
            self.add_value("quality_loop", json!([self.canonical(quality), metrics, judges]));
        }
        if let Some(routing) = &config.routing {
            let mut routing = self.canonical(routing);
            if let Some(line) = routing.pointer_mut("/legacy/command") {
                self.name_command_line(line);
            }
            // An empty block routes commands too.
            self.add_value("routing", json!([routing]));
        }
        self.add("evidence", config.evidence.as_ref());
        for (name, database) in &agent.vectorstores {
            self.add(format!("vectorstore {name}"), Some(database));
        }
        self.add_value(
            "execution.allow_private_urls",
            json!(agent.execution.allow_private_urls.value),
        );
    }

    /// The paths among arguments by their names.
    fn name_arguments(&self, arguments: &mut Value) {
        for argument in arguments.as_array_mut().into_iter().flatten() {
            if let Value::String(text) = argument {
                *text = self.names.argument(text);
            }
        }
    }

    fn name_command_line(&self, line: &mut Value) {
        self.name_arguments(line);
        if let Some(Value::String(command)) = line.get_mut(0) {
            *command = self.names.command(command);
        }
    }

    fn add_claude(&mut self, claude: Option<&ClaudeConfig>) {
        let Some(claude) = claude else { return };
        let mut value = self.canonical(claude);
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| !WITHOUT_EFFECT.contains(&name.as_str()));
        }
        for (event, hooks) in claude.hooks.iter().flat_map(HooksConfig::events) {
            for (index, hook) in hooks.iter().enumerate() {
                let Some(program) = value.pointer_mut(&format!("/hooks/{event}/{index}")) else {
                    continue;
                };
                self.name_program(program, Some(&hook.command));
            }
        }
        self.add_value("claude", value);
    }

    /// The command and the arguments of a program by their names.
    fn name_program(&self, program: &mut Value, command: Option<&PathRef>) {
        if let (Some(command), Some(fields)) = (command, program.as_object_mut()) {
            let name = self.names.command(command.as_str());
            fields.insert("command".to_owned(), name.into());
        }
        if let Some(args) = program.get_mut("args") {
            self.name_arguments(args);
        }
    }

    fn add_text(&mut self, name: &str, text: &str) {
        self.add_value(name, text.into());
    }

    fn add_tool(&mut self, tool: &ToolConfig) {
        let mut configured = self.canonical(tool);
        let command = match tool {
            ToolConfig::Function(tool) => tool.command.as_ref(),
            ToolConfig::Mcp(tool) => tool.command.as_ref(),
            _ => None,
        };
        self.name_program(&mut configured, command);
        let mut value = configured.clone();
        // Only the names of secrets count, regardless of their values.
        self.redactor.configuration(&mut value);
        // A parameter called `token` is not a secret: schemas and mock answers count unmasked.
        for field in ["parameters", "mock"] {
            if let (Some(masked), Some(original)) = (value.get_mut(field), configured.get(field)) {
                masked.clone_from(original);
            }
        }
        self.add_value(format!("tool {}", tool.name()), value);
    }

    fn add_files(&mut self, owner: &str, files: FileDigests) {
        let files = files.into_iter();
        let named = files.map(|(file, digest)| (format!("{owner}: {file}"), digest));
        self.digests.extend(named);
    }

    /// The endpoint of the model, from the YAML or variables.
    fn add_endpoint(&mut self, agent: &ResolvedAgent, env: &Env) {
        let config = &agent.config;
        let own = config.model.as_ref();
        let endpoint = own.and_then(|own| own.endpoint.as_ref());
        self.add_value("model.endpoint", json!(endpoint));
        if let Some(own) = own.filter(|own| own.provider == Provider::Anthropic) {
            let claude = ClaudeEnv::for_model(own, env).unwrap_or_default();
            let variables = claude.vars.iter().filter(|(name, _)| {
                // `model.endpoint` is already a part.
                let is_added = name == ANTHROPIC_BASE_URL && own.endpoint.is_some();
                !is_added && !claude.secret_names.contains(&name.as_str())
            });
            for (name, value) in variables {
                self.add_value(format!("variable {name}"), value.expose_secret().into());
            }
        }
        // Embedders, the models of tools, the one that selects agents and the one of `legacy` read it too.
        let selector = config.selecting_model().map(|(_, model)| model);
        let routing = config.routing.as_ref();
        let legacy = routing.and_then(|routing| routing.legacy.as_ref()?.backend.as_ref());
        let models = json!([
            config.model,
            config.tools,
            config.embedding_provider,
            selector,
            legacy
        ]);
        let models = models.to_string();
        if models.contains(r#""provider":"openai""#) {
            self.add_value(
                format!("variable {OPENAI_BASE_URL}"),
                json!(env.non_blank(OPENAI_BASE_URL)),
            );
        }
    }
}

#[cfg(test)]
mod tests;
