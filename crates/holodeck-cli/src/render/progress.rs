//! The progress of a run. Each form is a fold over the run's events.

mod json;
mod kept;
mod live;
mod plain;
mod tally;

#[cfg(test)]
mod tests;

use std::{io, time::Instant};

use anstream::AutoStream;
use holodeck::runner::{RunEvent, RunSink};

use self::{json::Json, live::Live, plain::Plain};
pub(crate) use kept::Kept;

use crate::terminal::{Region, Terminal, Verbosity};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Rows and a line that moves, on a terminal.
    Live,
    /// One line for each case, where nothing moves.
    Plain,
    /// Not at all.
    Quiet,
    /// Events for a program, on stdout.
    Json,
}

impl Style {
    /// What fits where stderr goes. `term` is the `TERM` of the environment.
    pub(crate) fn fitting(terminal: &Terminal, term: Option<&str>) -> Self {
        if terminal.verbosity() == Verbosity::Quiet {
            Self::Quiet
        } else if terminal.stderr_is_terminal() && term.is_some_and(|term| term != "dumb") {
            Self::Live
        } else {
            Self::Plain
        }
    }
}

/// Shows a run while it goes on, and keeps what its end has to tell.
pub(crate) struct Progress {
    form: Box<dyn RunSink>,
    kept: Kept,
}

impl Progress {
    pub(crate) fn new(style: Style, terminal: &Terminal) -> Self {
        let form: Box<dyn RunSink> = match style {
            Style::Live => {
                let started = Instant::now();
                let board = Region::start(terminal.stderr_colour());
                let clock = Box::new(move || started.elapsed());
                Box::new(Live::new(board, clock, terminal.width(), terminal.verbosity()))
            }
            Style::Plain => {
                let err = AutoStream::new(io::stderr(), terminal.stderr_colour());
                Box::new(Plain::new(err, terminal.verbosity()))
            }
            Style::Quiet => Box::new(()),
            Style::Json => Box::new(Json::new(io::stdout(), terminal.stdout_is_terminal())),
        };
        Self {
            form,
            kept: Kept::default(),
        }
    }

    pub(crate) fn into_kept(self) -> Kept {
        self.kept
    }
}

impl RunSink for Progress {
    fn on(&mut self, event: &RunEvent) {
        self.kept.on(event);
        self.form.on(event);
    }
}
