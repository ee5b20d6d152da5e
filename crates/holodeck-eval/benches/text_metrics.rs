//! Pairs per second of each text metric over the golden pairs: `cargo bench -p holodeck-eval`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark"
)]

use std::path::Path;
use std::sync::LazyLock;

use divan::counter::ItemsCount;
use holodeck_eval::nlp::{self, RougeVariant, Stemming, Tokenizer, WordOrder};

static PAIRS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nlp/nlp-metrics.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let field = |key: &str| value[key].as_str().unwrap().to_owned();
            (field("prediction"), field("reference"))
        })
        .collect()
});

fn main() {
    divan::main();
}

fn bench_pairs(bencher: divan::Bencher<'_, '_>, score: impl Fn(&str, &str) -> f64) {
    let pairs = &*PAIRS;
    bencher.counter(ItemsCount::new(pairs.len())).bench_local(|| {
        pairs
            .iter()
            .map(|(prediction, reference)| score(prediction, reference))
            .sum::<f64>()
    });
}

#[divan::bench]
fn bleu(bencher: divan::Bencher<'_, '_>) {
    bench_pairs(bencher, |p, r| nlp::bleu(p, r, Tokenizer::Reference).score);
}

#[divan::bench(args = [RougeVariant::Rouge1, RougeVariant::Rouge2, RougeVariant::RougeL, RougeVariant::RougeLsum])]
fn rouge(bencher: divan::Bencher<'_, '_>, variant: RougeVariant) {
    bench_pairs(bencher, |p, r| {
        nlp::rouge(p, r, variant, Tokenizer::Reference, Stemming::Off).f1
    });
}

#[divan::bench]
fn meteor(bencher: divan::Bencher<'_, '_>) {
    bench_pairs(bencher, |p, r| nlp::meteor(p, r, Tokenizer::Reference).score);
}

#[divan::bench]
fn squad_f1(bencher: divan::Bencher<'_, '_>) {
    bench_pairs(bencher, |p, r| nlp::squad_f1(p, r, Tokenizer::Reference));
}

#[divan::bench]
fn chrf(bencher: divan::Bencher<'_, '_>) {
    bench_pairs(bencher, |p, r| nlp::chrf(p, r, WordOrder::None));
}

#[divan::bench]
fn chrf_plus_plus(bencher: divan::Bencher<'_, '_>) {
    bench_pairs(bencher, |p, r| nlp::chrf(p, r, WordOrder::Two));
}

/// The first METEOR of a process: nothing is loaded, so only page faults are added.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn meteor_cold() -> f64 {
    nlp::meteor(
        "He bought the product",
        "She purchased an item",
        Tokenizer::Reference,
    )
    .score
}
