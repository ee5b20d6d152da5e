//! Bootstrap intervals and tests: what the mean would have been with other cases of the same kind.

use std::collections::BTreeMap;

use super::significance::smallest_p_value;
use super::{Interval, open_fraction};

/// The outcome of [`paired_bootstrap`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PairedBootstrap {
    /// The mean of all differences.
    pub mean_difference: f64,
    /// The percentile interval of the mean difference.
    pub interval: Interval,
    /// The two-sided p-value of "the mean difference is 0", greater than 0 and at most 1.
    pub p_value: f64,
}

/// Whether the mean of paired differences (new score minus old score of the same case) is different from 0.
///
/// `clusters` has a number for each difference; differences with the same number (trials of one case) are drawn together,
/// so that many trials of few cases do not look like many cases. `None` makes each difference a cluster. Clusters are
/// drawn with replacement, as many as there are, `resamples` times; each resample gives the mean of all its differences.
///
/// - The interval is the percentile interval: the (1 ± confidence) / 2 quantiles of these means, interpolated linearly.
/// - The p-value is the percentile method's, so that it agrees with the interval: with B resamples,
///   2 · min(1 + #{mean <= 0}, 1 + #{mean >= 0}) / (B + 1), at most 1, and never 0.
/// - The p-value is at least 2^(1 − m), where m clusters differ from 0. The bootstrap alone calls any two drops certain;
///   this is the smallest value that an exact test of signs could give, as for [`mcnemar_exact`](super::mcnemar_exact):
///   below six such clusters nothing is significant at 0.05, even if the interval excludes 0.
///
/// The percentile interval is too narrow for few clusters: a nominal 95 % is about 90 % for ten.
///
/// Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13; the "+ 1" after Davison and
/// Hinkley, Bootstrap Methods and their Application (1997), section 4.2; drawing clusters after Field and Welsh (2007),
/// JRSS B 69(3). Random numbers are SplitMix64 (Steele, Lea and Flood, 2014), started with `seed`: the same call gives
/// the same result on every machine.
///
/// Cost: clusters × resamples draws of about 2 ns, and 8 bytes for each resample; 10,000 pairs with 10,000 resamples
/// take about 0.2 s in a release build.
///
/// `None` for fewer than two differences or two clusters, a value that is not finite, `clusters` of another length, no
/// resamples, or a confidence that is not between 0 and 1.
pub fn paired_bootstrap(
    differences: &[f64],
    clusters: Option<&[usize]>,
    resamples: u32,
    confidence: f64,
    seed: u64,
) -> Option<PairedBootstrap> {
    let clusters = group(differences, clusters)?;
    let means = Resampled::draw(&clusters, resamples, seed)?;
    // Sums of the same numbers in another order differ in their last digits; that is no difference from 0.
    let largest = differences
        .iter()
        .fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let zero = largest * 1e-12;
    let at_most = means.0.iter().filter(|mean| **mean <= zero).count();
    let at_least = means.0.iter().filter(|mean| **mean >= -zero).count();
    let in_tail = 1.0 + at_most.min(at_least) as f64;
    let changed = clusters.iter().filter(|cluster| cluster.sum.abs() > zero).count();
    let p_value = (2.0 * in_tail / (f64::from(resamples) + 1.0)).min(1.0);
    Some(PairedBootstrap {
        mean_difference: mean_of(&clusters)?,
        interval: means.interval(confidence)?,
        p_value: p_value.max(smallest_p_value(changed as u64)),
    })
}

/// The percentile bootstrap interval of a mean whose values come in clusters, such as several trials of each case.
///
/// As the interval of [`paired_bootstrap`], with the same method, sources, cost and random numbers: clusters are drawn,
/// not values, because the trials of one case resemble each other and an interval over all trials as if they were
/// independent is too narrow. `None` as there.
pub fn mean_interval_clustered(
    values: &[f64],
    clusters: &[usize],
    resamples: u32,
    confidence: f64,
    seed: u64,
) -> Option<Interval> {
    let clusters = group(values, Some(clusters))?;
    Resampled::draw(&clusters, resamples, seed)?.interval(confidence)
}

/// Values that are drawn together.
#[derive(Clone, Copy, Default)]
struct Cluster {
    sum: f64,
    count: f64,
}

/// The clusters in the order of their numbers, or `None` if there are fewer than two or the values are not usable.
fn group(values: &[f64], clusters: Option<&[usize]>) -> Option<Vec<Cluster>> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let grouped: Vec<Cluster> = match clusters {
        None => values
            .iter()
            .map(|sum| Cluster {
                sum: *sum,
                count: 1.0,
            })
            .collect(),
        Some(numbers) if numbers.len() == values.len() => {
            let mut by_number = BTreeMap::<usize, Cluster>::new();
            for (number, value) in numbers.iter().zip(values) {
                let cluster = by_number.entry(*number).or_default();
                cluster.sum += value;
                cluster.count += 1.0;
            }
            by_number.into_values().collect()
        }
        Some(_) => return None,
    };
    (grouped.len() >= 2).then_some(grouped)
}

fn mean_of(clusters: &[Cluster]) -> Option<f64> {
    let sum: f64 = clusters.iter().map(|cluster| cluster.sum).sum();
    let count: f64 = clusters.iter().map(|cluster| cluster.count).sum();
    Some(sum / count).filter(|mean| mean.is_finite())
}

/// The means of the resamples, ascending and finite, at least one.
struct Resampled(Vec<f64>);

impl Resampled {
    fn draw(clusters: &[Cluster], resamples: u32, seed: u64) -> Option<Self> {
        if resamples == 0 {
            return None;
        }
        let mut random = SplitMix64(seed);
        let draw_mean = |_| {
            let mut drawn = Cluster::default();
            for _ in 0..clusters.len() {
                if let Some(cluster) = clusters.get(random.index(clusters.len())) {
                    drawn.sum += cluster.sum;
                    drawn.count += cluster.count;
                }
            }
            drawn.sum / drawn.count
        };
        let mut means: Vec<f64> = (0..resamples).map(draw_mean).collect();
        means.sort_unstable_by(f64::total_cmp);
        means.iter().all(|mean| mean.is_finite()).then_some(Self(means))
    }

    fn interval(&self, confidence: f64) -> Option<Interval> {
        let confidence = open_fraction(confidence)?;
        Some(Interval {
            low: self.quantile((1.0 - confidence) / 2.0)?,
            high: self.quantile(f64::midpoint(1.0, confidence))?,
        })
    }

    /// The quantile at `fraction` in 0..=1, interpolated linearly between neighbours (NumPy's default).
    fn quantile(&self, fraction: f64) -> Option<f64> {
        let position = fraction * (self.0.len() - 1) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a position in the list"
        )]
        let below = position as usize;
        let low = *self.0.get(below)?;
        let high = self.0.get(below + 1).copied().unwrap_or(low);
        Some(low + (high - low) * (position - below as f64))
    }
}

/// A small generator of random numbers that depend only on the seed.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An index below `length`: the upper half of the product, whose bias is below `length` / 2^64.
    fn index(&mut self, length: usize) -> usize {
        let product = u128::from(self.next()) * length as u128;
        #[expect(clippy::cast_possible_truncation, reason = "less than `length`")]
        let index = (product >> 64) as usize;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first numbers of the authors' reference code for the seed 1234567.
        let mut random = SplitMix64(1_234_567);
        let first: Vec<u64> = (0..5).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }
}
