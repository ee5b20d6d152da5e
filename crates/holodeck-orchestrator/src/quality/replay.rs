//! Decides a stored loop again, perhaps with other rules. Pure: nothing is scored or produced.

use holodeck_model::TerminationReason;
use serde::Serialize;

use super::{InvalidRule, LoopRules, LoopState, LoopStep, LoopVerdict};

/// The result that a stored loop would have with other rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopReplay {
    /// Why it would have ended; absent if it would have continued beyond what was recorded.
    pub termination_reason: Option<TerminationReason>,
    /// How many outputs would have been scored, of those that were recorded.
    pub iterations: Vec<ReplayedIteration>,
    /// The index of the output that would have been returned.
    pub returned: Option<u32>,
    /// Its score.
    pub score: Option<f64>,
    /// Whether it meets the threshold.
    pub passed: bool,
    /// Whether its score was none, which counts as 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub score_invalid: bool,
    /// The rules of the replay.
    pub rules: LoopRules,
}

/// One scored output of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayedIteration {
    /// The score, 0–100.
    pub score: f64,
    /// Whether the scorer gave none, which counts as 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub score_invalid: bool,
    /// The decision that would have followed.
    pub verdict: LoopVerdict,
}

/// Decides the recorded `steps` again with `rules`.
pub fn replay(rules: LoopRules, steps: &[LoopStep]) -> Result<LoopReplay, InvalidRule> {
    rules.check()?;
    let mut state = LoopState::new(rules);
    let mut iterations = Vec::new();
    for step in steps {
        let verdict = state.step(step);
        if let LoopStep::Scored { .. } = step {
            let index = state.iterations().saturating_sub(1);
            iterations.push(ReplayedIteration {
                score: state.score(index).unwrap_or_default(),
                score_invalid: state.is_invalid(index),
                verdict,
            });
        }
        if state.stopped().is_some() {
            break;
        }
    }
    let returned = state.returned();
    Ok(LoopReplay {
        termination_reason: state.stopped(),
        iterations,
        returned,
        score: returned.and_then(|index| state.score(index)),
        passed: returned.is_some_and(|index| state.meets_threshold(index)),
        score_invalid: returned.is_some_and(|index| state.is_invalid(index)),
        rules: state.rules().clone(),
    })
}
