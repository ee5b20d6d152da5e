//! Child processes done once: explicit environment, own process group, limits, no orphan.
//!
//! A child sees only the variables in its [`ProcessSpec`]. It leads a process group of its own, and when it ends, by
//! itself or not, what is left of the group is killed. A descendant that makes itself a session of its own
//! escapes that, unless the child has a [mark](ProcessSpec::mark).

mod child;
mod environment;
mod error;
mod exit;
mod group;
mod limits;
mod lookup;
mod marked;
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
pub use watchdog::{Watchdog, Watched};
