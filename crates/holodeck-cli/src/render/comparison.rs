//! Renders a comparison of two runs: changed cases first, then the tests and the gate.

use anstyle::Style;
use holodeck::reports::{
    CaseSide, Change, ChangeKind, Comparison, GateResult, Outcome, UnpairedCase, describe_metric,
    describe_run, describe_side, describe_verdicts, format, headline,
};

use super::{
    case::{Columns, in_columns, one_line},
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, paint},
    text::wrap,
};

/// Limits of what is shown; `--output` has all of it.
const MAX_CHANGES: usize = 30;
const MAX_UNPAIRED: usize = 10;
const TEXT_CHARS: usize = 300;

/// The whole comparison.
pub(crate) fn comparison(comparison: &Comparison, width: usize) -> String {
    let mut text = String::new();
    for kind in ChangeKind::ALL {
        text.push_str(&changes(comparison, kind, width));
    }
    text.push_str(&unpaired("missing", BAD, &comparison.missing, width));
    text.push_str(&unpaired("new cases", DIM, &comparison.added, width));
    let metrics = comparison.metrics.iter().map(|metric| metric.metric.as_str());
    let columns = Columns::of(metrics, width);
    for (name, run) in [("A", &comparison.before), ("B", &comparison.after)] {
        text.push_str(&columns.row(name, &describe_run(run)));
    }
    text.push_str(&columns.row("cases", &headline(comparison)));
    let verdicts = &comparison.verdicts;
    for (place, line) in describe_verdicts(verdicts, comparison.alpha).iter().enumerate() {
        let (name, style) = match place {
            0 => ("verdicts", of_outcome(verdicts.outcome)),
            _ => (" ", Style::new()),
        };
        text.push_str(&paint_lines(style, &columns.row(name, line)));
    }
    for metric in &comparison.metrics {
        let line = columns.row(&metric.metric, &describe_metric(metric));
        text.push_str(&paint_lines(of_outcome(metric.outcome), &line));
    }
    for note in &comparison.notes {
        text.push_str(&columns.row("note", note));
    }
    text.push_str(&gate(comparison, width));
    text
}

fn changes(comparison: &Comparison, kind: ChangeKind, width: usize) -> String {
    let changes: Vec<&Change> = comparison.changes_of(kind).collect();
    if changes.is_empty() {
        return String::new();
    }
    let (mark, style) = match kind {
        ChangeKind::NewlyFailing => ("✗", BAD),
        ChangeKind::NewlyPassing => ("✓", GOOD),
        ChangeKind::FirstVerdict => ("·", DIM),
        _ => ("!", DOUBTFUL),
    };
    let title = format!("{} ({})", kind.title(), changes.len());
    let mut text = format!("{}\n", paint(STRONG, title));
    for change in changes.iter().take(MAX_CHANGES) {
        let renamed = change.renamed_from.as_deref().map(one_line);
        let renamed = renamed.map_or_else(String::new, |name| format!(" (before: {name})"));
        text.push_str(&format!(
            "{} {}{}\n",
            paint(style, mark),
            one_line(&change.case),
            paint(DIM, renamed)
        ));
        let sides = [&change.after, &change.before];
        if let Some(question) = sides.iter().find_map(|side| side.texts.question.as_deref()) {
            text.push_str(&in_columns("question", &short(question), width));
        }
        text.push_str(&side("A", &change.before, width));
        text.push_str(&side("B", &change.after, width));
    }
    if changes.len() > MAX_CHANGES {
        text.push_str(&format!("  … and {} more\n", changes.len() - MAX_CHANGES));
    }
    text.push('\n');
    text
}

/// A text on one line, cut.
fn short(text: &str) -> String {
    let text = one_line(text);
    format::clip(&text, TEXT_CHARS).replace('\n', " ")
}

/// State, reason and answer of one side.
fn side(name: &str, side: &CaseSide, width: usize) -> String {
    let mut text = format!("    {name} {}\n", describe_side(side));
    if let Some(reason) = &side.texts.reason {
        text.push_str(&in_columns("  reason", &short(reason), width));
    }
    if let Some(answer) = &side.texts.answer {
        text.push_str(&in_columns("  answer", &short(answer), width));
    }
    text
}

fn unpaired(title: &str, style: Style, cases: &[UnpairedCase], width: usize) -> String {
    if cases.is_empty() {
        return String::new();
    }
    let shown = cases.iter().take(MAX_UNPAIRED);
    let mut names: Vec<String> = shown
        .map(|case| format!("{} ({})", one_line(&case.case), case.state))
        .collect();
    if cases.len() > MAX_UNPAIRED {
        names.push(format!("and {} more", cases.len() - MAX_UNPAIRED));
    }
    let mut text = format!("{}\n", paint(STRONG, format!("{title} ({})", cases.len())));
    for line in wrap(&names.join(", "), width.saturating_sub(4)) {
        text.push_str(&format!("    {}\n", paint(style, line)));
    }
    text.push('\n');
    text
}

fn gate(comparison: &Comparison, width: usize) -> String {
    let gate = &comparison.gate;
    let (word, style) = match gate.result {
        GateResult::Failed => ("failed", BAD),
        GateResult::Passed => ("passed", GOOD),
        _ => ("not comparable", DOUBTFUL),
    };
    let title = if gate.enabled {
        format!("gate: {word}")
    } else {
        format!("with --gate: {word}")
    };
    let mut text = format!("\n{}\n", paint(style.bold(), title));
    for reason in &gate.reasons {
        for (place, line) in wrap(&one_line(&reason.text), width.saturating_sub(4))
            .iter()
            .enumerate()
        {
            let mark = if place == 0 { "  -" } else { "   " };
            text.push_str(&format!("{mark} {line}\n"));
        }
    }
    text
}

fn of_outcome(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Worse => BAD,
        Outcome::Better => GOOD,
        _ => Style::new(),
    }
}

fn paint_lines(style: Style, lines: &str) -> String {
    if style == Style::new() {
        return lines.to_owned();
    }
    let mut painted = String::new();
    for line in lines.lines() {
        painted.push_str(&format!("{}\n", paint(style, line)));
    }
    painted
}
