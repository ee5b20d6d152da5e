//! Writes output: data to stdout, messages to stderr. Masks secrets in everything it writes.

mod keys;
mod masking;
mod region;

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal as _, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
};

use anstream::{AutoStream, ColorChoice};
use holodeck::model::{Combination, ExecutionSettings};
use serde_json::{Value, json};

use crate::args::{ColorWhen, GlobalArgs};

pub(crate) use keys::{KeptKeys, forget_typed, restore_mode};
pub(crate) use masking::{json_line, mask_text, redactor, set_redactor};
pub(crate) use region::{Region, write_to_stderr};

/// Wider lines are hard to read, even in a wide window.
const MAX_WIDTH: usize = 100;

/// How much output is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Only the result.
    Quiet,
    /// Progress, results and hints.
    Normal,
    /// More details.
    Verbose,
    /// Internal logs, too.
    Debug,
}

/// Both outputs and how to write to them.
pub(crate) struct Terminal {
    out: BufWriter<AutoStream<io::Stdout>>,
    err: AutoStream<io::Stderr>,
    verbosity: Verbosity,
    out_is_tty: bool,
    err_is_tty: bool,
    width: usize,
    combination: Option<Value>,
}

/// Where the readers of the two outputs find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// In one log, one after the other.
    OneLog,
    /// In two places, or only one of them is read.
    Apart,
}

impl Outputs {
    /// Those of this process: one file or pipe, or two pipes of a job, which `job` says that it is. A job's stdout may also
    /// go to a file or another program, of which only the first is known.
    pub(crate) fn of_process(job: Option<&str>) -> Self {
        let data = |output: BorrowedFd<'_>| File::from(output.try_clone_to_owned().ok()?).metadata().ok();
        let (stdout, stderr) = (data(io::stdout().as_fd()), data(io::stderr().as_fd()));
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Self::Apart;
        };
        let is_one = (stdout.dev(), stdout.ino()) == (stderr.dev(), stderr.ino());
        if is_one || (job.is_some() && stdout.file_type().is_fifo()) {
            Self::OneLog
        } else {
            Self::Apart
        }
    }
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
                .clamp(20, MAX_WIDTH),
            combination: None,
        }
    }

    /// Applies the verbosity of the agent file unless a flag sets it.
    pub(crate) fn apply_settings(&mut self, settings: &ExecutionSettings) {
        if self.verbosity == Verbosity::Normal {
            if settings.quiet.value {
                self.verbosity = Verbosity::Quiet;
            } else if settings.verbose.value {
                self.verbosity = Verbosity::Verbose;
            }
        }
    }

    /// Sets the combination of the agent's matrix that all further lines of JSON are about.
    pub(crate) fn set_combination(&mut self, combination: Option<&Combination>) {
        self.combination = combination.map(|combination| json!(combination));
    }

    /// The combination that lines of JSON are about.
    pub(crate) fn combination(&self) -> Option<&Value> {
        self.combination.as_ref()
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Writes data to stdout. Styles in `text` are kept only if the output supports them.
    pub(crate) fn write_data(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(mask_text(text).as_bytes())
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn write_json(&mut self, mut value: Value) -> io::Result<()> {
        add_combination(&mut value, self.combination.as_ref());
        let line = json_line(value, self.out_is_tty);
        self.out.write_all(line.as_bytes())
    }

    /// Writes a value as indented JSON.
    pub(crate) fn write_indented_json(&mut self, value: Value) -> io::Result<()> {
        let lines = masking::json_lines(value, self.out_is_tty);
        self.out.write_all(lines.as_bytes())
    }

    /// Writes data unchanged; its secrets must already be masked.
    pub(crate) fn write_raw(&mut self, text: &str) -> io::Result<()> {
        self.out.flush()?;
        let mut out = io::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Flushes stdout.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a message to stderr. Errors are ignored: a closed stderr must not stop a command.
    pub(crate) fn write_message(&mut self, text: &str) {
        let _ = self.out.flush();
        let _ = self.err.write_all(mask_text(text).as_bytes());
        let _ = self.err.flush();
    }

    /// Whether questions can be asked: stdin, stdout and stderr are terminals.
    pub(crate) fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && self.out_is_tty && self.err_is_tty
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

    /// The columns of a table on stdout; a file or a pipe has no end of the line.
    pub(crate) fn columns_of_data(&self) -> usize {
        if self.out_is_tty { self.width } else { usize::MAX }
    }

    /// The columns of a line on stderr; a log has no end of the line.
    pub(crate) fn columns_of_messages(&self) -> usize {
        if self.err_is_tty { self.width } else { usize::MAX }
    }

    /// Columns to use on stderr; 80 if the width is unknown.
    pub(crate) fn width(&self) -> usize {
        self.width
    }
}

/// Says in an object which combination of a matrix it is about.
pub(crate) fn add_combination(value: &mut Value, combination: Option<&Value>) {
    if let (Some(fields), Some(combination)) = (value.as_object_mut(), combination) {
        fields.insert("combination".to_owned(), combination.clone());
    }
}
