//! Grades answers of agents: one place for tests, their regrading, calibration and the quality loop.
//!
//! [`TurnGrader`] computes the checks of an [`Answer`] and asks judges and programs, which see no secret. [`RunJudge`] is
//! the judges of a run: who answers, how many at a time, and what it costs. This crate must not decide about a test
//! case, keep a journal, or depend on a concrete backend.

mod answer;
mod grader;
mod judge;
mod judge_calls;
mod steps;

pub use answer::Answer;
pub use grader::{Checks, Judging, TurnGrader};
pub use judge::{JudgeSettings, Judges, OpenJudge, RunJudge, UnitJudge, judge_failure, kind_of, read_answer};
pub use judge_calls::JudgeCalls;
pub use steps::{StepsError, derive_steps};
