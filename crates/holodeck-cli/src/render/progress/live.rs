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

/// How long the run has gone on; given in, so that a test decides.
pub(super) type Clock = Box<dyn Fn() -> Duration + Send>;

/// A place with lines that stay and one line that changes.
pub(super) trait Board: Send {
    /// Adds lines that stay.
    fn add(&mut self, text: &str);
    /// Sets the line that changes.
    fn set(&mut self, line: String);
    /// Takes the changing line away.
    fn end(&mut self);
}

/// A row for each finished case, the reasons beneath, and a line that tells how it goes.
pub(super) struct Live<B> {
    board: B,
    clock: Clock,
    width: usize,
    verbosity: Verbosity,
    tally: Tally,
    above: case::Above,
}

impl<B: Board> Live<B> {
    pub(super) fn new(board: B, clock: Clock, width: usize, verbosity: Verbosity) -> Self {
        Self {
            board,
            clock,
            width,
            verbosity,
            tally: Tally::default(),
            above: case::Above::default(),
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
                already,
                concurrency,
                replayed,
                ..
            } => {
                let text = header(
                    agent_name,
                    model,
                    *total,
                    *already,
                    *concurrency,
                    replayed.as_ref(),
                );
                self.board.add(&paint(STRONG, text.trim_end()));
                self.board.add("");
            }
            RunEvent::CaseFinished { result, .. } => {
                let mut text = case::row(result, self.width);
                if result.state != CaseState::Passed {
                    text.push_str(&self.above.details(result, self.width));
                }
                if self.verbosity >= Verbosity::Verbose {
                    text.push_str(&case::scores(result, self.width));
                }
                self.board.add(text.trim_end_matches('\n'));
            }
            RunEvent::Notice { message } => {
                self.board.add(&format!("note: {}", case::one_line(message)));
            }
            RunEvent::Draining { reason, running } => self.board.add(draining(reason, *running).trim_end()),
            RunEvent::Finished { .. } => {
                self.board.add("");
                self.board.end();
                return;
            }
            _ => {}
        }
        // Beside the spinner, its blank, and a column that stays free.
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
