use std::sync::Arc;

use holodeck_model::{Replayed, ReportHead};

use crate::{CaseReport, ExitCode};

/// The events of a run, in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent {
    /// The plan is complete and the journal is open.
    Started {
        /// The run.
        run_id: String,
        /// The agent.
        agent_name: String,
        /// Provider and model, for display.
        model: String,
        /// Planned cases, including those that an earlier start of this run finished.
        total: usize,
        /// Cases that an earlier start of this run finished.
        already: usize,
        /// Cases that run at the same time.
        concurrency: usize,
        /// Set when answers come from a recording.
        replayed: Option<Replayed>,
    },
    /// A case starts.
    CaseStarted {
        /// Place in the file, from 0.
        index: usize,
        /// Its name.
        label: String,
    },
    /// A case is finished and its verdict is written.
    CaseFinished {
        /// The number of finished cases.
        finished: usize,
        /// The case.
        case: Arc<CaseReport>,
    },
    /// A message that does not affect a verdict.
    Notice {
        /// One line.
        message: String,
    },
    /// No further case is started; running ones finish.
    Draining {
        /// The reason, such as `interrupted` or `a case did not pass`.
        reason: String,
        /// Cases still running.
        running: usize,
    },
    /// The run ended.
    Finished {
        /// Totals.
        head: Arc<ReportHead>,
        /// The exit code.
        exit: ExitCode,
    },
}

/// Receives the events of a run, in order.
pub trait RunSink: Send {
    /// Receives one event.
    fn on(&mut self, event: &RunEvent);
}

/// Ignores all events.
impl RunSink for () {
    fn on(&mut self, _: &RunEvent) {}
}
