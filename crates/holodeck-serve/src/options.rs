//! The agents to serve, and the limits and protocols of the server.

use std::{sync::Arc, time::Duration};

use holodeck_chat::AgentRunService;
use holodeck_events::EventStore;
use holodeck_model::AllowedOrigin;

use crate::Access;

/// An agent that is served.
#[derive(Clone)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ServedAgent {
    /// Its name, under which clients choose it.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// The model that answers.
    pub model: String,
    /// Its tools, as the YAML declares them.
    pub tools: Vec<ServedTool>,
    /// Answers messages in stored conversations.
    pub service: AgentRunService,
    /// Answers where no person can be asked: for clients that know no questions.
    pub unattended: UnattendedService,
    /// Which settings of one answer a client may choose.
    pub answers: AnswerSettings,
    /// Runs of it that may be active or wait at the same time.
    pub max_runs: usize,
}

/// Creates a service whose runs are recorded in a store.
pub type UnattendedService = Arc<dyn Fn(Arc<dyn EventStore>) -> AgentRunService + Send + Sync>;

/// Which settings of one answer a client may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct AnswerSettings {
    /// Whether the agent's backend follows limits, stops and forms of one answer.
    pub follows_wishes: bool,
    /// The most tokens of an answer, if the agent has a limit.
    pub max_tokens: Option<u32>,
    /// Whether the agent's answers have a form of their own.
    pub has_format: bool,
}

/// A tool of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ServedTool {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// Its kind, as in the YAML.
    pub kind: String,
}

/// How to handle a run when the last client that follows its conversation disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the two settings of `serve:`")]
pub enum OnDisconnect {
    /// It continues.
    #[default]
    Continue,
    /// It is cancelled.
    Cancel,
}

/// The protocols that clients can use. Health, metrics and the page are always available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the protocols of `deployment.protocol`")]
pub struct Protocols {
    /// REST, server-sent events, WebSockets, and the endpoint for OpenAI clients.
    pub rest: bool,
    /// AG-UI.
    pub ag_ui: bool,
}

/// How agents are served.
#[derive(Clone, Debug)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers construct it as a literal with `..Default::default()`"
)]
pub struct ServeOptions {
    /// Who may use the server.
    pub access: Access,
    /// The protocols that clients can use.
    pub protocols: Protocols,
    /// Origins of pages that may use it besides its own.
    pub cors_origins: Vec<AllowedOrigin>,
    /// Runs of all agents that may be active or wait at the same time.
    pub max_runs: usize,
    /// How to handle a run without clients.
    pub on_disconnect: OnDisconnect,
    /// A client that takes no data for this long is disconnected; it can resume.
    pub slow_consumer: Duration,
    /// How often an idle stream of events sends a comment, so that proxies keep it open.
    pub heartbeat: Duration,
    /// How long runs may take to end when the server stops.
    pub drain: Duration,
    /// Size limit of the body of a request.
    pub max_body: usize,
    /// Connections at the same time.
    pub max_connections: usize,
    /// Time limit for the head of a request to arrive.
    pub header_timeout: Duration,
    /// Time limit for the body of a request to arrive.
    pub body_timeout: Duration,
    /// Time limit for a form with files to arrive.
    pub upload_timeout: Duration,
    /// The version of the program.
    pub version: String,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            access: Access::Open,
            protocols: Protocols {
                rest: true,
                ag_ui: true,
            },
            cors_origins: Vec::new(),
            max_runs: 64,
            on_disconnect: OnDisconnect::default(),
            slow_consumer: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            drain: Duration::from_secs(10),
            max_body: 1 << 20,
            max_connections: 4096,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            upload_timeout: Duration::from_mins(5),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
