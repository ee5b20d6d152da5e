use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A shorter text would be found in the environment of strangers.
pub(crate) const SHORTEST: usize = 12;
/// What is found may just be starting another.
const ROUNDS: usize = 5;

/// Ends every process in whose environment a text is.
pub(crate) fn kill_marked(mark: &str) {
    for _ in 0..ROUNDS {
        let found = marked(mark);
        if found.is_empty() {
            return;
        }
        for process in found {
            // It may have ended by itself.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

fn marked(mark: &str) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = std::process::id();
    processes
        .flatten()
        .filter_map(|entry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            // Those of others can't be read, nor those that have ended.
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let bears = environment
                .windows(mark.len())
                .any(|part| part == mark.as_bytes());
            (bears && id != own).then(|| Pid::from_raw(i32::try_from(id).ok()?))?
        })
        .collect()
}
