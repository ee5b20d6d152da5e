//! Every decision of a loop, as a pure function of what was observed.

use std::collections::HashMap;

use holodeck_model::{
    Decimal, LoopReturn, LoopStrategy, MinImprovement, OnScorerError, Spent, StopOn, TerminationReason,
    UsageMetadata,
};
use serde::{Deserialize, Serialize};

use super::LoopRules;

/// A step of a loop. A stored loop is a list of these, in order; [`LoopState::step`] decides it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoopStep {
    /// An output is about to be scored. The first one is the initial output.
    Ready {
        /// Microseconds since the loop began.
        at: u64,
        /// The usage of producing the initial output; absent if no model was called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<UsageMetadata>,
    },
    /// The output was scored.
    Scored {
        /// Microseconds since the loop began.
        at: u64,
        /// The score as the scorer reported it; absent if it was not a finite number. One outside of 0–100 is invalid too.
        score: Option<f64>,
        /// Why the score is none, if it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invalid: Option<String>,
        /// The standard error of the score, in points; absent if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        noise: Option<f64>,
        /// Whether the goal can't be reached.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unachievable: bool,
        /// Identifies the output.
        digest: String,
        /// The usage of scoring; absent if no model was called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<UsageMetadata>,
    },
    /// The output could not be scored.
    ScorerFailed {
        /// Microseconds since the loop began.
        at: u64,
        /// Why.
        reason: String,
    },
    /// A further output was produced.
    Improved {
        /// Microseconds since the loop began.
        at: u64,
        /// The usage of producing it; absent if no model was called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<UsageMetadata>,
    },
    /// No further output could be produced.
    ImproveFailed {
        /// Microseconds since the loop began.
        at: u64,
        /// Why.
        reason: String,
        /// The usage of the failed call; absent if no model was called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<UsageMetadata>,
    },
    /// The loop was cancelled, perhaps during a call.
    Cancelled {
        /// Microseconds since the loop began.
        at: u64,
    },
    /// The hard time limit cancelled a call.
    Interrupted {
        /// Microseconds since the loop began.
        at: u64,
    },
}

/// The decision about the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoopVerdict {
    /// Score the output.
    Score,
    /// Produce a further output.
    Improve,
    /// Accept the further output.
    Accept,
    /// End the loop.
    Stop(TerminationReason),
}

/// One scored output.
#[derive(Clone, Debug, PartialEq)]
struct Scored {
    score: f64,
    invalid: bool,
    noise: Option<f64>,
    digest: String,
}

/// The state of a loop. It has no clock, does nothing and can't fail, so the same steps always have the same verdicts.
#[derive(Clone, Debug)]
pub struct LoopState {
    rules: LoopRules,
    scored: Vec<Scored>,
    /// The position of the last output with a digest.
    last_seen: HashMap<String, usize>,
    /// Consecutive iterations that improved too little.
    weak: u32,
    /// Outputs that could not be produced.
    failures: u32,
    spent: Spent,
    repeated: bool,
    scorer_error: Option<String>,
    stopped: Option<TerminationReason>,
}

impl LoopState {
    /// The state before the first output is scored.
    pub fn new(rules: LoopRules) -> Self {
        Self {
            rules,
            scored: Vec::new(),
            last_seen: HashMap::new(),
            weak: 0,
            failures: 0,
            spent: Spent::default(),
            repeated: false,
            scorer_error: None,
            stopped: None,
        }
    }

    /// Takes in what happened and returns what follows. After a stop every further step returns the same stop.
    pub fn step(&mut self, step: &LoopStep) -> LoopVerdict {
        if let Some(reason) = self.stopped {
            return LoopVerdict::Stop(reason);
        }
        let verdict = self.decide(step);
        if let LoopVerdict::Stop(reason) = verdict {
            self.stopped = Some(reason);
        }
        verdict
    }

    fn decide(&mut self, step: &LoopStep) -> LoopVerdict {
        match step {
            LoopStep::Ready { at, usage } => {
                self.spent += usage.map(Spent::from).unwrap_or_default();
                if self.is_late(*at) {
                    return LoopVerdict::Stop(TerminationReason::Timeout);
                }
                LoopVerdict::Score
            }
            LoopStep::Scored {
                at,
                score,
                noise,
                unachievable,
                digest,
                usage,
                ..
            } => {
                self.spent += usage.map(Spent::from).unwrap_or_default();
                self.enter(*score, *noise, digest);
                self.after_scoring(*at, *unachievable)
            }
            LoopStep::ScorerFailed { reason, .. } => {
                self.scorer_error = Some(reason.clone());
                LoopVerdict::Stop(TerminationReason::ScorerError)
            }
            LoopStep::Improved { at, usage } => {
                self.spent += usage.map(Spent::from).unwrap_or_default();
                // Accepting the output would start another iteration.
                if self.is_late(*at) {
                    LoopVerdict::Stop(TerminationReason::Timeout)
                } else {
                    LoopVerdict::Accept
                }
            }
            LoopStep::ImproveFailed { at, usage, .. } => {
                self.spent += usage.map(Spent::from).unwrap_or_default();
                self.failures = self.failures.saturating_add(1);
                let tolerated =
                    self.rules.strategy == LoopStrategy::BestOfN && self.failures <= self.rules.max_failures;
                if !tolerated {
                    LoopVerdict::Stop(TerminationReason::ExecutionError)
                } else if self.is_late(*at) {
                    LoopVerdict::Stop(TerminationReason::Timeout)
                } else {
                    self.within_limits()
                }
            }
            LoopStep::Cancelled { .. } => LoopVerdict::Stop(TerminationReason::Cancelled),
            LoopStep::Interrupted { .. } => LoopVerdict::Stop(TerminationReason::Timeout),
        }
    }

    fn enter(&mut self, score: Option<f64>, noise: Option<f64>, digest: &str) {
        let valid = score.filter(|score| is_valid(*score));
        let index = self.scored.len();
        let earlier = self.last_seen.insert(digest.to_owned(), index);
        // An output that equals the one before it shows stagnation, not oscillation.
        self.repeated = earlier.is_some_and(|earlier| earlier.saturating_add(1) < index);
        self.scored.push(Scored {
            score: valid.unwrap_or(0.0),
            invalid: valid.is_none(),
            noise: noise.filter(|noise| noise.is_finite() && *noise >= 0.0),
            digest: digest.to_owned(),
        });
    }

    fn after_scoring(&mut self, at: u64, unachievable: bool) -> LoopVerdict {
        let stop = |reason| LoopVerdict::Stop(reason);
        if self.is_late(at) {
            return stop(TerminationReason::Timeout);
        }
        if self.is_met() {
            return stop(TerminationReason::ThresholdMet);
        }
        if unachievable {
            return stop(TerminationReason::Unachievable);
        }
        // Independent outputs have no direction.
        if self.rules.strategy == LoopStrategy::Refine {
            if self.stops_on(StopOn::Oscillation) && self.oscillates() {
                return stop(TerminationReason::Oscillation);
            }
            if self.stops_on(StopOn::Stagnation) {
                match self.is_weak() {
                    Ok(true) => self.weak = self.weak.saturating_add(1),
                    Ok(false) => self.weak = 0,
                    Err(reason) => {
                        self.scorer_error = Some(reason.to_owned());
                        return stop(TerminationReason::ScorerError);
                    }
                }
                if self.weak > 0 && self.weak >= self.rules.patience {
                    return stop(TerminationReason::Stagnation);
                }
            }
        }
        self.within_limits()
    }

    fn within_limits(&self) -> LoopVerdict {
        if self.attempts() >= self.rules.max_iterations.max(1) {
            LoopVerdict::Stop(TerminationReason::MaxIterations)
        } else if self.is_spent() {
            LoopVerdict::Stop(TerminationReason::BudgetExceeded)
        } else {
            LoopVerdict::Improve
        }
    }

    fn is_late(&self, at: u64) -> bool {
        let limits = [self.rules.timeout_seconds, self.rules.hard_timeout_seconds];
        limits.into_iter().flatten().any(|limit| seconds(at) >= limit)
    }

    fn is_met(&self) -> bool {
        let last = self.iterations().checked_sub(1);
        last.is_some_and(|last| self.meets_threshold(last))
    }

    /// Whether a scored output meets the threshold; one whose score is invalid never does.
    pub fn meets_threshold(&self, iteration: u32) -> bool {
        let scored = self.scored.get(iteration as usize);
        scored.is_some_and(|scored| !scored.invalid && scored.score >= self.rules.threshold)
    }

    fn stops_on(&self, what: StopOn) -> bool {
        self.rules.stop_on.contains(&what)
    }

    /// A budget is used up, or it can't be enforced because a part of what was used is not known.
    fn is_spent(&self) -> bool {
        let budget = &self.rules.budget;
        let used = self.usage();
        let over_tokens = budget
            .max_total_tokens
            .is_some_and(|max| used.usage.is_none_or(|spent| spent.total_tokens >= max));
        let over_cost = budget
            .max_cost_usd
            .is_some_and(|max| used.cost_usd.is_none_or(|spent| spent >= max));
        over_tokens || over_cost
    }

    fn oscillates(&self) -> bool {
        if self.rules.oscillation.detect_repeats && self.repeated {
            return true;
        }
        let window = usize::try_from(self.rules.oscillation.window.max(3)).unwrap_or(usize::MAX);
        let Some(first) = self.scored.len().checked_sub(window) else {
            return false;
        };
        let scores = self.scored.iter().skip(first);
        let scores: Vec<Decimal> = scores.map(|scored| exact(scored.score)).collect();
        let steps: Vec<Decimal> = scores
            .iter()
            .zip(scores.iter().skip(1))
            .map(|(before, after)| after.minus(before))
            .collect();
        let (none, swing) = (Decimal::default(), exact(self.rules.oscillation.min_swing));
        let swings = steps.iter().all(|step| step.clone().abs() > swing);
        let alternates = steps
            .iter()
            .zip(steps.iter().skip(1))
            .all(|(a, b)| (*a > none) != (*b > none));
        swings && alternates
    }

    /// Whether the last output is too little better than the one before it.
    fn is_weak(&self) -> Result<bool, &'static str> {
        let [.., before, last] = self.scored.as_slice() else {
            return Ok(false);
        };
        let required = match self.rules.min_improvement {
            MinImprovement::Points(points) => points,
            MinImprovement::Noise(multiple) => match (before.noise, last.noise) {
                (Some(before), Some(last)) => multiple.noise * before.hypot(last),
                _ => return Err("`min_improvement.noise` needs a scorer whose noise is known"),
            },
        };
        Ok(exact(last.score).minus(&exact(before.score)) < exact(required))
    }

    /// How many outputs were scored.
    pub fn iterations(&self) -> u32 {
        u32::try_from(self.scored.len()).unwrap_or(u32::MAX)
    }

    /// How many outputs were attempted: the scored ones, and those that could not be produced.
    pub fn attempts(&self) -> u32 {
        self.iterations().saturating_add(self.failures)
    }

    /// Whether the score of an output was none: not a number, or outside of 0–100.
    pub fn is_invalid(&self, iteration: u32) -> bool {
        let scored = self.scored.get(iteration as usize);
        scored.is_some_and(|scored| scored.invalid)
    }

    /// Whether another executor should take over: nothing could be scored, and the rules ask for it.
    pub fn should_fallback(&self) -> bool {
        self.stopped == Some(TerminationReason::ScorerError)
            && self.scored.is_empty()
            && self.rules.on_scorer_error == OnScorerError::Fallback
    }

    /// Why the loop ended; `None` while it runs.
    pub fn stopped(&self) -> Option<TerminationReason> {
        self.stopped
    }

    /// Why the scorer failed, if it did.
    pub fn scorer_error(&self) -> Option<&str> {
        self.scorer_error.as_deref()
    }

    /// The score of a scored output, 0–100.
    pub fn score(&self, iteration: u32) -> Option<f64> {
        self.scored.get(iteration as usize).map(|scored| scored.score)
    }

    /// The digest of a scored output.
    pub fn digest(&self, iteration: u32) -> Option<&str> {
        self.scored
            .get(iteration as usize)
            .map(|scored| scored.digest.as_str())
    }

    /// The index of the output to return among the scored ones; `None` if nothing was scored.
    pub fn returned(&self) -> Option<u32> {
        let last = self.iterations().checked_sub(1)?;
        let wants_last =
            self.stopped == Some(TerminationReason::Timeout) || self.rules.returns == LoopReturn::Last;
        if wants_last {
            return Some(last);
        }
        let mut best: Option<(u32, &Scored)> = None;
        for (index, scored) in (0_u32..).zip(&self.scored) {
            // Of equal ones the first; a score of 0 is better than none.
            let is_better = best.is_none_or(|(_, best)| match (scored.invalid, best.invalid) {
                (false, false) => scored.score > best.score,
                (is_invalid, was_invalid) => was_invalid && !is_invalid,
            });
            if is_better {
                best = Some((index, scored));
            }
        }
        best.map(|(index, _)| index)
    }

    /// The usage of the loop so far; absent parts are not known.
    pub fn usage(&self) -> UsageMetadata {
        self.spent.into()
    }

    /// The rules.
    pub fn rules(&self) -> &LoopRules {
        &self.rules
    }
}

/// Whether a score is one.
pub(super) fn is_valid(score: f64) -> bool {
    (0.0..=100.0).contains(&score)
}

/// A number of the rules, or a score, as it was written.
fn exact(number: f64) -> Decimal {
    // Rules and scores are finite; a multiple of the noise that is not cannot be reached.
    Decimal::from_f64(number)
        .or_else(|| Decimal::from_f64(f64::MAX))
        .unwrap_or_default()
}

/// Microseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
