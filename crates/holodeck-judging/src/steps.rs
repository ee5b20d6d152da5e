//! Derives the steps of judges from their criteria. It asks judges and never the agent.

use holodeck_eval::{JudgeErrorKind, MetricError};
use holodeck_model::{DerivedSteps, Spent, UnitKey};
use tokio_util::sync::CancellationToken;

use crate::RunJudge;

/// The unit of these calls in recordings; a shared answer has only the name of its metric.
const UNIT: &str = "judge steps";

/// The steps of a judge could not be derived.
#[derive(Debug, thiserror::Error)]
#[error("the judge derived no steps of `{metric}`: {reason}")]
#[allow(clippy::exhaustive_structs, reason = "it has no other parts")]
pub struct StepsError {
    /// The metric.
    pub metric: String,
    /// Why.
    pub reason: String,
}

/// Asks the judge of each metric for its steps, in this order. Returns them with what the calls cost.
pub async fn derive_steps(
    needed: &[DerivedSteps],
    judge: &RunJudge,
) -> Result<(Vec<Vec<String>>, Spent), StepsError> {
    let asked = judge.for_unit(
        UnitKey::NO_CASE,
        UNIT.to_owned(),
        Vec::new(),
        CancellationToken::new(),
    );
    let mut derived = Vec::with_capacity(needed.len());
    for steps in needed {
        let mut attempts = steps.metric.retry_on_failure.unwrap_or(0);
        derived.push(loop {
            match holodeck_eval::derive_steps(&steps.metric, steps.conversation, &asked).await {
                Err(MetricError::NotJudged {
                    kind: JudgeErrorKind::Retryable,
                    ..
                }) if attempts > 0 => attempts -= 1,
                Ok(steps) => break steps,
                Err(error) => {
                    return Err(StepsError {
                        metric: steps.metric.name.clone(),
                        reason: error.to_string(),
                    });
                }
            }
        });
    }
    Ok((derived, asked.usage().unwrap_or_default()))
}
