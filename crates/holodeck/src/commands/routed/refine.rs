//! The quality loop of an execution.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use holodeck_backend_api::Occasion;
use holodeck_model::{CommandContext, LoopStrategy, SideEffectGate};
use holodeck_orchestrator::{
    Assessment, Improver, LoopControl, LoopObserver, LoopOutput, QualityLoop, Refined, Refiner, Scorer,
    ScorerError, StepObserver, missing_expectations, repair_prompt,
};
use tokio_util::sync::CancellationToken;

use super::specialists::Variants;
use crate::{
    LoopSetupError,
    agent::model_pool::ModelPool,
    agent::turns::turn_runner,
    commands::quality::{self, AnswerScorers},
};

/// The unit of the questions to judges in what is recorded about a command.
const UNIT: &str = "run";

/// Runs a quality loop, with the scorer of the caller or of the agent.
pub(super) struct LoopRefiner {
    pub(super) quality: QualityLoop,
    /// In place of that of `quality_loop.scorer`.
    pub(super) scorer: Option<Arc<dyn Scorer>>,
    pub(super) variants: Arc<Variants>,
    pub(super) observer: Option<LoopObserver>,
    /// Stores the steps of the run that is recorded, if one is.
    pub(super) steps: StepSlot,
}

/// Where the steps of the loop go: every execution has a recorder of its own.
pub(super) type StepSlot = Arc<Mutex<Option<StepObserver>>>;

impl LoopRefiner {
    /// Opens the agent's scorers of answers.
    async fn scorers(&self) -> Result<AnswerScorers, String> {
        let variants = &self.variants;
        let open = variants.opened().await.map_err(|error| error.to_string())?;
        let config = open
            .agent()
            .config
            .enabled_loop()
            .ok_or("`quality_loop` is not enabled")?;
        let prices = open.backends().price_list().clone();
        let turns = turn_runner(open.agent(), &variants.env, variants.timeout, prices);
        let turns = turns.map_err(|error| error.to_string())?;
        let occasion = (Occasion::Run, SideEffectGate::Open);
        let judges = ModelPool::new(open.agent(), open.backends()).judges(&turns);
        AnswerScorers::new(open, config, judges, occasion).map_err(|error| error.to_string())
    }
}

/// Refuses a loop whose independent answers would repeat what tools change, before anything is asked. If the agent can't
/// be opened, its execution says why.
pub(super) async fn refuse_repeated_side_effects(variants: &Variants) -> Result<(), LoopSetupError> {
    let config = variants.agent.config.enabled_loop();
    if config.is_none_or(|config| config.strategy != LoopStrategy::BestOfN) {
        return Ok(());
    }
    match variants.opened().await {
        Ok(open) => quality::refuse_repeated_side_effects(open, (Occasion::Run, SideEffectGate::Open)),
        Err(_) => Ok(()),
    }
}

/// Puts what the command expects and the evidence does not show before the other improvements.
struct Expecting<'a> {
    context: &'a CommandContext,
    scorer: &'a dyn Scorer,
}

#[async_trait]
impl Scorer for Expecting<'_> {
    async fn score(&self, output: &LoopOutput) -> Result<Assessment, ScorerError> {
        let mut assessment = self.scorer.score(output).await?;
        let evidence = output.evidence.clone().unwrap_or_default();
        let missing = missing_expectations(self.context, &evidence);
        let missing = missing.iter().map(ToString::to_string);
        assessment.improvements.splice(0..0, missing);
        Ok(assessment)
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
        control
            .steps
            .clone_from(&self.steps.lock().unwrap_or_else(PoisonError::into_inner));
        let (output, assessment, report) = match &self.scorer {
            Some(scorer) => {
                let scorer = Expecting {
                    context,
                    scorer: &**scorer,
                };
                self.quality.run(first, &scorer, improver, &control).await
            }
            None => match self.scorers().await {
                Ok(scorers) => {
                    let (scorer, _) = scorers.for_task(&context.command.task(), UNIT, cancel);
                    let scorer = Expecting {
                        context,
                        scorer: &scorer,
                    };
                    let ended = self.quality.run(first, &scorer, improver, &control).await;
                    if let Err(error) = scorers.close().await {
                        tracing::warn!(target: "holodeck::quality", %error, "a judge did not end cleanly");
                    }
                    ended
                }
                Err(reason) => {
                    let scorer = move |_: LoopOutput| {
                        let reason = reason.clone();
                        async move { Err::<Assessment, _>(ScorerError::new(reason)) }
                    };
                    self.quality.run(first, &scorer, improver, &control).await
                }
            },
        };
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
