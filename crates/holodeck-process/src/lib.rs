//! Child processes with an explicit environment, their own process group, limits and no orphans.
//!
//! A child sees only the variables in its [`ProcessSpec`] and one that marks it. It leads a process group of its own;
//! when it ends, by itself or not, the rest of the group is killed, and so is every descendant that left the group and
//! inherited the mark (on Linux, which shows environments). If this program is killed, a watchdog process does the same.
//! Only a descendant that leaves the group *and* clears its environment escapes.

mod child;
mod environment;
mod error;
mod exit;
mod group;
mod limits;
mod lookup;
mod mark;
mod run;
mod spec;
mod stderr;
mod watchdog;

pub use child::ChildProcess;
pub use environment::{BASE_VARIABLES, ChildEnv};
pub use error::ProcessError;
pub use exit::Exit;
pub use limits::OwnLimits;
pub use lookup::which;
pub use run::{ProcessOutput, run};
pub use spec::{AtLimit, ProcessSpec};
