//! Means: their variance, and the interval of independent values.

use super::{Interval, open_fraction, quantiles};

/// Mean and sample variance of at least two finite values.
pub(super) struct Moments {
    pub(super) mean: f64,
    /// Divided by n - 1; exactly 0 if all values are equal.
    pub(super) variance: f64,
}

impl Moments {
    /// `None` for fewer than two values, values that are not finite, and values whose squares are not.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let (first, rest) = values.split_first()?;
        if rest.is_empty() || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        // A computed mean of equal values can differ from them in the last digit, which is not a variance.
        #[expect(clippy::float_cmp, reason = "whether the values are the same, not close")]
        let constant = rest.iter().all(|value| value == first);
        if constant {
            return Some(Self {
                mean: *first,
                variance: 0.0,
            });
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        let variance = squares.sum::<f64>() / (n - 1.0);
        (mean.is_finite() && variance.is_finite()).then_some(Self { mean, variance })
    }
}

/// Student's t interval of the mean, in the unit of the values: x̄ ± t · s / √n, where t is the quantile of
/// (1 + confidence) / 2 with n − 1 degrees of freedom and s the sample standard deviation.
///
/// It supposes that the values are independent; for several trials of each case see
/// [`mean_interval_clustered`](super::mean_interval_clustered). It is not cut to the range of the values. Values that are all equal give an interval without width. Source: "Student"
/// (1908), Biometrika 6(1).
///
/// `None` for fewer than two values, a value that is not finite, or a confidence that is not between 0 and 1.
pub fn mean_interval_t(values: &[f64], confidence: f64) -> Option<Interval> {
    let moments = Moments::of(values)?;
    let t = quantiles::student_t(0.5 + open_fraction(confidence)? / 2.0, values.len() - 1);
    let half = t * (moments.variance / values.len() as f64).sqrt();
    half.is_finite().then_some(Interval {
        low: moments.mean - half,
        high: moments.mean + half,
    })
}
