//! The endpoint both sides talk to, in a process of its own so that its time is not theirs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::host;
use crate::workspace::Metadata;

/// Builds the server for a use in which its time does not matter, and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let build = [
        "build",
        "--locked",
        "-p",
        "holodeck-testkit",
        "--example",
        "bench_server",
    ];
    host::run(&mut host::cargo(build))?;
    Ok(Metadata::load()?
        .target_directory()
        .join("debug/examples/bench_server"))
}

/// A running server; it ends with the value.
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Server {
    pub(crate) fn start(program: &Path, delay: Duration) -> Result<Self> {
        Self::start_with(program, &[&delay.as_millis().to_string()])
    }

    /// Answers as a judge that gives the highest score, immediately.
    pub(crate) fn judge(program: &Path) -> Result<Self> {
        Self::start_with(program, &["0", "judge"])
    }

    fn start_with(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut child = host::command(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start `{}`", program.display()))?;
        let stdout = child.stdout.take().context("the server has no output")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        Ok(Self {
            child,
            url: url.trim().to_owned(),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It serves until its input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
