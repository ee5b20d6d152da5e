//! `holodeck test` without a terminal: plan, run, grade, journal, resume, report.
//!
//! A run is a stream of [`RunEvent`]s; progress, reports and the journal are folds over it. An answer is safe once its
//! line is in the journal, a case counts as finished once its verdict is there, and everything later (reports, resume,
//! regrade) reads the journal. This crate must not depend on a concrete backend, print or read the environment.
//!
//! Start reading at [`run_tests`], then `Dispatcher::run`, then `Executor::run`.

mod budget;
mod calibrate;
mod deciders;
mod dispatch;
mod event;
mod execute;
mod grade;
mod grading;
mod improve;
mod merge;
mod plan;
mod plan_error;
mod regrade;
mod run;
mod simulate;
mod trial_resources;

pub use budget::Budget;
pub use calibrate::{
    CalibratedJudge, CalibrationRequest, CalibrationRun, JudgedLabel, JudgedSubject, VerdictSource,
    calibrate, calibration_json, describe_shortfall, store_calibration,
};
pub use deciders::CurrentDeciders;
pub use dispatch::{OnFailure, RunControl, Stop};
pub use event::{RunEvent, RunSink};
pub use grade::Renew;
pub use improve::{AnswerLoop, FirstAnswer, ImprovedAnswer};
pub use merge::{MergeError, MergeRequest, merge_shards};
pub use plan::{EarlierPasses, FailedIn, Plan, Selection, plan_trials};
pub use plan_error::PlanError;
pub use regrade::{RegradeRequest, regrade};
pub use run::{RunError, RunOutcome, RunSettings, TestRequest, check_resumable, run_tests};
pub use trial_resources::TrialResources;
