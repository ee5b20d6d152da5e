//! Small shell scripts as children, and a view of the remaining processes.

use std::fs;

use holodeck_process::{ChildEnv, ProcessSpec};
use tempfile::TempDir;

/// A script in a folder of its own; the folder is its working directory.
pub(crate) struct Script {
    pub(crate) folder: TempDir,
    pub(crate) spec: ProcessSpec,
}

pub(crate) fn script(text: &str) -> Script {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script"), text).unwrap();
    let mut env = ChildEnv::new();
    env.set("PATH", "/usr/bin:/bin");
    let spec = ProcessSpec::new("sh", env)
        .args(["./script"])
        .current_dir(folder.path());
    Script { folder, spec }
}

/// The members of a process group that are not yet dead.
pub(crate) fn members(group: u32) -> Vec<String> {
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let Some((_, fields)) = stat.rsplit_once(") ") else {
            continue;
        };
        let fields: Vec<&str> = fields.split(' ').collect();
        if fields[2] == group.to_string() && fields[0] != "Z" {
            members.push(stat);
        }
    }
    members
}

/// Waits until the script has written a file, and returns its content.
pub(crate) async fn file(script: &Script, name: &str) -> String {
    loop {
        match fs::read_to_string(script.folder.path().join(name)) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Waits until the group is empty; a test that hangs here has found an orphan.
pub(crate) async fn gone(group: u32) {
    while !members(group).is_empty() {
        tokio::task::yield_now().await;
    }
}
