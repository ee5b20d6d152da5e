//! Tests of significance, their correction, and what a number of pairs can detect.

use super::means::Moments;
use super::{open_fraction, quantiles};

/// The outcome of McNemar's test.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct McNemar {
    /// Cases that passed before and fail now.
    pub newly_failing: u64,
    /// Cases that failed before and pass now.
    pub newly_passing: u64,
    /// The two-sided exact p-value, 0..=1.
    pub p_value: f64,
}

/// McNemar's exact test of whether the rate of passed cases changed between two runs of the same cases.
///
/// Only cases whose verdict changed count. If nothing has changed systematically, each of these n cases is as likely to
/// be newly failing as newly passing, so that p = min(1, 2 · P(X <= min(b, c))) with X binomial(n, 1/2); it is 1 without
/// changes. Source: McNemar (1947), Psychometrika 12(2); as statsmodels' `mcnemar(exact=True)`.
///
/// The result is exact to rounding up to about 50 changes, and has ten digits for millions. The time grows with the
/// smaller of the two numbers.
pub fn mcnemar_exact(newly_failing: u64, newly_passing: u64) -> McNemar {
    let n = newly_failing as f64 + newly_passing as f64;
    let fewer = newly_failing.min(newly_passing);
    let p_value = if newly_failing == newly_passing {
        1.0
    } else {
        (2.0 * lower_tail_of_fair_coin(n, fewer)).min(1.0)
    };
    McNemar {
        newly_failing,
        newly_passing,
        p_value,
    }
}

/// P(X <= `most`) for X binomial(`n`, 1/2): the sum of C(n, i), scaled down by powers of two, which are exact.
fn lower_tail_of_fair_coin(n: f64, most: u64) -> f64 {
    const STEP: i32 = 512;
    let (down, limit) = (2_f64.powi(-STEP), 2_f64.powi(STEP));
    let (mut term, mut sum, mut scaled) = (1.0, 1.0, 0.0);
    for i in 0..most {
        let i = i as f64;
        term = term * (n - i) / (i + 1.0);
        sum += term;
        if sum > limit {
            term *= down;
            sum *= down;
            scaled += f64::from(STEP);
        }
    }
    // In two steps, since the power alone can be too small for a double while the result is not.
    let exponent: f64 = scaled - n;
    let half = (exponent / 2.0).trunc();
    sum * half.exp2() * (exponent - half).exp2()
}

/// How many cases must flip in one direction, and none in the other, for [`mcnemar_exact`] to give p < `alpha`: 6 at
/// 0.05, 8 at 0.01.
///
/// The smallest n with 2^(1 − n) < alpha. `u64::MAX` if no number is enough, because `alpha` is not positive or NaN.
pub fn mcnemar_needed(alpha: f64) -> u64 {
    if alpha.is_nan() || alpha <= 0.0 {
        return u64::MAX;
    }
    let mut flips = 0;
    let mut p_value = 1.0;
    while p_value >= alpha {
        flips += 1;
        p_value = smallest_p_value(flips);
    }
    flips
}

/// The smallest two-sided p-value that a test of signs can give for `pairs` pairs that differ: 2^(1 − pairs), at most 1.
pub(super) fn smallest_p_value(pairs: u64) -> f64 {
    (1.0 - pairs as f64).min(0.0).exp2()
}

/// p-values adjusted for testing several hypotheses together, in the order of `p_values`.
///
/// Holm's step-down method: the i-th smallest of m is multiplied by m − i + 1, then raised to the largest before it and
/// cut to 1. Rejecting what is below alpha keeps the probability of any false rejection below alpha, for dependent tests
/// too. Source: Holm (1979), Scandinavian Journal of Statistics 6(2); as statsmodels' `multipletests(method="holm")`.
///
/// Values outside of 0..=1 are cut to it. A NaN stays NaN and counts as a test: it makes the others larger.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<(usize, f64)> = p_values.iter().copied().enumerate().collect();
    // NaNs last, whatever their sign.
    ascending.sort_by(|(_, a), (_, b)| a.is_nan().cmp(&b.is_nan()).then(a.total_cmp(b)));
    let mut largest = 0.0_f64;
    let mut adjusted: Vec<(usize, f64)> = (1..=ascending.len())
        .rev()
        .zip(ascending)
        .map(|(remaining, (index, p))| {
            if p.is_nan() {
                return (index, p);
            }
            largest = largest.max((p.clamp(0.0, 1.0) * remaining as f64).min(1.0));
            (index, largest)
        })
        .collect();
    adjusted.sort_unstable_by_key(|(index, _)| *index);
    adjusted.into_iter().map(|(_, p)| p).collect()
}

/// The smallest mean difference that this many pairs, with this much variation, would have detected with probability
/// `power` in a two-sided test at `alpha`; positive, in the unit of the differences.
///
/// (t(1 − alpha/2) + t(power)) · s / √n, with n − 1 degrees of freedom and s the standard deviation of `differences`: the
/// usual approximation of the power of a paired t test, which replaces the noncentral t distribution (Cohen, Statistical
/// Power Analysis, 1988). Give one difference for each case, since trials of the same case are not independent.
///
/// `None` if nothing could have been detected or the variation is unknown: fewer pairs than [`mcnemar_needed`], because
/// no outcome of so few is significant ([`paired_bootstrap`](super::paired_bootstrap)); all differences are equal, so that
/// they say nothing about how much others would vary; a value is not finite; `alpha` or `power` is not between 0 and 1.
pub fn detectable_difference(differences: &[f64], alpha: f64, power: f64) -> Option<f64> {
    let (alpha, power) = (open_fraction(alpha)?, open_fraction(power)?);
    let moments = Moments::of(differences)?;
    if (differences.len() as u64) < mcnemar_needed(alpha) {
        return None;
    }
    let freedom = differences.len() - 1;
    let quantiles = quantiles::student_t(1.0 - alpha / 2.0, freedom) + quantiles::student_t(power, freedom);
    let difference = quantiles * (moments.variance / differences.len() as f64).sqrt();
    (difference.is_finite() && difference > 0.0).then_some(difference)
}
