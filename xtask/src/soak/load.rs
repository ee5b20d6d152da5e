//! Many clients of `holodeck serve`: nothing is lost, and the budgets hold.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::served::{Profile, build, load, model::Pace};

/// 100 conversations, 50 pieces a second in each.
pub(crate) const CONVERSATIONS: usize = 100;
pub(crate) const FAST: Pace = Pace {
    pieces: 500,
    interval: Duration::from_millis(20),
    padding: 20,
};
pub(crate) const READERS: usize = 1_000;
pub(crate) const SLOW: Pace = Pace {
    pieces: 60,
    interval: Duration::from_millis(100),
    padding: 20,
};
/// The default of 64 is for real models.
pub(crate) const MORE_RUNS: &str = "serve: {max_runs: 200}\n";

/// E-80, readers without end, and one that takes nothing.
pub(super) fn check() -> Result<()> {
    let program = build(Profile::Release)?;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let idle = megabytes(load::idle(&program)?);
    println!("idle server: {idle:.1} MB");
    ensure!(idle <= 30.0, "more than 30 MB");
    let readers = load::readers(&program, READERS, SLOW)?;
    let (waiting, peak) = (megabytes(readers.waiting), megabytes(readers.memory));
    println!(
        "{READERS} readers of one conversation: each received {} events; {waiting:.1} MB waiting, {peak:.1} MB at most",
        readers.events
    );
    ensure!(peak <= 150.0, "more than 150 MB");
    let (behind, memory) = load::slow_reader(&program)?;
    let memory = megabytes(memory);
    println!("a reader that took nothing was {behind} events behind, and resumed; {memory:.1} MB at most");
    ensure!(memory <= 150.0, "more than 150 MB");
    let found = load::conversations(&program, CONVERSATIONS, FAST, MORE_RUNS)?;
    let millis = |micros: u64| micros as f64 / 1e3;
    let (median, p99) = (millis(found.latency.median), millis(found.latency.p99));
    println!(
        "{CONVERSATIONS} conversations with 50 pieces a second: {} pieces, none lost; added {median:.1} ms, p99 {p99:.1} ms; \
         {:.1} MB at most",
        found.pieces,
        megabytes(found.memory)
    );
    ensure!(p99 <= 50.0, "more than 50 ms");
    Ok(())
}
