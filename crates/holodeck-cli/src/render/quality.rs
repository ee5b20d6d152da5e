//! Renders what a quality loop did.

use holodeck::{
    model::{LoopSummary, TerminationReason},
    orchestrator::{LoopReplay, LoopReport},
    reports::format,
};

/// `61.0 → 74.5 → 88.0`
fn scores(scores: impl IntoIterator<Item = f64>) -> String {
    let scores: Vec<String> = scores.into_iter().map(|score| format!("{score:.1}")).collect();
    if scores.is_empty() {
        "not scored".to_owned()
    } else {
        scores.join(" → ")
    }
}

/// `loop      61.0 → 74.5 → 88.0   threshold_met after 3 of 5`
pub(crate) fn loop_report(report: &LoopReport) -> String {
    let line = format!(
        "loop      {}   {} after {} of {}\n",
        scores(report.iterations.iter().map(|record| record.output_quality)),
        report.termination_reason.as_str(),
        report.iterations.len(),
        report.rules.max_iterations,
    );
    let mut text = line;
    let errors = report.scorer_error.iter().chain(&report.execution_error);
    for error in errors {
        text.push_str(&format!("            {}\n", format::one_line(error, 400)));
    }
    if report.repeated_side_effects > 0 {
        text.push_str(&format!(
            "            {}\n",
            repeated(report.repeated_side_effects)
        ));
    }
    text
}

/// Renders the loop around a test case.
pub(crate) fn loop_summary(summary: &LoopSummary) -> String {
    let count = format::count(summary.scores.len(), "iteration");
    let mut text = format!(
        "loop {}, {} after {count}",
        scores(summary.scores.iter().copied()),
        summary.termination_reason.as_str()
    );
    if let Some(gain) = summary.gain().filter(|_| summary.scores.len() > 1) {
        text.push_str(&format!(", {gain:+.1} points"));
        if let Some(cost) = summary.cost_usd {
            text.push_str(&format!(" for {}", format::cost(cost)));
        }
    }
    if summary.repeated_side_effects > 0 {
        text.push_str(&format!("; {}", repeated(summary.repeated_side_effects)));
    }
    text
}

fn repeated(answers: u32) -> String {
    let count = format::count(usize::try_from(answers).unwrap_or(usize::MAX), "further answer");
    format!("{count} called tools that may change something")
}

/// Renders the result of a stored loop, and its result with other rules.
pub(crate) fn loop_replay(report: &LoopReport, replayed: &LoopReplay) -> String {
    let end = |reason: Option<&str>, count: usize, of: u32| match reason {
        Some(reason) => format!("{reason} after {count} of {of}"),
        None => format!(
            "would continue: the record ends after {}",
            format::count(count, "iteration")
        ),
    };
    let recorded = scores(report.iterations.iter().map(|record| record.output_quality));
    let again = scores(replayed.iterations.iter().map(|iteration| iteration.score));
    let width = recorded.chars().count().max(again.chars().count());
    let row = |what: &str, scores: &str, end: String| format!("{what}  {scores:width$}   {end}\n");
    let mut text = row(
        "recorded",
        &recorded,
        end(
            Some(report.termination_reason.as_str()),
            report.iterations.len(),
            report.rules.max_iterations,
        ),
    );
    text.push_str(&row(
        "replayed",
        &again,
        end(
            replayed.termination_reason.map(TerminationReason::as_str),
            replayed.iterations.len(),
            replayed.rules.max_iterations,
        ),
    ));
    if let (Some(index), Some(score)) = (replayed.returned, replayed.score) {
        let met = if replayed.passed { "meets" } else { "below" };
        text.push_str(&format!(
            "returned  answer {} with {score:.1}, {met} the threshold of {}\n",
            index.saturating_add(1),
            replayed.rules.threshold
        ));
    }
    text
}
