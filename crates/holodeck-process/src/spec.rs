//! Describes a program to start: arguments, folder, environment, input and limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::ChildEnv;

/// A program and its limits. There is no shell: arguments are passed unchanged.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) env: ChildEnv,
    pub(crate) stdin: Vec<u8>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) stdout_limit: usize,
    pub(crate) at_limit: AtLimit,
    pub(crate) stderr_kept: usize,
}

/// How to handle a program that exceeds the limit of stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// It is stopped, and running it is an error.
    Stop,
    /// It continues, and the excess is dropped.
    Drop,
}

impl ProcessSpec {
    /// A program by path, or by name to be found on the `PATH` in `env`, with an empty stdin, no time-out, at most 16
    /// MiB of stdout and the last 8 KiB of stderr.
    pub fn new(program: impl Into<PathBuf>, env: ChildEnv) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            folder: None,
            env,
            stdin: Vec::new(),
            timeout: None,
            grace: Duration::from_secs(2),
            stdout_limit: 16 * 1024 * 1024,
            at_limit: AtLimit::Stop,
            stderr_kept: 8 * 1024,
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory; otherwise it is the caller's.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets what [`run`](crate::run) writes to stdin before closing it.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets how long [`run`](crate::run) lets the program run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long the program is given to end after it was asked to.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how much of stdout [`run`](crate::run) keeps, and what happens beyond.
    pub fn stdout_limit(mut self, bytes: usize, then: AtLimit) -> Self {
        self.stdout_limit = bytes;
        self.at_limit = then;
        self
    }

    /// Sets how much of the end of stderr is kept.
    pub fn stderr_kept(mut self, bytes: usize) -> Self {
        self.stderr_kept = bytes;
        self
    }
}
