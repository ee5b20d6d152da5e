//! `holodeck test` without a terminal: plan, run, grade, journal, resume, report.
//!
//! A run is a stream of [`RunEvent`]s; progress, reports and the journal are folds over it. The journal is the
//! truth: a case counts as finished once its line is written, and everything later (reports, resume, regrade)
//! reads the journal. The engine knows backends only as `dyn AgentBackend`.

mod budget;
mod dispatch;
mod event;
mod execute;
mod exit;
mod files;
mod grade;
mod journal;
mod lock;
mod plan;
mod prices;
mod redact;
mod regrade;
mod report;
mod run;
mod store;
mod summary;
mod turn;

pub use budget::Budget;
pub use dispatch::{OnFailure, RunControl, Stop};
pub use event::{RunEvent, RunSink};
pub use exit::ExitCode;
pub use files::{FileReader, Question};
pub use journal::{JOURNAL_VERSION, Journal, JournalError, JournalHeader};
pub use lock::{LockError, RunLock};
pub use plan::{Plan, PlanError, PlannedCase, Selection, case_id};
pub use prices::{PriceError, Prices};
pub use regrade::regrade;
pub use report::{
    DiffLine, Difference, Explanation, Format, Reason, ReportError, Results, RunView, explain,
    explain_in_a_line, words, write_report,
};
pub use run::{RunError, RunOutcome, RunSettings, TestRequest, run_tests};
pub use store::{RunStore, StoreError};
pub use summary::SummaryFold;
pub use turn::{Driven, drive};
