//! The reasons for which starting or running a program fails.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::Exit;

/// Why a program did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The program was not found, neither at its path nor on the child's `PATH`.
    #[error("program `{}` not found", program.display())]
    NotFound {
        /// The requested program.
        program: PathBuf,
    },
    /// The file exists and can't be executed.
    #[error("`{}` is not executable: {reason}", program.display())]
    NotExecutable {
        /// The file.
        program: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The working directory does not exist.
    #[error("working directory `{}` not found", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The system could not start the program.
    #[error("can't start `{}`", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The error that the system reported.
        #[source]
        source: io::Error,
    },
    /// The program ran longer than allowed and was stopped.
    #[error("still running after {} s", after.as_secs_f64())]
    TimedOut {
        /// The time limit.
        after: Duration,
        /// The end of its stderr.
        stderr: String,
    },
    /// The program exceeded the output limit and was stopped.
    #[error("wrote more than {limit} bytes")]
    OutputLimit {
        /// The output limit in bytes.
        limit: usize,
    },
    /// The program exited with a code other than 0 or was killed by a signal.
    #[error("{exit}")]
    Exit {
        /// The exit status.
        exit: Exit,
        /// The end of its stderr.
        stderr: String,
    },
    /// The caller cancelled; the program was stopped.
    #[error("cancelled")]
    Cancelled,
    /// Communication with the running program failed.
    #[error("communication with the program failed")]
    Io(#[source] io::Error),
}

impl ProcessError {
    /// Whether the program certainly did not start, so that it changed nothing.
    pub fn is_before_start(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::NotExecutable { .. }
                | Self::WorkingDirectory { .. }
                | Self::Spawn { .. }
        )
    }
}
