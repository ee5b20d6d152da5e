//! Ends all processes below one, by the parents that the system records. It ends none that is not below.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use crate::stat::Stat;

/// How long a killed process may take to end. The kernel may hold it (a dead network file system); it ends later.
pub(crate) const HELD: Duration = Duration::from_secs(2);

/// The living processes below those for which `is_root` holds, and these.
pub(super) fn below(all: &[Stat], is_root: impl Fn(&Stat) -> bool) -> Vec<Stat> {
    let mut found: Vec<Stat> = all.iter().copied().filter(is_root).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|found| found.pid) {
        next += 1;
        let children = all.iter().filter(|child| child.parent == Some(parent));
        let new: Vec<Stat> = children.filter(|child| !found.contains(child)).copied().collect();
        found.extend(new);
    }
    found.retain(|process| !process.ended);
    found
}

/// The result of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// There was nothing to end.
    Empty,
    /// Some were ended.
    Ended,
    /// The rest belongs to another user, or the kernel holds it.
    Unable,
}

/// Kills these processes and waits until they have ended.
pub(super) fn end(found: &[Stat]) -> Round {
    let mut ending = Vec::new();
    let mut foreign = 0;
    for process in found {
        match kill(process) {
            Ok(Some(handle)) => ending.push(handle),
            // It ended meanwhile.
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(pid = process.pid.as_raw_nonzero().get(), %error, "can't end a process");
                foreign += 1;
            }
        }
    }
    match (found.len(), wait_for(ending)) {
        (0, _) => Round::Empty,
        (_, false) => Round::Unable,
        (count, true) if count == foreign => Round::Unable,
        (_, true) => Round::Ended,
    }
}

/// Kills a process if it is still the one that was found. The handle becomes readable when it has ended.
fn kill(found: &Stat) -> Result<Option<OwnedFd>, Errno> {
    let is_same = || Stat::of(found.pid).is_some_and(|now| now.start == found.start);
    match pidfd_open(found.pid, PidfdFlags::empty()) {
        // From here on the handle names one process, whatever becomes of the number.
        Ok(handle) if is_same() => match pidfd_send_signal(&handle, Signal::KILL) {
            Ok(()) => Ok(Some(handle)),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        },
        Ok(_) | Err(Errno::SRCH) => Ok(None),
        // An old kernel, or a sandbox.
        Err(_) if is_same() => match kill_process(found.pid, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        },
        Err(_) => Ok(None),
    }
}

/// Waits until all have ended; `false` if the kernel holds one.
fn wait_for(mut handles: Vec<OwnedFd>) -> bool {
    while !handles.is_empty() {
        if !wait_for_one(&handles.iter().collect::<Vec<_>>(), HELD) {
            return false;
        }
        handles.retain(|handle| !has_ended(handle));
    }
    true
}

/// Waits until one has ended, at most this long.
pub(crate) fn wait_for_one(handles: &[&OwnedFd], limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).unwrap_or_default();
    let mut polled: Vec<_> = handles
        .iter()
        .map(|handle| PollFd::new(*handle, PollFlags::IN))
        .collect();
    matches!(poll(&mut polled, Some(&limit)), Ok(1..) | Err(Errno::INTR))
}

/// Whether a handle's process has ended.
pub(super) fn has_ended(handle: &OwnedFd) -> bool {
    wait_for_one(&[handle], Duration::ZERO)
}

/// Picks the children of a process.
pub(super) fn is_child_of(parent: Pid) -> impl Fn(&Stat) -> bool {
    move |process| process.parent == Some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Stat {
        Stat {
            pid: Pid::from_raw(pid).unwrap(),
            parent: Pid::from_raw(parent),
            start: 1,
            ended: false,
            is_kernels: false,
        }
    }

    #[test]
    fn only_what_is_below_is_found_in_any_order() {
        let ended = Stat {
            ended: true,
            ..process(16, 10)
        };
        let all = [
            process(40, 30),
            process(1, 0),
            process(30, 20),
            process(10, 1),
            process(20, 10),
            process(11, 1),
            process(21, 11),
            ended,
        ];
        let found = |root: i32| {
            let root = Pid::from_raw(root).unwrap();
            let found = below(&all, is_child_of(root));
            let mut found: Vec<i32> = found.iter().map(|one| one.pid.as_raw_nonzero().get()).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(found(10), [20, 30, 40]);
        assert_eq!(found(11), [21]);
        assert!(found(40).is_empty());
    }
}
