//! Shows the progress of a run. Each style consumes the run's events.

mod highlights;
mod json;
mod live;
mod plain;
mod tally;

#[cfg(test)]
mod tests;

use std::{io, time::Instant};

use anstream::AutoStream;
use holodeck::runner::{RunEvent, RunSink};

use self::{json::Json, live::Live, plain::Plain};
pub(crate) use highlights::Highlights;

use crate::terminal::{Outputs, Region, Terminal, Verbosity};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Rows and a status line, on a terminal.
    Live,
    /// One line for each case, without a status line.
    Plain,
    /// Not at all.
    Quiet,
    /// Events for a program, on stdout.
    Json,
}

impl Style {
    /// The style for this terminal. `term` is the environment variable `TERM`.
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

/// Shows a run in progress and collects what the summary needs.
pub(crate) struct Progress {
    sink: Box<dyn RunSink>,
    highlights: Highlights,
}

impl Progress {
    pub(crate) fn new(style: Style, terminal: &Terminal, outputs: Outputs) -> Self {
        let sink: Box<dyn RunSink> = match style {
            Style::Live => {
                let started = Instant::now();
                let board = Region::start(terminal.stderr_colour());
                let clock = Box::new(move || started.elapsed());
                Box::new(Live::new(board, clock, terminal.width(), terminal.verbosity()))
            }
            Style::Plain => {
                let err = AutoStream::new(io::stderr(), terminal.stderr_colour());
                Box::new(Plain::new(err, terminal.verbosity(), outputs))
            }
            Style::Quiet => Box::new(()),
            Style::Json => Box::new(Json::new(
                io::stdout(),
                terminal.stdout_is_terminal(),
                terminal.combination().cloned(),
            )),
        };
        Self {
            sink,
            highlights: Highlights::default(),
        }
    }

    pub(crate) fn into_highlights(self) -> Highlights {
        self.highlights
    }
}

impl RunSink for Progress {
    fn on(&mut self, event: &RunEvent) {
        self.highlights.on(event);
        self.sink.on(event);
    }
}
