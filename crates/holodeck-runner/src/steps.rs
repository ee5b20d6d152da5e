//! Derives the steps of judges from their criteria, once and before a run. It asks judges and never the agent.

use std::sync::Arc;

use holodeck_eval::{JudgeErrorKind, MetricError};
use holodeck_model::{DerivedSteps, Redactor, UnitKey};
use tokio_util::sync::CancellationToken;

use crate::{JudgeSettings, RunError, judging::RunJudge};

/// The unit of these calls in recordings; a shared answer has only the name of its metric.
const UNIT: &str = "judge steps";

/// Asks the judge of each metric for its steps, in this order.
pub async fn derive_steps(
    needed: &[DerivedSteps],
    judge: JudgeSettings,
    redactor: &Arc<Redactor>,
) -> Result<Vec<Vec<String>>, RunError> {
    // Nothing is kept in a journal.
    let (judge, _) = RunJudge::new(Some(judge), Arc::clone(redactor));
    let mut derived = Vec::with_capacity(needed.len());
    for steps in needed {
        let asked = judge.for_unit(
            UnitKey::NO_CASE,
            UNIT.to_owned(),
            Vec::new(),
            CancellationToken::new(),
        );
        let mut attempts = steps.metric.retry_on_failure.unwrap_or(0);
        derived.push(loop {
            match holodeck_eval::derive_steps(&steps.metric, steps.conversation, &asked).await {
                Err(MetricError::NotJudged {
                    kind: JudgeErrorKind::Retryable,
                    ..
                }) if attempts > 0 => attempts -= 1,
                Ok(steps) => break steps,
                Err(error) => {
                    judge.close().await?;
                    return Err(RunError::Steps {
                        metric: steps.metric.name.clone(),
                        reason: error.to_string(),
                    });
                }
            }
        });
    }
    judge.close().await?;
    Ok(derived)
}
