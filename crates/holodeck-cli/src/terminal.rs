//! Where output goes: data to stdout, talk to stderr.

mod masking;
mod region;

use std::io::{self, BufWriter, IsTerminal as _, Write};

use anstream::{AutoStream, ColorChoice};
use holodeck::model::ExecutionSettings;
use serde_json::Value;

use crate::args::{ColorWhen, GlobalArgs};

pub(crate) use masking::{json_line, mask_secrets, masked, redactor};
pub(crate) use region::{Region, write_to_stderr};

/// Lines wider than this are hard to read, whatever the window.
const WIDEST: usize = 100;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// The outcome.
    Quiet,
    /// What a person wants to know.
    Normal,
    /// More of it.
    Verbose,
    /// What happens inside, too.
    Debug,
}

/// Both outputs, and how to write to them.
pub(crate) struct Terminal {
    out: BufWriter<AutoStream<io::Stdout>>,
    err: AutoStream<io::Stderr>,
    verbosity: Verbosity,
    out_is_tty: bool,
    err_is_tty: bool,
    width: usize,
}

impl Terminal {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        let choice = match global.color {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        };
        let verbosity = match (global.quiet, global.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Debug,
        };
        Self {
            out: BufWriter::new(AutoStream::new(io::stdout(), choice)),
            err: AutoStream::new(io::stderr(), choice),
            verbosity,
            out_is_tty: io::stdout().is_terminal(),
            err_is_tty: io::stderr().is_terminal(),
            width: terminal_size::terminal_size_of(io::stderr())
                .or_else(|| terminal_size::terminal_size_of(io::stdout()))
                .map_or(80, |(width, _)| usize::from(width.0))
                .clamp(20, WIDEST),
        }
    }

    /// Lets an agent file say how much is told, where no flag does.
    pub(crate) fn adopt(&mut self, settings: &ExecutionSettings) {
        if self.verbosity == Verbosity::Normal {
            if settings.quiet.value {
                self.verbosity = Verbosity::Quiet;
            } else if settings.verbose.value {
                self.verbosity = Verbosity::Verbose;
            }
        }
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Data and answers. Styles in `text` are kept only where they are welcome.
    pub(crate) fn data(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(masked(text).as_bytes())
    }

    /// A value on one line of JSON.
    pub(crate) fn json(&mut self, value: Value) -> io::Result<()> {
        let line = json_line(value, self.out_is_tty);
        self.out.write_all(line.as_bytes())
    }

    /// A value as indented JSON.
    pub(crate) fn indented_json(&mut self, value: Value) -> io::Result<()> {
        let lines = masking::json_lines(value, self.out_is_tty);
        self.out.write_all(lines.as_bytes())
    }

    /// Data that is not ours to restyle, its secrets masked already.
    pub(crate) fn raw(&mut self, text: &str) -> io::Result<()> {
        self.out.flush()?;
        let mut out = io::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// What was written so far is there to be read.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Everything else. A stderr that nobody reads stops nothing.
    pub(crate) fn talk(&mut self, text: &str) {
        let _ = self.out.flush();
        let _ = self.err.write_all(masked(text).as_bytes());
        let _ = self.err.flush();
    }

    pub(crate) fn stdout_is_terminal(&self) -> bool {
        self.out_is_tty
    }

    pub(crate) fn stderr_is_terminal(&self) -> bool {
        self.err_is_tty
    }

    /// Whether styles reach stderr, decided once.
    pub(crate) fn stderr_colour(&self) -> ColorChoice {
        self.err.current_choice()
    }

    /// Columns to use on stderr; 80 where nobody says.
    pub(crate) fn width(&self) -> usize {
        self.width
    }
}
