//! Measures the time that `holodeck serve` adds to a streamed answer, and its memory.

use std::time::Duration;

use anyhow::Result;

use crate::served::{
    Profile, build,
    load::{self, Conversations},
    model::Pace,
};
use crate::soak::load::{CONVERSATIONS, FAST, MORE_RUNS, READERS, SLOW};

use super::figures::{grouped, megabytes};
use super::report::{Budget, at_most, table};

/// The settings whose latency is measured, and how many conversations are answered at a time.
const CASES: [(&str, &str, usize); 4] = [
    ("SQLite, pieces of 20 ms", "", 1),
    (
        "memory, each piece",
        "events: {store: memory, chunk_flush_ms: 0}\n",
        1,
    ),
    ("SQLite, pieces of 20 ms", "", CONVERSATIONS),
    (
        "memory, each piece",
        "events: {store: memory, chunk_flush_ms: 0}\n",
        CONVERSATIONS,
    ),
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
    /// For each of [`CASES`]: median and 99th percentile in microseconds, and peak memory.
    cases: Vec<[u64; 3]>,
}

pub(super) fn measure(runs: u32) -> Result<Serving> {
    let program = build(Profile::Release)?;
    let mut idle = Vec::new();
    let mut readers = [Vec::new(), Vec::new()];
    let mut cases: Vec<[Vec<u64>; 3]> = CASES.iter().map(|_| Default::default()).collect();
    for run in 1..=runs {
        println!("run {run} of {runs} of `holodeck serve`");
        idle.push(load::idle(&program)?);
        let found = load::readers(&program, READERS, SLOW)?;
        let [waiting, peak] = &mut readers;
        waiting.push(found.waiting);
        peak.push(found.memory);
        for ((_, more, count), [medians, p99s, memory]) in CASES.iter().zip(&mut cases) {
            let more = format!("{MORE_RUNS}{more}");
            let Conversations {
                latency,
                memory: used,
                ..
            } = load::conversations(&program, *count, PACE, &more)?;
            medians.push(latency.median);
            p99s.push(latency.p99);
            memory.push(used);
        }
    }
    let [waiting, peak] = readers.map(median);
    Ok(Serving {
        idle: median(idle),
        waiting,
        peak,
        cases: cases.into_iter().map(|case| case.map(median)).collect(),
    })
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Serving {
    pub(super) fn budgets(&self) -> Vec<Budget> {
        let millis = |case: usize| {
            self.cases
                .get(case)
                .map_or(f64::NAN, |[_, p99, _]| *p99 as f64 / 1e3)
        };
        let mega = |bytes: u64| bytes as f64 / 1e6;
        vec![
            at_most(
                "added to a piece, SQLite, pieces of 20 ms, p99",
                millis(0),
                50.0,
                "ms",
            ),
            at_most("added to a piece, memory, each piece, p99", millis(1), 2.0, "ms"),
            at_most(
                "the same of 100 conversations, SQLite, pieces of 20 ms, p99",
                millis(2),
                50.0,
                "ms",
            ),
            at_most("`holodeck serve`, idle", mega(self.idle), 30.0, "MB"),
            at_most(
                "`holodeck serve`, 1,000 readers, peak",
                mega(self.peak),
                150.0,
                "MB",
            ),
        ]
    }

    pub(super) fn tables(&self) -> String {
        let latencies = CASES
            .iter()
            .zip(&self.cases)
            .map(|((settings, _, count), [median, p99, memory])| {
                [
                    (*settings).to_owned(),
                    grouped(*count),
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
        ];
        format!(
            "{}\n{}",
            table(
                [
                    "added to a piece by `holodeck serve`",
                    "conversations",
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
