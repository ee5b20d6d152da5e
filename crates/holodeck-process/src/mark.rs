use std::fmt::{self, Display};
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that holds a mark. Not `HOLODECK_…`: those are settings.
pub(crate) const VARIABLE: &str = "_HOLODECK_CHILD";

/// A process that is found may just be starting another.
const ROUNDS: usize = 5;

/// A text in the environment of one child and of what that child starts, and of no other process of the machine. It
/// finds descendants that left the process group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn new() -> Self {
        static RANDOM: OnceLock<u64> = OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let random = RANDOM.get_or_init(|| RandomState::new().build_hasher().finish());
        let own = std::process::id();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // The letter tells it from a number, the end from a mark that begins alike.
        Self(format!("m{own:x}-{random:016x}-{count:x}."))
    }

    /// Ends every process that inherited this mark, as far as the system shows environments (Linux does).
    pub(crate) fn kill(&self) {
        for _ in 0..ROUNDS {
            let found = self.find();
            if found.is_empty() {
                return;
            }
            for process in found {
                // It may have ended by itself.
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }

    fn find(&self) -> Vec<Pid> {
        let Ok(processes) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        processes
            .flatten()
            .filter_map(|entry| {
                let id: i32 = entry.file_name().to_str()?.parse().ok()?;
                // Those of other users cannot be read; those of ended processes are empty.
                let environment = fs::read(entry.path().join("environ")).ok()?;
                let text = self.0.as_bytes();
                let found = environment.windows(text.len()).any(|part| part == text);
                found.then(|| Pid::from_raw(id))?
            })
            .collect()
    }
}

impl Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
