//! The sentences of a comparison, the same in the terminal and in every report.

use super::{
    ChangeKind, ChangedDecider, Comparison, MetricTest, Outcome, RunInfo, RunKind, TestMethod, VerdictTest,
};
use crate::format;

/// Below this number of pairs, a report explains what a small set can show.
const SMALL_SET: usize = 30;

/// Notes that a reader needs to interpret the numbers.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let Comparison {
        before,
        after,
        counts,
        metrics,
        ..
    } = comparison;
    let mut notes = Vec::new();
    if comparison.is_same_run() {
        notes.push("both are the same run".to_owned());
    }
    if before.agent_name != after.agent_name {
        notes.push(format!(
            "different agents: `{}` before, `{}` now",
            before.agent_name, after.agent_name
        ));
    }
    for (info, which) in [(before, "earlier"), (after, "later")] {
        if let Some(unfinished) = &info.unfinished {
            notes.push(format!("the {which} run did not finish: {unfinished}"));
        }
    }
    if counts.other_question > 0 {
        notes.push(format!(
            "{} paired by name ask something else than before",
            format::count(counts.other_question, "case")
        ));
    }
    notes.extend(describe_agent_changes(&comparison.agent_changes));
    for changed in &comparison.changed {
        notes.push(describe_changed(changed));
    }
    let not_tested = [
        (counts.other_expectation, "something else is expected of them now"),
        (counts.other_judge, "another judge or grader program decides now"),
    ];
    for (cases, why) in not_tested.into_iter().filter(|(cases, _)| *cases > 0) {
        notes.push(format!(
            "passes and failures of {} are not compared: {why}",
            format::count(cases, "case")
        ));
    }
    if counts.unknown_expectation > 0 {
        notes.push(describe_unknown(comparison));
    }
    if counts.pairs > 0 && counts.same_answer == counts.pairs {
        notes.push("every answer and every tool call is the same as before".to_owned());
    }
    for metric in metrics {
        notes.extend(metric_notes(metric));
    }
    notes
}

/// `the agent changed: instructions, model`.
pub(super) fn describe_agent_changes(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| format!("the agent changed: {}", parts.join(", ")))
}

/// `the expectation "contains" changed in 3 cases`.
pub(super) fn describe_changed(changed: &ChangedDecider) -> String {
    format!(
        "{} changed in {}",
        changed.difference,
        format::count(changed.cases, "case")
    )
}

/// Why it is not known whether the same was expected, and what to do about it.
pub(super) fn describe_unknown(comparison: &Comparison) -> String {
    let cases = format::count(comparison.counts.unknown_expectation, "case");
    let hint = if comparison.before.old_baseline || comparison.after.old_baseline {
        "a baseline of format 1 does not record it; save it again with `--save-baseline`"
    } else {
        "not both files record it"
    };
    format!("whether the same was expected of {cases}, and the same judges decided, is not known: {hint}")
}

fn metric_notes(metric: &MetricTest) -> Vec<String> {
    let name = &metric.metric;
    let mut notes = Vec::new();
    if let Some(other) = &metric.other_judge {
        notes.push(format!(
            "{name}: {} not compared, because the judges or programs differ: {}",
            format::count(other.cases, "score"),
            other.describe()
        ));
    }
    if metric.lost > 0 {
        notes.push(format!(
            "{name}: {} without a score now",
            format::count(metric.lost, "case")
        ));
    }
    if metric.other_expectation > 0 {
        notes.push(format!(
            "{name}: {} not compared, because the check expects something else now",
            format::count(metric.other_expectation, "score")
        ));
    }
    notes
}

/// `run 20261121T201103000-abcdef, support, openai gpt-4o, 2026-11-21: 182 passed, 14 failed`.
pub fn describe_run(run: &RunInfo) -> String {
    let origin = match (run.kind, &run.run_id) {
        (RunKind::Baseline, _) => format!("baseline `{}`", file_name(run)),
        (RunKind::Original, _) => format!("HoloDeck 0.7 run `{}`", file_name(run)),
        (_, Some(id)) => format!("run {id}"),
        (_, None) => format!("`{}`", file_name(run)),
    };
    let date = run.at.split('T').next().unwrap_or_default().to_owned();
    let parts = [
        Some(origin),
        Some(run.agent_name.clone()),
        run.model.clone(),
        Some(date),
    ];
    let parts = parts.into_iter().flatten().chain(run.provenance.iter().cloned());
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    let states = ["passed", "failed", "flaky", "error", "unchecked", "not run"];
    let states = states
        .iter()
        .filter_map(|state| Some(format!("{} {state}", run.states.get(state)?)));
    let states: Vec<String> = states.collect();
    let states = if states.is_empty() {
        "no cases".to_owned()
    } else {
        states.join(", ")
    };
    format!("{}: {states}", parts.join(", "))
}

fn file_name(run: &RunInfo) -> String {
    let name = run.path.file_name().unwrap_or(run.path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// `passed`, or `failed, 3 of 5 trials passed`.
pub fn describe_side(side: &super::CaseSide) -> String {
    match side.trials {
        None => side.state.to_owned(),
        Some(trials) => {
            let errors = match trials.errors {
                0 => String::new(),
                errors => format!(", {errors} without a verdict"),
            };
            format!(
                "{}, {} of {} trials passed{errors}",
                side.state, trials.passed, trials.judged
            )
        }
    }
}

/// `12 cases: 2 newly failing, 1 newly passing, 1 new error`.
pub fn headline(comparison: &Comparison) -> String {
    let counts = &comparison.counts;
    let plural = |number: usize, one: &str, many: &str| {
        (number > 0).then(|| format!("{number} {}", if number == 1 { one } else { many }))
    };
    let parts = [
        plural(counts.newly_failing, "newly failing", "newly failing"),
        plural(counts.new_errors, "new error", "new errors"),
        plural(counts.no_longer_checked, "no longer checked", "no longer checked"),
        plural(counts.missing, "missing", "missing"),
        plural(counts.newly_passing, "newly passing", "newly passing"),
        plural(
            counts.other_expectation,
            "with another expectation",
            "with another expectation",
        ),
        plural(counts.other_judge, "judged by another", "judged by another"),
        plural(counts.first_verdicts, "now with a verdict", "now with a verdict"),
        plural(counts.added, "new case", "new cases"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let parts = if parts.is_empty() {
        "no verdict changed".to_owned()
    } else {
        parts.join(", ")
    };
    format!("{} in both: {parts}", comparison.paired())
}

/// The test of passes and failures, in sentences.
pub fn describe_verdicts(test: &VerdictTest, alpha: f64) -> Vec<String> {
    let (Some(before), Some(after)) = (test.rate_before, test.rate_after) else {
        return vec!["no case has a comparable verdict in both runs".to_owned()];
    };
    let mut lines = Vec::new();
    let rates = format!(
        "{} → {} of {} passed",
        percent(before),
        percent(after),
        format::count(test.pairs, "case")
    );
    let result = outcome(test.outcome);
    match test.method {
        TestMethod::Mcnemar => lines.push(format!(
            "{rates}: {result} (exact McNemar, {} against {}, p = {})",
            test.newly_failing,
            test.newly_passing,
            p_value(test.p_value)
        )),
        TestMethod::Bootstrap => {
            let interval = test
                .interval
                .map(|[low, high]| format!("change {} to {}, ", signed_percent(low), signed_percent(high)));
            lines.push(format!(
                "{rates}: {result} (paired bootstrap of pass rates, {}p = {})",
                interval.unwrap_or_default(),
                p_value(test.p_value)
            ));
        }
    }
    lines.extend(power_of_verdicts(test, alpha));
    lines
}

/// The smallest change that these pairs could have shown.
fn power_of_verdicts(test: &VerdictTest, alpha: f64) -> Option<String> {
    let cases = format::count(test.pairs, "case");
    let small = || {
        format!(
            "at {alpha}, at least {} cases must change in one direction; {cases} cannot show a regression, so \
             limit new failures with `--max-new-failures`",
            test.needed
        )
    };
    match (test.method, test.smallest_drop) {
        (TestMethod::Mcnemar, None) => Some(small()),
        (TestMethod::Mcnemar, Some(drop)) => Some(format!(
            "at {alpha}, at least {} cases must change in one direction: a drop of less than {} of {cases} cannot be \
             significant{}",
            test.needed,
            percent(drop),
            if test.pairs < SMALL_SET {
                "; `--max-new-failures` limits smaller ones"
            } else {
                ""
            }
        )),
        (TestMethod::Bootstrap, None) if (test.pairs as u64) < test.needed => Some(small()),
        (TestMethod::Bootstrap, None) => None,
        (TestMethod::Bootstrap, Some(drop)) => Some(format!(
            "{cases} show a drop of {} with a probability of 80 %",
            percent(drop)
        )),
    }
}

/// The test of a metric, in one sentence.
pub fn describe_metric(test: &MetricTest) -> String {
    let (Some(before), Some(after)) = (test.mean_before, test.mean_after) else {
        return "not tested: no score of the same check by the same judge in both runs".to_owned();
    };
    let scores = format!(
        "{before:.3} → {after:.3} in {}",
        format::count(test.pairs, "case")
    );
    let Some(p) = test.p_value else {
        return format!("{scores}: not tested, too few cases");
    };
    let interval = test
        .interval
        .map(|[low, high]| format!("change {low:+.3} to {high:+.3}, "))
        .unwrap_or_default();
    let adjusted = match test.p_adjusted {
        Some(adjusted) if adjusted > p => format!(", {} after Holm", p_value(Some(adjusted))),
        _ => String::new(),
    };
    let drop = test
        .smallest_drop
        .map(|drop| format!("; detectable drop {drop:.3}"))
        .unwrap_or_default();
    format!(
        "{scores}: {} ({interval}p = {}{adjusted}{drop})",
        outcome(test.outcome),
        p_value(Some(p))
    )
}

pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Worse => "significantly worse",
        Outcome::Better => "significantly better",
        Outcome::Unclear => "no significant change",
        Outcome::NotTested => "not tested",
    }
}

/// The CSS class of a changed case.
pub(super) fn class(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::NewlyFailing => "failed",
        ChangeKind::NewError | ChangeKind::NoLongerChecked => "error",
        ChangeKind::NewlyPassing => "passed",
        ChangeKind::OtherExpectation | ChangeKind::OtherJudge | ChangeKind::FirstVerdict => "unchecked",
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// `0.031`, `0.0004`, `< 0.0001`.
fn p_value(p: Option<f64>) -> String {
    match p {
        None => "unknown".to_owned(),
        Some(p) if p < 0.0001 => "< 0.0001".to_owned(),
        Some(p) if p < 0.001 => format!("{p:.4}"),
        Some(p) => format!("{p:.3}"),
    }
}
