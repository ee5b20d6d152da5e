//! The loop itself: calls the scorer and the improver, and does what [`LoopState`] decides.

use std::{
    future::{Future, pending, poll_fn},
    panic::AssertUnwindSafe,
    pin::pin,
    task::Poll,
    time::Duration,
};

use holodeck_model::{IterationRecord, Spent, TerminationReason, UsageMetadata, hex};
use sha2::{Digest as _, Sha256};

use super::{
    Assessment, ImproveError, Improver, InvalidRule, LoopControl, LoopOutput, LoopReport, LoopRules,
    LoopState, LoopStep, LoopVerdict, QualityAssessment, Scorer, state,
};
use crate::caught::caught;

/// How many improvements an iteration is asked for.
pub(super) const MAX_IMPROVEMENTS: usize = 5;

/// Improves an output until it is good enough, or stops with a named cause.
#[derive(Clone, Debug)]
pub struct QualityLoop {
    rules: LoopRules,
}

/// How a call of the scorer or the improver ended.
enum Call<T> {
    Returned(T),
    Panicked(String),
    Cancelled,
    Interrupted,
}

/// A loop in progress.
struct Running<'a> {
    control: &'a LoopControl,
    started: Duration,
    state: LoopState,
    steps: Vec<LoopStep>,
    /// Every scored output.
    scored: Vec<(LoopOutput, Assessment)>,
    iterations: Vec<IterationRecord>,
    /// The cost since the last scored output.
    spent: Spent,
    /// When the current iteration began.
    began: u64,
    execution_error: Option<String>,
    repeated_side_effects: u32,
}

impl QualityLoop {
    /// A loop with these rules; an error if one is outside of its range.
    pub fn new(rules: LoopRules) -> Result<Self, InvalidRule> {
        rules.check()?;
        Ok(Self { rules })
    }

    /// The rules.
    pub fn rules(&self) -> &LoopRules {
        &self.rules
    }

    /// Scores `initial`, and improves it until a rule ends the loop. Returns the chosen output, its assessment, and what
    /// happened.
    ///
    /// The scorer is called at most `max_iterations` times and the improver at most once less. A panic of the scorer
    /// counts as a scorer error, one of the improver as an execution error. `timeout_seconds` is measured from this call
    /// and never interrupts a call; `hard_timeout_seconds` and `control.cancel` drop the future of a call in progress,
    /// which must end everything it started.
    ///
    /// The output is the best scored one (or as `return` says); after a time-out the last scored one; `initial` if
    /// nothing was scored. Then `assessment.score` is `None`, and `report.should_fallback` says whether another executor
    /// should take over.
    pub async fn run(
        &self,
        initial: LoopOutput,
        scorer: &dyn Scorer,
        improver: &dyn Improver,
        control: &LoopControl,
    ) -> (LoopOutput, QualityAssessment, LoopReport) {
        let mut running = Running {
            control,
            started: control.clock.elapsed(),
            state: LoopState::new(self.rules.clone()),
            steps: Vec::new(),
            scored: Vec::new(),
            iterations: Vec::new(),
            spent: initial.usage.map(Spent::from).unwrap_or_default(),
            began: 0,
            execution_error: None,
            repeated_side_effects: 0,
        };
        let reason = running.drive(initial.clone(), scorer, improver).await;
        running.end(initial, reason)
    }
}

impl Running<'_> {
    async fn drive(
        &mut self,
        initial: LoopOutput,
        scorer: &dyn Scorer,
        improver: &dyn Improver,
    ) -> TerminationReason {
        let mut initial_usage = initial.usage;
        let mut output = initial;
        loop {
            let verdict = if self.control.cancel.is_cancelled() {
                self.step(LoopStep::Cancelled { at: self.at() })
            } else {
                let usage = initial_usage.take();
                self.step(LoopStep::Ready { at: self.at(), usage })
            };
            if let LoopVerdict::Stop(reason) = verdict {
                return reason;
            }
            let mut verdict = self.score(output, scorer).await;
            output = loop {
                if let LoopVerdict::Stop(reason) = verdict {
                    return reason;
                }
                let next = self.improve(improver).await;
                verdict = next.1;
                if let (Some(next), LoopVerdict::Accept) = (next.0, verdict) {
                    break next;
                }
            };
        }
    }

    async fn score(&mut self, output: LoopOutput, scorer: &dyn Scorer) -> LoopVerdict {
        let call = self.call(scorer.score(&output)).await;
        let at = self.at();
        match call {
            Call::Returned(Ok(assessment)) => {
                let step = LoopStep::Scored {
                    at,
                    score: assessment.score.filter(|score| score.is_finite()),
                    invalid: assessment.problem(),
                    noise: assessment.noise.filter(|noise| noise.is_finite()),
                    unachievable: assessment.unachievable,
                    digest: hex(&Sha256::digest(output.text.as_bytes())),
                    usage: assessment.usage,
                };
                let verdict = self.step(step);
                self.record(output, assessment, at, verdict);
                verdict
            }
            Call::Returned(Err(error)) => self.scorer_failed(at, error.reason),
            Call::Panicked(message) => self.scorer_failed(at, format!("the scorer panicked: {message}")),
            Call::Cancelled => self.step(LoopStep::Cancelled { at }),
            Call::Interrupted => self.step(LoopStep::Interrupted { at }),
        }
    }

    fn scorer_failed(&mut self, at: u64, reason: String) -> LoopVerdict {
        tracing::warn!(target: "holodeck::quality", %reason, "the scorer failed");
        self.step(LoopStep::ScorerFailed { at, reason })
    }

    async fn improve(&mut self, improver: &dyn Improver) -> (Option<LoopOutput>, LoopVerdict) {
        if self.control.cancel.is_cancelled() {
            return (None, self.step(LoopStep::Cancelled { at: self.at() }));
        }
        let attempt = self.state.attempts();
        let call = match self.scored.last() {
            Some((output, assessment)) => self.call(improver.improve(output, assessment, attempt)).await,
            None => Call::Returned(Err(ImproveError::new("nothing was scored"))),
        };
        let at = self.at();
        match call {
            Call::Returned(Ok(output)) => {
                self.used(output.usage);
                self.repeated_side_effects += u32::from(output.side_effects);
                let usage = output.usage;
                (Some(output), self.step(LoopStep::Improved { at, usage }))
            }
            Call::Returned(Err(error)) => (None, self.improve_failed(at, error)),
            Call::Panicked(message) => {
                let error = ImproveError::new(format!("the improver panicked: {message}"));
                (None, self.improve_failed(at, error))
            }
            Call::Cancelled => (None, self.step(LoopStep::Cancelled { at })),
            Call::Interrupted => (None, self.step(LoopStep::Interrupted { at })),
        }
    }

    fn improve_failed(&mut self, at: u64, error: ImproveError) -> LoopVerdict {
        let ImproveError { reason, usage } = error;
        tracing::warn!(target: "holodeck::quality", %reason, "no further output could be produced");
        self.used(usage);
        let verdict = self.step(LoopStep::ImproveFailed {
            at,
            reason: reason.clone(),
            usage,
        });
        if verdict == LoopVerdict::Stop(TerminationReason::ExecutionError) {
            self.execution_error = Some(reason);
        }
        verdict
    }

    /// Waits for a call until it returns, the loop is cancelled, or the hard limit is reached.
    async fn call<T>(&self, call: impl Future<Output = T>) -> Call<T> {
        let limit = self.state.rules().hard_timeout_seconds;
        let limit = limit.map(|limit| Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX));
        let passed = self.control.clock.elapsed().saturating_sub(self.started);
        let mut interrupted = pin!(async {
            match limit {
                Some(limit) => tokio::time::sleep(limit.saturating_sub(passed)).await,
                None => pending().await,
            }
        });
        let mut cancelled = pin!(self.control.cancel.cancelled());
        let mut called = pin!(caught(call));
        poll_fn(|context| {
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Call::Cancelled);
            }
            if let Poll::Ready(result) = called.as_mut().poll(context) {
                return Poll::Ready(result.map_or_else(Call::Panicked, Call::Returned));
            }
            interrupted.as_mut().poll(context).map(|()| Call::Interrupted)
        })
        .await
    }

    fn step(&mut self, step: LoopStep) -> LoopVerdict {
        let verdict = self.state.step(&step);
        if let Some(observer) = &self.control.steps {
            let observed = AssertUnwindSafe(|| observer(self.state.rules(), &step));
            if std::panic::catch_unwind(observed).is_err() {
                tracing::warn!(target: "holodeck::quality", "an observer of the loop panicked");
            }
        }
        self.steps.push(step);
        verdict
    }

    fn used(&mut self, usage: Option<UsageMetadata>) {
        self.spent += usage.map(Spent::from).unwrap_or_default();
    }

    fn record(&mut self, output: LoopOutput, assessment: Assessment, at: u64, verdict: LoopVerdict) {
        self.used(assessment.usage);
        let iteration = self.state.iterations().saturating_sub(1);
        let before = iteration
            .checked_sub(1)
            .and_then(|before| self.state.score(before));
        let applied = match verdict {
            LoopVerdict::Improve => assessment
                .improvements
                .iter()
                .take(MAX_IMPROVEMENTS)
                .cloned()
                .collect(),
            _ => Vec::new(),
        };
        let record = IterationRecord {
            iteration,
            input_quality: before,
            output_quality: self.state.score(iteration).unwrap_or_default(),
            improvements_applied: applied,
            time_taken: state::seconds(at.saturating_sub(self.began)),
            success: self.state.meets_threshold(iteration),
            termination_reason: self.state.stopped(),
            score_invalid: self.state.is_invalid(iteration),
            invalid_reason: assessment.problem(),
            evidence_summary: output.evidence.clone(),
            usage: std::mem::take(&mut self.spent).some().map(Into::into),
            output_digest: self.state.digest(iteration).unwrap_or_default().to_owned(),
        };
        self.began = at;
        if let Some(observer) = &self.control.observer {
            // An observer can't change the outcome, also not by a panic.
            let observed = AssertUnwindSafe(|| observer(&record));
            if std::panic::catch_unwind(observed).is_err() {
                tracing::warn!(target: "holodeck::quality", "an observer of the loop panicked");
            }
        }
        self.iterations.push(record);
        self.scored.push((output, assessment));
    }

    fn at(&self) -> u64 {
        micros(self.control.clock.elapsed().saturating_sub(self.started))
    }

    fn end(
        mut self,
        initial: LoopOutput,
        reason: TerminationReason,
    ) -> (LoopOutput, QualityAssessment, LoopReport) {
        let elapsed = state::seconds(self.at());
        let returned = self.state.returned();
        let iterations = self.state.iterations();
        if let Some(last) = self.iterations.last_mut() {
            // Also if it ended only after the next call.
            last.termination_reason = Some(reason);
        }
        if reason == TerminationReason::Timeout {
            tracing::warn!(target: "holodeck::quality", elapsed, iterations, "the loop timed out");
        } else {
            tracing::debug!(target: "holodeck::quality", elapsed, iterations, reason = reason.as_str(), "the loop ended");
        }
        let report = LoopReport {
            termination_reason: reason,
            iteration_count: iterations.max(1),
            iterations: self.iterations,
            scorer_error: self.state.scorer_error().map(str::to_owned),
            execution_error: self.execution_error,
            returned,
            should_fallback: self.state.should_fallback(),
            repeated_side_effects: self.repeated_side_effects,
            usage: self.state.usage(),
            elapsed,
            rules: self.state.rules().clone(),
            steps: self.steps,
        };
        let Some((index, (output, assessment))) =
            returned.and_then(|index| Some((index, self.scored.get(index as usize)?.clone())))
        else {
            return (initial, QualityAssessment::default(), report);
        };
        let assessment = QualityAssessment {
            score: self.state.score(index),
            passed: self.state.meets_threshold(index),
            invalid: assessment.problem(),
            metrics: assessment.metrics,
            improvements: assessment.improvements,
            reason: assessment.reason,
        };
        (output, assessment, report)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
