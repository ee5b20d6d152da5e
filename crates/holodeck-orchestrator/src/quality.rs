//! Improves an output until it is good enough, or stops with a named cause.
//!
//! [`LoopState::step`] makes every decision and is pure; [`QualityLoop::run`] calls the scorer and the improver, measures
//! the time and passes on what happened. Neither can fail or panic.

mod prompt;
mod replay;
mod rules;
mod run;
#[cfg(feature = "scorers")]
mod scorer;
#[cfg(feature = "scorers")]
mod signals;
mod state;

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
#[cfg(feature = "routing")]
use holodeck_model::SideEffects;
use holodeck_model::{Clock, IterationRecord, JsonMap, SystemClock, TerminationReason, UsageMetadata};
#[cfg(feature = "routing")]
use holodeck_turn::TurnRecord;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use prompt::{data_block, repair_prompt};
pub use replay::{LoopReplay, ReplayedIteration, replay};
pub use rules::{InvalidRule, LoopRules};
pub use run::QualityLoop;
#[cfg(feature = "scorers")]
pub use scorer::{AnswerScorer, ScorerParts};
#[cfg(feature = "scorers")]
pub use signals::{Signals, split_command};
pub use state::{LoopState, LoopStep, LoopVerdict};

/// An output of a loop: what the caller scores and improves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopOutput {
    /// The text.
    pub text: String,
    /// The usage of producing it; `None`: no model was called. A budget ends at once if parts of it are not known.
    pub usage: Option<UsageMetadata>,
    /// Whether producing it may have changed something outside.
    pub side_effects: bool,
    /// The evidence that was observed while it was produced.
    pub evidence: Option<JsonMap>,
    /// The turn that produced it, for scorers that look at more than the text.
    #[cfg(feature = "routing")]
    #[serde(skip)]
    pub turn: Option<Arc<TurnRecord>>,
}

impl LoopOutput {
    /// An output that no model produced.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// The answer of a turn of an agent, with what the turn used.
    #[cfg(feature = "routing")]
    pub fn of_turn(turn: Arc<TurnRecord>) -> Self {
        let asked = turn.result.num_turns > 0 || turn.usage.is_some();
        let mut calls = turn.result.tool_results.iter();
        Self {
            text: turn.result.response.clone(),
            usage: asked.then_some(UsageMetadata {
                usage: turn.usage,
                cost_usd: turn.cost_usd,
            }),
            side_effects: calls.any(|call| call.details.side_effects == Some(SideEffects::Possible)),
            evidence: None,
            turn: Some(turn),
        }
    }
}

/// A score as people read it: one digit after the point, and what is beyond is cut off, so that a score below a threshold
/// never looks as if it met it.
pub fn shown_points(score: f64) -> String {
    let tenths = (score * 10.0).floor();
    format!("{:.1}", tenths / 10.0)
}

/// A scorer's view of one output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Assessment {
    /// The score, 0–100. `None`, NaN and what is outside of this range is no score: it counts as 0 and meets no threshold.
    pub score: Option<f64>,
    /// Why there is no score, for the record.
    pub invalid: Option<String>,
    /// The standard error of the score, in points: 0 for a scorer that always gives the same score to the same output,
    /// `None` if it is not known.
    pub noise: Option<f64>,
    /// The scores of its parts.
    pub metrics: Vec<(String, f64)>,
    /// The improvements to make; the first five count.
    pub improvements: Vec<String>,
    /// Why.
    pub reason: Option<String>,
    /// Whether the goal can't be reached.
    pub unachievable: bool,
    /// The usage of scoring; `None`: no model was called.
    pub usage: Option<UsageMetadata>,
}

impl Assessment {
    /// No score, because of `reason`: it counts as 0 and meets no threshold.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self {
            invalid: Some(reason.into()),
            noise: Some(0.0),
            ..Self::default()
        }
    }

    /// Why the score is none; `None` if it is one.
    fn problem(&self) -> Option<String> {
        let found = match self.score {
            Some(score) if state::is_valid(score) => return None,
            Some(score) => format!("the score {score} is not between 0 and 100"),
            None => "there is no score".to_owned(),
        };
        Some(self.invalid.clone().unwrap_or(found))
    }

    /// A score without anything else, of a scorer without noise.
    pub fn of(score: f64) -> Self {
        Self {
            score: Some(score),
            noise: Some(0.0),
            ..Self::default()
        }
    }
}

/// The final view of a loop on its returned output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QualityAssessment {
    /// The score, 0–100; absent if the returned output was not scored.
    pub score: Option<f64>,
    /// Whether it meets the threshold.
    pub passed: bool,
    /// Why the scorer gave no score; the score is 0 then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// The scores of its parts.
    pub metrics: Vec<(String, f64)>,
    /// The possible improvements.
    pub improvements: Vec<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Everything a loop did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopReport {
    /// Why it ended.
    pub termination_reason: TerminationReason,
    /// How many outputs were scored, at least 1.
    pub iteration_count: u32,
    /// One record for each scored output.
    pub iterations: Vec<IterationRecord>,
    /// Why the scorer failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer_error: Option<String>,
    /// Why no further output could be produced, if that ended the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_error: Option<String>,
    /// The index of the returned output among the scored ones; `None` if nothing was scored.
    pub returned: Option<u32>,
    /// Whether another executor should take over: nothing was scored, and `on_scorer_error` is `fallback`.
    pub should_fallback: bool,
    /// Outputs after the first one that may have changed something outside: work that may have been done twice.
    pub repeated_side_effects: u32,
    /// The usage of the loop, including the initial output; parts that are not known are absent.
    pub usage: UsageMetadata,
    /// Seconds.
    pub elapsed: f64,
    /// Its rules.
    pub rules: LoopRules,
    /// The steps of the loop, from which [`replay`] decides again.
    pub steps: Vec<LoopStep>,
}

/// The scorer failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ScorerError {
    /// Why.
    pub reason: String,
}

impl ScorerError {
    /// The scorer failed because of `reason`.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

/// No further output could be produced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct ImproveError {
    /// Why.
    pub reason: String,
    /// The usage of the failed call; `None`: no model was called.
    pub usage: Option<UsageMetadata>,
}

impl ImproveError {
    /// No output because of `reason`.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            usage: None,
        }
    }
}

/// Scores outputs. A closure that takes a [`LoopOutput`] and returns a future is one.
#[async_trait]
pub trait Scorer: Send + Sync {
    /// The assessment of `output`.
    async fn score(&self, output: &LoopOutput) -> Result<Assessment, ScorerError>;
}

/// Produces the next output. A closure that takes the output, its assessment and the iteration, and returns a future, is
/// one.
#[async_trait]
pub trait Improver: Send + Sync {
    /// A better output than `output`, which was assessed as `assessment`; with `best_of_n` another, independent one.
    /// `iteration` counts the outputs of the loop; the initial one is 0.
    async fn improve(
        &self,
        output: &LoopOutput,
        assessment: &Assessment,
        iteration: u32,
    ) -> Result<LoopOutput, ImproveError>;
}

#[async_trait]
impl<F, R> Scorer for F
where
    F: Fn(LoopOutput) -> R + Send + Sync,
    R: Future<Output = Result<Assessment, ScorerError>> + Send,
{
    async fn score(&self, output: &LoopOutput) -> Result<Assessment, ScorerError> {
        self(output.clone()).await
    }
}

#[async_trait]
impl<F, R> Improver for F
where
    F: Fn(LoopOutput, Assessment, u32) -> R + Send + Sync,
    R: Future<Output = Result<LoopOutput, ImproveError>> + Send,
{
    async fn improve(
        &self,
        output: &LoopOutput,
        assessment: &Assessment,
        iteration: u32,
    ) -> Result<LoopOutput, ImproveError> {
        self(output.clone(), assessment.clone(), iteration).await
    }
}

/// Watches a loop: it is called with the record of every scored output.
pub type LoopObserver = Arc<dyn Fn(&IterationRecord) + Send + Sync>;

/// Watches a loop: it is called with every step as it happens, and the rules. From these [`replay`] decides again, also if
/// the loop did not end.
pub type StepObserver = Arc<dyn Fn(&LoopRules, &LoopStep) + Send + Sync>;

/// Controls a loop from outside.
///
/// ```
/// use holodeck_orchestrator::{CancellationToken, LoopControl};
///
/// let cancel = CancellationToken::new();
/// let control = LoopControl::default().cancelled_by(cancel.clone());
/// // From elsewhere, at any time: the loop ends, and returns the best output so far.
/// cancel.cancel();
/// # assert!(control.cancel.is_cancelled());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct LoopControl {
    /// Ends the loop and cancels a call in progress.
    pub cancel: CancellationToken,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Watches the loop.
    pub observer: Option<LoopObserver>,
    /// Receives its steps.
    pub steps: Option<StepObserver>,
}

impl Default for LoopControl {
    fn default() -> Self {
        Self {
            cancel: CancellationToken::new(),
            clock: Arc::new(SystemClock::default()),
            observer: None,
            steps: None,
        }
    }
}

impl LoopControl {
    /// Lets `cancel` end the loop.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Measures the time with `clock`.
    #[must_use]
    pub fn timed_by(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Calls `observer` with every step.
    #[must_use]
    pub fn with_steps(mut self, observer: StepObserver) -> Self {
        self.steps = Some(observer);
        self
    }

    /// Calls `observer` with the record of every scored output.
    #[must_use]
    pub fn observed_by(mut self, observer: LoopObserver) -> Self {
        self.observer = Some(observer);
        self
    }
}

#[cfg(test)]
mod tests;
