//! Timings of the real server; `cargo xtask soak postgres` prints them.

#![allow(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "printing is what it is for; small numbers"
)]

use std::time::{Duration, Instant};

use holodeck_retrieval::{Entry, Filter, KeywordSearch as _, SourceState, VectorStore as _};
use holodeck_testkit::PostgresServer;
use serde_json::json;

use super::store;
use crate::conformance::data::{Numbers, info, random, state, with_metadata};

const DIMENSIONS: usize = 384;
const QUERIES: usize = 30;

fn sources(passages: usize) -> Vec<(SourceState, Vec<Entry>)> {
    (0..passages / 100)
        .map(|at| {
            let source = format!("{at:05}.md");
            let mut words = Numbers(at as u64);
            let entries: Vec<Entry> = random(&source, 100, DIMENSIONS, at as u64)
                .into_iter()
                .map(|mut entry| {
                    // As long as a small passage, with a realistic word distribution.
                    let word = |_| format!("word{}", (20_000.0 * words.next().powi(4)) as i64);
                    entry.passage.text = (0..60).map(word).collect::<Vec<_>>().join(" ");
                    with_metadata(entry, json!({"page": at % 50}))
                })
                .collect();
            (state(&source, &entries), entries)
        })
        .collect()
}

async fn times<T>(name: &str, mut ask: impl AsyncFnMut(usize) -> T) -> Vec<T> {
    ask(0).await;
    let mut taken = Vec::new();
    let mut answers = Vec::new();
    for at in 0..QUERIES {
        let started = Instant::now();
        answers.push(ask(at).await);
        taken.push(started.elapsed());
    }
    taken.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "  {name}: fastest {:.1} ms, middle {:.1} ms, slowest {:.1} ms",
        ms(taken[0]),
        ms(taken[QUERIES / 2]),
        ms(taken[QUERIES - 1])
    );
    answers
}

#[tokio::test]
#[ignore = "takes minutes; `cargo xtask soak postgres` runs it"]
async fn search_among_many() {
    for passages in [10_000, 100_000] {
        let server = PostgresServer::start();
        let exact = store(&server.url(), json!({}), "kb");
        exact.prepare(&info(DIMENSIONS)).await.unwrap();
        let all = sources(passages);
        let started = Instant::now();
        for batch in all.chunks(10) {
            exact.replace_many(batch).await.unwrap();
        }
        let taken = started.elapsed();
        println!(
            "{passages} × {DIMENSIONS}: written in {:.1} s, {:.0} passages a second",
            taken.as_secs_f64(),
            passages as f64 / taken.as_secs_f64()
        );
        server.run("VACUUM ANALYZE");
        let bytes = exact.stats().await.unwrap().bytes.unwrap();
        println!("  {} bytes a passage", bytes / passages as u64);
        let queries: Vec<Vec<f32>> = random("query", QUERIES, DIMENSIONS, 77)
            .into_iter()
            .map(|entry| entry.vector)
            .collect();
        let none = Filter::default();
        let page = Filter {
            equal: vec![("page".to_owned(), json!(7))],
        };
        let truth = times("exact", async |at| {
            exact.nearest(&queries[at], 10, &none).await.unwrap()
        })
        .await;
        times("exact, filter on one of 50 pages", async |at| {
            exact.nearest(&queries[at], 10, &page).await.unwrap()
        })
        .await;
        times("words", async |at| {
            let query = format!("word{} word{} word{}", at * 7, at * 31, at * 101);
            exact.ranked(&query, 10, &none).await.unwrap()
        })
        .await;
        times("phrase", async |at| {
            let phrase = all[at].1[0]
                .passage
                .text
                .split(' ')
                .take(2)
                .collect::<Vec<_>>()
                .join(" ");
            exact.containing(&[phrase], 10, &none).await.unwrap()
        })
        .await;
        drop(exact);
        for ef_search in [40, 100, 400] {
            let graph = store(
                &server.url(),
                json!({"index": "hnsw", "ef_search": ef_search}),
                "kb",
            );
            let started = Instant::now();
            graph.prepare(&info(DIMENSIONS)).await.unwrap();
            if ef_search == 40 {
                println!("  graph built in {:.1} s", started.elapsed().as_secs_f64());
            }
            let found = times(&format!("graph, ef_search {ef_search}"), async |at| {
                graph.nearest(&queries[at], 10, &none).await.unwrap()
            })
            .await;
            let same: usize = truth
                .iter()
                .zip(&found)
                .map(|(truth, found)| {
                    let has = |id: &str| found.iter().any(|scored| scored.passage.id == id);
                    truth.iter().filter(|scored| has(&scored.passage.id)).count()
                })
                .sum();
            println!("    recall {:.3}", same as f64 / (QUERIES * 10) as f64);
        }
    }
}
