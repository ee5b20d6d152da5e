//! The quality loop of an execution.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::BackendError;
use holodeck_model::{CommandContext, LoopStrategy, Occasion, SideEffectGate};
use holodeck_orchestrator::{
    Assessment, Improver, LoopControl, LoopObserver, LoopOutput, QualityLoop, Refined, Refiner, Scorer,
    ScorerError, repair_prompt,
};
use tokio_util::sync::CancellationToken;

use super::specialists::Variants;
use crate::{
    quality::{AnswerScorers, enabled},
    test::turn_runner,
};

/// Runs a quality loop with the scorer of the caller, or with that of the YAML.
pub(super) struct LoopRefiner {
    pub(super) quality: QualityLoop,
    pub(super) scorer: Option<Arc<dyn Scorer>>,
    pub(super) variants: Arc<Variants>,
    pub(super) observer: Option<LoopObserver>,
}

/// A scorer that could not be opened.
struct Unusable(String);

#[async_trait]
impl Scorer for Unusable {
    async fn score(&self, _output: &LoopOutput) -> Result<Assessment, ScorerError> {
        Err(ScorerError::new(self.0.clone()))
    }
}

impl Variants {
    /// What scores answers; opened once, with the agent.
    pub(super) async fn scorers(&self) -> Result<Option<&AnswerScorers>, BackendError> {
        let Some(config) = enabled(&self.agent) else {
            return Ok(None);
        };
        let open = self.opened().await?;
        let scorers = async {
            let prices = open.backends().price_list().clone();
            let turns = turn_runner(&self.agent, &self.env, self.timeout, prices);
            let turns = turns.map_err(|error| BackendError::init(error.to_string()))?;
            let when = (Occasion::Run, SideEffectGate::Open);
            AnswerScorers::new(open, config, &turns, when).map_err(|error| BackendError::config(error.to_string()))
        };
        self.scorers.get_or_try_init(|| scorers).await.map(Some)
    }
}

#[async_trait]
impl Refiner for LoopRefiner {
    async fn refine(
        &self,
        context: &CommandContext,
        first: LoopOutput,
        improver: &dyn Improver,
        cancel: &CancellationToken,
    ) -> Refined {
        let mut control = LoopControl::default().cancelled_by(cancel.clone());
        control.observer.clone_from(&self.observer);
        let scorer: Arc<dyn Scorer> = match &self.scorer {
            Some(scorer) => Arc::clone(scorer),
            None => match self.variants.scorers().await {
                Ok(Some(scorers)) => {
                    let task = context.command.task();
                    Arc::new(scorers.for_task(&task, &context.command.name, cancel).0)
                }
                Ok(None) => Arc::new(Unusable("`quality_loop` has no scorer".to_owned())),
                Err(error) => Arc::new(Unusable(error.to_string())),
            },
        };
        let (output, assessment, report) = self.quality.run(first, &*scorer, improver, &control).await;
        Refined {
            output,
            assessment,
            report,
        }
    }

    fn prompt(&self, task: &str, output: &LoopOutput, assessment: &Assessment, iteration: u32) -> String {
        match self.quality.rules().strategy {
            LoopStrategy::Refine => repair_prompt(task, iteration, &output.text, assessment),
            // Each answer is independent.
            LoopStrategy::BestOfN => task.to_owned(),
        }
    }
}
