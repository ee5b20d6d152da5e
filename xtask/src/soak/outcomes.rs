//! The outcomes of long runs with programs that others wrote, stored with their day for `docs/compatibility.md`.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing JSON by a key that is not there gives null"
)]

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{host, workspace};

/// Where the outcomes are kept; the tables of the documentation are made of them.
pub(super) const OUTCOMES: &str = "fixtures/compatibility/tried.json";

/// A program that was tried, and what worked with it.
pub(super) struct Outcome {
    pub(super) program: String,
    /// The transport or interface between, if it is not the only one.
    pub(super) over: &'static str,
    /// The revision of the protocol that it spoke, if there are several.
    pub(super) spoke: String,
    /// The program that ran it.
    pub(super) on: String,
    pub(super) works: Vec<String>,
    pub(super) adapted: Vec<String>,
}

/// Replaces the stored outcomes of a part.
pub(super) fn store(part: &str, outcomes: &[Outcome]) -> Result<()> {
    let today = host::first_line("date", &["-u", "+%F"]).context("`date` prints no day")?;
    let rows: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            json!({
                "program": outcome.program, "over": outcome.over, "spoke": outcome.spoke, "on": outcome.on,
                "tried": today, "works": outcome.works, "adapted": outcome.adapted,
            })
        })
        .collect();
    let file = workspace::root().join(OUTCOMES);
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    stored[part] = rows.into();
    fs::write(file, serde_json::to_string_pretty(&stored)? + "\n")?;
    println!("wrote {OUTCOMES}; `cargo xtask codegen` writes the table");
    Ok(())
}

/// The first line that a program prints about its version.
pub(super) fn version_of(program: &str) -> String {
    host::first_line(program, &["--version"]).unwrap_or_else(|| program.to_owned())
}

/// The program and the transport of every stored outcome of a part.
#[cfg(test)]
pub(super) fn stored(part: &str) -> Vec<(String, String)> {
    let file = workspace::root().join(OUTCOMES);
    let stored: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let rows = stored[part].as_array().unwrap().iter();
    rows.map(|row| {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        assert!(!row["works"].as_array().unwrap().is_empty(), "{row}");
        (text("program"), text("over"))
    })
    .collect()
}
