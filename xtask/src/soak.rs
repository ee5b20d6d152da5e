//! Long runs: what is too slow for every change and still has to hold.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::host;

/// Each long run: its name, the minutes it is planned to take, and its arguments to `cargo`.
const RUNS: &[(&str, u32, &[&str])] = &[("fuzz", 10, &["xtask", "fuzz", "--seconds", "600"])];

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these runs.
    runs: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted: Vec<_> = RUNS
        .iter()
        .filter(|(name, ..)| args.runs.is_empty() || args.runs.iter().any(|run| run == name))
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = RUNS.iter().map(|(name, ..)| *name).collect();
        bail!(
            "nothing to run; long runs listed in xtask/src/soak.rs: [{}]",
            names.join(", ")
        );
    }
    for (name, planned, cargo_args) in wanted {
        println!("\n== {name} (planned {planned} min)");
        let started = Instant::now();
        host::run(&mut host::cargo(*cargo_args))?;
        println!("{name}: took {} s", started.elapsed().as_secs());
    }
    Ok(())
}
