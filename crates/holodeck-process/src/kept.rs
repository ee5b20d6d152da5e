//! Values that must not be dropped before a process has ended, such as the folder in which it works. They end no process.

#[cfg(target_os = "linux")]
use ending::Ending;

/// The values that are kept for one process.
#[derive(Default)]
pub(crate) struct Kept(Vec<Box<dyn Send>>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kept").field(&self.0.len()).finish()
    }
}

impl Kept {
    pub(crate) fn add(&mut self, value: impl Send + 'static) {
        self.0.push(Box::new(value));
    }

    /// Drops everything when the process has ended, which must already be ending: in the background, or if there is no
    /// runtime, before this returns.
    pub(crate) fn drop_at_end(&mut self, pid: Option<u32>) {
        let kept = std::mem::take(self);
        #[cfg(target_os = "linux")]
        Ending::drop_at_end(kept, pid);
        // Elsewhere the system has no event for it.
        #[cfg(not(target_os = "linux"))]
        drop((kept, pid));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(target_os = "linux")]
mod ending {
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use tokio::runtime::Handle;

    use super::Kept;
    use crate::below::tree::{HELD, wait_for_one};

    /// A process that is ending. Dropping this waits for its end.
    pub(super) struct Ending {
        handle: OwnedFd,
        _kept: Kept,
    }

    impl Ending {
        pub(super) fn drop_at_end(kept: Kept, pid: Option<u32>) {
            let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
            let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            // Without a handle, it has ended, or the system is too old to have one.
            let Some(handle) = handle else { return };
            let ending = Self { handle, _kept: kept };
            if let Ok(runtime) = Handle::try_current() {
                // A runtime that ends drops what it has not begun.
                runtime.spawn_blocking(move || drop(ending));
            }
        }
    }

    impl Drop for Ending {
        fn drop(&mut self) {
            wait_for_one(&[&self.handle], HELD);
        }
    }
}
