//! The variants of an agent that execute commands: itself, and with the definitions of specialists. They share what was
//! opened for the first of them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Explanation, Occasion, ToolHost};
use holodeck_model::{AgentMode, Env, NonInteractive, Provider, ResolvedAgent, SkillDoc, ToolNames};
use holodeck_orchestrator::{AgentDefinition, ReadyAgent, SkillAgents, SkillPrograms, Specialists};
use holodeck_otel_bridge::Telemetry;
use holodeck_validators::{CheckState, ClaudeCliSearch, ClaudeEnv, check_own_key};
use holodeck_yaml::LoadedAgent;
use tokio::sync::OnceCell;

use super::{
    skills,
    tools::{NamedTools, Restriction, WithSkills, known_tools, restrict_claude},
};
use crate::{
    AnswerSource, LoadedAgents, OpenAgent, OpenError, OpenOptions,
    agent::{backends::BackendSelector, open::CheckedAgent, turns::turn_runner},
    commands::agents::definition,
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
    pub(super) open: OnceCell<OpenAgent>,
}

impl Variants {
    /// Opens the agent, once.
    pub(super) async fn opened(&self) -> Result<&OpenAgent, BackendError> {
        let open = || async {
            let checked = self.checked().map_err(as_backend_error)?;
            let opened = checked.open_traced(self.telemetry.clone());
            opened.await.map_err(as_backend_error)
        };
        self.open.get_or_try_init(open).await
    }

    fn checked(&self) -> Result<CheckedAgent, OpenError> {
        let options = OpenOptions {
            answers: AnswerSource::Live,
            on_index: self.on_index.clone(),
            ..OpenOptions::default()
        };
        CheckedAgent::check(self.agent.clone(), &self.env, Occasion::Run, options, None)
    }

    /// The agent itself, with those of its tools that a list names.
    pub(super) async fn own(&self, tools: Option<&[String]>) -> Result<ReadyAgent, BackendError> {
        let definition = AgentDefinition {
            tools: tools.map(<[String]>::to_vec),
            ..AgentDefinition::default()
        };
        Box::pin(self.variant(definition)).await
    }

    /// The definition of a specialist.
    pub(super) fn definition(&self, name: &str) -> Option<AgentDefinition> {
        let doc = self.agents.as_ref()?.registry.get(name)?;
        Some(definition(doc, Some(&self.agent.agent)).0)
    }

    async fn variant(&self, definition: AgentDefinition) -> Result<ReadyAgent, BackendError> {
        let open = self.opened().await?;
        let mut agent = self.agent.without_cases();
        if !definition.prompt.is_empty() {
            agent.instructions.text.clone_from(&definition.prompt);
        }
        if let Some(model) = &definition.model {
            agent.config.model.name.clone_from(model);
        }
        if definition.mode == Some(AgentMode::DontAsk) {
            // There is no person for a command anyway, so this is what decides in place of one.
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
            if agent.config.model.provider == Provider::Anthropic {
                let skills: Vec<String> = self.skills.iter().map(SkillDoc::tool_name).collect();
                restrict_claude(&mut agent.config, restriction, &skills);
            }
            host = Arc::new(NamedTools::new(host, definition, ToolNames::of(&agent.config)));
        }
        self.ready(open, agent, host).await
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
        let backend = open.variant(Arc::new(agent), Occasion::Run, host).await?;
        backend.initialize().await?;
        Ok(ReadyAgent {
            backend,
            turns,
            tools,
        })
    }

    /// Why the backend cannot be used, by the checks of this machine; nothing is asked.
    async fn missing(&self) -> Option<String> {
        let (agent, env) = (&self.agent, &self.env);
        if agent.config.model.provider == Provider::Anthropic {
            if let Err(error) = ClaudeEnv::for_agent(agent, env) {
                return Some(error.message.clone());
            }
            let found = ClaudeCliSearch::for_agent(agent, env).find().await;
            return found.err().map(|error| error.message.clone());
        }
        let credentials = check_own_key(agent, env);
        if credentials.state == CheckState::Missing {
            let message = credentials.diagnostic.map(|found| found.message);
            return Some(message.unwrap_or(credentials.found));
        }
        match self.checked() {
            Err(OpenError::Backend(error)) => Some(error.to_string()),
            // Everything else is reported when the agent is opened.
            _ => None,
        }
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
            Some(definition) => Box::pin(self.variant(definition)).await,
            None if self.agents.is_none() => Box::pin(self.own(None)).await,
            None => Err(BackendError::init(format!(
                "the agent `{agent}` has no definition"
            ))),
        }
    }
}

fn as_backend_error(error: OpenError) -> BackendError {
    match error {
        OpenError::Backend(error) => error,
        other => BackendError::init(Explanation::new(other.to_string())),
    }
}

/// The prices of an agent, without opening it.
pub(super) fn backends_of(agent: &LoadedAgent, env: &Env) -> Result<BackendSelector, OpenError> {
    let options = OpenOptions {
        answers: AnswerSource::Live,
        ..OpenOptions::default()
    };
    let checked = CheckedAgent::check(agent.clone(), env, Occasion::Run, options, None)?;
    Ok(checked.into_backends())
}

/// The agent itself, with the tools that a skill allows.
pub(super) struct AgentsOfSkills(pub(super) Arc<Variants>);

#[async_trait]
impl SkillAgents for AgentsOfSkills {
    async fn open(&self, skill: &SkillDoc) -> Result<ReadyAgent, BackendError> {
        Box::pin(self.0.own(skill.allowed_tools.as_deref())).await
    }
}
