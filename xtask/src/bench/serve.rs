//! Measures the time that `holodeck serve` adds to a streamed answer, and its memory.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::served::{
    load::{self, Conversations, Stalling},
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

/// The time between the second messages of two conversations: all of them begin while the others are answered.
const APART: Duration = Duration::from_millis(70);

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
    /// With readers that take nothing, and after they left; with those of AG-UI, and after they left.
    stalled: [u64; 4],
    /// For each of [`CASES`]: the medians of the first pieces that the model writes at the same moment, without a server
    /// and with one; of those that begin one after the other; median and 99th percentile of all pieces, in microseconds;
    /// and peak memory.
    cases: Vec<[u64; 6]>,
}

/// Places of the figures of a case.
const WITHOUT_SERVER: usize = 0;
const FIRST: usize = 1;
const APART_FIRST: usize = 2;
const MEDIAN: usize = 3;
const P99: usize = 4;

pub(super) fn measure(program: &Path, runs: u32) -> Result<Serving> {
    let mut idle = Vec::new();
    let mut readers = [Vec::new(), Vec::new()];
    let mut stalled = [(); 4].map(|()| Vec::new());
    let mut cases: Vec<[Vec<u64>; 6]> = CASES.iter().map(|_| Default::default()).collect();
    for run in 1..=runs {
        println!("run {run} of {runs} of `holodeck serve`");
        idle.push(load::idle(program)?);
        let found = load::readers(program, READERS, SLOW)?;
        let [waiting, peak] = &mut readers;
        waiting.push(found.waiting);
        peak.push(found.memory);
        let several = load::held_by_readers(program, STALLED, Stalling::Several)?;
        let ag_ui = load::held_by_readers(program, STALLED, Stalling::AgUi)?;
        for (found, memory) in stalled.iter_mut().zip(several.into_iter().chain(ag_ui)) {
            found.push(memory);
        }
        for ((_, more, count), figures) in CASES.iter().zip(&mut cases) {
            let more = format!("{MORE_RUNS}{more}");
            let without = load::first_pieces_without_server(*count, PACE)?;
            let Conversations {
                first,
                first_apart,
                latency,
                memory,
                ..
            } = load::conversations(program, *count, PACE, &more, Some(APART))?;
            let found = [without, first, first_apart, latency.median, latency.p99, memory];
            for (figure, found) in figures.iter_mut().zip(found) {
                figure.push(found);
            }
        }
    }
    let [waiting, peak] = readers.map(median);
    Ok(Serving {
        idle: median(idle),
        waiting,
        peak,
        stalled: stalled.map(median),
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
        let [with_stalled, after_stalled, with_ag_ui, after_ag_ui] = self.stalled.map(mega);
        let together = millis(2, FIRST) - millis(2, WITHOUT_SERVER);
        vec![
            at_most(
                "added to the first piece, SQLite, p50",
                millis(0, FIRST),
                2.0,
                "ms",
            ),
            at_most("added to a piece, SQLite, p50", millis(0, MEDIAN), 2.0, "ms"),
            at_most("added to a piece, memory, p99", millis(1, P99), 2.0, "ms"),
            at_most(
                &format!("the first piece {many}, p50"),
                millis(2, APART_FIRST),
                2.0,
                "ms",
            ),
            at_most(
                "the same if all begin at the same moment, over clients of the model itself, p50",
                together,
                2.0,
                "ms",
            ),
            at_most(&format!("a piece {many}, p50"), millis(2, MEDIAN), 2.0, "ms"),
            at_most(&format!("a piece {many}, p99"), millis(2, P99), 50.0, "ms"),
            at_most("`holodeck serve`, idle", mega(self.idle), 30.0, "MB"),
            at_most(
                "`holodeck serve`, 1,000 readers, peak",
                mega(self.peak),
                150.0,
                "MB",
            ),
            at_most(
                "`holodeck serve`, 300 readers that take nothing",
                with_stalled,
                100.0,
                "MB",
            ),
            at_most("`holodeck serve`, after they left", after_stalled, 50.0, "MB"),
            at_most(
                "`holodeck serve`, 300 clients of AG-UI that take nothing",
                with_ag_ui,
                100.0,
                "MB",
            ),
            at_most("`holodeck serve`, after these left", after_ag_ui, 50.0, "MB"),
        ]
    }

    pub(super) fn tables(&self) -> String {
        let latencies = CASES.iter().zip(&self.cases).map(
            |((settings, _, count), [without, first, apart, median, p99, memory])| {
                let millis = |micros: u64| format!("{:.1} ms", micros as f64 / 1e3);
                [
                    (*settings).to_owned(),
                    grouped(*count),
                    millis(*apart),
                    millis(*first),
                    millis(*without),
                    millis(*median),
                    millis(*p99),
                    megabytes(*memory),
                ]
            },
        );
        let [with_stalled, after_stalled, with_ag_ui, after_ag_ui] = self.stalled.map(megabytes);
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
                with_stalled,
            ],
            ["after they left".to_owned(), after_stalled],
            [
                format!("{STALLED} clients of AG-UI take nothing of such answers"),
                with_ag_ui,
            ],
            ["after these left".to_owned(), after_ag_ui],
        ];
        format!(
            "{}\n{}",
            table(
                [
                    "added to a piece by `holodeck serve`",
                    "conversations",
                    "first piece, p50",
                    "all begin at the same moment",
                    "the same without a server",
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
