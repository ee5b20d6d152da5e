//! Systems without adoption of orphans: no program is below a watchdog.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::{Exit, ProcessSpec};

/// Has no effect on this system: what leaves the process group of a child outlives it.
pub fn start_children_below(_program: impl Into<PathBuf>, _args: &[&str]) {}

/// Returns at once: there are no watchdogs on this system.
pub fn wait_for_watchdogs(_limit: Duration) {}

/// There are no watchdogs on this system.
pub fn watch() -> ExitCode {
    ExitCode::FAILURE
}

/// Has no value.
#[derive(Debug)]
pub(crate) enum Below {}

impl Below {
    pub(crate) fn spawn(
        _program: &Path,
        _spec: &ProcessSpec,
        _pipes: &[OwnedFd; 3],
    ) -> Option<io::Result<(Self, u32)>> {
        None
    }

    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(crate) async fn wait(&mut self) -> io::Result<Exit> {
        match *self {}
    }

    pub(crate) fn try_wait(&mut self) -> Option<Exit> {
        match *self {}
    }

    pub(crate) fn last_to_end(&self) -> Option<u32> {
        match *self {}
    }

    pub(crate) fn terminate(&self) {
        match *self {}
    }

    pub(crate) fn kill(&self) {
        match *self {}
    }
}
