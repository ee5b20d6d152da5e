//! Renders one case: its row, its reasons, its scores and its tool calls.

use anstyle::Style;
use holodeck::{
    model::{CaseState, MetricResult},
    reports::{DiffLine, DiffSide, explain, explain_in_a_line, format},
    runs::CaseReport,
};

use super::{
    quality::loop_summary,
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, paint},
    text::{cut, fit, right, width as columns_of, wrap},
};

/// Limits of what is shown; the report has the full texts.
const REASON_CHARS: usize = 600;
const DIFF_LINES: usize = 12;
const LINE_CHARS: usize = 400;
const QUESTION_CHARS: usize = 300;

/// The mark of a state, distinguishable without colour.
pub(super) fn mark(state: CaseState) -> (&'static str, Style) {
    match state {
        CaseState::Passed => ("✓", GOOD),
        CaseState::Failed => ("✗", BAD),
        CaseState::Error => ("!", DOUBTFUL),
        CaseState::Unchecked => ("–", DIM),
        CaseState::Flaky => ("≈", BAD),
    }
}

/// One case in columns: mark, name, time, tokens, cost.
pub(super) fn row(case: &CaseReport, width: usize) -> String {
    const TIME: usize = 9;
    const TOKENS: usize = 14;
    const COST: usize = 9;
    let name_width = width.saturating_sub(2 + TIME + TOKENS + COST).clamp(10, 40);
    let (mark, style) = mark(case.state());
    let label = one_line(&case.label());
    let tokens = case
        .spent()
        .tokens
        .map_or_else(String::new, |usage| format::count_tokens(usage.total_tokens));
    let cost = case.spent().cost_usd.map(format::cost).unwrap_or_default();
    let numbers = format!(
        "{}{}{}",
        right(&format::duration(case.elapsed_ms()), TIME),
        right(&tokens, TOKENS),
        right(&cost, COST)
    );
    let mut row = format!(
        "{} {}{}\n",
        paint(style, mark),
        fit(&label, name_width),
        paint(DIM, format!("{}{}", numbers.trim_end(), passed_trials(case)))
    );
    if let Some(executors) = format::executors(case) {
        for line in wrap(&one_line(&executors), width.saturating_sub(4)) {
            row.push_str(&format!("    {}\n", paint(DIM, line)));
        }
    }
    if let Some(quality) = case.quality_loop() {
        for line in wrap(&loop_summary(quality), width.saturating_sub(4)) {
            row.push_str(&format!("    {}\n", paint(DIM, line)));
        }
    }
    row
}

/// `  9/10 passed` for a case that ran several times. If it did not pass, its reasons say more.
fn passed_trials(case: &CaseReport) -> String {
    let trials = case.trials.as_ref().filter(|_| !case.is_failure());
    trials.map_or_else(String::new, |trials| {
        format!("  {}/{} passed", trials.passed, trials.counted())
    })
}

/// Why a case did not pass, indented.
fn details(case: &CaseReport, width: usize) -> String {
    let columns = Columns::of_case(case, width);
    let mut text = String::new();
    for explanation in explain(case) {
        let turn = explanation.turn.map(|turn| format!("turn {turn}"));
        if let Some(turn) = &turn {
            text.push_str(&format!("    {turn}\n"));
        }
        for reason in &explanation.reasons {
            text.push_str(&columns.row(&reason.what, &reason.text));
        }
        if let Some(difference) = &explanation.difference {
            let lines = difference.lines();
            for line in lines.iter().take(DIFF_LINES) {
                text.push_str(&diff_line(line, width));
            }
            if lines.len() > DIFF_LINES {
                let more = format!("… {} more lines", lines.len() - DIFF_LINES);
                text.push_str(&format!("      {}\n", paint(DIM, more)));
            }
        }
    }
    text
}

/// The question of a case that did not pass; of a conversation with a simulated user nothing.
fn question(case: &CaseReport, width: usize) -> String {
    if !case.is_failure() || format::conversation_end(case).is_some() {
        return String::new();
    }
    let question = one_line(&case.question());
    Columns::of_case(case, width).row(
        "question",
        &format::clip(&question, QUESTION_CHARS).replace('\n', " "),
    )
}

/// The question of a case that did not pass, and every reason.
pub(super) fn reasons(case: &CaseReport, width: usize) -> String {
    question(case, width) + &details(case, width)
}

/// Renders equal reasons of consecutive cases only once: an endpoint that is down fails every case alike.
#[derive(Debug, Default)]
pub(super) struct RepeatedDetails(String);

impl RepeatedDetails {
    pub(super) fn details(&mut self, case: &CaseReport, width: usize) -> String {
        let details = details(case, width);
        if details.lines().count() > 1 && details == self.0 {
            return format!("    {}\n", paint(DIM, "as above"));
        }
        self.0.clone_from(&details);
        question(case, width) + &details
    }
}

/// Scores of the metrics that did not fail, for verbose output.
pub(super) fn scores(case: &CaseReport, width: usize) -> String {
    let columns = Columns::of_case(case, width);
    let mut text = String::new();
    for metric in case.metrics().iter() {
        let Some(score) = metric.score else {
            if metric.skipped {
                text.push_str(&columns.row(&metric.label(), format::SKIPPED));
            }
            continue;
        };
        if metric.passed == Some(false) {
            continue;
        }
        let (score, needs) = format::score(score, metric.threshold);
        let needs = needs.map_or_else(String::new, |needs| format!(", needs {needs}"));
        let gated = if metric.passed.is_none() {
            ", not gated"
        } else {
            ""
        };
        let reason = metric
            .reasoning
            .as_deref()
            .map(|reason| format::one_line(reason, 200));
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        text.push_str(&columns.row(&metric.label(), &format!("{score}{needs}{gated}{reason}")));
    }
    text
}

/// The messages of a conversation with a simulated user and how it ended, for verbose output.
pub(super) fn conversation(case: &CaseReport, width: usize) -> String {
    let Some(end) = format::conversation_end(case) else {
        return String::new();
    };
    let columns = Columns::of_case(case, width);
    let mut text = String::new();
    for turn in case.turns() {
        text.push_str(&columns.row("user", &turn.record.input));
        text.push_str(&columns.row("agent", turn.answer().unwrap_or("(no answer)")));
    }
    text.push_str(&columns.row("conversation", &end));
    text
}

/// The tool calls of a case with result and time: all, or only those that failed, which may not affect the verdict.
pub(super) fn calls(case: &CaseReport, width: usize, all: bool) -> String {
    let columns = Columns::of_case(case, width);
    let calls = case.calls().filter(|call| all || call.error().is_some());
    let lines = calls.map(|call| {
        let what = format!("tool {}", call.call.name);
        columns.row(&what, &format::call_result(&call))
    });
    lines.collect()
}

/// The case in one line without its end, for output that is not a terminal.
pub(super) fn plain(case: &CaseReport, finished: usize, total: usize) -> String {
    let word = match case.state() {
        CaseState::Passed => "PASS",
        CaseState::Failed => "FAIL",
        CaseState::Error => "ERROR",
        CaseState::Unchecked => "UNCHECKED",
        CaseState::Flaky => "FLAKY",
    };
    let number = right(&finished.to_string(), total.to_string().len());
    let label = one_line(&case.label());
    let time = format::duration(case.elapsed_ms());
    let mut line = format!(
        "[{number}/{total}] {word} {label} ({time}){}",
        passed_trials(case)
    );
    if let Some(executors) = format::executors(case) {
        line.push_str(&format!(" [{}]", one_line(&executors)));
    }
    if let Some(quality) = case.quality_loop() {
        line.push_str(&format!(" [{}]", loop_summary(quality)));
    }
    line
}

/// The reason of the state of a case, after its line; empty if there is none.
pub(super) fn reason(case: &CaseReport) -> String {
    let why = explain_in_a_line(case);
    if why.is_empty() {
        return why;
    }
    let why = format::clip(&one_line(&why), LINE_CHARS).replace('\n', " ");
    format!(": {why}")
}

/// A text on one line, without control characters.
pub(super) fn one_line(text: &str) -> String {
    format::printable(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Two columns, as wide as their labels need.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    what: usize,
    width: usize,
}

impl Columns {
    const INDENT: usize = 4;
    /// The usual width of the first column.
    const WHAT: usize = 17;
    /// The greatest width of the first column. Longer labels are cut.
    const MAX_WHAT: usize = 41;

    /// Columns for rows with these labels. The first column takes at most half of the width.
    pub(super) fn of<'a>(labels: impl IntoIterator<Item = &'a str>, width: usize) -> Self {
        let widest = labels.into_iter().map(columns_of).max().unwrap_or(0);
        Self {
            what: (widest + 1).clamp(Self::WHAT, Self::most(width)),
            width,
        }
    }

    fn most(width: usize) -> usize {
        (width / 2).clamp(Self::WHAT, Self::MAX_WHAT)
    }

    /// The columns of everything below a case, in which its metrics have the longest labels.
    fn of_case(case: &CaseReport, width: usize) -> Self {
        let metrics = case.metrics();
        let labels: Vec<_> = metrics.iter().map(MetricResult::label).collect();
        Self::of(labels.iter().map(AsRef::as_ref), width)
    }

    /// `    what            text`, the text wrapped under itself.
    pub(super) fn row(self, what: &str, text: &str) -> String {
        self.whole_row(what, &format::clip(text, REASON_CHARS))
    }

    /// The same with the whole text.
    fn whole_row(self, what: &str, text: &str) -> String {
        let text = format::printable(text);
        let indent = if what.is_empty() {
            Self::INDENT
        } else {
            Self::INDENT + self.what
        };
        let mut shown = String::new();
        for (number, line) in wrap(&text, self.width.saturating_sub(indent)).iter().enumerate() {
            let head = if number == 0 && !what.is_empty() {
                let what = if columns_of(what) < self.what {
                    fit(what, self.what)
                } else {
                    format!("{} ", cut(what, Self::most(self.width) - 1))
                };
                format!("{}{}", " ".repeat(Self::INDENT), paint(STRONG, what))
            } else {
                " ".repeat(indent)
            };
            shown.push_str(&format!("{head}{line}\n"));
        }
        shown
    }
}

/// A row of a transcript, with the whole text.
pub(super) fn whole_row(what: &str, text: &str, width: usize) -> String {
    Columns::of([], width).whole_row(what, text)
}

/// A row of a table whose labels are all short.
pub(super) fn in_columns(what: &str, text: &str, width: usize) -> String {
    Columns::of([], width).row(what, text)
}

/// `    expected  text`, the text wrapped under itself.
fn diff_line(line: &DiffLine, width: usize) -> String {
    let style = match line.side {
        DiffSide::Expected => GOOD,
        DiffSide::Got => BAD,
        DiffSide::Both => DIM,
    };
    let clipped = format::clip(&line.text, LINE_CHARS);
    let mut shown = String::new();
    for (number, part) in wrap(&clipped, width.saturating_sub(14)).into_iter().enumerate() {
        let side = if number == 0 { line.side } else { DiffSide::Both };
        let text = DiffLine { side, text: part }.labelled();
        shown.push_str(&format!("    {}\n", paint(style, text.trim_end())));
    }
    shown
}
