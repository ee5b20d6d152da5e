//! The events of a run, from which terminals and other callers show its progress. They carry no verdict that the
//! journal does not have.

use std::sync::Arc;

use holodeck_model::{CaseState, Replayed, ReportHead};

use holodeck_runs::{CaseReport, ExitCode, Grade, UnitRecord};

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
        /// Their trials; as many as cases if each runs once.
        trials: usize,
        /// Trials that an earlier start of this run finished.
        already: usize,
        /// Cases that run at the same time.
        concurrency: usize,
        /// Set when answers come from a recording.
        replayed: Option<Replayed>,
    },
    /// A trial of a case starts.
    CaseStarted {
        /// Place in the file, from 0.
        index: usize,
        /// Its name.
        label: String,
        /// The trial, from 0; absent for a case that runs once.
        trial: Option<u32>,
    },
    /// A trial has its answer, and its verdict takes a judge or a grader program: it does not run any more. Absent if the
    /// verdict is known at once. An answer from an earlier start of the run is reported when its grading starts.
    CaseAnswered {
        /// Place in the file, from 0.
        index: usize,
        /// The trial, from 0; absent for a case that runs once.
        trial: Option<u32>,
    },
    /// A trial is finished and its verdict is written. For the last one of a case, [`CaseFinished`](Self::CaseFinished)
    /// follows. Absent for a case that runs once.
    TrialFinished {
        /// Place in the file, from 0.
        index: usize,
        /// The trial, from 0.
        trial: u32,
        /// Its verdict.
        state: CaseState,
    },
    /// A case is finished: every trial has a verdict.
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
        /// Cases with an answer that are still being judged.
        judging: usize,
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

    /// Receives a trial of a case whose verdict was just written.
    fn graded(&mut self, _: &UnitRecord, _: &Grade) {}
}

/// Ignores all events.
impl RunSink for () {
    fn on(&mut self, _: &RunEvent) {}
}
