//! Correlation of two series, for example the length of an answer and the score that a judge gave it.

use super::means::Moments;

/// Pearson's correlation coefficient in -1..=1: Σ(x − x̄)(y − ȳ) / √(Σ(x − x̄)² · Σ(y − ȳ)²).
///
/// Source: Pearson (1895), Proceedings of the Royal Society 58; as `scipy.stats.pearsonr`.
///
/// `None` for series of different lengths or fewer than two pairs, values that are not finite, and a series of equal
/// values, which correlates with nothing.
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() != y.len() {
        return None;
    }
    let (x_moments, y_moments) = (Moments::of(x)?, Moments::of(y)?);
    // The product of the roots, since the product of the variances leaves the range of a double first.
    let scale = x_moments.variance.sqrt() * y_moments.variance.sqrt();
    if scale <= 0.0 {
        return None;
    }
    let products = x
        .iter()
        .zip(y)
        .map(|(x, y)| (x - x_moments.mean) * (y - y_moments.mean));
    let correlation = products.sum::<f64>() / (x.len() as f64 - 1.0) / scale;
    correlation.is_finite().then(|| correlation.clamp(-1.0, 1.0))
}

/// Spearman's rank correlation in -1..=1: [`pearson`] of the ranks, where equal values share the mean of their ranks.
///
/// It measures whether one value rises with the other, not whether it does so in a straight line. Source: Spearman
/// (1904), American Journal of Psychology 15(1); as `scipy.stats.spearmanr`. `None` as in [`pearson`].
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
    if !finite(x) || !finite(y) {
        return None;
    }
    pearson(&ranks(x), &ranks(y))
}

/// The rank of each value from 1, in the order of `values`.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let mut ranked = Vec::with_capacity(values.len());
    let mut before = 0;
    #[expect(clippy::float_cmp, reason = "equal values share a rank, close ones do not")]
    for equal in order.chunk_by(|(_, a), (_, b)| a == b) {
        let rank = before as f64 + f64::midpoint(equal.len() as f64, 1.0);
        ranked.extend(equal.iter().map(|(index, _)| (*index, rank)));
        before += equal.len();
    }
    ranked.sort_unstable_by_key(|(index, _)| *index);
    ranked.into_iter().map(|(_, rank)| rank).collect()
}
