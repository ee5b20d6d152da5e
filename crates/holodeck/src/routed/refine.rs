//! The quality loop of an execution.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_model::{CommandContext, LoopStrategy};
use holodeck_orchestrator::{
    Assessment, Improver, LoopControl, LoopOutput, QualityLoop, Refined, Refiner, Scorer, repair_prompt,
};
use tokio_util::sync::CancellationToken;

/// Runs a quality loop with a scorer.
pub(super) struct LoopRefiner {
    pub(super) quality: QualityLoop,
    pub(super) scorer: Arc<dyn Scorer>,
}

#[async_trait]
impl Refiner for LoopRefiner {
    async fn refine(
        &self,
        _context: &CommandContext,
        first: LoopOutput,
        improver: &dyn Improver,
        cancel: &CancellationToken,
    ) -> Refined {
        let control = LoopControl::default().cancelled_by(cancel.clone());
        let (output, assessment, report) = self.quality.run(first, &*self.scorer, improver, &control).await;
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
