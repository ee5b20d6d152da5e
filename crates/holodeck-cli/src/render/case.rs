use anstyle::Style;
use holodeck::{
    model::{CaseState, TestResult},
    runner::{explain, explain_in_a_line, words},
};

use super::{
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, paint},
    text::{cut, fit, right, wrap},
};

/// A person looks at these; the report has them whole.
const REASON_CHARS: usize = 600;
const DIFF_LINES: usize = 12;
const LINE_CHARS: usize = 400;

/// The mark of a state: a shape, so that colour only adds.
pub(super) fn mark(state: CaseState) -> (&'static str, Style) {
    match state {
        CaseState::Passed => ("✓", GOOD),
        CaseState::Failed => ("✗", BAD),
        CaseState::Error => ("!", DOUBTFUL),
        CaseState::Unchecked => ("–", DIM),
    }
}

/// One case in columns: mark, name, time, tokens, cost.
pub(super) fn row(result: &TestResult, width: usize) -> String {
    const TIME: usize = 9;
    const TOKENS: usize = 14;
    const COST: usize = 9;
    let name_width = width.saturating_sub(2 + TIME + TOKENS + COST).clamp(10, 40);
    let (mark, style) = mark(result.state);
    let label = one_line(&result.label());
    let tokens = result.token_usage.map_or_else(String::new, |usage| {
        format!("{} tokens", words::tokens(usage.total_tokens))
    });
    let cost = result.cost_usd.map(words::cost).unwrap_or_default();
    let numbers = format!(
        "{}{}{}",
        right(&words::duration(result.execution_time_ms), TIME),
        right(&tokens, TOKENS),
        right(&cost, COST)
    );
    format!(
        "{} {}{}\n",
        paint(style, mark),
        fit(&label, name_width),
        paint(DIM, numbers.trim_end())
    )
}

/// Why a case is not a pass, indented.
fn details(result: &TestResult, width: usize) -> String {
    let mut text = String::new();
    for explanation in explain(result) {
        let turn = explanation.turn.map(|turn| format!("turn {turn}"));
        if let Some(turn) = &turn {
            text.push_str(&format!("    {turn}\n"));
        }
        for reason in &explanation.reasons {
            text.push_str(&in_columns(&reason.what, &reason.text, width));
        }
        if let Some(difference) = &explanation.difference {
            let lines = difference.lines();
            for line in lines.iter().take(DIFF_LINES) {
                text.push_str(&diff_line(line.sign, &line.text, width));
            }
            if lines.len() > DIFF_LINES {
                let more = format!("… {} more lines", lines.len() - DIFF_LINES);
                text.push_str(&format!("      {}\n", paint(DIM, more)));
            }
        }
    }
    text
}

/// Tells the same reasons only once: an endpoint that is down fails every case alike.
#[derive(Debug, Default)]
pub(super) struct Above(String);

impl Above {
    pub(super) fn details(&mut self, result: &TestResult, width: usize) -> String {
        let details = details(result, width);
        if details.lines().count() > 1 && details == self.0 {
            return format!("    {}\n", paint(DIM, "as above"));
        }
        self.0.clone_from(&details);
        details
    }
}

/// Scores that stand in no one's way, for those who asked for more.
pub(super) fn scores(result: &TestResult, width: usize) -> String {
    let mut text = String::new();
    for metric in &result.metric_results {
        let Some(score) = metric.score else { continue };
        if metric.passed == Some(false) {
            continue;
        }
        let (score, needs) = words::score(score, metric.threshold);
        let needs = needs.map_or_else(String::new, |needs| format!(", needs {needs}"));
        let gated = if metric.passed.is_none() {
            ", not gated"
        } else {
            ""
        };
        text.push_str(&in_columns(
            &metric.metric_name,
            &format!("{score}{needs}{gated}"),
            width,
        ));
    }
    text
}

/// The case in one line, where nothing moves.
pub(super) fn plain(result: &TestResult, finished: usize, total: usize) -> String {
    let word = match result.state {
        CaseState::Passed => "PASS",
        CaseState::Failed => "FAIL",
        CaseState::Error => "ERROR",
        CaseState::Unchecked => "UNCHECKED",
    };
    let number = right(&finished.to_string(), total.to_string().len());
    let label = one_line(&result.label());
    let time = words::duration(result.execution_time_ms);
    let mut line = format!("[{number}/{total}] {word} {label} ({time})");
    let why = explain_in_a_line(result);
    if !why.is_empty() {
        line.push_str(": ");
        line.push_str(&words::clip(&one_line(&why), LINE_CHARS).replace('\n', " "));
    }
    line.push('\n');
    line
}

/// A name in the words of the person, on one line and without what a terminal would obey.
pub(super) fn one_line(text: &str) -> String {
    words::printable(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// `    what            text`, the text wrapped under itself.
fn in_columns(what: &str, text: &str, width: usize) -> String {
    const INDENT: usize = 4;
    const WHAT: usize = 17;
    let text = words::clip(text, REASON_CHARS);
    let text = words::printable(&text);
    let indent = if what.is_empty() { INDENT } else { INDENT + WHAT };
    let mut shown = String::new();
    for (number, line) in wrap(&text, width.saturating_sub(indent)).iter().enumerate() {
        let head = if number == 0 && !what.is_empty() {
            let what = if what.len() < WHAT {
                fit(what, WHAT)
            } else {
                format!("{} ", cut(what, 40))
            };
            format!("{}{}", " ".repeat(INDENT), paint(STRONG, what))
        } else {
            " ".repeat(indent)
        };
        shown.push_str(&format!("{head}{line}\n"));
    }
    shown
}

fn diff_line(sign: char, line: &str, width: usize) -> String {
    let style = match sign {
        '-' => BAD,
        '+' => GOOD,
        _ => DIM,
    };
    let line = words::clip(line, LINE_CHARS);
    let mut shown = String::new();
    for (number, part) in wrap(&line, width.saturating_sub(6)).iter().enumerate() {
        let sign = if number == 0 { sign } else { ' ' };
        let text = format!("{sign} {part}");
        shown.push_str(&format!("    {}\n", paint(style, text.trim_end())));
    }
    shown
}
