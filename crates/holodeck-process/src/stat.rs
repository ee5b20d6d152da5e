//! The processes of this machine as `/proc` shows them. Empty where there is none.

use std::fs;
use std::path::Path;

use rustix::process::Pid;

/// A process at the moment of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: Pid,
    /// Absent for a process whose parent is outside of what this one sees.
    pub(crate) parent: Option<Pid>,
    /// When it started, in ticks since the system did. With the id, it names one process.
    pub(crate) start: u64,
    /// Whether it has exited and only its status is left.
    pub(crate) ended: bool,
    pub(crate) is_kernels: bool,
}

impl Stat {
    /// A process by its folder in `/proc`.
    pub(crate) fn read(process: &Path) -> Option<Self> {
        const KERNEL_THREAD: u32 = 0x0020_0000;
        let text = fs::read_to_string(process.join("stat")).ok()?;
        // The name, in parentheses, may hold anything.
        let (head, fields) = text.rsplit_once(')')?;
        let pid = head.split_once(' ')?.0.parse().ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let parent: i32 = fields.next()?.parse().ok()?;
        let flags: u32 = fields.nth(4)?.parse().ok()?;
        let start = fields.nth(12)?.parse().ok()?;
        Some(Self {
            pid: Pid::from_raw(pid)?,
            parent: Pid::from_raw(parent),
            start,
            ended,
            is_kernels: flags & KERNEL_THREAD != 0,
        })
    }

    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Self::read(Path::new(&format!("/proc/{}", pid.as_raw_nonzero())))
    }

    /// All processes that can be seen.
    pub(crate) fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(is_process))
            .filter_map(|entry| Self::read(&entry.path()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_with_its_parent() {
        let own = Stat::of(rustix::process::getpid()).unwrap();
        assert_eq!(own.parent, rustix::process::getppid());
        assert!(!own.ended && !own.is_kernels && own.start > 0);
        assert!(
            Stat::all()
                .iter()
                .any(|other| other.pid == own.pid && other.start == own.start)
        );
    }
}
