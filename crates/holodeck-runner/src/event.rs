use std::sync::Arc;

use holodeck_model::{Replayed, ReportHead, TestResult};

use crate::ExitCode;

/// What happens in a run, as it happens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent {
    /// The plan stands and the journal is open.
    Started {
        /// The run.
        run_id: String,
        /// The agent.
        agent_name: String,
        /// Provider and model, as people say it.
        model: String,
        /// Cases to finish, those of an earlier start included.
        total: usize,
        /// Cases that an earlier start of this run finished.
        already: usize,
        /// Cases at a time.
        concurrency: usize,
        /// Set when answers come from a recording.
        replayed: Option<Replayed>,
    },
    /// A case begins.
    CaseStarted {
        /// Place in the file, from 0.
        index: usize,
        /// Its name.
        label: String,
    },
    /// A case is over and its record is written.
    CaseFinished {
        /// How many are finished now.
        finished: usize,
        /// The record.
        result: Arc<TestResult>,
    },
    /// Something worth knowing that changes no verdict.
    Notice {
        /// One line.
        message: String,
    },
    /// No further case is started; running ones finish.
    Draining {
        /// Why: `interrupted`, `budget`, `a case failed`, …
        reason: String,
        /// Cases still running.
        running: usize,
    },
    /// The run is over.
    Finished {
        /// Totals.
        head: Arc<ReportHead>,
        /// The exit code.
        exit: ExitCode,
    },
}

/// Takes in the events of a run, in order.
pub trait RunSink: Send {
    /// One event.
    fn on(&mut self, event: &RunEvent);
}

/// Hears nothing.
impl RunSink for () {
    fn on(&mut self, _: &RunEvent) {}
}
