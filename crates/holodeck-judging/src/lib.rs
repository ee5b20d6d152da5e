#![doc = include_str!("../README.md")]

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
