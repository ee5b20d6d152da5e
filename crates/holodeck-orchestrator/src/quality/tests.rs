//! Tests of the quality loop with scripted outputs, scores and a manual clock.

#![allow(
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "scores of scripts are exact, and numbers are small"
)]

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use holodeck_model::{
    LoopBudget, LoopReturn, LoopStrategy, MinImprovement, NoiseMultiple, OnScorerError, TerminationReason,
    TokenUsage,
};
use jiff::Timestamp;
use pretty_assertions::assert_eq;

use super::*;

mod properties;
mod rules;
mod scores;

/// A clock that moves only when a test moves it.
#[derive(Default)]
struct ManualClock(Mutex<Duration>);

impl ManualClock {
    fn advance(&self, seconds: f64) {
        *self.0.lock().unwrap() += Duration::from_secs_f64(seconds);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn elapsed(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

/// Scores from a list; a text is the reason of a failure.
struct Scores {
    list: Mutex<VecDeque<Result<Assessment, &'static str>>>,
    calls: AtomicU32,
    /// How long a call takes.
    takes: f64,
    clock: Arc<ManualClock>,
}

#[async_trait]
impl Scorer for Scores {
    async fn score(&self, _: &LoopOutput) -> Result<Assessment, ScorerError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.clock.advance(self.takes);
        let next = self.list.lock().unwrap().pop_front();
        next.expect("more scorings than scores").map_err(ScorerError::new)
    }
}

/// Outputs `o1`, `o2`, … unless a list says otherwise.
struct Outputs {
    list: Mutex<VecDeque<Result<&'static str, &'static str>>>,
    calls: AtomicU32,
    tokens: Option<u64>,
    takes: f64,
    clock: Arc<ManualClock>,
}

#[async_trait]
impl Improver for Outputs {
    async fn improve(
        &self,
        _: &LoopOutput,
        _: &Assessment,
        iteration: u32,
    ) -> Result<LoopOutput, ImproveError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.clock.advance(self.takes);
        let text = match self.list.lock().unwrap().pop_front() {
            None => format!("o{iteration}"),
            Some(Ok(text)) => text.to_owned(),
            Some(Err(reason)) => return Err(ImproveError::new(reason)),
        };
        let usage = self.tokens.map(|tokens| UsageMetadata {
            usage: Some(TokenUsage::new(tokens, 0)),
            cost_usd: Some(0.0),
        });
        Ok(LoopOutput {
            usage,
            ..LoopOutput::new(text)
        })
    }
}

/// A scripted loop.
struct Script {
    rules: LoopRules,
    clock: Arc<ManualClock>,
    scores: Scores,
    outputs: Outputs,
    cancel: CancellationToken,
}

fn assessed(scores: &[f64]) -> Vec<Result<Assessment, &'static str>> {
    scores.iter().map(|score| Ok(Assessment::of(*score))).collect()
}

impl Script {
    fn new(scores: Vec<Result<Assessment, &'static str>>, rules: LoopRules) -> Self {
        let clock = Arc::new(ManualClock::default());
        Self {
            rules,
            scores: Scores {
                list: Mutex::new(scores.into()),
                calls: AtomicU32::new(0),
                takes: 0.0,
                clock: Arc::clone(&clock),
            },
            outputs: Outputs {
                list: Mutex::default(),
                calls: AtomicU32::new(0),
                tokens: None,
                takes: 0.0,
                clock: Arc::clone(&clock),
            },
            clock,
            cancel: CancellationToken::new(),
        }
    }

    fn control(&self) -> LoopControl {
        LoopControl::default()
            .timed_by(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .cancelled_by(self.cancel.clone())
    }

    async fn run(&self) -> (LoopOutput, QualityAssessment, LoopReport) {
        let quality = QualityLoop::new(self.rules.clone()).unwrap();
        let ended = quality
            .run(
                LoopOutput::new("o0"),
                &self.scores,
                &self.outputs,
                &self.control(),
            )
            .await;
        let again = replay(ended.2.rules.clone(), &ended.2.steps).unwrap();
        assert_eq!(again.termination_reason, Some(ended.2.termination_reason));
        assert_eq!(again.returned, ended.2.returned);
        ended
    }

    fn calls(&self) -> (u32, u32) {
        let count = |calls: &AtomicU32| calls.load(Ordering::Relaxed);
        (count(&self.scores.calls), count(&self.outputs.calls))
    }
}

#[tokio::test]
async fn a_good_first_output_is_returned_without_a_second_one() {
    let script = Script::new(assessed(&[75.0]), LoopRules::default());
    let (output, assessment, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::ThresholdMet);
    assert_eq!((report.iteration_count, script.calls()), (1, (1, 0)));
    assert_eq!((output.text.as_str(), assessment.passed), ("o0", true));
}

#[tokio::test]
async fn the_last_allowed_iteration_ends_the_loop() {
    let script = Script::new(assessed(&[40.0, 45.0, 50.0, 55.0, 60.0]), LoopRules::default());
    let (output, assessment, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::MaxIterations);
    assert_eq!(script.calls(), (5, 4));
    assert_eq!((output.text.as_str(), assessment.score), ("o4", Some(60.0)));
    assert!(!assessment.passed);
}

#[tokio::test]
async fn a_small_improvement_is_stagnation() {
    let script = Script::new(assessed(&[40.0, 41.0]), LoopRules::default());
    let (_, _, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::Stagnation);
    assert_eq!(report.iteration_count, 2);
}

#[tokio::test]
async fn up_and_down_is_oscillation_and_the_best_output_is_returned() {
    let script = Script::new(assessed(&[50.0, 60.0, 50.0]), LoopRules::default());
    let (output, _, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::Oscillation);
    assert_eq!((output.text.as_str(), report.returned), ("o1", Some(1)));
}

#[tokio::test]
async fn an_output_that_returns_is_oscillation() {
    let script = Script::new(assessed(&[50.0, 53.0, 56.0]), LoopRules::default());
    *script.outputs.list.lock().unwrap() = [Ok("B"), Ok("o0")].into();
    let (_, _, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::Oscillation);
    assert_eq!(report.iteration_count, 3);

    let mut rules = LoopRules::default();
    rules.oscillation.detect_repeats = false;
    rules.max_iterations = 3;
    let script = Script::new(assessed(&[50.0, 53.0, 56.0]), rules);
    *script.outputs.list.lock().unwrap() = [Ok("B"), Ok("o0")].into();
    let (_, _, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::MaxIterations);
}

#[tokio::test]
async fn without_stop_on_only_the_limits_end_the_loop() {
    let rules = LoopRules {
        stop_on: Vec::new(),
        ..LoopRules::default()
    };
    let script = Script::new(assessed(&[50.0, 60.0, 50.0, 60.0, 50.0]), rules);
    let (output, _, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::MaxIterations);
    assert_eq!(output.text, "o1");
}

fn limited(seconds: f64) -> LoopRules {
    LoopRules {
        timeout_seconds: Some(seconds),
        ..LoopRules::default()
    }
}

/// A clock that is past every limit after the loop has read it once.
struct LateClock(AtomicU32);

impl Clock for LateClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(u64::from(self.0.fetch_add(1_000, Ordering::Relaxed)))
    }
}

#[tokio::test]
async fn no_time_at_the_start_returns_the_initial_output_unscored() {
    let script = Script::new(Vec::new(), limited(10.0));
    let quality = QualityLoop::new(script.rules.clone()).unwrap();
    let control = LoopControl::default().timed_by(Arc::new(LateClock(AtomicU32::new(0))));
    let (output, assessment, report) = quality
        .run(LoopOutput::new("o0"), &script.scores, &script.outputs, &control)
        .await;
    assert_eq!(report.termination_reason, TerminationReason::Timeout);
    assert_eq!((output.text.as_str(), assessment.score), ("o0", None));
    assert_eq!((report.iterations.len(), report.returned), (0, None));
    assert_eq!(script.calls(), (0, 0));
    assert!(!report.should_fallback);
}

#[tokio::test]
async fn time_up_during_the_first_scoring_keeps_its_score() {
    let mut script = Script::new(assessed(&[50.0]), limited(10.0));
    script.scores.takes = 11.0;
    let (output, assessment, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::Timeout);
    assert_eq!((output.text.as_str(), assessment.score), ("o0", Some(50.0)));
    assert_eq!((report.iterations.len(), script.calls()), (1, (1, 0)));
}

#[tokio::test]
async fn a_score_that_arrives_late_still_passes() {
    let mut script = Script::new(assessed(&[90.0]), limited(10.0));
    script.scores.takes = 11.0;
    let (_, assessment, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::Timeout);
    assert!(assessment.passed && report.iterations[0].success);
}

#[tokio::test]
async fn time_up_during_an_improvement_discards_it() {
    let mut script = Script::new(assessed(&[50.0]), limited(10.0));
    script.outputs.takes = 11.0;
    let (output, _, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::Timeout);
    assert_eq!((output.text.as_str(), script.calls()), ("o0", (1, 1)));
}

#[tokio::test]
async fn a_time_out_returns_the_last_scored_output_also_if_another_was_better() {
    let mut rules = limited(10.0);
    rules.stop_on = Vec::new();
    let mut script = Script::new(assessed(&[60.0, 40.0]), rules);
    script.scores.takes = 6.0;
    let (output, assessment, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::Timeout);
    assert_eq!((output.text.as_str(), assessment.score), ("o1", Some(40.0)));
}

#[tokio::test]
async fn a_scorer_failure_falls_back_only_if_nothing_was_scored() {
    let script = Script::new(vec![Err("broken")], LoopRules::default());
    let (output, assessment, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::ScorerError);
    assert!(report.should_fallback);
    assert_eq!(
        (report.scorer_error.as_deref(), assessment.score),
        (Some("broken"), None)
    );
    assert_eq!(output.text, "o0");

    let scores = [assessed(&[60.0, 50.0]), vec![Err("broken")]].concat();
    let rules = LoopRules {
        stop_on: Vec::new(),
        ..LoopRules::default()
    };
    let script = Script::new(scores, rules);
    let (output, assessment, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::ScorerError);
    assert!(!report.should_fallback);
    assert_eq!((output.text.as_str(), assessment.score), ("o0", Some(60.0)));

    let rules = LoopRules {
        on_scorer_error: OnScorerError::Return,
        ..LoopRules::default()
    };
    let script = Script::new(vec![Err("broken")], rules);
    assert!(!script.run().await.2.should_fallback);
}

#[tokio::test]
async fn a_failed_improvement_returns_the_best_scored_output() {
    let rules = LoopRules {
        stop_on: Vec::new(),
        ..LoopRules::default()
    };
    for (returns, expected) in [(LoopReturn::Best, "o0"), (LoopReturn::Last, "o1")] {
        let rules = LoopRules {
            returns,
            ..rules.clone()
        };
        let script = Script::new(assessed(&[60.0, 50.0]), rules);
        *script.outputs.list.lock().unwrap() = [Ok("o1"), Err("unreachable")].into();
        let (output, _, report) = script.run().await;
        assert_eq!(report.termination_reason, TerminationReason::ExecutionError);
        assert_eq!(report.execution_error.as_deref(), Some("unreachable"));
        assert_eq!(output.text, expected);
    }
}

#[tokio::test]
async fn panics_are_errors_of_the_call() {
    let scorer = |_: LoopOutput| async { panic!("no score") };
    let improver = |_: LoopOutput, _: Assessment, _: u32| async { panic!("no output") };
    let quality = QualityLoop::new(LoopRules::default()).unwrap();
    let control = LoopControl::default();
    let ended = quality
        .run(LoopOutput::new("o0"), &scorer, &improver, &control)
        .await;
    assert_eq!(
        ended.2.scorer_error.as_deref(),
        Some("the scorer panicked: no score")
    );

    let scorer = |_: LoopOutput| async { Ok(Assessment::of(50.0)) };
    let ended = quality
        .run(LoopOutput::new("o0"), &scorer, &improver, &control)
        .await;
    assert_eq!(ended.2.termination_reason, TerminationReason::ExecutionError);
    assert_eq!(
        ended.2.execution_error.as_deref(),
        Some("the improver panicked: no output")
    );
}

#[tokio::test]
async fn a_cancelled_loop_returns_the_best_output() {
    let script = Script::new(Vec::new(), LoopRules::default());
    let cancel = script.cancel.clone();
    let scored = AtomicU32::new(0);
    // Hangs in the third scoring, in which the loop is cancelled.
    let scorer = |_: LoopOutput| {
        let call = scored.fetch_add(1, Ordering::Relaxed);
        let cancel = cancel.clone();
        async move {
            if call == 2 {
                cancel.cancel();
                std::future::pending::<()>().await;
            }
            Ok(Assessment::of(50.0 + 5.0 * f64::from(call)))
        }
    };
    let quality = QualityLoop::new(LoopRules::default()).unwrap();
    let (output, assessment, report) = quality
        .run(LoopOutput::new("o0"), &scorer, &script.outputs, &script.control())
        .await;
    assert_eq!(report.termination_reason, TerminationReason::Cancelled);
    assert_eq!((output.text.as_str(), assessment.score), ("o1", Some(55.0)));
    assert_eq!(report.iteration_count, 2);
}

#[tokio::test]
async fn a_used_up_budget_ends_the_loop_after_the_paid_output_is_scored() {
    let rules = LoopRules {
        budget: LoopBudget {
            max_total_tokens: Some(1_000),
            max_cost_usd: None,
        },
        ..LoopRules::default()
    };
    let mut script = Script::new(assessed(&[40.0, 45.0, 50.0]), rules);
    script.outputs.tokens = Some(600);
    let (output, _, report) = script.run().await;
    assert_eq!(report.termination_reason, TerminationReason::BudgetExceeded);
    assert_eq!((script.calls(), output.text.as_str()), ((3, 2), "o2"));
    assert_eq!(report.usage.usage.map(|usage| usage.total_tokens), Some(1_200));
}

#[tokio::test(start_paused = true)]
async fn the_hard_limit_ends_a_call_that_never_returns() {
    let rules = LoopRules {
        hard_timeout_seconds: Some(5.0),
        ..LoopRules::default()
    };
    let scorer = |_: LoopOutput| async { Ok(Assessment::of(50.0)) };
    let improver = |_: LoopOutput, _: Assessment, _: u32| std::future::pending();
    let quality = QualityLoop::new(rules).unwrap();
    let (output, assessment, report) = quality
        .run(LoopOutput::new("o0"), &scorer, &improver, &LoopControl::default())
        .await;
    assert_eq!(report.termination_reason, TerminationReason::Timeout);
    assert_eq!((output.text.as_str(), assessment.score), ("o0", Some(50.0)));
}
