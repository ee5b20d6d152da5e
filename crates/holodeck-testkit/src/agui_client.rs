#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and runs its own check"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs the pinned AG-UI client, verifier and schemas on threads: lists of runs, which are lists of events. Returns the
/// messages that the client has at the end of each thread, or the first violation of the protocol.
pub fn agui_client(threads: &[Vec<Vec<Value>>]) -> Result<Vec<Value>, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = workspace.join(".smoke/agui");
    for (installed, source) in [
        ("check.mjs", "check.mjs"),
        ("installed-lock.json", "package-lock.json"),
    ] {
        // What is installed is what is pinned.
        let pinned = fs::read_to_string(workspace.join("fixtures/agui").join(source)).unwrap();
        let is_same = fs::read_to_string(folder.join(installed)).is_ok_and(|text| text == pinned);
        assert!(
            is_same,
            "the AG-UI client in {} is absent or outdated; `cargo xtask smoke` installs it",
            folder.display()
        );
    }
    let mut child = Command::new("node")
        .arg(folder.join("check.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Node starts");
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            for thread in threads {
                let line = serde_json::to_string(thread).unwrap();
                if writeln!(stdin, "{line}").is_err() {
                    // The check ended at a violation.
                    break;
                }
            }
        });
        child.wait_with_output().unwrap()
    });
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let messages: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(messages.len(), threads.len(), "one answer per thread");
    Ok(messages)
}
