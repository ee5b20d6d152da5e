//! A bench of a crate: a program that prints its figures as one line of JSON.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::host;

/// Builds the bench of a package, with these features, and returns its path.
pub(super) fn build(package: &str, bench: &str, features: &str) -> Result<PathBuf> {
    let command = [
        "bench",
        "--locked",
        "-p",
        package,
        "--bench",
        bench,
        "--no-run",
        "--features",
        features,
    ];
    let format = ["--message-format", "json-render-diagnostics"];
    let messages = host::output(host::cargo(command).args(format))?;
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs =
        messages.filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)));
    programs.next_back().context("cargo built no bench")
}

/// Runs a part of a bench, in a folder or at the address of a database.
pub(super) fn run(
    program: &Path,
    what: &str,
    place: impl AsRef<OsStr>,
    count: Option<usize>,
) -> Result<Value> {
    let mut command = host::command(program);
    command
        .arg(what)
        .arg(place)
        .args(count.map(|count| count.to_string()));
    figures(&host::output(&mut command)?)
}

/// The figures in what a bench printed.
pub(super) fn figures(output: &str) -> Result<Value> {
    let line = output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.context("the bench printed no figures")?).context("the figures are not JSON")
}

/// The median of a figure over several runs.
pub(super) fn median(runs: &[Value], pointer: &str) -> f64 {
    let mut found: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.pointer(pointer)?.as_f64())
        .collect();
    found.sort_by(f64::total_cmp);
    found.get(found.len() / 2).copied().unwrap_or(f64::NAN)
}
