//! Whether a comparison lets a change pass. Every way in which a regression could look like none is a reason not to.

use holodeck_model::Decider;
use serde::Serialize;

use super::{Comparison, GateOptions, Outcome, format, phrases};
use holodeck_runs::ExitCode;

/// The decision of the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Gate {
    /// Whether the gate decides about the exit code.
    pub enabled: bool,
    /// The decision.
    pub result: GateResult,
    /// Why the gate did not pass.
    pub reasons: Vec<GateReason>,
}

/// The decision of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GateResult {
    /// Nothing is known to be worse.
    Passed,
    /// Something is worse.
    Failed,
    /// The evidence of a regression could not be compared.
    #[default]
    NotComparable,
}

impl GateResult {
    /// The decision in words.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotComparable => "not comparable",
        }
    }
}

/// A reason not to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GateReason {
    /// The kind.
    pub kind: GateReasonKind,
    /// The reason in words.
    pub text: String,
}

/// The kinds of reasons not to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GateReasonKind {
    /// Significantly fewer cases pass.
    FewerPasses,
    /// The scores of a metric are significantly lower.
    LowerScores,
    /// Cases, or trials of them, lost their result, or new cases have none.
    NewErrors,
    /// Cases lost their checks.
    NoLongerChecked,
    /// Cases of the earlier run are missing.
    MissingCases,
    /// The later run did not finish.
    UnfinishedAfter,
    /// More cases than allowed do not pass any more, or are new and do not pass.
    TooManyNewFailures,
    /// No case can be compared.
    NothingComparable,
    /// Both sides are one run, so that nothing was tested since.
    SameRun,
    /// The earlier run did not finish.
    UnfinishedBefore,
    /// Scores come from different judges.
    OtherJudge,
    /// A metric has no scores any more.
    LostScores,
    /// Something else is expected of cases.
    OtherExpectation,
    /// It is not known whether the same was expected.
    UnknownExpectation,
}

impl GateReasonKind {
    fn result(self) -> GateResult {
        match self {
            Self::FewerPasses
            | Self::LowerScores
            | Self::NewErrors
            | Self::NoLongerChecked
            | Self::MissingCases
            | Self::UnfinishedAfter
            | Self::TooManyNewFailures => GateResult::Failed,
            Self::NothingComparable
            | Self::SameRun
            | Self::UnfinishedBefore
            | Self::OtherJudge
            | Self::LostScores
            | Self::OtherExpectation
            | Self::UnknownExpectation => GateResult::NotComparable,
        }
    }
}

impl Gate {
    /// Decides. `losses` are the cases that passed before and do not pass now.
    pub(super) fn decide(comparison: &Comparison, options: &GateOptions, losses: usize) -> Self {
        let mut reasons = failures(comparison, options, losses);
        reasons.extend(doubts(comparison, options));
        let any = |result| reasons.iter().any(|reason| reason.kind.result() == result);
        let result = if !comparison.is_comparable() {
            GateResult::NotComparable
        } else if any(GateResult::Failed) {
            GateResult::Failed
        } else if any(GateResult::NotComparable) {
            GateResult::NotComparable
        } else {
            GateResult::Passed
        };
        Self {
            enabled: options.gate,
            result,
            reasons,
        }
    }

    fn has(&self, kind: GateReasonKind) -> bool {
        self.reasons.iter().any(|reason| reason.kind == kind)
    }
}

fn reason(kind: GateReasonKind, text: impl Into<String>) -> GateReason {
    GateReason {
        kind,
        text: text.into(),
    }
}

fn failures(comparison: &Comparison, options: &GateOptions, losses: usize) -> Vec<GateReason> {
    let counts = &comparison.counts;
    let mut reasons = Vec::new();
    if comparison.verdicts.outcome == Outcome::Worse {
        reasons.push(reason(
            GateReasonKind::FewerPasses,
            "significantly fewer cases pass",
        ));
    }
    for metric in comparison
        .metrics
        .iter()
        .filter(|metric| metric.outcome == Outcome::Worse)
    {
        let text = format!("the scores of {} are significantly lower", metric.metric);
        reasons.push(reason(GateReasonKind::LowerScores, text));
    }
    if counts.new_errors > 0 {
        let text = format!(
            "{} without a result that had one before",
            format::count(counts.new_errors, "case")
        );
        reasons.push(reason(GateReasonKind::NewErrors, text));
    }
    if counts.added_errors > 0 {
        let text = format!(
            "{} without a result",
            format::count(counts.added_errors, "new case")
        );
        reasons.push(reason(GateReasonKind::NewErrors, text));
    }
    if counts.more_trial_errors > 0 {
        let text = format!(
            "{} with more trials that ended in an error",
            format::count(counts.more_trial_errors, "case")
        );
        reasons.push(reason(GateReasonKind::NewErrors, text));
    }
    if counts.no_longer_checked > 0 {
        let text = format!(
            "{} no longer checked",
            format::count(counts.no_longer_checked, "case")
        );
        reasons.push(reason(GateReasonKind::NoLongerChecked, text));
    }
    if counts.missing > 0 && !options.allow_missing {
        let text = format!(
            "{} missing from the later run",
            format::count(counts.missing, "case")
        );
        reasons.push(reason(GateReasonKind::MissingCases, text));
    }
    if let Some(unfinished) = &comparison.after.unfinished {
        let text = format!("the later run did not finish: {unfinished}");
        reasons.push(reason(GateReasonKind::UnfinishedAfter, text));
    }
    let new = counts.added_failing + counts.added_errors;
    if let Some(limit) = options.max_new_failures.filter(|limit| losses + new > *limit) {
        let text = format!(
            "{}; `--max-new-failures {limit}` allows {}",
            describe_new_failures(losses, new),
            match limit {
                0 => "none".to_owned(),
                limit => limit.to_string(),
            }
        );
        reasons.push(reason(GateReasonKind::TooManyNewFailures, text));
    }
    reasons
}

/// The cases that do not pass any more, and the new ones that do not pass.
fn describe_new_failures(losses: usize, new: usize) -> String {
    let verb = |count| if count == 1 { "does" } else { "do" };
    let lost = format!(
        "{} passed before and {} not pass now",
        format::count(losses, "case"),
        verb(losses)
    );
    let new_ones = format!("{} {} not pass", format::count(new, "new case"), verb(new));
    match (losses, new) {
        (_, 0) => lost,
        (0, _) => new_ones,
        _ => format!("{lost}, {new_ones}"),
    }
}

/// The reasons that make a pass of the gate worthless.
fn doubts(comparison: &Comparison, options: &GateOptions) -> Vec<GateReason> {
    let mut reasons = Vec::new();
    if !comparison.is_comparable() {
        reasons.push(reason(
            GateReasonKind::NothingComparable,
            "no case can be compared",
        ));
    }
    if comparison.is_same_run() {
        reasons.push(reason(
            GateReasonKind::SameRun,
            "A and B are the same run: nothing was tested since",
        ));
    }
    if let Some(unfinished) = &comparison.before.unfinished {
        let text = format!("the earlier run did not finish: {unfinished}");
        reasons.push(reason(GateReasonKind::UnfinishedBefore, text));
    }
    reasons.extend(changed_deciders(comparison, options));
    for metric in &comparison.metrics {
        if metric.lost > 0 {
            let text = format!(
                "{} has no score any more in {}",
                metric.metric,
                format::count(metric.lost, "case")
            );
            reasons.push(reason(GateReasonKind::LostScores, text));
        }
    }
    reasons
}

/// The reasons why another judge, grader or expectation stops the gate, unless that is allowed.
fn changed_deciders(comparison: &Comparison, options: &GateOptions) -> Vec<GateReason> {
    let mut reasons = Vec::new();
    for changed in &comparison.changed {
        let (kind, is_allowed, flag) = match changed.difference.decider {
            Decider::Expectation => (
                GateReasonKind::OtherExpectation,
                options.allow_changed_expectations,
                "--allow-changed-expectations",
            ),
            Decider::Judge | Decider::Grader => (
                GateReasonKind::OtherJudge,
                options.allow_changed_judges,
                "--allow-changed-judges",
            ),
        };
        if !is_allowed {
            let text = format!("{}; `{flag}` allows it", phrases::describe_changed(changed));
            reasons.push(reason(kind, text));
        }
    }
    let is_old_baseline = comparison.before.old_baseline || comparison.after.old_baseline;
    if comparison.counts.unknown_expectation > 0 && (is_old_baseline || !options.allow_changed_expectations) {
        let text = phrases::describe_unknown(comparison);
        reasons.push(reason(GateReasonKind::UnknownExpectation, text));
    }
    // Without identities, only the names of judges show that another one judged.
    let is_known = reasons
        .iter()
        .any(|reason| reason.kind == GateReasonKind::OtherJudge);
    for metric in comparison
        .metrics
        .iter()
        .filter(|_| !is_known && !options.allow_changed_judges)
    {
        if let Some(other) = &metric.other_judge {
            let cases = format::count(other.cases, "score");
            let text = format!(
                "{cases} of {} by another judge: {}",
                metric.metric,
                other.describe()
            );
            reasons.push(reason(GateReasonKind::OtherJudge, text));
        }
    }
    reasons
}

impl Comparison {
    /// Whether both sides are results of one run, such as a `latest` that is older than expected.
    pub(super) fn is_same_run(&self) -> bool {
        let same_file = self.before.path == self.after.path;
        same_file || self.before.run_id.is_some() && self.before.run_id == self.after.run_id
    }

    /// The exit code of the comparison.
    pub fn exit(&self) -> ExitCode {
        let gate = &self.gate;
        if gate.has(GateReasonKind::NothingComparable) {
            return ExitCode::Metric;
        }
        if gate.has(GateReasonKind::TooManyNewFailures) {
            return ExitCode::Failed;
        }
        match gate.result {
            _ if !gate.enabled => ExitCode::Passed,
            GateResult::Passed => ExitCode::Passed,
            GateResult::Failed => ExitCode::Failed,
            GateResult::NotComparable => ExitCode::Metric,
        }
    }
}
