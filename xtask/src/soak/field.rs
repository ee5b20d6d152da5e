//! Agents of the product against real programs that others wrote: a proxy and a small model, servers on the SDKs of the Model
//! Context Protocol, an authorization server, a collector of telemetry, and releases of the CLI of Claude Code. The outcomes of all
//! but logins and collectors are stored for `docs/compatibility.md`.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    child,
    outcomes::{Outcome, store, version_of},
};
use crate::host;

mod clis;
mod collectors;
mod logins;
mod models;
mod servers;

pub(super) use self::{
    clis::check as clis, collectors::check as collectors, logins::check as logins, models::check as models,
    servers::check as servers,
};

/// An agent that was tested.
struct Tested {
    /// The report, and what the run file has beside it.
    run: Value,
    /// Its only case.
    case: Value,
    stderr: String,
}

impl Tested {
    /// Runs the tests of an agent in a folder. Failed cases are a result, too.
    fn new(program: &Path, folder: &Path, agent: &str, env: &[(&str, &str)]) -> Result<Self> {
        fs::write(folder.join("agent.yaml"), agent)?;
        let mut holodeck = host::command(program);
        // What this machine has set must not change what is tried.
        for name in [
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "OPENAI_API_KEY",
        ] {
            holodeck.env_remove(name);
        }
        let output = holodeck
            .args(["test", "agent.yaml"])
            .envs(env.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let file = run_file(folder).with_context(|| format!("no run file; holodeck said:\n{stderr}"))?;
        let run: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
        let cases = run["report"]["results"].as_array();
        let case = cases.and_then(|cases| cases.first()).cloned();
        let case = case.with_context(|| format!("the run has no case; holodeck said:\n{stderr}"))?;
        Ok(Self { run, case, stderr })
    }

    fn ensure_passed(&self) -> Result<()> {
        let state = &self.case["state"];
        ensure!(
            state == "passed",
            "the case is {state}: {:#}\n{}",
            self.case,
            self.stderr
        );
        Ok(())
    }

    fn ensure_usage(&self) -> Result<()> {
        let summary = &self.run["report"]["summary"];
        ensure!(!summary["token_usage"].is_null(), "no usage in {summary:#}");
        Ok(())
    }

    /// The parts of requests that were sent in another form.
    fn adapted(&self) -> Vec<String> {
        let adapted = self.run["report"]["adapted"].as_array().into_iter().flatten();
        adapted
            .filter_map(|adapted| Some(adapted.get("part")?.as_str()?.to_owned()))
            .collect()
    }

    /// The calls of tools that ran: name, arguments, result, and whether it is an error.
    fn calls(&self) -> Vec<(String, Value, String, bool)> {
        let calls = self.case["tool_invocations"].as_array().into_iter().flatten();
        calls
            .map(|call| {
                let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
                (
                    text("name"),
                    call["args"].clone(),
                    text("result"),
                    !call["error"].is_null(),
                )
            })
            .collect()
    }
}

/// The only run file below a folder.
fn run_file(folder: &Path) -> Option<PathBuf> {
    let only = |folder: PathBuf| {
        let entries = fs::read_dir(folder).ok()?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.next()
    };
    only(only(folder.join("results"))?)
}

#[cfg(test)]
mod tests;
