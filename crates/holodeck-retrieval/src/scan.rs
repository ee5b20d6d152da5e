//! Exact nearest neighbours by a scan: 8-bit codes rule out most vectors, the vectors themselves decide.
//!
//! A vector `v` is stored as codes `c` and a scale `s` with `v ≈ s·c`, and with `e = ‖v − s·c‖`, so that the true
//! product with a query lies within a known distance of the product with the codes. A vector is ruled out only if its
//! greatest possible product is less than the least possible one of `limit` others. So no nearest neighbour is ever
//! lost, whatever the vectors are.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined into a dispatch is compiled for the processor it was dispatched for"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pulp::{Arch, Simd, WithSimd};

/// Greatest code of a stored vector.
const CODE: f32 = 127.0;
/// Bound for rounding errors of single-precision arithmetic on numbers of about 1.
const ROUNDING: f64 = 4e-6;
/// Allowed deviation of a vector's length from 1.
pub(crate) const UNIT: f64 = 1e-3;
/// Rows per multiplication step.
const BATCH: usize = 256;

/// How the codes of a vector approximate it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    /// The value of a code of 1.
    pub(crate) scale: f32,
    /// Distance of the codes' vector from the vector, rounded up.
    pub(crate) error: f32,
}

/// Appends the codes of `vector`.
pub(crate) fn encode(vector: &[f32], codes: &mut Vec<i8>) -> Bounds {
    Arch::new().dispatch(Encode { vector, codes })
}

struct Encode<'a> {
    vector: &'a [f32],
    codes: &'a mut Vec<i8>,
}

impl WithSimd for Encode<'_> {
    type Output = Bounds;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "rounded and within ±127")]
    fn with_simd<S: Simd>(self, _: S) -> Bounds {
        let greatest = self
            .vector
            .iter()
            .fold(0.0_f32, |greatest, x| greatest.max(x.abs()));
        let scale = if greatest > 0.0 { greatest / CODE } else { 1.0 };
        let first = self.codes.len();
        self.codes.extend(
            self.vector
                .iter()
                .map(|x| (x / scale).round_ties_even().clamp(-CODE, CODE) as i8),
        );
        let codes = self.codes.get(first..).unwrap_or_default();
        let missed = |x: f32, code: i8| {
            let missed = f64::from(x) - f64::from(code) * f64::from(scale);
            missed * missed
        };
        let error = sum_in_lanes(self.vector, codes, missed).sqrt();
        Bounds {
            scale,
            error: (error * (1.0 + 1e-6) + f64::from(f32::EPSILON)) as f32,
        }
    }
}

/// Sums over two slices in an order that does not depend on the processor.
#[inline(always)]
fn sum_in_lanes<A: Copy, B: Copy>(a: &[A], b: &[B], each: impl Fn(A, B) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0_f64; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += each(*a, *b);
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| each(*a, *b));
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}

/// Dot product of two vectors of the same length, identical on every machine: the cosine for vectors of length 1.
pub fn product(a: &[f32], b: &[f32]) -> f64 {
    Arch::new().dispatch(Product { a, b })
}

struct Product<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl WithSimd for Product<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        sum_in_lanes(self.a, self.b, |a, b| f64::from(a) * f64::from(b))
    }
}

/// A query in the form that is multiplied with codes.
pub(crate) struct Probe {
    codes: Vec<i16>,
    scale: f32,
    /// The error of a product is at most `own + of_row · row.error`.
    own: f32,
    of_row: f32,
}

impl Probe {
    /// 16-bit codes, as fine as fits: no sum of products exceeds 32 bits.
    #[expect(clippy::cast_possible_truncation, reason = "rounded and within ±32,767")]
    pub(crate) fn new(query: &[f32]) -> Self {
        let greatest = query
            .iter()
            .fold(0.0_f64, |greatest, x| greatest.max(f64::from(x.abs())));
        let sum: f64 = query.iter().map(|x| f64::from(x.abs())).sum();
        let most = f64::from(i32::MAX) / f64::from(CODE) - query.len() as f64;
        let scale = (greatest / f64::from(i16::MAX)).max(sum / most);
        let scale = if scale > 0.0 {
            scale as f32 * (1.0 + f32::EPSILON)
        } else {
            1.0
        };
        let mut missed = 0.0_f64;
        let mut length = 0.0_f64;
        let codes = query.iter().map(|x| {
            let (x, scale) = (f64::from(*x), f64::from(scale));
            let code = (x / scale).round();
            missed += (x - code * scale).powi(2);
            length += x * x;
            code as i16
        });
        let codes = codes.collect();
        let missed = missed.sqrt();
        Self {
            codes,
            scale,
            own: (missed * (1.0 + UNIT) + ROUNDING) as f32,
            of_row: ((length.sqrt() + missed) * (1.0 + ROUNDING)) as f32,
        }
    }
}

/// Vectors in the form that is scanned.
#[derive(Clone, Copy)]
pub(crate) struct Codes<'a> {
    /// The codes, concatenated.
    pub(crate) codes: &'a [i8],
    /// One per vector.
    pub(crate) bounds: &'a [Bounds],
}

/// The remaining candidates.
pub(crate) struct Sieve {
    limit: usize,
    /// The `limit` greatest lower bounds.
    least: BinaryHeap<Reverse<Ordered>>,
    /// The lower bound that a candidate must be able to reach.
    floor: f32,
    kept: Vec<(i64, f32)>,
    /// Length of `kept` at which candidates are filtered again.
    full: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered(f32);

impl Eq for Ordered {}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Sieve {
    /// Finds the `limit` nearest.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            least: BinaryHeap::new(),
            floor: if limit == 0 {
                f32::INFINITY
            } else {
                f32::NEG_INFINITY
            },
            kept: Vec::new(),
            full: 4096,
        }
    }

    /// Scans vectors. `row` maps a position to a row, or `None` to skip it.
    pub(crate) fn scan(&mut self, probe: &Probe, codes: Codes<'_>, row: impl Fn(usize) -> Option<i64>) {
        let dimensions = probe.codes.len();
        if dimensions == 0 {
            return;
        }
        let arch = Arch::new();
        let mut products = [0_i32; BATCH];
        let batches = codes.codes.chunks(BATCH * dimensions);
        for (batch, (codes, bounds)) in batches.zip(codes.bounds.chunks(BATCH)).enumerate() {
            arch.dispatch(Multiply {
                query: &probe.codes,
                codes,
                products: &mut products,
            });
            for (place, (product, bounds)) in products.iter().zip(bounds).enumerate() {
                let about = *product as f32 * (probe.scale * bounds.scale);
                let error = probe.own + probe.of_row * bounds.error;
                if about + error >= self.floor
                    && let Some(row) = row(batch * BATCH + place)
                {
                    self.keep(row, about, error);
                }
            }
        }
    }

    fn keep(&mut self, row: i64, about: f32, error: f32) {
        self.kept.push((row, about + error));
        self.least.push(Reverse(Ordered(about - error)));
        if self.least.len() > self.limit {
            self.least.pop();
        }
        if self.least.len() == self.limit
            && let Some(Reverse(Ordered(floor))) = self.least.peek()
        {
            self.floor = *floor;
        }
        if self.kept.len() >= self.full {
            self.sift();
            self.full = (self.kept.len() * 2).max(4096);
        }
    }

    fn sift(&mut self) {
        let floor = self.floor;
        self.kept.retain(|(_, most)| *most >= floor);
    }

    /// The rows of all possible nearest vectors, in order.
    pub(crate) fn candidates(mut self) -> Vec<i64> {
        self.sift();
        let mut rows: Vec<i64> = self.kept.into_iter().map(|(row, _)| row).collect();
        rows.sort_unstable();
        rows
    }
}

/// The products of a query with the codes of several vectors.
struct Multiply<'a> {
    query: &'a [i16],
    codes: &'a [i8],
    products: &'a mut [i32; BATCH],
}

impl WithSimd for Multiply<'_> {
    type Output = ();

    /// Plain Rust that the compiler vectorises for the selected processor. Integer sums do not depend on the order.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let rows = self.codes.chunks_exact(self.query.len());
        for (codes, product) in rows.zip(self.products.iter_mut()) {
            let products = self
                .query
                .iter()
                .zip(codes)
                .map(|(q, c)| i32::from(*q).wrapping_mul(i32::from(*c)));
            *product = products.fold(0, i32::wrapping_add);
        }
    }
}

#[cfg(test)]
mod tests;
