//! Child processes with an explicit environment, their own process group, limits and no orphans.
//!
//! A child sees only the variables in its [`ProcessSpec`] and one that marks it. It leads a process group of its own.
//!
//! A program that calls [`start_children_below`] (`holodeck` does, on Linux) has a watchdog per child: a process between
//! the two that adopts every orphan of the child. When the child ends, by itself or not, and also when the program is
//! killed, the watchdog ends everything below itself: a descendant with a session of its own, a daemon, one without an
//! environment. Nothing else is ended or waited for. Not below it is what another
//! program starts on request: systemd, cron, docker; and a process of another user can't be ended.
//!
//! A library must not change the process that it is in: without that call, the rest of the group is killed when a child ends,
//! and so is every descendant that left the group and inherited the mark (on Linux, which shows environments); if the
//! program is killed, a shell does the same. A descendant that leaves the group *and* clears its environment then outlives
//! the child. So a program that embeds this crate and wants to leave nothing behind calls [`start_children_below`] in its
//! `main`.

#[cfg(target_os = "linux")]
mod below;
#[cfg(not(target_os = "linux"))]
#[path = "not_below.rs"]
mod below;
mod child;
mod direct;
mod environment;
mod error;
mod exit;
mod group;
mod kept;
mod left;
mod limits;
mod lookup;
mod machine;
mod mark;
mod run;
mod shell_watchdog;
mod spec;
mod stat;
mod stderr;

pub use below::{start_children_below, wait_for_watchdogs, watch};
pub use child::ChildProcess;
pub use environment::{BASE_VARIABLES, ChildEnv};
pub use error::ProcessError;
pub use exit::Exit;
pub use left::start_and_leave;
pub use limits::OwnLimits;
pub use lookup::which;
pub use machine::{free_space, max_open_files};
pub use run::{ProcessOutput, run};
pub use spec::{AtLimit, ProcessSpec};
