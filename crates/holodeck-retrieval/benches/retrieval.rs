//! The cost of the embedded store: `cargo xtask bench retrieval` runs this next to other programs and saves the
//! figures. `make` writes the vectors that all of them read, `build` builds an index of them, `search` queries it; each
//! in its own process, so that memory is measured separately.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    reason = "a bench"
)]

use std::collections::HashSet;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

use async_trait::async_trait;
use holodeck_model::SearchMode;
use holodeck_retrieval::{
    EmbeddedStore, Embedder, EmbedderId, Entry, Filter, IndexInfo, KeywordSearch as _, Passage, Purpose,
    RetrievalError, SearchRequest, Searcher, SourceState, VectorStore as _,
};
use serde_json::{Value, json};

const DIMENSIONS: usize = 384;
const LIMIT: usize = 10;
const QUERIES: usize = 300;
/// Passages per source, and sources per write.
const PASSAGES: usize = 20;
const BATCH: usize = 50;
const WORDS: usize = 30;
const VOCABULARY: f64 = 20_000.0;
const TOPICS: usize = 300;

fn main() {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let Some([what, folder]) = arguments.first_chunk() else {
        return;
    };
    let folder = PathBuf::from(folder);
    let count = arguments.get(2).map_or(0, |count| count.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let figures = match what.as_str() {
        "make" => make(&folder, count),
        "build" => runtime.block_on(build(&folder)),
        "search" => runtime.block_on(search(&folder)),
        other => panic!("{other}"),
    };
    println!("{figures}");
}

/// A fixed pseudo-random sequence.
struct Numbers(u64);

impl Numbers {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normally distributed around 0.
    fn bell(&mut self) -> f64 {
        (0..4).map(|_| self.next()).sum::<f64>() - 2.0
    }

    fn vector(&mut self, near: Option<&[f32]>, noise: f64) -> Vec<f32> {
        let vector: Vec<f64> = (0..DIMENSIONS)
            .map(|at| {
                near.map_or(0.0, |near| f64::from(near[at]))
                    + noise * self.bell() / (DIMENSIONS as f64).sqrt()
            })
            .collect();
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        vector.iter().map(|x| (x / length) as f32).collect()
    }

    /// Words with a realistic distribution: the n-th most frequent one about 1/n of the time.
    fn text(&mut self, words: usize) -> String {
        let words = (0..words).map(|_| word(VOCABULARY.powf(self.next()) as usize));
        words.collect::<Vec<_>>().join(" ")
    }
}

fn word(number: usize) -> String {
    const SYLLABLES: [&str; 16] = [
        "ka", "lo", "mi", "ren", "sta", "tur", "ve", "sol", "pen", "dri", "ba", "ni", "cho", "gel", "fo",
        "us",
    ];
    let mut left = number;
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[left % 16]);
        left /= 16;
        if left == 0 {
            return word;
        }
    }
}

fn write_vectors(path: &Path, vectors: impl Iterator<Item = Vec<f32>>) {
    let bytes: Vec<u8> = vectors.flatten().flat_map(f32::to_le_bytes).collect();
    fs::write(path, bytes).unwrap();
}

fn read_vectors(path: &Path) -> Vec<Vec<f32>> {
    let mut file = File::open(path).unwrap();
    read_some_vectors(&mut file, usize::MAX)
}

/// The next vectors of a file, at most this many.
fn read_some_vectors(file: &mut impl Read, most: usize) -> Vec<Vec<f32>> {
    let mut bytes = [0; 4 * DIMENSIONS];
    let next = || {
        file.read_exact(&mut bytes).is_ok().then(|| {
            let numbers = bytes.as_chunks().0.iter();
            numbers.map(|number| f32::from_le_bytes(*number)).collect()
        })
    };
    std::iter::from_fn(next).take(most).collect()
}

/// Vectors around the topics of a collection, questions near some of them, and the true nearest.
fn make(folder: &Path, count: usize) -> Value {
    let mut numbers = Numbers(7);
    let topics: Vec<Vec<f32>> = (0..TOPICS).map(|_| numbers.vector(None, 1.0)).collect();
    let vectors: Vec<Vec<f32>> = (0..count)
        .map(|at| numbers.vector(Some(&topics[at % TOPICS]), 2.0))
        .collect();
    let queries: Vec<Vec<f32>> = (0..QUERIES)
        .map(|_| {
            let near = (numbers.next() * count as f64) as usize;
            numbers.vector(Some(&vectors[near]), 1.5)
        })
        .collect();
    let nearest: Vec<Vec<usize>> = queries
        .iter()
        .map(|query| {
            let mut scores: Vec<(f64, usize)> = vectors
                .iter()
                .map(|vector| plain(query, vector))
                .zip(0..)
                .collect();
            scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            scores.iter().take(LIMIT).map(|(_, at)| *at).collect()
        })
        .collect();
    write_vectors(&folder.join("vectors"), vectors.into_iter());
    write_vectors(&folder.join("queries"), queries.into_iter());
    fs::write(folder.join("nearest.json"), json!(nearest).to_string()).unwrap();
    json!({"count": count})
}

/// The dot product, unoptimised.
fn plain(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn name(at: usize) -> String {
    format!("p{at:07}")
}

/// Entries are made as they are written, as documents are read, so that the memory is that of the store.
async fn build(folder: &Path) -> Value {
    let mut file = BufReader::new(File::open(folder.join("vectors")).unwrap());
    let mut numbers = Numbers(11);
    let (mut count, mut text_bytes) = (0, 0);
    let path = folder.join("index.db");
    let _ = fs::remove_file(&path);
    let started = Instant::now();
    let store = EmbeddedStore::open(&path).await.unwrap();
    store.prepare(&info()).await.unwrap();
    let mut took = started.elapsed();
    let mut first = None;
    loop {
        let vectors = read_some_vectors(&mut file, BATCH * PASSAGES);
        let sources: Vec<_> = vectors
            .chunks(PASSAGES)
            .map(|of_source| {
                let begin = count;
                count += of_source.len();
                source(begin, of_source, &mut numbers)
            })
            .collect();
        if sources.is_empty() {
            break;
        }
        let entries = sources.iter().flat_map(|(_, entries)| entries);
        text_bytes += entries.map(|entry| entry.passage.text.len()).sum::<usize>();
        let started = Instant::now();
        store.replace_many(&sources).await.unwrap();
        took += started.elapsed();
        first.get_or_insert_with(|| sources[0].clone());
    }
    let peak = memory("VmHWM");
    // One file again, in which a single source's part is new.
    let again = Instant::now();
    let (state, entries) = first.unwrap();
    store.replace(&state, &entries).await.unwrap();
    let again = again.elapsed();
    drop(store);
    let bytes = fs::metadata(&path).unwrap().len();
    json!({
        "chunks_per_second": count as f64 / took.as_secs_f64(),
        "seconds": took.as_secs_f64(),
        "replace_one_ms": ms(again),
        "bytes_per_chunk": bytes as f64 / count as f64,
        "text_bytes_per_chunk": text_bytes as f64 / count as f64,
        "build_memory_kib": peak,
    })
}

/// A source of these vectors, whose first passage has this number.
fn source(begin: usize, vectors: &[Vec<f32>], numbers: &mut Numbers) -> (SourceState, Vec<Entry>) {
    let source = format!("docs/{begin}.md");
    let entries = vectors.iter().zip(begin..).map(|(vector, at)| {
        let metadata = json!({"start": at * 200 + 200, "end": at * 200 + 400, "page": (at + 1) % 50});
        let Value::Object(metadata): Value = metadata else {
            unreachable!()
        };
        Entry {
            passage: Passage {
                id: name(at),
                source: source.clone(),
                text: numbers.text(WORDS),
                context: None,
                metadata,
            },
            vector: vector.clone(),
        }
    });
    let entries: Vec<Entry> = entries.collect();
    let state = SourceState {
        source: source.clone(),
        hash: "1".to_owned(),
        passages: entries.len(),
    };
    (state, entries)
}

fn info() -> IndexInfo {
    IndexInfo {
        embedder: EmbedderId {
            provider: "bench".to_owned(),
            model: "none".to_owned(),
            dimensions: None,
        },
        dimensions: DIMENSIONS,
        chunker: "none".to_owned(),
    }
}

async fn search(folder: &Path) -> Value {
    let queries = read_vectors(&folder.join("queries"));
    let nearest: Vec<Vec<usize>> =
        serde_json::from_slice(&fs::read(folder.join("nearest.json")).unwrap()).unwrap();
    let path = folder.join("index.db");
    let resident = memory("VmRSS");
    let started = Instant::now();
    let store = EmbeddedStore::open(&path).await.unwrap();
    let count = store.stats().await.unwrap().passages;
    let opened = started.elapsed();
    store
        .nearest(&queries[0], LIMIT, &Filter::default())
        .await
        .unwrap();
    let first = started.elapsed();
    let mut hits = 0;
    let mut times = Vec::new();
    for (query, nearest) in queries.iter().zip(&nearest) {
        let started = Instant::now();
        let found = store.nearest(query, LIMIT, &Filter::default()).await.unwrap();
        times.push(started.elapsed());
        let nearest: HashSet<String> = nearest.iter().map(|at| name(*at)).collect();
        hits += found
            .iter()
            .filter(|scored| nearest.contains(&scored.passage.id))
            .count();
    }
    let loaded = memory("VmRSS").saturating_sub(resident);
    let filter = Filter {
        equal: vec![("page".to_owned(), json!(7))],
    };
    let mut filtered = Vec::new();
    for query in queries.iter().take(20) {
        let started = Instant::now();
        store.nearest(query, LIMIT, &filter).await.unwrap();
        filtered.push(started.elapsed());
    }
    let mut numbers = Numbers(13);
    let mut keywords = Vec::new();
    let mut exact = Vec::new();
    for _ in &queries {
        let text = numbers.text(6);
        let started = Instant::now();
        store.ranked(&text, LIMIT, &Filter::default()).await.unwrap();
        keywords.push(started.elapsed());
        let phrase = numbers.text(2);
        let started = Instant::now();
        store
            .containing(&[phrase], LIMIT, &Filter::default())
            .await
            .unwrap();
        exact.push(started.elapsed());
    }
    let searcher = Searcher::new(
        Arc::new(store),
        Arc::new(PrecomputedEmbedder {
            id: info().embedder,
            vectors: queries.clone(),
        }),
    );
    let mut hybrid = Vec::new();
    for at in 0..queries.len() {
        let asked = SearchRequest::new(format!("{at} {}", numbers.text(6)), SearchMode::Hybrid, LIMIT);
        let started = Instant::now();
        searcher.search(&asked).await.unwrap();
        hybrid.push(started.elapsed());
    }
    json!({
        "count": count,
        "hybrid": spread(hybrid),
        "open_ms": ms(opened),
        "first_search_ms": ms(first),
        "search": spread(times),
        "recall": hits as f64 / (LIMIT * queries.len()) as f64,
        "filtered": spread(filtered),
        "keywords": spread(keywords),
        "exact": spread(exact),
        "floor_ms": ms(floor(count)),
        "memory_kib": loaded,
    })
}

/// Returns the vectors of the questions, which begin with a number.
struct PrecomputedEmbedder {
    id: EmbedderId,
    vectors: Vec<Vec<f32>>,
}

#[async_trait]
impl Embedder for PrecomputedEmbedder {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    async fn embed(&self, texts: &[&str], _: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        let number = |text: &str| text.split(' ').next().unwrap().parse::<usize>().unwrap();
        Ok(texts
            .iter()
            .map(|text| self.vectors[number(text)].clone())
            .collect())
    }
}

/// The time to read and add up as many bytes as there are codes.
fn floor(count: usize) -> Duration {
    let words: Vec<u64> = (0..(count * DIMENSIONS / 8) as u64).collect();
    let read = || {
        let started = Instant::now();
        let mut sums = [0_u64; 32];
        for words in words.as_chunks::<32>().0 {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum = sum.wrapping_add(*word);
            }
        }
        black_box(sums);
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..50).map(|_| read()).collect();
    times.sort();
    times[times.len() / 2]
}

fn spread(mut times: Vec<Duration>) -> Value {
    times.sort();
    let at = |part: f64| ms(times[((times.len() - 1) as f64 * part).round() as usize]);
    json!({"p50_ms": at(0.5), "p99_ms": at(0.99)})
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A line of the process's status, in KiB.
fn memory(of: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(of)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}
