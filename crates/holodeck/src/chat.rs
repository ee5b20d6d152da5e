//! Conversations with an agent: its backend and a store of events, behind one service.

pub(crate) mod attached_files;
pub(crate) mod event_store;
pub(crate) mod stored_conversations;
pub(crate) mod tool_arguments;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use holodeck_backend_api::{AgentBackend, Approver, BackendError, Occasion};
use holodeck_chat::{AgentRunService, CauseSink, Concurrency, FileVault, Patience, ServiceOptions};
use holodeck_events::EventStore;
use holodeck_model::{
    Agent, Env, FileInput, FileType, PathRef, Presence, ResolvedAgent, ScopeName, SideEffectGate,
    events::{ApprovalScope, SessionStart},
    io_reason,
};
use holodeck_yaml::LoadedAgent;

use crate::{
    OpenAgent, OpenOptions, PolicyApprover, PrepareError,
    agent::fingerprint::{IdentityError, fingerprint},
    agent::open::CheckedAgent,
    agent::turns::turn_runner,
    chat::{attached_files::file_embedder, tool_arguments::ToolArguments},
    commands::routed::{Messages, routed_commands},
};

/// How conversations are run.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ChatOptions {
    /// How the agent is opened.
    pub open: OpenOptions,
    /// The occasion of the conversations.
    pub occasion: Occasion,
    /// Overrides the time limit of a turn.
    pub timeout: Option<Duration>,
    /// Whether a person can be asked about tool calls.
    pub presence: Presence,
    /// How to handle a message while another one is answered.
    pub concurrency: Concurrency,
    /// Where attached files are kept; without it, only files of this machine can be attached, and none is kept.
    pub files: Option<FileVault>,
}

/// An open agent with which conversations can be held. [`close`](Self::close) it.
pub struct Chat {
    open: Arc<OpenAgent>,
    backend: Arc<dyn AgentBackend>,
    service: AgentRunService,
    unattended: ServiceOptions,
}

impl Chat {
    /// Opens the agent. Its conversations are recorded in `store`.
    pub async fn open(
        agent: LoadedAgent,
        env: &Env,
        store: Arc<dyn EventStore>,
        options: ChatOptions,
    ) -> Result<Self, PrepareError> {
        let commands = commands(&agent.config, env, options.occasion);
        let checked = CheckedAgent::check_others(agent, env, options.occasion, options.open.clone(), None)?;
        let asked = Messages::of_conversations(commands.iter().cloned());
        let open = Arc::new(checked.check_answers(asked).await?.open().await?);
        let prepared = service_options(&open, env, &options).and_then(|settings| {
            let executor = open.executor(env, options.occasion, options.timeout)?;
            Ok((executor, settings))
        });
        match prepared {
            Ok((backend, (settings, unattended))) => Ok(Self {
                service: AgentRunService::new(Arc::clone(&backend), store, settings),
                open,
                backend,
                unattended,
            }),
            Err(error) => {
                // The first error is the cause.
                let _ = open.close().await;
                Err(error)
            }
        }
    }

    /// The agent.
    pub fn agent(&self) -> &Arc<ResolvedAgent> {
        self.open.agent()
    }

    /// Answers messages.
    pub fn service(&self) -> &AgentRunService {
        &self.service
    }

    /// The backend, and how a service answers on it where no person can be asked.
    pub(crate) fn unattended(&self) -> (Arc<dyn AgentBackend>, ServiceOptions) {
        (Arc::clone(&self.backend), self.unattended.clone())
    }

    /// Each part that shapes the answers of the agent, with its digest.
    pub(crate) fn fingerprint(&self, env: &Env) -> Result<BTreeMap<String, String>, IdentityError> {
        fingerprint(self.agent(), env, self.open.answers())
    }

    /// Warnings about the agent's tools.
    pub fn warnings(&self) -> &[String] {
        self.open.warnings()
    }

    /// Stops what runs, stores how it ended, and closes the agent.
    pub async fn close(self) -> Result<(), BackendError> {
        self.service.close().await;
        drop(self.service);
        let executor = self.backend.teardown().await;
        let closed = self.open.close().await;
        executor.and(closed)
    }
}

/// The commands that a message can name.
fn commands(config: &Agent, env: &Env, occasion: Occasion) -> Vec<String> {
    match occasion {
        Occasion::Serve => config
            .serve
            .as_ref()
            .map(|serve| serve.commands.clone())
            .unwrap_or_default(),
        _ => routed_commands(config, env),
    }
}

/// How messages are answered: where a person can be asked, and where none can.
fn service_options(
    open: &OpenAgent,
    env: &Env,
    options: &ChatOptions,
) -> Result<(ServiceOptions, ServiceOptions), PrepareError> {
    let agent = open.agent();
    let config = &agent.config;
    let approvals = config.approvals.clone().unwrap_or_default();
    let events = config.events.clone().unwrap_or_default();
    let policy = |presence| {
        let policy = PolicyApprover::new(
            open.backends().policy(agent),
            options.occasion,
            SideEffectGate::Open,
        );
        let policy = match presence {
            Presence::Person => policy.with_person(),
            Presence::None => policy,
        };
        Some(Arc::new(policy) as Arc<dyn Approver>)
    };
    let attended = ServiceOptions {
        session: SessionStart {
            agent_name: Some(config.name.clone()),
            model: Some(config.answerer()),
            backend: Some(config.backend_name().to_owned()),
            ..SessionStart::default()
        },
        turns: Some(turn_runner(
            agent,
            env,
            options.timeout,
            open.backends().price_list().clone(),
        )?),
        commands: commands(config, env, options.occasion),
        policy: policy(options.presence),
        tools: Some(Arc::new(ToolArguments {
            tools: Arc::clone(open.tools()),
            agent: Arc::clone(agent),
            redactor: open.redactor(),
        })),
        scopes: approvals.scopes.iter().copied().map(scope).collect(),
        patience: Patience {
            limit: approvals
                .timeout_seconds
                .map(|seconds| Duration::from_secs(seconds.into())),
            then: approvals.on_timeout,
        },
        concurrency: options.concurrency,
        embedder: match &options.files {
            Some(_) => file_embedder(config, env).map_err(|reason| PrepareError::FileSearch { reason })?,
            None => None,
        },
        files: options.files.clone(),
        redactor: Some(open.redactor()),
        causes: (options.occasion == Occasion::Serve).then(|| log_causes(&config.name)),
        chunk_interval: Duration::from_millis(events.chunk_flush_ms.into()),
        ..ServiceOptions::default()
    };
    let unattended = ServiceOptions {
        policy: policy(Presence::None),
        concurrency: Concurrency::Reject,
        files: None,
        live_sessions: 0,
        ..attended.clone()
    };
    Ok((attended, unattended))
}

/// Writes causes, which clients do not get, to the log.
fn log_causes(agent: &str) -> CauseSink {
    let agent = agent.to_owned();
    Arc::new(move |error| {
        tracing::warn!(agent, "an answer failed: {}", error.explanation().text());
    })
}

fn scope(name: ScopeName) -> ApprovalScope {
    match name {
        ScopeName::Once => ApprovalScope::Once,
        ScopeName::Session => ApprovalScope::Session,
        ScopeName::Always => ApprovalScope::Always,
    }
}

/// A file of this machine that is attached to a message.
pub fn attached_file(path: &Path) -> Result<FileInput, String> {
    let shown = path.display();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let file_type = match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "png" | "jpg" | "jpeg" | "gif" | "webp" => FileType::Image,
        "pdf" => FileType::Pdf,
        "xlsx" | "xls" | "ods" => FileType::Excel,
        "docx" | "doc" => FileType::Word,
        "pptx" | "ppt" => FileType::Powerpoint,
        "csv" | "tsv" => FileType::Csv,
        _ => FileType::Text,
    };
    let found =
        std::fs::metadata(path).map_err(|error| format!("cannot read {shown}: {}", io_reason(&error)))?;
    if !found.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    let path =
        std::path::absolute(path).map_err(|error| format!("cannot read {shown}: {}", io_reason(&error)))?;
    let text = path
        .to_str()
        .ok_or_else(|| format!("{shown} is not valid UTF-8"))?;
    Ok(FileInput {
        path: Some(PathRef::new(text, "/")),
        url: None,
        file_type,
        description: None,
        pages: Vec::new(),
        sheet: None,
        range: None,
        cache: None,
    })
}
