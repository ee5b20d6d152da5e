//! `holodeck test` without a terminal: plan, run, grade, journal, resume, report.
//!
//! A run is a stream of [`RunEvent`]s; progress, reports and the journal are folds over it. The journal is the
//! truth: an answer is safe once its line is written, a case counts as finished once its verdict is, and everything
//! later (reports, resume, regrade) reads the journal. The engine knows backends only as `dyn AgentBackend`.
//!
//! Start reading at [`run_tests`], then `Dispatcher::run`, then `Executor::run`.

mod budget;
mod dispatch;
mod ended;
mod event;
mod execute;
mod exit;
mod grade;
mod journal;
mod lock;
mod plan;
mod project;
mod record;
mod regrade;
mod report;
mod run;
mod store;
mod summary;

pub use budget::Budget;
pub use dispatch::{OnFailure, RunControl, Stop};
pub use ended::{Ended, HowEnded};
pub use event::{RunEvent, RunSink};
pub use exit::ExitCode;
pub use journal::{JOURNAL_VERSION, Journal, JournalError, JournalHeader, RunFlags, Selected};
pub use lock::{LockError, RunLock};
pub use plan::{Plan, PlanError, PlannedCase, Selection};
pub use record::{Grade, TurnGrade, UnitRecord};
pub use regrade::{RegradeRequest, regrade};
pub use report::{
    DiffLine, Difference, Explanation, Format, PlannedResult, Reason, ReportError, Results, RunView, explain,
    explain_in_a_line, words, write_report,
};
pub use run::{RunError, RunOutcome, RunSettings, TestRequest, run_tests};
pub use store::{RunStore, StoreError};
pub use summary::SummaryFold;
