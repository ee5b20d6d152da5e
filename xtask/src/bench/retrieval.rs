//! The embedded index beside two others, all on the same vectors.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value;

use super::figures::grouped;
use super::machine::Machine;
use super::program::{self, median};
use super::report::{at_least, at_most, budget_table, table};
use crate::host;
use crate::workspace::Metadata;

const SIZES: [usize; 2] = [10_000, 100_000];
const PEERS: [&str; 2] = ["sqlite-vec", "chroma"];
const PEERS_PROGRAM: &str = include_str!("peers.py");
/// `apsw` has an SQLite that may load extensions; many a Python's own may not.
const PACKAGES: [&str; 4] = ["numpy", "apsw", "sqlite-vec", "chromadb"];

/// The measurements at one size, each figure in each run.
struct Size {
    count: usize,
    builds: Vec<Value>,
    searches: Vec<Value>,
    /// A peer is slow to build: once is enough.
    peers: Vec<(&'static str, Option<Value>)>,
}

pub(super) fn measure(machine: &Machine, runs: u32) -> Result<String> {
    let program = program::build("holodeck-retrieval", "retrieval", "default")?;
    let python = python();
    if let Err(error) = &python {
        println!("without other programs to compare with: {error:#}");
    }
    let mut sizes = Vec::new();
    for count in SIZES {
        println!("{} chunks", grouped(count));
        sizes.push(measure_size(&program, count, runs, python.as_deref().ok())?);
    }
    Ok(render(machine, runs, &sizes))
}

fn measure_size(program: &Path, count: usize, runs: u32, python: Option<&Path>) -> Result<Size> {
    let folder = tempfile::Builder::new().prefix("holodeck-retrieval-").tempdir()?;
    program::run(program, "make", folder.path(), Some(count))?;
    let mut size = Size {
        count,
        builds: Vec::new(),
        searches: Vec::new(),
        peers: Vec::new(),
    };
    for _ in 0..runs {
        size.builds
            .push(program::run(program, "build", folder.path(), None)?);
        size.searches
            .push(program::run(program, "search", folder.path(), None)?);
    }
    for peer in PEERS {
        println!("{peer}");
        let figures = python
            .map(|python| ask_peer(python, peer, folder.path()))
            .transpose();
        let figures = figures.unwrap_or_else(|error| {
            println!("{error:#}");
            None
        });
        size.peers.push((peer, figures));
    }
    Ok(size)
}

/// A Python that has the other programs, kept for the next time.
fn python() -> Result<PathBuf> {
    let home = Metadata::load()?.target_directory().join("bench-peers");
    let python = home.join("bin/python");
    if !home.join("whole").exists() {
        host::run(host::command("python3").args(["-m", "venv"]).arg(&home))?;
        host::run(
            host::command(&python)
                .args(["-m", "pip", "install", "--quiet"])
                .args(PACKAGES),
        )?;
        fs::write(home.join("whole"), "")?;
    }
    Ok(python)
}

fn ask_peer(python: &Path, peer: &str, folder: &Path) -> Result<Value> {
    let program = folder.join("peers.py");
    fs::write(&program, PEERS_PROGRAM)?;
    program::figures(&host::output(
        host::command(python).arg(program).arg(peer).arg(folder),
    )?)
}

impl Size {
    fn built(&self, pointer: &str) -> f64 {
        median(&self.builds, pointer)
    }

    fn searched(&self, pointer: &str) -> f64 {
        median(&self.searches, pointer)
    }
}

fn render(machine: &Machine, runs: u32, sizes: &[Size]) -> String {
    let mut text = format!(
        "{} Medians of {runs} runs; the other programs ran once.\n\n",
        machine.describe()
    );
    if let Some(most) = sizes.last() {
        let least_recall = most
            .searches
            .iter()
            .filter_map(|run| run.pointer("/recall")?.as_f64());
        text += &budget_table(vec![
            at_most(
                "the ten nearest of 100,000, median",
                most.searched("/search/p50_ms"),
                15.0,
                "ms",
            ),
            at_least("recall", least_recall.fold(1.0, f64::min) * 100.0, 100.0, "%"),
            at_most("open an index of 100,000", most.searched("/open_ms"), 20.0, "ms"),
            at_least(
                "ingestion without the embedder",
                most.built("/chunks_per_second"),
                20_000.0,
                "chunks a second",
            ),
        ]);
        text.push('\n');
    }
    text += &table(
        [
            "program",
            "chunks",
            "p50",
            "p99",
            "recall",
            "chunks a second in",
            "bytes a chunk",
            "memory",
        ],
        sizes.iter().flat_map(programs),
    );
    text.push('\n');
    text += &table(
        ["work of the embedded index", "10,000 chunks", "100,000 chunks"],
        details(sizes),
    );
    text
}

fn programs(size: &Size) -> Vec<[String; 8]> {
    let ms = |ms: f64| format!("{ms:.2} ms");
    let dash = || "–".to_owned();
    let floor = size.searched("/floor_ms");
    let mut rows = vec![
        [
            "floor".to_owned(),
            grouped(size.count),
            ms(floor),
            dash(),
            dash(),
            dash(),
            dash(),
            dash(),
        ],
        [
            "embedded index".to_owned(),
            grouped(size.count),
            ms(size.searched("/search/p50_ms")),
            ms(size.searched("/search/p99_ms")),
            format!("{:.4}", size.searched("/recall")),
            rate(size.built("/chunks_per_second")),
            rate(size.built("/bytes_per_chunk")),
            format!("{:.0} MB", size.searched("/memory_kib") * 1024.0 / 1e6),
        ],
    ];
    rows.extend(size.peers.iter().map(|(peer, figures)| {
        let Some(figures) = figures else {
            let absent = "could not be run".to_owned();
            return [
                (*peer).to_owned(),
                grouped(size.count),
                absent,
                dash(),
                dash(),
                dash(),
                dash(),
                dash(),
            ];
        };
        let of = |pointer: &str| {
            figures
                .pointer(pointer)
                .and_then(Value::as_f64)
                .unwrap_or(f64::NAN)
        };
        let version = figures.get("version").and_then(Value::as_str).unwrap_or_default();
        [
            format!("{peer} {}", version.trim_start_matches('v')),
            grouped(size.count),
            ms(of("/search/p50_ms")),
            ms(of("/search/p99_ms")),
            format!("{:.4}", of("/recall")),
            rate(of("/chunks_per_second")),
            rate(of("/bytes_per_chunk")),
            format!("{:.0} MB", of("/peak_kib") * 1024.0 / 1e6),
        ]
    }));
    rows
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are small and positive"
)]
fn rate(figure: f64) -> String {
    grouped(figure.round() as usize)
}

fn details(sizes: &[Size]) -> Vec<[String; 3]> {
    let [few, many] = sizes else {
        return Vec::new();
    };
    let row = |work: &str, of: &dyn Fn(&Size) -> String| [work.to_owned(), of(few), of(many)];
    let spread = |name: &'static str| {
        move |size: &Size| {
            let of = |part| size.searched(&format!("/{name}/{part}_ms"));
            format!("{:.1} ms (p99 {:.1} ms)", of("p50"), of("p99"))
        }
    };
    let ms = |pointer: &'static str| move |size: &Size| format!("{:.1} ms", size.searched(pointer));
    vec![
        row("open", &ms("/open_ms")),
        row("open and first search", &ms("/first_search_ms")),
        row("nearest", &spread("search")),
        row("nearest, one page in fifty", &spread("filtered")),
        row("keywords, six words", &spread("keywords")),
        row("a phrase of two words", &spread("exact")),
        row("hybrid", &spread("hybrid")),
        row("replace one source of twenty chunks", &|size| {
            format!("{:.1} ms", size.built("/replace_one_ms"))
        }),
        row("bytes a chunk, of which its text", &|size| {
            format!(
                "{}, {}",
                rate(size.built("/bytes_per_chunk")),
                rate(size.built("/text_bytes_per_chunk"))
            )
        }),
    ]
}
