//! `holodeck test` without a terminal: plan, run, grade, journal, resume, report.
//!
//! A run is a stream of [`RunEvent`]s; progress, reports and the journal are folds over it. An answer is safe once its
//! line is in the journal, a case counts as finished once its verdict is there, and everything later (reports, resume,
//! regrade) reads the journal. This crate must not depend on a concrete backend, print or read the environment.
//!
//! Start reading at [`run_tests`], then `Dispatcher::run`, then `Executor::run`.

mod adaptation_notes;
mod answer_loop;
mod budget;
mod calibrate;
mod control;
mod deciders;
mod dispatch;
mod event;
mod execute;
mod finish;
mod grade;
mod grading;
mod merge;
mod merge_error;
mod plan;
mod plan_error;
mod regrade;
mod run;
mod run_error;
mod trial_resources;

pub use answer_loop::{AnswerLoop, FirstAnswer, ImprovedAnswer};
pub use budget::Budget;
pub use calibrate::{
    CalibratedJudge, CalibrationRequest, CalibrationRun, JudgedLabel, JudgedSubject, VerdictSource,
    calibrate, calibration_json, describe_shortfall, store_calibration,
};
pub use control::{RunControl, Stop};
pub use deciders::CurrentDeciders;
pub use dispatch::OnFailure;
pub use event::{RunEvent, RunSink};
pub use finish::RunOutcome;
pub use grade::Renew;
pub use merge::{MergeRequest, merge_shards};
pub use merge_error::MergeError;
pub use plan::{Again, EarlierPasses, FailedIn, Plan, Selection, plan_trials};
pub use plan_error::PlanError;
pub use regrade::{RegradeRequest, regrade};
pub use run::{RunSettings, TestRequest, check_resumable, run_tests};
pub use run_error::RunError;
pub use trial_resources::TrialResources;
