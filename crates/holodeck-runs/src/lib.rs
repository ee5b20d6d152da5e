//! Stored runs of `holodeck test`: the journal and where it lies, the records and verdicts in it, and the graded cases,
//! totals and exit codes that are read from them.
//!
//! Everything later than an answer (reports, comparisons, resume, regrade) reads these. This crate has no async, asks no
//! model, and must not grade, print or read the environment.
//!
//! Start reading at [`Journal`], then [`UnitRecord`] and [`Grade`], then [`CaseReport`].

mod agent_runs;
mod case_report;
mod exit;
mod expectations;
mod expected;
mod journal;
mod lock;
mod matrix;
mod read_case;
mod record;
mod run_end;
mod run_flags;
mod run_owner;
mod series;
mod store;
mod trials;

pub use agent_runs::{AgentRuns, FoundRun, LATEST, ListedRun, Member, RunUse, is_path};
pub use case_report::{CallReport, CaseReport, TurnReport};
pub use exit::ExitCode;
pub use expectations::{Expectations, expectations, of_conversation, of_turns};
pub use expected::{CaseExpected, Expected};
pub use journal::{
    Break, JOURNAL_VERSION, Journal, JournalError, JournalHeader, JournalIndex, RecordLine, Sample,
    StoredCombination, StoredSelection, StoredShard, UnitLines, changed_parts,
};
pub use lock::{LockError, RunLock};
pub use matrix::{Sibling, SiblingState, SiblingsError, new_group, pass_rate_interval, siblings};
pub use read_case::{fold_case, read_case};
pub use record::{Grade, LoopRecord, TurnGrade, UnitRecord, UserRecord, worse_state};
pub use run_end::{RunEnd, RunEndKind};
pub use run_flags::RunFlags;
pub use run_owner::RunOwner;
pub use series::RunSeries;
pub use store::{RunStore, StoreError, new_run_id};
pub use trials::{CaseTrials, MAX_TRIALS, Trials};
