//! Tests that the coarse scan of vectors never loses one of the nearest, on any processor.

use proptest::prelude::*;

use pulp::{Arch, Scalar, WithSimd as _};

use super::{BATCH, Bounds, Codes, Multiply, Probe, Product, Sieve, encode, product};

/// The rows of the `limit` greatest products, ties by row, and those that the sieve leaves.
fn both(vectors: &[Vec<f32>], query: &[f32], limit: usize) -> (Vec<i64>, Vec<i64>) {
    let mut codes = Vec::new();
    let bounds: Vec<Bounds> = vectors.iter().map(|vector| encode(vector, &mut codes)).collect();
    let mut sieve = Sieve::new(limit);
    let row = |place: usize| i64::try_from(place).ok();
    sieve.scan(
        &Probe::new(query),
        Codes {
            codes: &codes,
            bounds: &bounds,
        },
        row,
    );
    let exact = |row: &i64| product(query, &vectors[usize::try_from(*row).unwrap()]);
    let mut true_order: Vec<i64> = (0..i64::try_from(vectors.len()).unwrap()).collect();
    true_order.sort_by(|a, b| exact(b).total_cmp(&exact(a)).then(a.cmp(b)));
    true_order.truncate(limit);
    (true_order, sieve.candidates())
}

fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    let length = product(vector, vector).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "about 1")]
    let unit = vector.iter().map(|x| (f64::from(*x) / length) as f32).collect();
    (length > 1e-3).then_some(unit)
}

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -1.0_f32..1.0,
        1 => Just(0.0),
        1 => prop_oneof![Just(1.0_f32), Just(-1.0)],
        1 => -1e-3_f32..1e-3,
    ]
}

/// Vectors around a few centres, including equal, opposite and nearly equal ones.
fn clustered(dimensions: usize) -> impl Strategy<Value = (Vec<Vec<f32>>, Vec<f32>)> {
    let centres = prop::collection::vec(prop::collection::vec(number(), dimensions), 1..4);
    let picks = prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            0..5_u8,
            prop::collection::vec(number(), dimensions),
        ),
        1..150,
    );
    (centres, picks, any::<prop::sample::Index>(), number()).prop_filter_map(
        "a vector without a direction",
        |(centres, picks, of, turn)| {
            let vectors: Vec<Vec<f32>> = picks
                .iter()
                .filter_map(|(centre, how, noise)| {
                    let (centre, far) = (
                        centre.get(&centres),
                        match how {
                            0 => 0.0,
                            1 => 1e-6,
                            2 => 1e-3,
                            3 => -2.0,
                            _ => 1.0,
                        },
                    );
                    let moved = |(x, noise): (&f32, &f32)| if far < 0.0 { -x } else { x + far * noise };
                    unit(&centre.iter().zip(noise).map(moved).collect::<Vec<_>>())
                })
                .collect();
            let query: Vec<f32> = of.get(&centres).iter().map(|x| x + 0.1 * turn).collect();
            (!vectors.is_empty()).then_some(vectors).zip(unit(&query))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_near_is_lost(
        (vectors, query) in (1..70_usize).prop_flat_map(clustered),
        limit in 1..20_usize,
    ) {
        let (wanted, kept) = both(&vectors, &query, limit);
        for row in &wanted {
            prop_assert!(kept.contains(row), "{row} of {wanted:?} is not in {kept:?}");
        }
    }

    #[test]
    fn codes_are_within_their_stated_error(vector in prop::collection::vec(number(), 1..50)) {
        let Some(vector) = unit(&vector) else { return Ok(()) };
        let mut codes = Vec::new();
        let bounds = encode(&vector, &mut codes);
        let missed: f64 = vector
            .iter()
            .zip(&codes)
            .map(|(x, code)| (f64::from(*x) - f64::from(*code) * f64::from(bounds.scale)).powi(2))
            .sum();
        prop_assert!(missed.sqrt() <= f64::from(bounds.error));
    }

    #[test]
    fn a_product_is_the_product(a in prop::collection::vec(-1.0_f32..1.0, 0..100)) {
        let b: Vec<f32> = a.iter().rev().copied().collect();
        let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        prop_assert!((product(&a, &b) - plain).abs() < 1e-12);
    }
}

#[test]
fn every_processor_computes_the_same() {
    let vector = |turn: u8| -> Vec<f32> {
        (0..389_u16)
            .map(|at| f32::from((at * 31 + u16::from(turn)) % 97) - 48.0)
            .collect()
    };
    let (query, other) = (unit(&vector(0)).unwrap(), unit(&vector(13)).unwrap());
    let plain = Product { a: &query, b: &other }.with_simd(Scalar::new());
    assert_eq!(plain.to_bits(), product(&query, &other).to_bits());
    let mut codes = Vec::new();
    encode(&query, &mut codes);
    encode(&other, &mut codes);
    let probe = Probe::new(&query);
    let (mut plain, mut dispatched) = ([0; BATCH], [0; BATCH]);
    Multiply {
        query: &probe.codes,
        codes: &codes,
        products: &mut plain,
    }
    .with_simd(Scalar::new());
    Arch::new().dispatch(Multiply {
        query: &probe.codes,
        codes: &codes,
        products: &mut dispatched,
    });
    assert_eq!(plain, dispatched);
    assert!(plain[0] > plain[1] && plain[1] != 0, "{plain:?}");
}

#[test]
fn no_sum_overflows() {
    // A vector of length 1 with equal numbers has the greatest sum.
    for dimensions in [1_usize, 2, 384, 4096, 10_000] {
        #[expect(clippy::cast_possible_truncation, reason = "a test's numbers")]
        let vector = vec![(1.0 / (dimensions as f64).sqrt()) as f32; dimensions];
        let (wanted, kept) = both(&[vector.iter().map(|x| -x).collect(), vector.clone()], &vector, 1);
        assert_eq!(wanted, [1], "{dimensions}");
        assert_eq!(kept, [1], "{dimensions}");
    }
}

#[test]
fn few_of_many_are_left() {
    // A fixed pseudo-random sequence.
    let mut state = 7_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_possible_truncation, reason = "a test's numbers")]
        let number = ((state >> 33) as f64 / f64::from(1_u32 << 31)) as f32 - 0.5;
        number
    };
    let mut vector = || unit(&(0..64).map(|_| next()).collect::<Vec<_>>()).unwrap();
    let vectors: Vec<_> = (0..2_000).map(|_| vector()).collect();
    let (wanted, kept) = both(&vectors, &vector(), 10);
    assert!(wanted.iter().all(|row| kept.contains(row)));
    assert!(kept.len() < 40, "{} of 2,000 are left", kept.len());
}

#[test]
fn nothing_is_wanted_nothing_is_kept() {
    let (_, kept) = both(&[vec![1.0], vec![1.0]], &[1.0], 0);
    assert!(kept.is_empty());
}
