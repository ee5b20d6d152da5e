//! Rates of passed trials: their interval, and the chances of k trials.

use super::{Interval, open_fraction, quantiles};

/// The Wilson score interval of the rate `successes / n`, in fractions.
///
/// With p = successes / n and z the normal quantile of (1 + confidence) / 2:
/// (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n). It stays within 0..=1, and has a width even if all trials
/// passed. Source: Wilson (1927), JASA 22; recommended for small n by Brown, Cai and DasGupta (2001), Statistical
/// Science 16(2).
///
/// `None` if n is 0, there are more successes than trials, or the confidence is not between 0 and 1.
pub fn wilson(successes: u64, n: u64, confidence: f64) -> Option<Interval> {
    if n == 0 || successes > n {
        return None;
    }
    let z = quantiles::normal(0.5 + open_fraction(confidence)? / 2.0);
    // The quantile of a confidence that is almost 1 is infinite.
    if !z.is_finite() {
        return None;
    }
    let trials = n as f64;
    let rate = successes as f64 / trials;
    let scale = 1.0 + z * z / trials;
    let centre = (rate + z * z / (2.0 * trials)) / scale;
    let half = z / scale * (rate * (1.0 - rate) / trials + z * z / (4.0 * trials * trials)).sqrt();
    Some(Interval {
        // Exactly 0 and 1 where the formula is, instead of almost.
        low: if successes == 0 {
            0.0
        } else {
            (centre - half).max(0.0)
        },
        high: if successes == n {
            1.0
        } else {
            (centre + half).min(1.0)
        },
    })
}

/// pass@k: the probability that at least one of k trials passes, estimated from n trials of which c passed.
///
/// 1 − C(n−c, k) / C(n, k), the unbiased estimator: the share of all selections of k of the n trials that contain a
/// passed one. Source: Chen et al. (2021), "Evaluating Large Language Models Trained on Code", arXiv 2107.03374.
///
/// `None` if k is 0 or greater than n, or c is greater than n.
pub fn pass_at_k(n: u64, c: u64, k: u64) -> Option<f64> {
    let without_pass = n.checked_sub(c)?;
    Some(ratio_of_choices(n, without_pass, k)?.complement())
}

/// pass^k: the probability that k trials all pass, estimated from n trials of which c passed.
///
/// C(c, k) / C(n, k), the unbiased estimator: the share of all selections of k of the n trials that contain only passed
/// ones. Source: Yao et al. (2024), "τ-bench", arXiv 2406.12045.
///
/// `None` if k is 0 or greater than n, or c is greater than n.
pub fn pass_hat_k(n: u64, c: u64, k: u64) -> Option<f64> {
    Some(ratio_of_choices(n, c, k)?.value())
}

/// C(m, k) / C(n, k): exact as long as the reduced fraction fits, then its logarithm.
enum Ratio {
    Exact { numerator: u128, denominator: u128 },
    Logarithm(f64),
}

impl Ratio {
    fn value(&self) -> f64 {
        match *self {
            Self::Exact {
                numerator,
                denominator,
            } => numerator as f64 / denominator as f64,
            Self::Logarithm(logarithm) => logarithm.exp(),
        }
    }

    /// One minus the value, without losing digits where the value is almost 1.
    fn complement(&self) -> f64 {
        match *self {
            Self::Exact {
                numerator,
                denominator,
            } => (denominator - numerator) as f64 / denominator as f64,
            Self::Logarithm(logarithm) => -logarithm.exp_m1(),
        }
    }
}

fn ratio_of_choices(n: u64, m: u64, k: u64) -> Option<Ratio> {
    if k == 0 || k > n || m > n {
        return None;
    }
    if k > m {
        return Some(Ratio::Exact {
            numerator: 0,
            denominator: 1,
        });
    }
    // C(m, k) / C(n, k) = C(n - k, n - m) / C(n, n - m): the product with fewer factors.
    let (top, factors) = if k <= n - m { (m, k) } else { (n - k, n - m) };
    Some(
        exact_ratio(n, top, factors).unwrap_or_else(|| Ratio::Logarithm(logarithm_of_ratio(n, top, factors))),
    )
}

/// The product of (top - j) / (n - j) for j < factors, or `None` if the reduced fraction does not fit.
fn exact_ratio(n: u64, top: u64, factors: u64) -> Option<Ratio> {
    let (mut numerator, mut denominator) = (1_u128, 1_u128);
    for j in 0..factors {
        let (above, below) = (u128::from(top - j), u128::from(n - j));
        numerator = numerator.checked_mul(above)?;
        denominator = denominator.checked_mul(below)?;
        let common = common_divisor(numerator, denominator);
        numerator /= common;
        denominator /= common;
    }
    Some(Ratio::Exact {
        numerator,
        denominator,
    })
}

fn logarithm_of_ratio(n: u64, top: u64, factors: u64) -> f64 {
    let missing = (n - top) as f64;
    let mut sum = 0.0;
    for j in 0..factors {
        let below = (n - j) as f64;
        // Each form where it keeps its digits.
        sum += if 2.0 * missing < below {
            (-missing / below).ln_1p()
        } else {
            ((top - j) as f64 / below).ln()
        };
        // The value is 0 and its complement 1, whatever follows.
        if sum < -800.0 {
            break;
        }
    }
    sum
}

fn common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
