//! Renders stored runs: a list of them, one run, and one case with its transcript.

use holodeck::{
    model::CaseState,
    reports::{PlannedResult, RunChanges, StoredRun, format, format::Tone},
    runs::{CaseReport, pass_rate_interval},
};

use super::{
    case::{self, in_columns, one_line, whole_row},
    style::{BAD, DIM, DOUBTFUL, GOOD, STRONG, paint},
    text::wrap,
};

/// A run of a list.
pub(crate) struct ListedRow {
    /// Absent if not even its first line can be read.
    pub(crate) run_id: Option<String>,
    /// The run, or why it cannot be read.
    pub(crate) run: Result<StoredRun, String>,
    /// Whether a command writes it now.
    pub(crate) is_running: bool,
    /// The run before and the differences to it, or why they are not known; absent for the first one.
    pub(crate) before: Option<(String, Result<RunChanges, String>)>,
}

/// The state of a run in words: that of a run which a command writes now is not known yet.
pub(crate) fn run_state(run: &StoredRun, is_running: bool) -> String {
    if is_running {
        return "running".to_owned();
    }
    format::verdict(run.head())
}

/// A block for each run, newest first.
pub(crate) fn run_list(rows: &[ListedRow], total: usize, width: usize) -> String {
    let mut text = String::new();
    for row in rows {
        let run = match &row.run {
            Ok(run) => run,
            Err(error) => {
                let id = row.run_id.as_deref().unwrap_or("a run");
                text.push_str(&format!("{}\n", paint(DOUBTFUL, format!("{id}  cannot be read"))));
                text.push_str(&indented(&one_line(error), width));
                continue;
            }
        };
        text.push_str(&heading(run, row.is_running));
        text.push_str(&indented(&figures(run), width));
        for note in run.head().provenance() {
            text.push_str(&indented(&one_line(&note), width));
        }
        if let Some((before, changes)) = &row.before {
            let changes = match changes {
                Ok(changes) => match changes.describe() {
                    none if none.is_empty() => "nothing changed since the run before".to_owned(),
                    changes => changes.join("; "),
                },
                Err(error) => format!("the changes since `{before}` are not known: {error}"),
            };
            text.push_str(&indented(&one_line(&changes), width));
        }
    }
    if total > rows.len() {
        let more = format!("… and {} older; `--limit {total}` lists all", total - rows.len());
        text.push_str(&format!("{more}\n"));
    }
    if total == 0 {
        text.push_str("no runs\n");
    }
    text
}

/// `20261127T101112345-0a1b2c  2026-11-27T10:11:12Z  failed`.
fn heading(run: &StoredRun, is_running: bool) -> String {
    let head = run.head();
    let style = match format::tone(head) {
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Doubtful => DOUBTFUL,
    };
    format!(
        "{}  {}  {}\n",
        paint(STRONG, one_line(&head.run_id)),
        one_line(&format::date(&head.timestamp)),
        paint(style, run_state(run, is_running))
    )
}

/// Totals, interval, cost, time and model.
fn figures(run: &StoredRun) -> String {
    let summary = &run.head().summary;
    let interval = pass_rate_interval(summary);
    let interval = interval.map(|(low, high)| format!("95 % interval {low:.2}–{high:.2}"));
    let parts = [
        Some(format::totals(summary)),
        interval,
        summary.cost_usd.map(format::cost),
        Some(format::duration(summary.total_duration_ms)),
        Some(one_line(run.model())),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(" · ")
}

fn indented(text: &str, width: usize) -> String {
    let lines = wrap(text, width.saturating_sub(4));
    let mut text = String::new();
    for line in lines {
        text.push_str("    ");
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A run: its figures, and the block of each case that did not pass.
pub(crate) fn stored_run(
    run: &StoredRun,
    is_running: bool,
    planned: &[PlannedResult],
    width: usize,
) -> String {
    let mut text = heading(run, is_running);
    text.push_str(&indented(&figures(run), width));
    let notes = run.head().ended_because.iter().filter(|_| !is_running).cloned();
    for note in notes
        .chain(run.head().provenance())
        .chain(run.head().warnings.clone())
    {
        text.push_str(&indented(&one_line(&note), width));
    }
    text.push('\n');
    let mut repeated = case::RepeatedDetails::default();
    let (mut passed, mut waiting) = (0, 0);
    for result in planned {
        match result {
            PlannedResult::Finished(report) if report.state() == CaseState::Passed => passed += 1,
            PlannedResult::Finished(report) => {
                text.push_str(&case::row(report, width));
                text.push_str(&repeated.details(report, width));
                text.push_str(&case::calls(report, width, false));
            }
            PlannedResult::NotRun(_) if is_running => waiting += 1,
            PlannedResult::NotRun(missing) => {
                let line = format!("– {}: {}", one_line(&missing.label()), one_line(&missing.reason));
                for line in wrap(&line, width) {
                    text.push_str(&format!("{}\n", paint(DIM, line)));
                }
            }
        }
    }
    if passed > 0 {
        text.push_str(&format!("{passed} passed\n"));
    }
    if waiting > 0 {
        text.push_str(&format!(
            "{} without a verdict yet\n",
            format::count(waiting, "case")
        ));
    }
    text
}

/// A case with its verdict and everything that was said and called.
pub(crate) fn stored_case(run: &StoredRun, is_running: bool, report: &CaseReport, width: usize) -> String {
    let mut text = heading(run, is_running);
    text.push('\n');
    text.push_str(&case::row(report, width));
    text.push_str(&case::reasons(report, width));
    text.push_str(&case::scores(report, width));
    for note in format::notes(report) {
        text.push_str(&in_columns("note", &note, width));
    }
    for turn in report.turns() {
        text.push('\n');
        if let Some(number) = turn.number {
            text.push_str(&format!("    {}\n", paint(STRONG, format!("turn {number}"))));
        }
        text.push_str(&whole_row("user", &turn.record.input, width));
        for call in turn.calls() {
            let arguments = call.call.arguments.to_string();
            text.push_str(&whole_row(&format!("tool {}", call.call.name), &arguments, width));
            let time = call.duration_ms().map(format::duration);
            let time = time.map_or_else(String::new, |time| format!(" ({time})"));
            let (what, result) = match (call.error(), call.result) {
                (Some(error), _) => ("failed", error),
                (None, Some(result)) => ("result", result.result.as_str()),
                (None, None) => ("result", "(none)"),
            };
            text.push_str(&whole_row(what, &format!("{result}{time}"), width));
        }
        text.push_str(&whole_row("agent", turn.answer().unwrap_or("(no answer)"), width));
    }
    if let Some(end) = format::conversation_end(report) {
        text.push_str(&in_columns("conversation", &end, width));
    }
    text
}
