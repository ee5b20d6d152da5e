//! Statistics of trials, of comparisons and of judges: pure functions of numbers.
//!
//! | question | function |
//! |---|---|
//! | How certain is a rate of passed trials? | [`wilson`] |
//! | Does at least one of k trials pass, do all of them? | [`pass_at_k`], [`pass_hat_k`] |
//! | Did more cases start to fail than to pass? | [`mcnemar_exact`], [`mcnemar_needed`] |
//! | Did the scores of the same cases change? | [`paired_bootstrap`], [`detectable_difference`] |
//! | Which of several tests are significant together? | [`holm`] |
//! | How certain is a mean score? | [`mean_interval_t`], [`mean_interval_clustered`] |
//! | Does a judge agree with people? | [`agreement`], [`kappa_interval`], [`best_threshold`] |
//! | Does a judge prefer long answers? | [`pearson`], [`spearman`] |
//!
//! Every probability, rate, confidence and level is a fraction: 0.95, not 95. A question that the numbers cannot answer
//! (too few values, NaN or infinite values, a confidence outside of 0 to 1) is `None`, never a number. The same input
//! gives the same result. `fixtures/stats/reference.py` computes the reference values of the tests with SciPy,
//! statsmodels and scikit-learn.
//!
//! ```
//! use holodeck_eval::stats;
//!
//! // 8 of 10 trials passed: the true rate can be as low as 0.49.
//! let interval = stats::wilson(8, 10, 0.95).unwrap();
//! assert_eq!(format!("{:.2} to {:.2}", interval.low, interval.high), "0.49 to 0.94");
//!
//! // Five cases newly fail: not yet significant at 0.05, however bad it looks.
//! assert!(stats::mcnemar_exact(5, 0).p_value > 0.05);
//! assert_eq!(stats::mcnemar_needed(0.05), 6);
//! ```

mod agreement;
mod bootstrap;
mod correlation;
mod means;
mod quantiles;
mod rates;
mod significance;

pub use agreement::{Agreement, agreement, best_threshold, kappa_interval};
pub use bootstrap::{PairedBootstrap, mean_interval_clustered, paired_bootstrap};
pub use correlation::{pearson, spearman};
pub use means::mean_interval_t;
pub use rates::{pass_at_k, pass_hat_k, wilson};
pub use significance::{McNemar, detectable_difference, holm, mcnemar_exact, mcnemar_needed};

/// A confidence interval, in the unit of what it is about: fractions for rates, scores for means of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "an interval has two ends; callers construct it as a literal"
)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end, at least `low`.
    pub high: f64,
}

/// `value` if it is strictly between 0 and 1, as a confidence, a level and a power must be.
fn open_fraction(value: f64) -> Option<f64> {
    (value > 0.0 && value < 1.0).then_some(value)
}

/// The values of `tests/data/stats.json`, for the tests of what is not public.
#[cfg(test)]
fn reference() -> serde_json::Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stats.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
