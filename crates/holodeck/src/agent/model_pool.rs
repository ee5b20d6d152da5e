//! Opens the models of an agent that are not its own: judges, simulated users, models of prompt tools and servers, rerankers
//! and writers of contexts.
//!
//! Nothing else opens one. The agent's own model belongs to the open agent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use holodeck_backend_api::{AgentBackend, BackendError, Occasion, TextSimilarity};
use holodeck_eval::VerdictFormat;
use holodeck_judging::{JudgeSettings, Judges, OpenJudge};
use holodeck_model::{EmbeddingConfig, ModelConfig, ResolvedAgent};
use holodeck_turn::TurnRunner;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::agent::{
    backends::{BackendSelector, Specialist},
    inventory::{is_same, metrics},
    similarity::LikeTexts,
};

type Shared = Arc<OnceCell<Arc<dyn AgentBackend>>>;

/// The models that one user of an agent opened, such as a run.
pub(crate) struct ModelPool {
    agent: Arc<ResolvedAgent>,
    backends: BackendSelector,
    shared: Mutex<Vec<(Specialist, Shared)>>,
    /// The embedders, by what changes their vectors.
    similarities: Mutex<Vec<(Value, Arc<dyn TextSimilarity>)>>,
}

impl ModelPool {
    pub(crate) fn new(agent: &Arc<ResolvedAgent>, backends: &BackendSelector) -> Arc<Self> {
        Arc::new(Self {
            agent: Arc::clone(agent),
            backends: backends.clone(),
            shared: Mutex::default(),
            similarities: Mutex::default(),
        })
    }

    /// A backend that the caller closes.
    pub(crate) async fn fresh(
        &self,
        specialist: &Specialist,
        occasion: Occasion,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        let specialist = specialist.clone();
        self.backends.specialist(&self.agent, specialist, occasion).await
    }

    /// The backend that all questions to this specialist share. It is opened once.
    pub(crate) async fn shared(
        &self,
        specialist: &Specialist,
        occasion: Occasion,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        let backend = {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let known = shared.iter().find(|(other, _)| other.is_same(specialist));
            if let Some((_, backend)) = known {
                Arc::clone(backend)
            } else {
                let backend = Shared::default();
                shared.push((specialist.clone(), Arc::clone(&backend)));
                backend
            }
        };
        let opened = backend
            .get_or_try_init(|| self.fresh(specialist, occasion))
            .await?;
        Ok(Arc::clone(opened))
    }

    /// Releases the shared backends.
    pub(crate) async fn close(&self) -> Result<(), BackendError> {
        let shared = std::mem::take(&mut *self.shared.lock().unwrap_or_else(PoisonError::into_inner));
        let mut result = Ok(());
        for (_, backend) in shared {
            if let Some(backend) = backend.get() {
                result = result.and(backend.teardown().await);
            }
        }
        result
    }

    /// The judges, whose calls run as turns of `turns`. Clones share the limit of concurrent calls.
    pub(crate) fn judges(self: &Arc<Self>, turns: &TurnRunner) -> JudgeSettings {
        let concurrency = self.agent.execution.parallel_judge_calls.value.get();
        JudgeSettings::new(self.as_judges(turns), concurrency)
    }

    /// Whether a metric of the `planned` cases needs a judge or an embedder.
    pub(crate) fn has_judges(&self, planned: Option<&[usize]>) -> bool {
        metrics(&self.agent, planned)
            .any(|(_, metric)| metric.judging().is_some() || metric.comparing().is_some())
    }

    /// The similarity of texts by this embedder, else by that of the agent. It is opened once; nothing is asked for that.
    fn similarity(&self, own: Option<&EmbeddingConfig>) -> Result<Arc<dyn TextSimilarity>, BackendError> {
        let Some(settings) = self.agent.config.comparing_embedder(own) else {
            return Err(BackendError::config(
                "`similar` needs an `embedder`, or `embedding_provider` in the agent file",
            ));
        };
        let key = own.map(EmbeddingConfig::answering).unwrap_or_default();
        let mut opened = self.similarities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, similarity)) = opened.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(similarity));
        }
        let backends = &self.backends;
        let similarity = backends.similarity(&settings, |prices| {
            LikeTexts::new(&settings, backends.env(), prices)
                .map(|live| Arc::new(live) as Arc<dyn TextSimilarity>)
        })?;
        opened.push((key, Arc::clone(&similarity)));
        Ok(similarity)
    }

    /// The models that play the users of the `planned` cases, if there are any.
    pub(crate) fn users(
        self: &Arc<Self>,
        planned: Option<&[usize]>,
        turns: &TurnRunner,
    ) -> Option<Arc<dyn Judges>> {
        let has_users = self.agent.config.simulated_users(planned).next().is_some();
        has_users.then(|| self.as_judges(turns))
    }

    fn as_judges(self: &Arc<Self>, turns: &TurnRunner) -> Arc<dyn Judges> {
        Arc::new(PooledJudges {
            pool: Arc::clone(self),
            turns: turns.clone(),
            by_model: Mutex::default(),
        })
    }
}

/// Judges and simulated users, with the runner of their turns.
struct PooledJudges {
    pool: Arc<ModelPool>,
    turns: TurnRunner,
    /// The runner for each model.
    by_model: Mutex<HashMap<String, Arc<TurnRunner>>>,
}

#[async_trait]
impl Judges for PooledJudges {
    async fn open(
        &self,
        model: Option<&ModelConfig>,
        format: VerdictFormat,
    ) -> Result<OpenJudge, BackendError> {
        let Some(model) = model.or_else(|| self.pool.agent.default_judge()) else {
            return Err(BackendError::config("a judge needs `evaluations.model`"));
        };
        let specialist = Specialist {
            model: model.clone(),
            instructions: format.instructions().to_owned(),
            response_format: Some(format.schema()),
        };
        let backend = self.pool.shared(&specialist, Occasion::Test).await?;
        let mut by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = by_model.entry(model.name.clone()).or_insert_with(|| {
            Arc::new(TurnRunner {
                model: model.name.clone(),
                ..self.turns.clone()
            })
        });
        Ok(OpenJudge {
            backend,
            turns: Arc::clone(turns),
        })
    }

    fn name(&self, model: Option<&ModelConfig>) -> String {
        let model = model.or_else(|| self.pool.agent.default_judge());
        model.map(|model| model.name.clone()).unwrap_or_default()
    }

    async fn similarity(
        &self,
        embedder: Option<&EmbeddingConfig>,
    ) -> Result<Arc<dyn TextSimilarity>, BackendError> {
        self.pool.similarity(embedder)
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.pool.close().await
    }
}

impl Specialist {
    fn is_same(&self, other: &Self) -> bool {
        is_same(&self.model, &other.model)
            && self.instructions == other.instructions
            && self.response_format == other.response_format
    }
}
