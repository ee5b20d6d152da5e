//! Why there is no plan for a run.

use holodeck_runs::JournalError;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// `--filter` is not a glob.
    #[error("`--filter {pattern}`: {reason}")]
    Filter {
        /// As typed.
        pattern: String,
        /// The problem.
        reason: String,
    },
    /// A case can never pass.
    #[error("case \"{label}\" needs {min_passes} passes, but runs only {trials} times")]
    Trials {
        /// The case.
        label: String,
        /// How often it runs.
        trials: u32,
        /// How many trials must pass.
        min_passes: u32,
    },
    /// An earlier run cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
