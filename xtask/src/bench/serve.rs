//! Measures the time that `holodeck serve` adds to a streamed answer, and its memory.

use std::time::Duration;

use anyhow::Result;

use crate::served::{
    Profile, build,
    load::{self, Conversations},
    model::Pace,
};
use crate::soak::load::{FAST, MORE_RUNS, READERS, SLOW};

use super::figures::{grouped, megabytes};
use super::report::{Budget, at_most, table};

/// Conversations at the same time.
const CONVERSATIONS: usize = 64;

/// Readers that take nothing.
const STALLED: usize = 300;

/// The settings whose latency is measured, and how many conversations are answered at a time.
const CASES: [(&str, &str, usize); 4] = [
    ("SQLite", "", 1),
    ("memory", "events: {store: memory}\n", 1),
    ("SQLite", "", CONVERSATIONS),
    ("memory", "events: {store: memory}\n", CONVERSATIONS),
];

/// As [`FAST`], for a shorter time.
const PACE: Pace = Pace {
    pieces: 250,
    interval: Duration::from_millis(20),
    padding: FAST.padding,
};

/// The measurements; of several runs, the median.
pub(super) struct Serving {
    idle: u64,
    waiting: u64,
    peak: u64,
    /// With readers that take nothing.
    with_stalled: u64,
    /// After they left.
    after_stalled: u64,
    /// For each of [`CASES`]: the median of the first pieces, median and 99th percentile of all, in microseconds, and peak
    /// memory.
    cases: Vec<[u64; 4]>,
}

pub(super) fn measure(runs: u32) -> Result<Serving> {
    let program = build(Profile::Release)?;
    let mut idle = Vec::new();
    let mut readers = [Vec::new(), Vec::new()];
    let mut stalled = [Vec::new(), Vec::new()];
    let mut cases: Vec<[Vec<u64>; 4]> = CASES.iter().map(|_| Default::default()).collect();
    for run in 1..=runs {
        println!("run {run} of {runs} of `holodeck serve`");
        idle.push(load::idle(&program)?);
        let found = load::readers(&program, READERS, SLOW)?;
        let [waiting, peak] = &mut readers;
        waiting.push(found.waiting);
        peak.push(found.memory);
        let memory = load::held_by_readers(&program, STALLED)?;
        for (found, memory) in stalled.iter_mut().zip(memory) {
            found.push(memory);
        }
        for ((_, more, count), [firsts, medians, p99s, memory]) in CASES.iter().zip(&mut cases) {
            let more = format!("{MORE_RUNS}{more}");
            let Conversations {
                first,
                latency,
                memory: used,
                ..
            } = load::conversations(&program, *count, PACE, &more)?;
            firsts.push(first);
            medians.push(latency.median);
            p99s.push(latency.p99);
            memory.push(used);
        }
    }
    let [waiting, peak] = readers.map(median);
    let [with_stalled, after_stalled] = stalled.map(median);
    Ok(Serving {
        idle: median(idle),
        waiting,
        peak,
        with_stalled,
        after_stalled,
        cases: cases.into_iter().map(|case| case.map(median)).collect(),
    })
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Serving {
    pub(super) fn budgets(&self) -> Vec<Budget> {
        let millis = |case: usize, figure: usize| {
            let found = self.cases.get(case).and_then(|case| case.get(figure));
            found.map_or(f64::NAN, |micros| *micros as f64 / 1e3)
        };
        let mega = |bytes: u64| bytes as f64 / 1e6;
        let many = format!("of {CONVERSATIONS} conversations, SQLite");
        vec![
            at_most("added to the first piece, SQLite, p50", millis(0, 0), 2.0, "ms"),
            at_most("added to a piece, SQLite, p50", millis(0, 1), 2.0, "ms"),
            at_most("added to a piece, memory, p99", millis(1, 2), 2.0, "ms"),
            at_most(&format!("the first piece {many}, p50"), millis(2, 0), 2.0, "ms"),
            at_most(&format!("a piece {many}, p50"), millis(2, 1), 2.0, "ms"),
            at_most(&format!("a piece {many}, p99"), millis(2, 2), 50.0, "ms"),
            at_most("`holodeck serve`, idle", mega(self.idle), 30.0, "MB"),
            at_most(
                "`holodeck serve`, 1,000 readers, peak",
                mega(self.peak),
                150.0,
                "MB",
            ),
            at_most(
                "`holodeck serve`, 300 readers that take nothing",
                mega(self.with_stalled),
                100.0,
                "MB",
            ),
            at_most(
                "`holodeck serve`, after they left",
                mega(self.after_stalled),
                50.0,
                "MB",
            ),
        ]
    }

    pub(super) fn tables(&self) -> String {
        let latencies =
            CASES
                .iter()
                .zip(&self.cases)
                .map(|((settings, _, count), [first, median, p99, memory])| {
                    [
                        (*settings).to_owned(),
                        grouped(*count),
                        format!("{:.1} ms", *first as f64 / 1e3),
                        format!("{:.1} ms", *median as f64 / 1e3),
                        format!("{:.1} ms", *p99 as f64 / 1e3),
                        megabytes(*memory),
                    ]
                });
        let memory = [
            ["idle".to_owned(), megabytes(self.idle)],
            [
                format!("{} readers wait for events", grouped(READERS)),
                megabytes(self.waiting),
            ],
            [
                format!("{} readers read, peak", grouped(READERS)),
                megabytes(self.peak),
            ],
            [
                format!("{STALLED} clients of answers of 10 MB take nothing"),
                megabytes(self.with_stalled),
            ],
            ["after they left".to_owned(), megabytes(self.after_stalled)],
        ];
        format!(
            "{}\n{}",
            table(
                [
                    "added to a piece by `holodeck serve`",
                    "conversations",
                    "first piece, p50",
                    "p50",
                    "p99",
                    "peak memory"
                ],
                latencies
            ),
            table(["`holodeck serve`", "resident memory"], memory)
        )
    }
}
