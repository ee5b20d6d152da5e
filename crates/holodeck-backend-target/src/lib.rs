//! Agents that are not ours as a backend: services behind a URL, programs, functions, and answers that exist.
//!
//! A part that a target reports is evidence. One that it does not report is named in the result, and never taken as none.

mod agui;
mod answers;
mod asker;
mod backend;
mod check;
mod conversation;
mod cookies;
mod http;
mod kept;
mod parts;
mod paths;
mod program;
mod reported;
mod served;
mod template;

pub use backend::{TargetBackend, TargetSetup};
pub use check::{TargetProblem, check_target, missing_vars, sent_vars};
