//! The model of `algorithm: model`, as the agent's other models are opened: with its recordings, prices and keys.
//!
//! It must not open the agent itself: a message may be for no agent.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Explanation, Occasion};
use holodeck_model::{AgentsConfig, Env, ModelConfig};
use holodeck_orchestrator::{
    AgentRegistry, AgentSelector, KnownTools, ModelSelector, ReadyAgent, SelectionModel, Selector,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_turn::TurnRunner;
use holodeck_yaml::LoadedAgent;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{
    AnswerSource, OpenAgent, OpenError, OpenOptions,
    agent::{
        backends::{BackendSelector, Specialist},
        model_pool::ModelPool,
        open::CheckedAgent,
        turns::turn_runner,
    },
};

/// Opens the model that chooses specialists, once, when it is asked.
pub(crate) struct Chooser {
    agent: LoadedAgent,
    env: Env,
    timeout: Option<Duration>,
    model: ModelConfig,
    /// The backends of the agent if it is open already.
    open: Option<BackendSelector>,
    telemetry: Telemetry,
    opened: OnceCell<(Arc<ModelPool>, TurnRunner)>,
}

impl Chooser {
    /// The model of an agent, if its algorithm asks one.
    pub(crate) fn new(
        agent: &LoadedAgent,
        env: &Env,
        timeout: Option<Duration>,
        telemetry: &Telemetry,
    ) -> Option<Self> {
        let (_, model) = agent.config.selecting_model()?;
        Some(Self {
            model: model.clone(),
            agent: agent.clone(),
            env: env.clone(),
            timeout,
            open: None,
            telemetry: telemetry.clone(),
            opened: OnceCell::new(),
        })
    }

    /// Shares the answers of an agent that is open.
    pub(crate) fn with_open(mut self, open: Option<&OpenAgent>) -> Self {
        self.open = open.map(|open| open.backends().clone());
        self
    }

    /// Returns an error if the agent's models cannot be asked.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        backends_of(&self.agent, &self.env).map(drop)
    }

    async fn opened(&self) -> Result<&(Arc<ModelPool>, TurnRunner), BackendError> {
        let open = || async {
            let backends = match &self.open {
                Some(backends) => backends.clone(),
                None => backends_of(&self.agent, &self.env)
                    .map_err(as_backend_error)?
                    .traced(self.telemetry.clone()),
            };
            let prices = backends.price_list().clone();
            let turns =
                turn_runner(&self.agent, &self.env, self.timeout, prices).map_err(as_backend_error)?;
            let turns = TurnRunner {
                model: self.model.name.clone(),
                ..turns
            };
            Ok((ModelPool::new(&self.agent.agent, &backends), turns))
        };
        self.opened.get_or_try_init(open).await
    }

    /// Releases the model.
    pub(crate) async fn close(&self) -> Result<(), BackendError> {
        match self.opened.get() {
            Some((pool, _)) => pool.close().await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl SelectionModel for Chooser {
    fn name(&self) -> &str {
        &self.model.name
    }

    async fn open(&self, instructions: &str, schema: &Value) -> Result<ReadyAgent, BackendError> {
        let (pool, turns) = self.opened().await?;
        let specialist = Specialist {
            model: self.model.clone(),
            instructions: instructions.to_owned(),
            response_format: Some(schema.clone()),
        };
        // As judges: without tools, the same in every command, so that one replays what another recorded.
        let backend = pool.shared(&specialist, Occasion::Test).await?;
        Ok(ReadyAgent {
            backend,
            turns: turns.clone(),
            tools: KnownTools::default(),
        })
    }
}

/// Returns the selector of these agents: by the words of a task, or by the model.
pub(crate) fn asking(
    words: AgentSelector,
    (registry, config): (&AgentRegistry, &AgentsConfig),
    chooser: Option<&Arc<Chooser>>,
) -> Arc<dyn Selector> {
    match chooser {
        Some(chooser) => {
            let model = Arc::clone(chooser) as Arc<dyn SelectionModel>;
            Arc::new(ModelSelector::new(words, registry, config, model))
        }
        None => Arc::new(words),
    }
}

pub(crate) fn as_backend_error(error: OpenError) -> BackendError {
    match error {
        OpenError::Backend(error) => error,
        other => BackendError::init(Explanation::new(other.to_string())),
    }
}

/// The backends of an agent's models, without opening it.
pub(crate) fn backends_of(agent: &LoadedAgent, env: &Env) -> Result<BackendSelector, OpenError> {
    let options = OpenOptions {
        answers: AnswerSource::Live,
        ..OpenOptions::default()
    };
    let checked = CheckedAgent::check(agent.clone(), env, Occasion::Run, options, None)?;
    Ok(checked.into_backends())
}
