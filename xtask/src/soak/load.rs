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

/// Readers that take nothing.
const STALLED: usize = 20;

/// E-80, many readers, and some that take nothing.
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
    let load::Stalled { behind, memory } = load::stalled_readers(&program, STALLED)?;
    let [with, without] = memory.map(megabytes);
    println!(
        "{STALLED} readers of 12 MB that took nothing were {behind} events behind, and resumed; {with:.1} MB at most, without \
         them {without:.1} MB"
    );
    // Their backlog is four times as large.
    ensure!(with <= without + 40.0, "they cost more than 40 MB");
    let found = load::conversations(&program, CONVERSATIONS, FAST, MORE_RUNS, None)?;
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
