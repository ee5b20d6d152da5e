//! How `holodeck serve` offers an agent, and where conversations are kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{env::HOLODECK_EVENTS_URL, value::nullable};

/// How `holodeck serve` offers the agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServeConfig {
    /// Address and port; without it, `127.0.0.1` and `deployment.port`, or 8000.
    #[schemars(regex(pattern = r"^(\[[0-9A-Fa-f:.]+\]|[^:\s]+):[0-9]{1,5}$"), extend("x-form" = "`address:port`, as in `127.0.0.1:8000`"))]
    pub listen: Option<String>,
    /// Who may use the server. Without it, clients with the token in `HOLODECK_TOKEN`; without that variable, every
    /// program of this machine, if the server listens on a loopback address only.
    pub auth: Option<ServeAuth>,
    /// Origins of web pages that may use the server besides its own, such as `https://app.example.com`.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub cors_origins: Vec<String>,
    /// The commands of `routing.commands` that a message can name with its first word, as in `/review src`. Any other word
    /// that begins with a slash is text.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>", inner(regex(pattern = r"\S")))]
    pub commands: Vec<String>,
    /// How to handle a message while the conversation's last one is being answered.
    pub concurrency: ServeConcurrency,
    /// How to handle a run when the last client that follows its conversation disconnects.
    pub on_disconnect: OnDisconnect,
    /// Runs that may be active or wait at the same time; more are refused with status 429. By default 64, for Claude
    /// as many processes as fit into the memory (`claude.session_memory_estimate_mib`).
    #[schemars(range(min = 1))]
    pub max_runs: Option<u32>,
    /// Seconds after which a client that takes no data is disconnected; it can resume.
    #[schemars(range(min = 1))]
    pub slow_consumer_seconds: Option<u32>,
}

/// Who may use the server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeAuth {
    /// Whether clients send a token.
    #[serde(default)]
    pub mode: AuthMode,
    /// The variable with the token of the user `default`.
    #[schemars(regex(pattern = r"\S"))]
    pub token_env: Option<String>,
    /// The tokens of several users.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<ServeToken>>")]
    pub tokens: Vec<ServeToken>,
}

impl ServeAuth {
    /// The users, each with the variable of its token.
    pub fn token_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let single = self.token_env.iter().map(|variable| ("default", &**variable));
        let several = self.tokens.iter();
        single.chain(several.map(|token| (&*token.user, &*token.token_env)))
    }
}

/// Whether clients send a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// `Authorization: Bearer TOKEN`.
    #[default]
    Bearer,
    /// No token; only on a loopback address. The user is `local`.
    None,
}

/// The token of a user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeToken {
    /// The user; a user sees no conversations of others.
    #[schemars(regex(pattern = r"\S"))]
    pub user: String,
    /// The variable with the token.
    #[schemars(regex(pattern = r"\S"))]
    pub token_env: String,
}

/// How to handle a message while the conversation's last one is being answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServeConcurrency {
    /// It is refused.
    #[default]
    Reject,
    /// It waits for its turn; up to 16 do.
    Enqueue,
    /// It stops the answer in progress.
    Interrupt,
}

/// How to handle a run without clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It continues.
    #[default]
    Continue,
    /// It is cancelled.
    Cancel,
}

/// Where conversations are kept, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsConfig {
    /// The store of conversations.
    pub store: EventStoreKind,
    /// The file of `store: sqlite`, relative to the agent file.
    #[schemars(regex(pattern = r"\S"))]
    pub path: String,
    /// The variable with the URL of `store: postgres`.
    #[schemars(regex(pattern = r"\S"))]
    pub url_env: String,
    /// Which events survive a crash of the machine.
    pub durability: Durability,
    /// Least milliseconds between two writes of pieces of an answer. The first piece is stored and delivered at once; those
    /// that come meanwhile are stored and delivered together. 0: meanwhile is only the time that a write takes.
    #[schemars(range(max = 1000))]
    pub chunk_flush_ms: u32,
    /// Seconds for which the pieces of an answer are kept after its end, so that a client can resume in the middle of it.
    pub resume_window_seconds: u32,
    /// Days for which conversations are kept after their last event; `null`: for ever.
    #[schemars(range(min = 1))]
    pub retention_days: Option<u32>,
    /// How to handle an interrupted run after a restart: it ends with an error.
    pub on_restart: OnRestart,
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self {
            store: EventStoreKind::Sqlite,
            path: ".holodeck/events.db".to_owned(),
            url_env: HOLODECK_EVENTS_URL.to_owned(),
            durability: Durability::default(),
            chunk_flush_ms: 0,
            resume_window_seconds: 600,
            retention_days: None,
            on_restart: OnRestart::Fail,
        }
    }
}

/// The store of conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventStoreKind {
    /// A file.
    Sqlite,
    /// A PostgreSQL database, which several processes and machines can share.
    Postgres,
    /// Nothing: they end with the process.
    Memory,
}

/// Which events of a conversation in a file survive which kind of crash. A database has its own setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Durability {
    /// Messages, calls, results, questions and ends.
    pub content: Survives,
    /// Pieces of text, which the whole message replaces.
    pub chunks: Survives,
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            content: Survives::Power,
            chunks: Survives::Process,
        }
    }
}

/// The end that stored events survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Survives {
    /// That of the process.
    Process,
    /// That of the machine: each commit waits for the disk.
    Power,
}

/// How to handle an interrupted run after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// It ends with an error, and the text that had arrived.
    Fail,
}
