//! `holodeck test` without a terminal: plan, run, grade, journal, resume, report.
//!
//! A run is a stream of [`RunEvent`]s; progress, reports and the journal are folds over it. An answer is safe once its
//! line is in the journal, a case counts as finished once its verdict is there, and everything later (reports, resume,
//! regrade) reads the journal. This crate must not depend on a concrete backend, print or read the environment.
//!
//! Start reading at [`run_tests`], then `Dispatcher::run`, then `Executor::run`.

mod agent_runs;
mod budget;
mod calibrate;
mod case_report;
mod compare;
mod deciders;
mod dispatch;
mod event;
mod execute;
mod exit;
mod grade;
mod grading;
mod improve;
mod journal;
mod judging;
mod lock;
mod matrix;
mod merge;
mod plan;
mod record;
mod regrade;
mod report;
mod run;
mod run_end;
mod simulate;
mod steps;
mod store;
mod summary;
mod trials;

pub use agent_runs::{AgentRuns, FoundRun, LATEST, Member, RunOwner, RunUse, is_path};
pub use budget::Budget;
pub use calibrate::{
    CalibratedJudge, CalibrationRequest, CalibrationRun, JudgedLabel, JudgedSubject, VerdictSource,
    calibrate, calibration_json, describe_shortfall, store_calibration,
};
pub use case_report::{CallReport, CaseReport, Expected, TurnReport};
pub use compare::{
    COMPARISON_VERSION, CaseSide, CaseTexts, Change, ChangeKind, ChangedDecider, ComparedRun, Comparison,
    Counts, DEFAULT_NAME as DEFAULT_BASELINE, Gate, GateOptions, GateReason, GateReasonKind, GateResult,
    MetricTest, Outcome, ReadRunError, RunInfo, RunKind, RunReader, ScoreSource, TestMethod, TrialTally,
    UnpairedCase, VerdictTest, check_baseline_name, compare, comparison_json, describe_metric, describe_run,
    describe_side, describe_verdicts, headline, is_baseline, other_owner as other_baseline_owner,
    write_comparison_html, write_comparison_markdown,
};
pub use deciders::CurrentDeciders;
pub use dispatch::{OnFailure, RunControl, Stop};
pub use event::{RunEvent, RunSink};
pub use exit::ExitCode;
pub use grade::Renew;
pub use improve::{AnswerLoop, FirstAnswer, ImprovedAnswer, JudgeCalls, LoopRecord, SharedJudges};
pub use journal::{
    Break, JOURNAL_VERSION, Journal, JournalError, JournalHeader, RunFlags, StoredCombination,
    StoredSelection, StoredShard,
};
pub use judging::{JudgeSettings, Judges, OpenJudge};
pub use lock::{LockError, RunLock};
pub use matrix::{Sibling, SiblingState, SiblingsError, new_group, pass_rate_interval, siblings};
pub use merge::{MergeError, MergeRequest, merge_shards};
pub use plan::{EarlierPasses, FailedIn, Plan, PlanError, Selection};
pub use record::{Grade, TurnGrade, UnitRecord, UserRecord};
pub use regrade::{RegradeRequest, regrade};
pub use report::{
    DiffLine, DiffSide, Difference, Explanation, Format, PlannedResult, Reason, ReportError, Results,
    RunView, explain, explain_in_a_line, words, write_report,
};
pub use run::{RunError, RunOutcome, RunSettings, TestRequest, changed_parts, check_resumable, run_tests};
pub use run_end::{RunEnd, RunEndKind};
pub use steps::derive_steps;
pub use store::{RunStore, StoreError};
pub use summary::SummaryFold;
pub use trials::{CaseTrials, MAX_TRIALS, Trials, plan_trials};
