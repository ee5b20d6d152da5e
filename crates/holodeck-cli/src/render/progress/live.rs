//! Progress on a terminal: a row for each case and a status line.

use std::time::Duration;

use holodeck::{
    model::CaseState,
    runner::{RunEvent, RunSink},
};

use super::tally::{Tally, draining, header};
use crate::{
    render::{
        case,
        style::{STRONG, paint},
    },
    terminal::{Region, Verbosity},
};

/// Returns the elapsed time of the run; tests inject their own.
pub(super) type Clock = Box<dyn Fn() -> Duration + Send>;

/// Output with permanent lines and one status line.
pub(super) trait Board: Send {
    /// Adds permanent lines.
    fn add(&mut self, text: &str);
    /// Sets the status line.
    fn set(&mut self, line: String);
    /// Removes the status line.
    fn end(&mut self);
}

/// Shows a row for each finished case, its reasons below, and a status line with totals.
pub(super) struct Live<B> {
    board: B,
    clock: Clock,
    width: usize,
    verbosity: Verbosity,
    tally: Tally,
    repeated_details: case::RepeatedDetails,
}

impl<B: Board> Live<B> {
    pub(super) fn new(board: B, clock: Clock, width: usize, verbosity: Verbosity) -> Self {
        Self {
            board,
            clock,
            width,
            verbosity,
            tally: Tally::default(),
            repeated_details: case::RepeatedDetails::default(),
        }
    }
}

impl<B: Board> RunSink for Live<B> {
    fn on(&mut self, event: &RunEvent) {
        self.tally.on(event);
        match event {
            RunEvent::Started {
                agent_name,
                model,
                total,
                trials,
                already,
                concurrency,
                replayed,
                ..
            } => {
                let text = header(
                    agent_name,
                    model,
                    (*total, *trials),
                    *already,
                    *concurrency,
                    replayed.as_ref(),
                );
                self.board.add(&paint(STRONG, text.trim_end()));
                self.board.add("");
            }
            RunEvent::CaseFinished { case: report, .. } => {
                let mut text = case::row(report, self.width);
                if report.state() != CaseState::Passed {
                    text.push_str(&self.repeated_details.details(report, self.width));
                }
                let verbose = self.verbosity >= Verbosity::Verbose;
                text.push_str(&case::calls(report, self.width, verbose));
                if verbose {
                    text.push_str(&case::conversation(report, self.width));
                    text.push_str(&case::scores(report, self.width));
                }
                self.board.add(text.trim_end_matches('\n'));
            }
            RunEvent::Notice { message } => {
                self.board.add(&format!("note: {}", case::one_line(message)));
            }
            RunEvent::Draining {
                reason,
                running,
                judging,
            } => self.board.add(draining(reason, *running, *judging).trim_end()),
            RunEvent::Finished { .. } => {
                self.board.add("");
                self.board.end();
                return;
            }
            _ => {}
        }
        // Leaves room for the spinner, a space and one free column.
        let line = self.tally.line((self.clock)(), self.width.saturating_sub(3));
        self.board.set(line);
    }
}

impl Board for Region {
    fn add(&mut self, text: &str) {
        Region::add(self, text);
    }

    fn set(&mut self, line: String) {
        Region::set(self, &line);
    }

    fn end(&mut self) {
        Region::end(self);
    }
}
