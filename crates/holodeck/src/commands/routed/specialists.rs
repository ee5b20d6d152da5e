//! The variants of an agent that execute commands: itself, and with the definitions of specialists. They share what was
//! opened for the first of them.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, AgentSession, BackendError, EventStream, Occasion, Opening, ToolHost, TurnRequest,
};
use holodeck_model::{AgentMode, Env, NonInteractive, ResolvedAgent, SideEffectGate, SkillDoc, ToolNames};
use holodeck_orchestrator::{AgentDefinition, ReadyAgent, SkillAgents, SkillPrograms, Specialists};
use holodeck_otel_bridge::Telemetry;
use holodeck_yaml::{Load, LoadedAgent};
use tokio::sync::{Mutex, OnceCell};

use super::{
    skills,
    tools::{NamedTools, Restriction, WithSkills, known_tools, restrict_claude},
};
use crate::{
    AnswerSource, Answers, LoadedAgents, OpenAgent, OpenError, OpenOptions,
    agent::{open::CheckedAgent, turns::turn_runner},
    commands::{agents::definition, chooser::Chooser},
    index::IndexSink,
};

/// An agent and what of it is open.
pub(super) struct Variants {
    pub(super) agent: LoadedAgent,
    pub(super) env: Env,
    pub(super) agents: Option<LoadedAgents>,
    pub(super) skills: Vec<SkillDoc>,
    pub(super) programs: SkillPrograms,
    pub(super) folder: Option<PathBuf>,
    pub(super) on_index: IndexSink,
    pub(super) timeout: Option<Duration>,
    pub(super) telemetry: Telemetry,
    /// The occasion of its answers, and whether built-in tools with side effects are available.
    pub(super) occasion: (Occasion, SideEffectGate),
    /// Whether anything is asked.
    pub(super) asks: bool,
    pub(super) open: OnceCell<Arc<OpenAgent>>,
    /// The answers of the agent that delegates to it, if they are recorded or replayed.
    pub(super) answers: Option<Answers>,
    /// The model that chooses specialists, if one is asked.
    pub(super) chooser: Option<Arc<Chooser>>,
    /// Whether what is opened here is closed here, too.
    pub(super) owns_open: bool,
    /// The variants that were opened.
    pub(super) ready: Mutex<HashMap<Variant, ReadyAgent>>,
}

/// Which variant of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// With the definition of this specialist.
    Specialist(String),
    /// Itself, with those of its tools that a list names.
    Itself(Option<Vec<String>>),
}

impl Variants {
    /// Opens the agent, once.
    pub(super) async fn opened(&self) -> Result<&OpenAgent, BackendError> {
        let open = || async {
            let checked = self.checked().and_then(CheckedAgent::require_keys);
            let checked = checked.map_err(BackendError::from)?;
            let opened = checked.open_traced(self.telemetry.clone());
            opened.await.map(Arc::new).map_err(BackendError::from)
        };
        let open = self.open.get_or_try_init(open).await?;
        Ok(open)
    }

    /// A remark about files of specialists that cannot be used.
    pub(super) fn unusable_files(&self) -> Option<String> {
        let diagnostics = &self.agents.as_ref()?.load.diagnostics;
        let errors = diagnostics.iter().filter(|found| found.is_error()).count();
        (errors > 0).then(|| {
            format!("files of specialist agents have errors and are not used ({errors}); `holodeck agents validate` shows them")
        })
    }

    /// The answers, if they are recorded or replayed: whatever answers in place of this agent is, too.
    pub(super) fn kept_answers(&self) -> Option<Answers> {
        let own = self.open.get().map(|open| open.answers());
        let answers = own.or(self.answers.as_ref());
        answers.filter(|answers| !answers.are_live()).cloned()
    }

    /// This agent, or another one in its place, with its answers; of which not everything may be there.
    pub(super) fn check(&self, agent: LoadedAgent) -> Result<CheckedAgent, OpenError> {
        let options = OpenOptions {
            on_index: self.on_index.clone(),
            side_effects: self.occasion.1,
            ..OpenOptions::default()
        };
        let answers = match self.kept_answers() {
            Some(answers) => answers,
            None => Answers::open(&AnswerSource::Live, None, &agent, &self.env)?,
        };
        CheckedAgent::check_with(agent, &self.env, self.occasion.0, options, None, answers)
    }

    fn checked(&self) -> Result<CheckedAgent, OpenError> {
        self.check(self.agent.clone())
    }

    /// The agent itself, with those of its tools that a list names.
    pub(super) async fn own(&self, tools: Option<&[String]>) -> Result<ReadyAgent, BackendError> {
        let tools = tools.map(<[String]>::to_vec);
        let definition = AgentDefinition {
            tools: tools.clone(),
            ..AgentDefinition::default()
        };
        Box::pin(self.variant(Variant::Itself(tools), definition)).await
    }

    /// Ends everything that was opened.
    pub(super) async fn close(&self) {
        let ready: Vec<_> = self.ready.lock().await.drain().map(|(_, ready)| ready).collect();
        for variant in ready {
            if let Err(error) = variant.backend.teardown().await {
                warn_of_end(&error);
            }
        }
        if let Some(chooser) = &self.chooser
            && let Err(error) = chooser.close().await
        {
            warn_of_end(&error);
        }
        if let Some(open) = self.open.get().filter(|_| self.owns_open)
            && let Err(error) = open.close_traced().await
        {
            warn_of_end(&error);
        }
    }

    /// The definition of a specialist.
    pub(super) fn definition(&self, name: &str) -> Option<AgentDefinition> {
        let doc = self.agents.as_ref()?.registry.get(name)?;
        Some(definition(doc, Some(&self.agent.agent)).0)
    }

    /// The parts that the definition of a specialist leaves out of its file, as `agents validate` says it.
    pub(super) fn left_out(&self, name: &str) -> Option<Load> {
        let agents = self.agents.as_ref()?;
        let doc = agents.registry.get(name)?;
        let (_, diagnostics) = definition(doc, Some(&self.agent.agent));
        (!diagnostics.is_empty()).then(|| Load {
            agent: None,
            diagnostics,
            sources: agents.load.sources.clone(),
        })
    }

    /// A variant, opened once: all executions share it.
    async fn variant(
        &self,
        variant: Variant,
        definition: AgentDefinition,
    ) -> Result<ReadyAgent, BackendError> {
        let mut opened = self.ready.lock().await;
        if let Some(ready) = opened.get(&variant) {
            return Ok(ready.clone());
        }
        let ready = Box::pin(self.open_variant(definition)).await?;
        opened.insert(variant, ready.clone());
        Ok(ready)
    }

    async fn open_variant(&self, definition: AgentDefinition) -> Result<ReadyAgent, BackendError> {
        let open = self.opened().await?;
        // A server that does not start keeps every variant from answering.
        open.backend()?;
        let mut agent = self.agent.without_cases();
        if !definition.prompt.is_empty() {
            agent.instructions.text.clone_from(&definition.prompt);
        }
        if let Some(model) = &definition.model
            && let Some(own) = &mut agent.config.model
        {
            own.name.clone_from(model);
        }
        let asks_no_person = definition.mode == Some(AgentMode::DontAsk);
        if asks_no_person {
            // This is what decides in place of a person.
            let approvals = agent.config.approvals.get_or_insert_default();
            approvals.non_interactive = NonInteractive::Reject;
        }
        let skills = skills::toolbox(&self.skills, &self.programs, self.folder.as_ref())?;
        let mut host: Arc<dyn ToolHost> = Arc::clone(open.tools());
        if !skills.specs().is_empty() {
            host = Arc::new(WithSkills::new(host, skills));
        }
        let restriction = Restriction::of(&definition);
        if !restriction.is_none() {
            if agent.config.is_claude() {
                let skills: Vec<String> = self.skills.iter().map(SkillDoc::tool_name).collect();
                restrict_claude(&mut agent.config, restriction, &skills);
            }
            host = Arc::new(NamedTools::new(host, definition, ToolNames::of(&agent.config)));
        }
        let mut ready = self.ready(open, agent, host).await?;
        if asks_no_person {
            ready.backend = Arc::new(AsksNoPerson(ready.backend));
        }
        Ok(ready)
    }

    async fn ready(
        &self,
        open: &OpenAgent,
        agent: ResolvedAgent,
        host: Arc<dyn ToolHost>,
    ) -> Result<ReadyAgent, BackendError> {
        let prices = open.backends().price_list().clone();
        let turns = turn_runner(&agent, &self.env, self.timeout, prices);
        let turns = turns.map_err(|error| BackendError::init(error.to_string()))?;
        let tools = known_tools(&agent.config, &*host);
        let backend = open.variant(Arc::new(agent), self.occasion.0, host).await?;
        backend.initialize().await?;
        Ok(ReadyAgent {
            backend,
            turns,
            tools,
        })
    }

    /// Why the backend cannot be used, by the checks of this machine; nothing is asked.
    async fn missing(&self) -> Option<String> {
        if !self.asks {
            return None;
        }
        let missing = match self.open.get() {
            Some(open) => open.unavailable().cloned(),
            // Everything else is reported when the agent is opened.
            None => self.checked().ok()?.unavailable().await,
        };
        Some(missing?.explanation().sentence())
    }
}

#[async_trait]
impl Specialists for Variants {
    async fn unavailable(&self) -> Option<String> {
        self.missing().await
    }

    fn has_definition(&self, agent: &str) -> bool {
        self.definition(agent).is_some()
    }

    async fn open(&self, agent: &str) -> Result<ReadyAgent, BackendError> {
        match self.definition(agent) {
            Some(definition) => {
                let variant = Variant::Specialist(agent.to_owned());
                Box::pin(self.variant(variant, definition)).await
            }
            None if self.agents.is_none() => Box::pin(self.own(None)).await,
            None => Err(BackendError::init(format!(
                "the agent `{agent}` has no definition"
            ))),
        }
    }
}

/// The agent itself in the place of a specialist.
pub(super) struct OnlyItself(pub(super) Arc<Variants>);

#[async_trait]
impl Specialists for OnlyItself {
    async fn unavailable(&self) -> Option<String> {
        self.0.missing().await
    }

    fn has_definition(&self, _: &str) -> bool {
        true
    }

    async fn open(&self, _: &str) -> Result<ReadyAgent, BackendError> {
        Box::pin(self.0.own(None)).await
    }
}

fn warn_of_end(error: &BackendError) {
    tracing::warn!(target: "holodeck::routing", %error, "the agent did not end cleanly");
}

/// A backend whose tool calls no person is asked about: its own approver decides.
struct AsksNoPerson(Arc<dyn AgentBackend>);

#[async_trait]
impl AgentBackend for AsksNoPerson {
    async fn initialize(&self) -> Result<(), BackendError> {
        self.0.initialize().await
    }

    fn start(&self, mut request: TurnRequest) -> EventStream<'_> {
        request.approver = None;
        self.0.start(request)
    }

    /// Executions are single turns.
    async fn open_session(&self, opening: Opening) -> Result<Box<dyn AgentSession>, BackendError> {
        self.0.open_session(opening).await
    }

    async fn teardown(&self) -> Result<(), BackendError> {
        self.0.teardown().await
    }
}

/// The agent itself, with the tools that a skill allows.
pub(super) struct AgentsOfSkills(pub(super) Arc<Variants>);

#[async_trait]
impl SkillAgents for AgentsOfSkills {
    async fn open(&self, skill: &SkillDoc) -> Result<ReadyAgent, BackendError> {
        Box::pin(self.0.own(skill.allowed_tools.as_deref())).await
    }
}
