//! The model of `algorithm: model` and the embedder of `algorithm: embedding`, as the agent's other models are opened: with its
//! recordings, prices and keys.
//!
//! It must not open the agent itself: a message may be for no agent.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, Compared, Occasion, TextSimilarity};
use holodeck_model::{AgentsConfig, EmbeddingProvider, EmbeddingSettings, Env, ModelConfig};
use holodeck_orchestrator::{
    AgentRegistry, AgentSelector, EmbeddingSelector, KnownTools, ModelSelector, ReadyAgent, SelectionModel,
    Selector,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_turn::{Prices, TurnRunner};
use holodeck_yaml::LoadedAgent;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{
    AnswerSource, Answers, OpenAgent, OpenError, OpenOptions,
    agent::{
        backends::{BackendSelector, Specialist},
        model_pool::ModelPool,
        open::CheckedAgent,
        similarity::EmbeddedSimilarity,
        turns::turn_runner,
    },
};

/// The model or embedder that chooses specialists.
enum Chosen {
    /// A chat model, by names and descriptions.
    Model(ModelConfig),
    /// An embedder, by meaning.
    Embedder(EmbeddingSettings),
}

/// Opens the model that chooses specialists, once, when it is asked.
pub(crate) struct Chooser {
    agent: LoadedAgent,
    env: Env,
    timeout: Option<Duration>,
    chosen: Chosen,
    /// The backends of the agent if it is open already.
    open: Option<BackendSelector>,
    /// The answers of the agent that delegates to it, if they are recorded or replayed.
    answers: Option<Answers>,
    telemetry: Telemetry,
    opened: OnceCell<(Arc<ModelPool>, TurnRunner)>,
    similarity: OnceCell<Arc<dyn TextSimilarity>>,
}

impl Chooser {
    /// The model or the embedder of an agent, if its algorithm needs one.
    pub(crate) fn new(
        agent: &LoadedAgent,
        env: &Env,
        timeout: Option<Duration>,
        telemetry: &Telemetry,
    ) -> Option<Self> {
        let config = &agent.config;
        let model = config
            .selecting_model()
            .map(|(_, model)| Chosen::Model(model.clone()));
        let chosen = model.or_else(|| config.selecting_embedder().map(Chosen::Embedder))?;
        Some(Self {
            chosen,
            agent: agent.clone(),
            env: env.clone(),
            timeout,
            open: None,
            answers: None,
            telemetry: telemetry.clone(),
            opened: OnceCell::new(),
            similarity: OnceCell::new(),
        })
    }

    /// Shares the answers of an agent that is open.
    pub(crate) fn with_open(mut self, open: Option<&OpenAgent>) -> Self {
        self.open = open.map(|open| open.backends().clone());
        self
    }

    /// Shares the answers of the agent that delegates to it.
    pub(crate) fn with_answers(mut self, answers: Option<Answers>) -> Self {
        self.answers = answers;
        self
    }

    /// Returns an error if the agent's models cannot be asked.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        backends_of(&self.agent, &self.env, None).map(drop)
    }

    fn backends(&self) -> Result<BackendSelector, BackendError> {
        match &self.open {
            Some(backends) => Ok(backends.clone()),
            None => Ok(backends_of(&self.agent, &self.env, self.answers.clone())
                .map_err(BackendError::from)?
                .traced(self.telemetry.clone())),
        }
    }

    async fn opened(&self) -> Result<&(Arc<ModelPool>, TurnRunner), BackendError> {
        let open = || async {
            let backends = self.backends()?;
            let prices = backends.price_list().clone();
            let turns =
                turn_runner(&self.agent, &self.env, self.timeout, prices).map_err(BackendError::from)?;
            let turns = TurnRunner {
                model: SelectionModel::name(self).to_owned(),
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
        match &self.chosen {
            Chosen::Model(model) => &model.name,
            Chosen::Embedder(settings) => &settings.model,
        }
    }

    async fn open(&self, instructions: &str, schema: &Value) -> Result<ReadyAgent, BackendError> {
        let Chosen::Model(model) = &self.chosen else {
            return Err(BackendError::init("an embedder answers no questions"));
        };
        let (pool, turns) = self.opened().await?;
        let specialist = Specialist {
            model: model.clone(),
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

#[async_trait]
impl TextSimilarity for Chooser {
    fn name(&self) -> &str {
        SelectionModel::name(self)
    }

    fn is_local(&self) -> bool {
        let is_hash = matches!(&self.chosen, Chosen::Embedder(settings) if settings.provider == EmbeddingProvider::Hash);
        let open = self.open.as_ref().map(BackendSelector::answers);
        let answers = open.or(self.answers.as_ref());
        is_hash || answers.is_some_and(|answers| answers.replayed().is_some())
    }

    async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError> {
        let Chosen::Embedder(settings) = &self.chosen else {
            return Err(BackendError::init("a chat model compares no texts"));
        };
        let open = || async {
            let live = |prices| {
                EmbeddedSimilarity::new(settings, &self.env, prices)
                    .map(|live| Arc::new(live) as Arc<dyn TextSimilarity>)
            };
            if settings.provider == EmbeddingProvider::Hash {
                return live(Prices::embedded());
            }
            self.backends()?.similarity(settings, live)
        };
        let similarity = self.similarity.get_or_try_init(open).await?;
        let mut compared = similarity.compare(texts, query).await?;
        // A recording has the tokens, and not their price.
        if let (Some(tokens), None) = (&compared.spent.tokens, compared.spent.cost_usd) {
            compared.spent.cost_usd = self.backends()?.price_list().cost(&settings.model, tokens);
        }
        Ok(compared)
    }
}

/// Returns the selector of these agents: by the words of a task, by its meaning, or by a model. `least` is the confidence below
/// which an agent is not routed to.
pub(crate) fn asking(
    words: AgentSelector,
    (registry, config, least): (&AgentRegistry, &AgentsConfig, f64),
    chooser: Option<&Arc<Chooser>>,
) -> Arc<dyn Selector> {
    let Some(chooser) = chooser else {
        return Arc::new(words);
    };
    match &chooser.chosen {
        Chosen::Model(_) => {
            let model = Arc::clone(chooser) as Arc<dyn SelectionModel>;
            Arc::new(ModelSelector::new(words, registry, config, model))
        }
        Chosen::Embedder(_) => {
            let similarity = Arc::clone(chooser) as Arc<dyn TextSimilarity>;
            Arc::new(EmbeddingSelector::new(
                words,
                registry,
                (config, least),
                similarity,
            ))
        }
    }
}

/// The backends of an agent's models, without opening it: with these answers, else live ones.
pub(crate) fn backends_of(
    agent: &LoadedAgent,
    env: &Env,
    answers: Option<Answers>,
) -> Result<BackendSelector, OpenError> {
    let answers = match answers {
        Some(answers) => answers,
        None => Answers::open(&AnswerSource::Live, None, agent, env)?,
    };
    let options = OpenOptions::default();
    let checked = CheckedAgent::check_with(agent.clone(), env, Occasion::Run, options, None, answers)?;
    Ok(checked.require_keys()?.into_backends())
}
