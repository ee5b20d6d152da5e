//! Renders what a quality loop did.

use holodeck::{
    model::LoopSummary,
    orchestrator::{LoopReplay, LoopReport, shown_points},
    reports::format,
};

/// `61.0 → 74.5 → 88.0`; where there was no valid score, `0.0 (invalid)`.
fn scores(scores: impl IntoIterator<Item = (f64, bool)>) -> String {
    let scores: Vec<String> = scores
        .into_iter()
        .map(|(score, is_invalid)| {
            let mark = if is_invalid { " (invalid)" } else { "" };
            format!("{}{mark}", shown_points(score))
        })
        .collect();
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
        scores(recorded(report)),
        report.termination_reason.as_str(),
        report.iterations.len(),
        report.rules.max_iterations,
    );
    let mut text = line;
    for record in report.iterations.iter().filter(|record| record.score_invalid) {
        let number = record.iteration.saturating_add(1);
        let reason = record.invalid_reason.as_deref().unwrap_or("there is none");
        let reason = format::one_line(reason, 400);
        text.push_str(&format!(
            "            answer {number} has no valid score, which counts as 0: {reason}\n"
        ));
    }
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

/// The scores of a loop, and whether each is none.
fn recorded(report: &LoopReport) -> impl Iterator<Item = (f64, bool)> + '_ {
    let records = report.iterations.iter();
    records.map(|record| (record.output_quality, record.score_invalid))
}

/// Renders the loop around a test case.
pub(crate) fn loop_summary(summary: &LoopSummary) -> String {
    let count = format::count(summary.scores.len(), "iteration");
    let mut text = format!(
        "loop {}, {} after {count}",
        scores(
            (0_u32..)
                .zip(&summary.scores)
                .map(|(answer, score)| { (*score, summary.invalid_scores.contains(&answer)) })
        ),
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
pub(crate) fn loop_replay(stored: &LoopReplay, replayed: &LoopReplay, has_ended: bool) -> String {
    let end = |replay: &LoopReplay, open: &str| {
        let count = replay.iterations.len();
        match replay.termination_reason {
            Some(reason) => format!(
                "{} after {count} of {}",
                reason.as_str(),
                replay.rules.max_iterations
            ),
            None => format!("{open} after {}", format::count(count, "iteration")),
        }
    };
    let shown = |replay: &LoopReplay| {
        let iterations = replay.iterations.iter();
        scores(iterations.map(|iteration| (iteration.score, iteration.score_invalid)))
    };
    let (recorded, again) = (shown(stored), shown(replayed));
    let width = recorded.chars().count().max(again.chars().count());
    let row = |what: &str, scores: &str, end: String| format!("{what}  {scores:width$}   {end}\n");
    let mut text = row(
        "recorded",
        &recorded,
        if has_ended {
            end(stored, "ended")
        } else {
            format!(
                "not ended: the record ends after {}",
                format::count(stored.iterations.len(), "iteration")
            )
        },
    );
    text.push_str(&row(
        "replayed",
        &again,
        end(replayed, "would continue: the record ends"),
    ));
    if let (Some(index), Some(score)) = (replayed.returned, replayed.score) {
        let met = if replayed.passed { "meets" } else { "below" };
        let score = if replayed.score_invalid {
            "no valid score".to_owned()
        } else {
            shown_points(score)
        };
        text.push_str(&format!(
            "returned  answer {} with {score}, {met} the threshold of {}\n",
            index.saturating_add(1),
            replayed.rules.threshold
        ));
    }
    text
}
