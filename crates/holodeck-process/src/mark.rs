//! Marks the descendants of a child through an environment variable, so that those that left its process group are
//! found and killed.

use std::fmt::{self, Display};
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::stat::Stat;

/// The variable that holds a mark. Not `HOLODECK_…`: those are settings.
pub(crate) const VARIABLE: &str = "_HOLODECK_CHILD";

/// Repeats, because a process may be starting another one.
const ROUNDS: usize = 10;

/// How long a process may stay between two programs before the next look.
const EXECUTES: Duration = Duration::from_millis(2);

/// A value in the environment of one child and its descendants, and of no other process on the machine. It finds
/// descendants that left the process group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn new() -> Self {
        static RANDOM: OnceLock<u64> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let random = RANDOM.get_or_init(|| RandomState::new().build_hasher().finish());
        let own = std::process::id();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // The letter distinguishes it from a number, the suffix from a mark with the same prefix.
        Self(format!("m{own:x}-{random:016x}-{count:x}."))
    }

    /// Ends every process that inherited this mark, as far as the system shows environments (Linux does).
    pub(crate) fn kill(&self) {
        for _ in 0..ROUNDS {
            let (found, unknown) = self.find();
            if found.is_empty() {
                if !unknown {
                    return;
                }
                thread::sleep(EXECUTES);
            }
            for process in found {
                // It may have exited already.
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }

    /// The processes with this mark, and whether there are others whose environment cannot be seen at the moment.
    fn find(&self) -> (Vec<Pid>, bool) {
        let mut unknown = false;
        let Ok(processes) = fs::read_dir("/proc") else {
            return (Vec::new(), unknown);
        };
        let found = processes.flatten().filter_map(|entry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            // Those of other users cannot be read.
            let environment = fs::read(entry.path().join("environ")).ok()?;
            unknown |= environment.is_empty() && is_executing(&entry.path());
            let text = self.0.as_bytes();
            let found = environment.windows(text.len()).any(|part| part == text);
            found.then(|| Pid::from_raw(id))?
        });
        (found.collect(), unknown)
    }
}

/// Whether a process without an environment may be a descendant that is replacing its program: it lives, is not the
/// kernel's, and is not older than this program. A daemon without an environment must not delay every end of a child.
fn is_executing(process: &Path) -> bool {
    static OWN_START: OnceLock<Option<u64>> = OnceLock::new();
    let own_start = OWN_START.get_or_init(|| start_of_living(Path::new("/proc/self")));
    own_start.is_some() && start_of_living(process) >= *own_start
}

/// When a process started; absent if it ended or is the kernel's.
fn start_of_living(process: &Path) -> Option<u64> {
    let stat = Stat::read(process)?;
    (!stat.ended && !stat.is_kernels).then_some(stat.start)
}

impl Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{ChildEnv, ChildProcess, ProcessSpec};

    /// A process shows no environment while it replaces its program; this one never shows any.
    #[tokio::test]
    async fn a_process_without_an_environment_makes_a_second_look_necessary() {
        let spec = ProcessSpec::new("/usr/bin/env", ChildEnv::new()).args(["-i", "/bin/sleep", "600"]);
        let child = ChildProcess::spawn(&spec).unwrap();
        let mark = child.mark().unwrap();
        // A test that hangs here has found the mark, or no reason for a second look.
        while mark.find() != (Vec::new(), true) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
