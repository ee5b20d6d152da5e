//! The environment at the start of the program, and every variable that HoloDeck reads from it.

mod effect;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use effect::{EFFECTS, VariableEffect, variable_effect};

/// The user's home directory, which contains `~/.holodeck`.
pub const HOME: &str = "HOME";
/// Seconds a file may take to be processed.
pub const HOLODECK_FILE_TIMEOUT: &str = "HOLODECK_FILE_TIMEOUT";
/// Seconds one turn of the model may take.
pub const HOLODECK_LLM_TIMEOUT: &str = "HOLODECK_LLM_TIMEOUT";
/// Seconds a download may take.
pub const HOLODECK_DOWNLOAD_TIMEOUT: &str = "HOLODECK_DOWNLOAD_TIMEOUT";
/// Where downloaded and converted files are kept.
pub const HOLODECK_CACHE_DIR: &str = "HOLODECK_CACHE_DIR";
/// The `claude` program to use.
pub const HOLODECK_CLAUDE_CLI: &str = "HOLODECK_CLAUDE_CLI";
/// Where agent events are stored.
pub const HOLODECK_EVENTS_URL: &str = "HOLODECK_EVENTS_URL";
/// The token clients of `holodeck serve` must send.
pub const HOLODECK_TOKEN: &str = "HOLODECK_TOKEN";
/// Whether requests are routed to sub-agents.
pub const HOLODECK_ROUTING_ENABLED: &str = "HOLODECK_ROUTING_ENABLED";
/// The commands that are routed.
pub const HOLODECK_ROUTING_COMMANDS: &str = "HOLODECK_ROUTING_COMMANDS";
/// Where local embedding models are stored.
pub const HOLODECK_LOCAL_MODEL_DIR: &str = "HOLODECK_LOCAL_MODEL_DIR";
/// The MCP registry to search.
pub const HOLODECK_MCP_REGISTRY_URL: &str = "HOLODECK_MCP_REGISTRY_URL";
/// How many shards a run has, for `--shard auto` in Kubernetes.
pub const HOLODECK_SHARDS: &str = "HOLODECK_SHARDS";
/// The number of this job in Kubernetes, from 0.
pub const JOB_COMPLETION_INDEX: &str = "JOB_COMPLETION_INDEX";
/// The number of this job on a CI server, from 1.
pub const CI_NODE_INDEX: &str = "CI_NODE_INDEX";
/// How many such jobs there are.
pub const CI_NODE_TOTAL: &str = "CI_NODE_TOTAL";
/// Marks the child processes of a run.
pub const HOLODECK_MCP_SERVER: &str = "HOLODECK_MCP_SERVER";
/// Every variable that sets an option of HoloDeck.
pub const SETTINGS: &[&str] = &[
    HOLODECK_FILE_TIMEOUT,
    HOLODECK_LLM_TIMEOUT,
    HOLODECK_DOWNLOAD_TIMEOUT,
    HOLODECK_CACHE_DIR,
    HOLODECK_CLAUDE_CLI,
    HOLODECK_EVENTS_URL,
    HOLODECK_TOKEN,
    HOLODECK_ROUTING_ENABLED,
    HOLODECK_ROUTING_COMMANDS,
    HOLODECK_LOCAL_MODEL_DIR,
    HOLODECK_MCP_REGISTRY_URL,
    HOLODECK_SHARDS,
];
/// The trace that HoloDeck's spans belong to, as W3C `traceparent`.
pub const TRACEPARENT: &str = "TRACEPARENT";
/// Key of the `openai` provider when `model.api_key` is absent.
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
/// Base URL of the `openai` provider when `model.endpoint` is absent.
pub const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";
/// Key of the `azure_openai` provider when `model.api_key` is absent.
pub const AZURE_OPENAI_API_KEY: &str = "AZURE_OPENAI_API_KEY";
/// Key of the `anthropic` provider when `model.api_key` is absent.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
/// Where the `anthropic` provider is served when `model.endpoint` is absent.
pub const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// Where programs are searched.
pub const PATH: &str = "PATH";

/// Environment variables, captured once and passed on. Values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env {
    variables: BTreeMap<String, String>,
    /// The file that set a variable, where it is one of a checkout.
    of_checkout: BTreeMap<String, Arc<Path>>,
    /// Secrets that are masked besides those of an agent.
    secrets: Arc<[String]>,
}

impl Env {
    /// No variables at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The value of a variable; a set but empty variable is `Some("")`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The value of a variable unless it is absent or blank.
    pub fn non_blank(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.trim().is_empty())
    }

    /// Sets a variable unless it is already set, so that the shell takes precedence over `.env` files.
    pub fn set_default(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.variables.entry(name.into()).or_insert_with(|| value.into());
    }

    /// As [`set_default`](Self::set_default), from a file that came with the agent: the author of the agent may have
    /// written it too.
    pub fn set_default_of(&mut self, file: &Arc<Path>, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        if !self.variables.contains_key(&name) {
            self.of_checkout.insert(name.clone(), Arc::clone(file));
            self.variables.insert(name, value.into());
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.of_checkout.remove(&name);
        self.variables.insert(name, value.into());
    }

    /// Adds secrets that are masked besides those of an agent: other agents of the process read them.
    pub fn add_secrets(&mut self, secrets: impl IntoIterator<Item = String>) {
        self.secrets = self.secrets.iter().cloned().chain(secrets).collect();
    }

    /// The secrets that are masked besides those of an agent.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// The file that came with the agent and set a variable; `None` if the user did, or nothing.
    pub fn file_of(&self, name: &str) -> Option<&Path> {
        self.of_checkout.get(name).map(|file| &**file)
    }

    /// The variables that files which came with the agent set, sorted by name, each with its file.
    pub fn of_checkout(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.of_checkout
            .iter()
            .map(|(name, file)| (name.as_str(), &**file))
    }

    /// The names of all variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The user's home directory.
    pub fn home(&self) -> Option<&Path> {
        self.non_blank(HOME).map(Path::new)
    }

    /// `~/.holodeck`, the folder of user settings.
    pub fn user_dir(&self) -> Option<PathBuf> {
        self.home().map(|home| home.join(".holodeck"))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self {
            variables: variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            of_checkout: BTreeMap::new(),
            secrets: Arc::default(),
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
