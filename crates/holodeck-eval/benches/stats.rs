//! The bootstrap of a large comparison: `cargo bench -p holodeck-eval --bench stats`.
#![allow(missing_docs, reason = "a benchmark")]

use holodeck_eval::stats;

fn main() {
    divan::main();
}

fn differences(pairs: u32) -> Vec<f64> {
    (0..pairs)
        .map(|i| f64::from(i * 7_919 % 1_024) / 1_024.0)
        .collect()
}

#[divan::bench(args = [100, 1_000, 10_000], sample_count = 5)]
fn paired_bootstrap(bencher: divan::Bencher<'_, '_>, pairs: u32) {
    let differences = differences(pairs);
    bencher.bench_local(|| stats::paired_bootstrap(&differences, None, 10_000, 0.95, 1));
}

#[divan::bench(sample_count = 5)]
fn mcnemar_of_a_million_cases(bencher: divan::Bencher<'_, '_>) {
    bencher.bench_local(|| stats::mcnemar_exact(503_000, 497_000));
}
