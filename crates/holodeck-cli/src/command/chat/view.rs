//! Shows the events of a conversation as they arrive: the answer on stdout, everything else on stderr.

use std::{io, time::Duration};

use holodeck::{
    model::{
        events::{AgentEvent, Complete, CompleteReason, EventBody, RunError, RunTotals, ToolResult},
        printable,
    },
    reports::format::{cost, count, duration, tokens},
};
use unicode_width::UnicodeWidthStr as _;

use super::wrap::Wrap;
use crate::{
    render::{call_arguments, cut, dim, failed_text, hint},
    terminal::{Terminal, Verbosity},
};

/// The column where the result of a tool begins.
const RESULT_COLUMN: usize = 50;

/// The width of a tool's error in a line.
const ERROR_WIDTH: usize = 40;

/// The state of the display, as far as it matters for the next output.
pub(in crate::command) struct View {
    /// Whether tools, reasoning and ends are shown.
    has_notes: bool,
    /// Whether the text of the answer is shown.
    has_text: bool,
    /// Breaks the lines of the answer, on a terminal.
    wrap: Option<Wrap>,
    /// Whether a sign of waiting is shown.
    is_waiting: bool,
    cursor: Cursor,
}

/// Where the last output ended.
#[derive(Debug, PartialEq, Eq)]
enum Cursor {
    /// At the beginning of a line.
    Start,
    /// In the text of the answer, on stdout.
    Text,
    /// In reasoning, on stderr.
    Reasoning,
    /// After the call with this id, on stderr, and the columns that are used.
    Call { id: String, columns: usize },
}

impl View {
    pub(in crate::command) fn new(terminal: &Terminal, json: bool) -> Self {
        let verbosity = terminal.verbosity();
        let is_watched = terminal.stderr_is_terminal() && verbosity > Verbosity::Quiet;
        Self {
            has_notes: is_watched || verbosity >= Verbosity::Verbose,
            has_text: !json,
            wrap: terminal.stdout_is_terminal().then(|| Wrap::new(terminal.width())),
            is_waiting: false,
            cursor: Cursor::Start,
        }
    }

    /// Shows an event.
    pub(in crate::command) fn show(&mut self, event: &AgentEvent, terminal: &mut Terminal) -> io::Result<()> {
        self.end_waiting(terminal);
        let is_nested = event.meta.parent_tool_use_id.is_some();
        match &event.body {
            EventBody::MessageChunk(piece) if !is_nested => return self.text(&piece.content, terminal),
            EventBody::ThinkingChunk(piece) if !is_nested => self.reasoning(&piece.content, terminal)?,
            EventBody::ToolUse(call) if self.has_notes => {
                self.end_line(terminal)?;
                let indent = if is_nested { "    " } else { "  " };
                let line = format!(
                    "{indent}⚙ {} {}",
                    printable(&call.tool_name),
                    call_arguments(&call.args)
                );
                terminal.write_message(&line);
                self.cursor = Cursor::Call {
                    id: call.tool_use_id.clone(),
                    columns: line.width(),
                };
            }
            EventBody::ToolResult(result) if self.has_notes => self.result(result, terminal)?,
            EventBody::Complete(end) => self.complete(end, terminal)?,
            EventBody::Error(error) => self.failed(error, terminal)?,
            _ => {}
        }
        Ok(())
    }

    /// Shows for how long nothing came, where nothing else is shown.
    pub(super) fn wait(&mut self, since: Duration, terminal: &mut Terminal) {
        if self.has_notes && terminal.stderr_is_terminal() && self.cursor == Cursor::Start {
            let text = dim(&format!("waiting for {} s", since.as_secs()));
            terminal.write_message(&format!("\r\x1b[K{text}"));
            self.is_waiting = true;
        }
    }

    fn end_waiting(&mut self, terminal: &mut Terminal) {
        if std::mem::take(&mut self.is_waiting) {
            terminal.write_message("\r\x1b[K");
        }
    }

    /// Ends a line that is open.
    pub(in crate::command) fn end_line(&mut self, terminal: &mut Terminal) -> io::Result<()> {
        self.end_waiting(terminal);
        match self.cursor {
            Cursor::Start => {}
            Cursor::Text => {
                if let Some(wrap) = &mut self.wrap {
                    terminal.write_raw(&wrap.end())?;
                }
                terminal.write_data("\n")?;
                terminal.flush()?;
            }
            Cursor::Reasoning | Cursor::Call { .. } => terminal.write_message("\n"),
        }
        self.cursor = Cursor::Start;
        Ok(())
    }

    fn text(&mut self, text: &str, terminal: &mut Terminal) -> io::Result<()> {
        if !self.has_text || text.is_empty() {
            return Ok(());
        }
        if self.cursor != Cursor::Text {
            self.end_line(terminal)?;
        }
        match &mut self.wrap {
            Some(wrap) => terminal.write_raw(&wrap.push(&printable(text)))?,
            None => terminal.write_raw(text)?,
        }
        self.cursor = if text.ends_with('\n') {
            Cursor::Start
        } else {
            Cursor::Text
        };
        Ok(())
    }

    fn reasoning(&mut self, text: &str, terminal: &mut Terminal) -> io::Result<()> {
        if self.has_notes && !text.is_empty() {
            if self.cursor != Cursor::Reasoning {
                self.end_line(terminal)?;
            }
            terminal.write_message(&dim(&printable(text)));
            self.cursor = Cursor::Reasoning;
        }
        Ok(())
    }

    fn result(&mut self, result: &ToolResult, terminal: &mut Terminal) -> io::Result<()> {
        let what = summary(result);
        match &self.cursor {
            Cursor::Call { id, columns } if *id == result.tool_use_id => {
                let gap = RESULT_COLUMN.saturating_sub(*columns).max(2);
                terminal.write_message(&format!("{:gap$}{what}\n", ""));
            }
            _ => {
                self.end_line(terminal)?;
                terminal.write_message(&format!("  ⚙ {}  {what}\n", printable(&result.tool_name)));
            }
        }
        self.cursor = Cursor::Start;
        Ok(())
    }

    fn complete(&mut self, end: &Complete, terminal: &mut Terminal) -> io::Result<()> {
        self.end_line(terminal)?;
        match end.reason {
            CompleteReason::UserCancelled => terminal.write_message(&format!("{}\n", dim("stopped"))),
            CompleteReason::Success => {}
            _ => {
                let reason = end.error.as_deref().unwrap_or(reason_of(&end.reason));
                terminal.write_message(&format!("{}: {}\n", failed_text("error"), printable(reason)));
            }
        }
        for warning in &end.warnings {
            terminal.write_message(&format!("{}\n", dim(&format!("note: {}", printable(warning)))));
        }
        self.totals(&end.totals, terminal);
        Ok(())
    }

    fn failed(&mut self, error: &RunError, terminal: &mut Terminal) -> io::Result<()> {
        self.end_line(terminal)?;
        terminal.write_message(&format!(
            "{}: {}\n",
            failed_text("error"),
            printable(&error.error)
        ));
        let details = error.details.as_ref();
        if let Some(next) = details.and_then(|details| details.get("hint")?.as_str()) {
            terminal.write_message(&hint(&printable(next)));
        }
        self.totals(&error.totals, terminal);
        Ok(())
    }

    fn totals(&self, totals: &RunTotals, terminal: &mut Terminal) {
        let text = describe_totals(totals);
        if self.has_notes && !text.is_empty() {
            terminal.write_message(&format!("{}\n\n", dim(&text)));
        }
    }
}

fn reason_of(reason: &CompleteReason) -> &'static str {
    match reason {
        CompleteReason::MaxTurns => "max_turns limit reached",
        _ => "the agent did not answer",
    }
}

/// `1.4 s · 512 tokens · $0.004`
pub(super) fn describe_totals(totals: &RunTotals) -> String {
    let parts = [
        totals.duration_ms.map(duration),
        totals
            .usage
            .map(|usage| format!("{} tokens", tokens(usage.total_tokens))),
        totals.cost_usd.map(cost),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" · ")
}

/// `3 results, 12 ms`
fn summary(result: &ToolResult) -> String {
    let passages = result.details.passages.len();
    let outcome = match &result.error {
        Some(error) if !result.success => {
            let line = error.lines().next().unwrap_or_default();
            Some(failed_text(&format!(
                "failed: {}",
                cut(&printable(line), ERROR_WIDTH)
            )))
        }
        _ if !result.success => Some(failed_text("failed")),
        _ if passages > 0 => Some(count(passages, "result")),
        _ => None,
    };
    let time = result.duration_ms.map(duration);
    let parts: Vec<String> = [outcome, time].into_iter().flatten().collect();
    if parts.is_empty() {
        "done".to_owned()
    } else {
        parts.join(", ")
    }
}
