//! The cost of ingestion besides a model: reading, splitting, hashing, storing. `cargo bench -p holodeck-retrieval
//! --bench ingest -- 50000` prints chunks per second with the hash embedder and with one that costs nothing, and the
//! time to detect that nothing changed. `-- documents 10000` prints that time for small files, next to the minimum.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs};

use async_trait::async_trait;
use holodeck_documents::{ChunkOptions, ConvertOptions, Converter, Isolation, WalkOptions, walk};
use holodeck_retrieval::{
    EmbeddedStore, Embedder, EmbedderId, FileCorpus, FileManifest, FileSource, HashEmbedder, IngestMode,
    IngestReport, Ingestor, Purpose, RetrievalError,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Sections of a file, a chunk each.
const SECTIONS: usize = 50;

fn main() {
    let mut arguments = env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .peekable();
    if arguments.next_if_eq("documents").is_some() {
        return documents(
            arguments
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(10_000),
        );
    }
    let Some(count) = arguments.next().and_then(|count| count.parse::<usize>().ok()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let files = write(folder.path(), count.div_ceil(SECTIONS));
    // As in the command: one thread, plus those that wait for disks.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let hash: Arc<dyn Embedder> = Arc::new(HashEmbedder::default());
        let (report, hashed) = ingest(folder.path(), "hash.db", &hash, &files).await;
        let (_, unchanged) = ingest(folder.path(), "hash.db", &hash, &files).await;
        let free: Arc<dyn Embedder> = Arc::new(Free::new());
        let (_, without) = ingest(folder.path(), "free.db", &free, &files).await;
        let rate = |time: Duration| (report.passages as f64 / time.as_secs_f64()).round();
        println!(
            "{}",
            json!({
                "files": files.len(),
                "chunks": report.passages,
                "chunks_per_second": rate(hashed),
                "chunks_per_second_without_embedder": rate(without),
                "unchanged_ms": unchanged.as_secs_f64() * 1e3,
            })
        );
    });
}

/// Checking unchanged files: with a manifest, by reading them, and the minimum, their sizes and times.
fn documents(count: usize) {
    const RUNS: usize = 7;
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("docs");
    for file in 0..count {
        let below = source.join(format!("{:02}", file % 50));
        fs::create_dir_all(&below).unwrap();
        fs::write(
            below.join(format!("{file}.md")),
            format!("# Document {file}\n\nIts text.\n"),
        )
        .unwrap();
    }
    let stored = folder.path().join("files.json");
    let look = |hours: u64| {
        let started = Instant::now();
        let files = walk("docs", folder.path(), &WalkOptions::default())
            .unwrap()
            .files;
        let walked = started.elapsed();
        // Later, so that no file has just changed.
        let now = SystemTime::now() + Duration::from_hours(hours);
        let mut manifest = FileManifest::open(&stored, now);
        for file in &files {
            manifest.content(&file.path, u64::MAX).unwrap();
        }
        let reads = manifest.reads();
        manifest.save().unwrap();
        (started.elapsed(), walked, reads)
    };
    let first = look(1);
    assert_eq!(first.2, count);
    let again: Vec<_> = (0..RUNS).map(|_| look(2)).collect();
    assert!(again.iter().all(|(_, _, reads)| *reads == 0));
    let floor = (0..RUNS).map(|_| {
        let started = Instant::now();
        let files = walk("docs", folder.path(), &WalkOptions::default())
            .unwrap()
            .files;
        let sizes: u64 = files
            .iter()
            .map(|file| fs::metadata(&file.path).unwrap().len())
            .sum();
        assert!(sizes > 0);
        started.elapsed()
    });
    let median = |times: &mut dyn Iterator<Item = Duration>| {
        let mut times: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    println!(
        "{}",
        json!({
            "documents": count,
            "read_ms": first.0.as_secs_f64() * 1e3,
            "unchanged_ms": median(&mut again.iter().map(|(all, _, _)| *all)),
            "of_which_walk_ms": median(&mut again.iter().map(|(_, walked, _)| *walked)),
            "floor_walk_and_stat_ms": median(&mut { floor }),
        })
    );
}

async fn ingest(
    folder: &Path,
    index: &str,
    embedder: &Arc<dyn Embedder>,
    files: &[(String, FileSource)],
) -> (IngestReport, Duration) {
    let started = Instant::now();
    let converter = Converter::new(Isolation::None);
    let corpus = FileCorpus::new(
        files.to_vec(),
        converter,
        ConvertOptions::default(),
        ChunkOptions::default(),
    );
    let store = EmbeddedStore::open(folder.join(index)).await.unwrap();
    let ingestor = Ingestor::new(Arc::new(store), Arc::clone(embedder));
    let (quiet, cancel) = (|_| {}, CancellationToken::new());
    let report = ingestor
        .ingest(Arc::new(corpus), IngestMode::Update, &quiet, &cancel)
        .await
        .unwrap();
    (report, started.elapsed())
}

/// Files of short sections with different words.
fn write(folder: &Path, count: usize) -> Vec<(String, FileSource)> {
    let mut number = 0_u64;
    let files = (0..count).map(|file| {
        let mut text = String::new();
        for section in 0..SECTIONS {
            let _ = write!(text, "## Section {section} of {file}\n\n");
            for _ in 0..30 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let _ = write!(text, "word{} ", (number >> 33) % 20_000);
            }
            text.push_str("\n\n");
        }
        let name = format!("{file:05}.md");
        let path = folder.join(&name);
        fs::write(&path, text).unwrap();
        (name, FileSource::Path(path))
    });
    files.collect()
}

/// Always returns the same vector.
struct Free {
    id: EmbedderId,
    vector: Vec<f32>,
}

impl Free {
    fn new() -> Self {
        let hash = HashEmbedder::default();
        Self {
            id: EmbedderId {
                model: "free".to_owned(),
                ..hash.id().clone()
            },
            vector: hash.vector("one"),
        }
    }
}

#[async_trait]
impl Embedder for Free {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    async fn embed(&self, texts: &[&str], _: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        Ok(vec![self.vector.clone(); texts.len()])
    }
}
