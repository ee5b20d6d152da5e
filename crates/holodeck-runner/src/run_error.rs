//! Why a run could not start or finish.

use holodeck_backend_api::BackendError;
use holodeck_model::io_reason;
use holodeck_reports::ReportError;
use holodeck_runs::{JournalError, JournalHeader, LockError, StoreError};

use crate::{MergeError, PlanError, deciders::RenewError, grade::CannotKeep};

/// Why a run could not start or finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Another run is writing.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The selection is not valid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The backend could not start.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The run file cannot be written.
    #[error("cannot write to `{path}`: {}", io_reason(source))]
    RunFile {
        /// The file or its folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The agent changed since the run started.
    #[error(
        "the agent changed since run `{run_id}` started, so its results cannot be mixed with new ones; changed: {}",
        parts.join(", ")
    )]
    AgentChanged {
        /// The run.
        run_id: String,
        /// The changed parts.
        parts: Vec<String>,
    },
    /// The run belongs to another agent.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The test cases changed since the run started.
    #[error("the test cases of run `{run_id}` changed since it started")]
    PlanChanged {
        /// The run.
        run_id: String,
    },
    /// The run has another combination of the agent's matrix.
    #[error("run `{run_id}` has {run}, not {agent}")]
    OtherCombination {
        /// The run.
        run_id: String,
        /// Its combination.
        run: String,
        /// That of the agent.
        agent: String,
    },
    /// The run is a regrade, or an earlier version recorded it.
    #[error("run `{run_id}` cannot be resumed: {reason}")]
    NotResumable {
        /// The run.
        run_id: String,
        /// Why.
        reason: &'static str,
    },
    /// The totals cannot be computed.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A metric of the YAML cannot be set up.
    #[error("{0}")]
    Metric(String),
    /// No metric has this name.
    #[error("no metric is named `{name}`")]
    UnknownMetric {
        /// The name.
        name: String,
        /// The names of the metrics.
        known: Vec<String>,
    },
    /// The verdict of a metric would have to be kept, but is not one of the metric as the file has it now.
    #[error("the verdicts of `{metric}` in run `{run_id}` cannot be kept: {reason}")]
    CannotKeep {
        /// The metric.
        metric: String,
        /// The run.
        run_id: String,
        /// Why.
        reason: String,
    },
    /// Shards cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// No case is selected.
    #[error("no test case to run")]
    Nothing,
}

impl From<RenewError> for RunError {
    fn from(error: RenewError) -> Self {
        match error {
            RenewError::Journal(error) => error.into(),
            RenewError::Plan(error) => error.into(),
        }
    }
}

impl CannotKeep {
    pub(crate) fn into_error(self, header: &JournalHeader) -> RunError {
        RunError::CannotKeep {
            reason: self.reason(),
            metric: self.metric,
            run_id: header.run_id.clone(),
        }
    }
}
