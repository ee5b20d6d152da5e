use std::{path::PathBuf, time::Duration};

use holodeck::{
    model::{NotRun, ReportHead},
    runner::{words, words::Tone},
};

use super::{
    case::{self, one_line},
    progress::Kept,
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, hint, paint},
    text,
};

/// A finished run, as its end tells it.
pub(crate) struct Summary<'a> {
    pub(crate) head: &'a ReportHead,
    pub(crate) kept: &'a Kept,
    pub(crate) took: Duration,
    /// The run file, then the reports that were asked for.
    pub(crate) files: &'a [PathBuf],
    /// Planned cases without a result.
    pub(crate) not_run: &'a [NotRun],
}

/// Cases without a result that are named; of the others their number.
const NAMED: usize = 10;

/// Whether the failures were seen already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failures {
    Seen,
    ToTell,
}

/// What one pastes into a pull request.
pub(crate) fn summary(run: &Summary<'_>, failures: Failures, width: usize) -> String {
    let mut shown = String::new();
    if failures == Failures::ToTell {
        let mut above = case::Above::default();
        for result in &run.kept.failures {
            shown.push_str(&case::row(result, width));
            shown.push_str(&above.details(result, width));
        }
        if run.kept.more_failures > 0 {
            shown.push_str(&format!(
                "… and {} more that did not pass; the report has them\n",
                run.kept.more_failures
            ));
        }
        if !run.kept.failures.is_empty() {
            shown.push('\n');
        }
    }
    shown.push_str(&totals(run, width));
    shown.push_str(&not_run(run, width));
    for line in run
        .head
        .provenance()
        .into_iter()
        .chain(words::truncated(&run.head.summary))
    {
        shown.push_str(&one_line(&line));
        shown.push('\n');
    }
    for warning in &run.head.warnings {
        for line in text::wrap(&one_line(&format!("warning: {warning}")), width) {
            shown.push_str(&format!("{}\n", paint(DOUBTFUL, line)));
        }
    }
    let mut spent = words::spent(&run.head.summary);
    if !spent.is_empty() {
        spent.push_str(" · ");
    }
    let took = u64::try_from(run.took.as_millis()).unwrap_or(u64::MAX);
    spent.push_str(&words::duration(took));
    shown.push_str(&format!("{spent}\n"));
    for file in run.files {
        shown.push_str(&format!("{} {}\n", paint(DIM, "report  "), file.display()));
    }
    shown
}

/// `12 cases: 9 passed, 1 failed        82 % of 11 checked`, on two lines where one is too narrow.
fn totals(run: &Summary<'_>, width: usize) -> String {
    let summary = &run.head.summary;
    let style = match words::tone(run.head) {
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Doubtful => DOUBTFUL,
    };
    let left = format!(
        "{}: {}",
        words::count(words::planned(summary), "case"),
        words::states(summary)
    );
    let rate = words::pass_rate(summary);
    let gap = "        ";
    let line = if text::width(&left) + gap.len() + text::width(&rate) <= width {
        format!("{}{gap}{rate}\n", paint(style.bold(), &left))
    } else {
        format!("{}\n{rate}\n", paint(style.bold(), &left))
    };
    let Some(early) = words::early(run.head) else {
        return line;
    };
    format!("{}\n{line}", paint(STRONG, early))
}

/// `not run: refund policy, order status and 3 more`.
fn not_run(run: &Summary<'_>, width: usize) -> String {
    if run.not_run.is_empty() {
        return String::new();
    }
    let names: Vec<String> = run
        .not_run
        .iter()
        .take(NAMED)
        .map(|case| one_line(&case.label()))
        .collect();
    let mut line = format!("not run: {}", names.join(", "));
    if run.not_run.len() > NAMED {
        line.push_str(&format!(" and {} more", run.not_run.len() - NAMED));
    }
    let mut lines = text::wrap(&line, width).join("\n");
    lines.push('\n');
    lines
}

/// What one can do next.
pub(crate) fn hints(run: &Summary<'_>, agent: &str) -> String {
    let summary = &run.head.summary;
    let mut hints: Vec<String> = run.kept.hints.iter().map(|hint| one_line(hint)).collect();
    let did_not_pass = summary.failed + summary.errors;
    if summary.not_run > 0 && run.head.regraded_from.is_some() {
        hints.push(format!(
            "`holodeck test{agent}` asks for the answers that are missing"
        ));
    } else if summary.not_run > 0 {
        hints.push(format!(
            "`holodeck test resume {}{agent}` resumes where it stopped",
            run.head.run_id
        ));
    } else if did_not_pass > 0 {
        hints.push(format!(
            "`holodeck test{agent} --failed` runs the {did_not_pass} that did not pass"
        ));
    }
    if run.kept.not_carried_out > 0 && run.kept.hints.is_empty() {
        hints.push(if run.head.replayed.is_some() {
            format!("`holodeck test{agent} --live --record FILE` records what the recording lacks")
        } else {
            format!("`holodeck doctor{agent}` looks at the endpoint and the credentials")
        });
    }
    if let Some(unchecked) = &run.kept.unchecked {
        let who = match summary.unchecked {
            1 => format!("case \"{}\" checks nothing; give it", one_line(unchecked)),
            more => format!(
                "case \"{}\" and {} more check nothing; give them",
                one_line(unchecked),
                more - 1
            ),
        };
        hints.push(format!("{who} `ground_truth` and a metric, or `expected_tools`"));
    }
    let mut shown = String::new();
    for one in &hints {
        shown.push_str(&hint(one));
    }
    if !shown.is_empty() {
        shown.insert(0, '\n');
    }
    shown
}
