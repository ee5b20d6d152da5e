//! The watchdogs of this process that have not ended yet.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};
use tokio::process::Child;

use crate::below::tree::{self, Round};
use crate::stat::Stat;

/// How often to look where the system has no event for the end of a process.
const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug)]
struct Watchdog {
    pid: Pid,
    /// Absent where the system has no such handles.
    handle: Option<OwnedFd>,
}

impl Watchdog {
    fn has_ended(&self) -> bool {
        match &self.handle {
            Some(handle) => tree::has_ended(handle),
            None => Stat::of(self.pid).is_none_or(|now| now.ended),
        }
    }

    /// Waits for a process that was killed. Its files close before its children get another parent: at the moment its
    /// socket closes, it can be too early to find them.
    fn wait_for_end(&self) {
        let deadline = Instant::now() + tree::HELD;
        while !self.has_ended() && Instant::now() < deadline {
            let handles: Vec<_> = self.handle.iter().collect();
            tree::wait_for_one(&handles, if handles.is_empty() { LOOK } else { tree::HELD });
        }
    }
}

static WATCHDOGS: Mutex<Vec<Watchdog>> = Mutex::new(Vec::new());

fn watchdogs() -> MutexGuard<'static, Vec<Watchdog>> {
    WATCHDOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry in the list, until it has ended.
#[derive(Debug)]
pub(super) struct Started(Pid);

impl Started {
    /// Starts a watchdog. While that happens, it cannot be mistaken for an orphan.
    pub(super) fn register(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<(Child, Self)> {
        let mut watchdogs = watchdogs();
        watchdogs.retain(|watchdog| !watchdog.has_ended());
        let child = spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        watchdogs.push(Watchdog {
            pid,
            handle: pidfd_open(pid, PidfdFlags::empty()).ok(),
        });
        Ok((child, Self(pid)))
    }

    /// Ends what this process adopts from a watchdog that was killed: the program, and if this process began without
    /// children, everything below that is not below another watchdog.
    pub(super) fn end_adopted(&self, program: Option<Pid>, is_alone: bool) {
        let own = getpid();
        let watchdogs = watchdogs();
        if let Some(killed) = watchdogs.iter().find(|watchdog| watchdog.pid == self.0) {
            killed.wait_for_end();
        }
        let is_watchdog = |process: &Stat| watchdogs.iter().any(|watchdog| watchdog.pid == process.pid);
        let is_adopted = |process: &Stat| {
            process.parent == Some(own) && !is_watchdog(process) && (is_alone || Some(process.pid) == program)
        };
        while tree::end(&tree::below(&Stat::all(), is_adopted)) == Round::Ended {}
    }

    /// It has ended and was collected.
    pub(super) fn forget(&self) {
        watchdogs().retain(|watchdog| watchdog.pid != self.0);
    }
}

/// Waits until all watchdogs of this process have ended, and with them everything below them; at most this long. To be
/// called before the program exits, after all children were dropped.
pub fn wait_for_watchdogs(limit: Duration) {
    let deadline = Instant::now() + limit;
    let mut watchdogs = watchdogs();
    loop {
        watchdogs.retain(|watchdog| !watchdog.has_ended());
        let left = deadline.saturating_duration_since(Instant::now());
        if watchdogs.is_empty() || left.is_zero() {
            return;
        }
        let handles: Vec<_> = watchdogs
            .iter()
            .filter_map(|watchdog| watchdog.handle.as_ref())
            .collect();
        let without_events = handles.len() < watchdogs.len();
        tree::wait_for_one(&handles, if without_events { LOOK.min(left) } else { left });
    }
}
