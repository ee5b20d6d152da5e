//! Runs clients written in JavaScript, pinned by version, against our servers and events.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and runs its own check"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs the pinned AG-UI client, verifier and schemas on threads: lists of runs, which are lists of events. Returns the
/// messages that the client has at the end of each thread, or the first violation of the protocol.
pub fn agui_client(threads: &[Vec<Vec<Value>>]) -> Result<Vec<Value>, String> {
    let mut child = Command::new("node")
        .arg(script("agui.mjs"))
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

/// Lets a pinned client talk to the server at `url`: `ws`, `openai` or `agui`. Returns what it saw, or why it failed.
pub fn foreign_client(client: &str, url: &str, token: &str) -> Result<Value, String> {
    talk("talk.mjs", client, url, token)
}

/// Lets a pinned client retry, stop, ask again and change a message at the server at `url`: `openai` or `agui`. Returns what
/// it saw, or why it failed.
pub fn changing_client(client: &str, url: &str, token: &str) -> Result<Value, String> {
    talk("change.mjs", client, url, token)
}

fn talk(name: &str, client: &str, url: &str, token: &str) -> Result<Value, String> {
    let output = Command::new("node")
        .arg(script(name))
        .args([client, url, token])
        .stdin(Stdio::null())
        .output()
        .expect("Node starts");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

/// An installed script; what is installed is what is pinned.
fn script(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = workspace.join(".smoke/clients");
    for (installed, source) in [(name, name), ("installed-lock.json", "package-lock.json")] {
        let pinned = fs::read_to_string(workspace.join("fixtures/clients").join(source)).unwrap();
        let is_same = fs::read_to_string(folder.join(installed)).is_ok_and(|text| text == pinned);
        assert!(
            is_same,
            "the clients in {} are absent or outdated; `cargo xtask smoke` installs them",
            folder.display()
        );
    }
    folder.join(name)
}
