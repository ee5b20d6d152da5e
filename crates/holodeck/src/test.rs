//! Tests of an agent: preparing, regrading and merging runs, calibrating judges, comparing runs.

pub(crate) mod calibrate;
pub(crate) mod calibrated;
pub(crate) mod case_files;
pub(crate) mod compare;
pub(crate) mod dry_run;
pub(crate) mod graders;
pub(crate) mod judge_steps;
pub(crate) mod judges;
pub(crate) mod matrix;
pub(crate) mod prepare;
pub(crate) mod recorded_case;
pub(crate) mod saved_case;
pub(crate) mod trial_tools;
