use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::Exit;

/// Why a program did not run to a good end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// No such program, neither at its path nor on the child's `PATH`.
    #[error("program `{}` not found", program.display())]
    NotFound {
        /// As asked for.
        program: PathBuf,
    },
    /// The file exists and can't be executed.
    #[error("`{}` is not executable: {reason}", program.display())]
    NotExecutable {
        /// The file.
        program: PathBuf,
        /// Why not.
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
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// The program ran longer than allowed and was stopped.
    #[error("still running after {} s", after.as_secs_f64())]
    TimedOut {
        /// The time allowed.
        after: Duration,
        /// The end of its stderr.
        stderr: String,
    },
    /// The program wrote more than allowed and was stopped.
    #[error("wrote more than {limit} bytes")]
    OutputLimit {
        /// The bytes allowed.
        limit: usize,
    },
    /// The program ended with a code other than 0 or by a signal.
    #[error("{exit}")]
    Exit {
        /// How it ended.
        exit: Exit,
        /// The end of its stderr.
        stderr: String,
    },
    /// The caller cancelled; the program was stopped.
    #[error("cancelled")]
    Cancelled,
    /// Talking to the running program failed.
    #[error("can't talk to the program")]
    Io(#[source] io::Error),
}
