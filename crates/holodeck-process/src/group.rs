//! Signals the process group of a child. Must not signal after the leader was reaped, because the id may then belong to
//! another group.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

/// The process group of a child that leads it.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn led_by(pid: u32) -> Self {
        Self(i32::try_from(pid).ok().and_then(Pid::from_raw))
    }

    /// Asks every member to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends every member.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Signals no member from now on: the id may be reused.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Kills every member, for the last time: afterwards the id may be reused.
    pub(crate) fn finish(&mut self) {
        self.kill();
        self.0 = None;
    }

    fn signal(&self, signal: Signal) {
        let Some(group) = self.0 else { return };
        match kill_process_group(group, signal) {
            // No member is left.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                tracing::warn!(group = group.as_raw_nonzero().get(), %error, "can't signal a process group");
            }
        }
    }
}
