//! Renders the summary of a run and the hints below it.

use std::{path::PathBuf, time::Duration};

use holodeck::{
    model::{NotRun, ReportHead},
    reports::format::{self, Tone},
};

use super::{
    case::{self, one_line},
    progress::Highlights,
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, paint, wrapped_hint},
    text,
};

/// The data of the summary of a run.
pub(crate) struct Summary<'a> {
    pub(crate) head: &'a ReportHead,
    pub(crate) highlights: &'a Highlights,
    pub(crate) took: Duration,
    /// The run file, then the requested reports.
    pub(crate) files: &'a [PathBuf],
    /// Planned cases without a result.
    pub(crate) not_run: &'a [NotRun],
}

/// How many cases without a result are named; the others are only counted.
const MAX_NAMED: usize = 10;

/// Whether the summary lists the failures; they may have been shown during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureList {
    Omit,
    Show,
}

/// The summary: totals, provenance, warnings, cost and files.
pub(crate) fn summary(run: &Summary<'_>, failures: FailureList, width: usize) -> String {
    let mut shown = String::new();
    if failures == FailureList::Show {
        let mut repeated_details = case::RepeatedDetails::default();
        for report in &run.highlights.failures {
            shown.push_str(&case::row(report, width));
            shown.push_str(&repeated_details.details(report, width));
            shown.push_str(&case::calls(report, width, false));
        }
        if run.highlights.more_failures > 0 {
            shown.push_str(&format!(
                "… and {} more that did not pass; see the report\n",
                run.highlights.more_failures
            ));
        }
        if !run.highlights.failures.is_empty() {
            shown.push('\n');
        }
    }
    shown.push_str(&totals(run, width));
    shown.push_str(&not_run(run, width));
    for line in run
        .head
        .provenance()
        .into_iter()
        .chain(format::doubts(&run.head.summary))
        .chain(format::loops(&run.head.summary))
    {
        shown.push_str(&one_line(&line));
        shown.push('\n');
    }
    for warning in &run.head.warnings {
        for line in text::wrap(&one_line(&format!("warning: {warning}")), width) {
            shown.push_str(&format!("{}\n", paint(DOUBTFUL, line)));
        }
    }
    let mut spent = format::usage(&run.head.summary);
    if !spent.is_empty() {
        spent.push_str(" · ");
    }
    let took = u64::try_from(run.took.as_millis()).unwrap_or(u64::MAX);
    spent.push_str(&format::duration(took));
    shown.push_str(&format!("{spent}\n"));
    for file in run.files {
        shown.push_str(&format!("{} {}\n", paint(DIM, "report  "), file.display()));
    }
    shown
}

/// `182 of 200 passed (91 %), 4 errors`.
fn totals(run: &Summary<'_>, width: usize) -> String {
    let style = match format::tone(run.head) {
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Doubtful => DOUBTFUL,
    };
    let mut shown = String::new();
    if let Some(early) = format::early(run.head) {
        shown.push_str(&format!("{}\n", paint(STRONG, early)));
    }
    for line in text::wrap(&format::totals(&run.head.summary), width) {
        shown.push_str(&format!("{}\n", paint(style.bold(), line)));
    }
    shown
}

/// `not run: refund policy, order status and 3 more`.
fn not_run(run: &Summary<'_>, width: usize) -> String {
    if run.not_run.is_empty() {
        return String::new();
    }
    let names: Vec<String> = run
        .not_run
        .iter()
        .take(MAX_NAMED)
        .map(|case| one_line(&case.label()))
        .collect();
    let mut line = format!("not run: {}", names.join(", "));
    if run.not_run.len() > MAX_NAMED {
        line.push_str(&format!(" and {} more", run.not_run.len() - MAX_NAMED));
    }
    let mut lines = text::wrap(&line, width).join("\n");
    lines.push('\n');
    lines
}

/// Hints about the next steps.
pub(crate) fn hints(run: &Summary<'_>, agent: &str, width: usize) -> String {
    let summary = &run.head.summary;
    let mut hints: Vec<String> = run.highlights.hints.iter().map(|hint| one_line(hint)).collect();
    let did_not_pass = summary.failed + summary.errors;
    if summary.not_run > 0 && run.head.regraded_from.is_some() {
        hints.push(format!("`holodeck test{agent}` requests the missing answers"));
    } else if summary.not_run > 0 {
        hints.push(format!(
            "`holodeck test resume {}{agent}` resumes where it stopped",
            run.head.run_id
        ));
    } else if did_not_pass > 0 {
        hints.push(format!(
            "`holodeck test{agent} --failed` runs {}",
            match did_not_pass {
                1 => "the case that did not pass".to_owned(),
                several => format!("the {several} that did not pass"),
            }
        ));
    }
    if run.highlights.judge_failed && run.head.replayed.is_none() {
        hints.push(format!(
            "`holodeck test regrade {}{agent} --errors` asks only the judges that failed, not the agent",
            run.head.run_id
        ));
    }
    if run.highlights.not_executed > 0 && run.highlights.hints.is_empty() {
        hints.push(if run.head.replayed.is_some() {
            format!("`holodeck test{agent} --live --record FILE` records what the recording lacks")
        } else {
            format!("`holodeck doctor{agent}` checks the endpoint and the credentials")
        });
    }
    if let Some(unchecked) = &run.highlights.unchecked {
        let name = one_line(unchecked);
        let (who, them) = match summary.unchecked {
            1 => (format!("case \"{name}\" checks nothing"), "it"),
            more => (
                format!("case \"{name}\" and {} more check nothing", more - 1),
                "them",
            ),
        };
        let ungated: Vec<String> = run
            .highlights
            .ungated
            .iter()
            .map(|name| format!("`{}`", one_line(name)))
            .collect();
        hints.push(if ungated.is_empty() {
            format!("{who}; give {them} `ground_truth` and a metric, or `expected_tools`")
        } else {
            format!("{who}: give {} a `threshold`", ungated.join(", "))
        });
    }
    let mut shown = String::new();
    for text in &hints {
        shown.push_str(&wrapped_hint(text, width));
    }
    if !shown.is_empty() {
        shown.insert(0, '\n');
    }
    shown
}
