//! How far a judge agrees with people, computed from answers that both judged.
//!
//! Start at [`Calibration::of`]. It asks no model: the caller collects the answers of the judge and keeps those that are
//! errors out of the list.

use crate::stats::{self, Interval};

/// The smallest number of labels for which a κ is computed; its interval is still wide then.
pub const MIN_LABELS: usize = 10;

/// The confidence of the interval of κ.
pub const CONFIDENCE: f64 = 0.95;

/// The decisions of people and of a judge about one answer.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LabelledVerdict {
    /// Whether it passes according to people.
    pub people: bool,
    /// Whether it passes according to the judge.
    pub judge: bool,
    /// The judge's score.
    pub score: f64,
    /// The number of characters of the answer.
    pub length: usize,
}

/// How far a judge agrees with people.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The number of labelled verdicts.
    pub labels: usize,
    /// The share on which both agree.
    pub agreement: f64,
    /// Numbers of answers, as `[people][judge]`; index 1 is pass.
    pub confusion: [[u64; 2]; 2],
    /// Cohen's κ and what depends on it, or why there is none.
    pub kappa: Result<CalibratedKappa, Shortfall>,
    /// Whether length is what the judge rewards.
    pub verbosity: Verbosity,
}

/// Cohen's κ of a judge and people.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CalibratedKappa {
    /// The value: 1 for complete agreement, 0 for an agreement as by chance.
    pub value: f64,
    /// The 95 % interval; absent where the labels do not determine one, see [`stats::kappa_interval`].
    pub interval: Option<Interval>,
    /// The threshold for which κ is greatest on these labels, see [`stats::best_threshold`]; absent if none agrees
    /// better than chance.
    pub suggested: Option<SuggestedThreshold>,
}

/// A threshold fitted to labels.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SuggestedThreshold {
    /// The threshold: a score at least as high passes.
    pub threshold: f64,
    /// κ on the labels it was fitted to; expect a lower one on others.
    pub kappa: f64,
}

/// Why labels determine no κ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortfall {
    /// There are fewer than [`MIN_LABELS`].
    TooFew,
    /// People passed all answers, or none: nothing shows whether the judge can tell them apart.
    OneClass,
}

/// Spearman's rank correlations with the length of the answer; absent where a series has equal values only.
///
/// A judge whose verdicts depend on length as people's do is not biased: compare `judge` with `people`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Verbosity {
    /// Length and the judge's score.
    pub judge: Option<f64>,
    /// Length and the label of people, 1 or 0.
    pub people: Option<f64>,
    /// Length and the judge's score minus the label: positive if the judge overrates long answers.
    pub error: Option<f64>,
}

impl Calibration {
    /// Compares the verdicts of a judge with those of people. `None` without a verdict, or if a score is not finite.
    pub fn of(verdicts: &[LabelledVerdict]) -> Option<Self> {
        if !verdicts.iter().all(|verdict| verdict.score.is_finite()) {
            return None;
        }
        let pairs: Vec<(bool, bool)> = verdicts
            .iter()
            .map(|verdict| (verdict.people, verdict.judge))
            .collect();
        let found = stats::agreement(&pairs)?;
        let one_class = pairs.iter().all(|(people, _)| *people) || pairs.iter().all(|(people, _)| !people);
        let kappa = match found.kappa {
            _ if verdicts.len() < MIN_LABELS => Err(Shortfall::TooFew),
            Some(value) if !one_class => Ok(CalibratedKappa {
                value,
                interval: stats::kappa_interval(found.confusion, CONFIDENCE),
                suggested: suggest(verdicts),
            }),
            _ => Err(Shortfall::OneClass),
        };
        Some(Self {
            labels: verdicts.len(),
            agreement: found.accuracy,
            confusion: found.confusion,
            kappa,
            verbosity: Verbosity::of(verdicts),
        })
    }
}

fn suggest(verdicts: &[LabelledVerdict]) -> Option<SuggestedThreshold> {
    let scores: Vec<(f64, bool)> = verdicts
        .iter()
        .map(|verdict| (verdict.score, verdict.people))
        .collect();
    let threshold = stats::best_threshold(&scores)?;
    let pairs: Vec<(bool, bool)> = scores
        .iter()
        .map(|(score, people)| (*people, *score >= threshold))
        .collect();
    let kappa = stats::agreement(&pairs)?.kappa?;
    Some(SuggestedThreshold { threshold, kappa })
}

impl Verbosity {
    fn of(verdicts: &[LabelledVerdict]) -> Self {
        let column = |value: fn(&LabelledVerdict) -> f64| verdicts.iter().map(value).collect::<Vec<f64>>();
        let label = |verdict: &LabelledVerdict| f64::from(u8::from(verdict.people));
        let lengths = column(|verdict| verdict.length as f64);
        let errors: Vec<f64> = verdicts
            .iter()
            .map(|verdict| verdict.score - label(verdict))
            .collect();
        let labels: Vec<f64> = verdicts.iter().map(label).collect();
        Self {
            judge: stats::spearman(&lengths, &column(|verdict| verdict.score)),
            people: stats::spearman(&lengths, &labels),
            error: stats::spearman(&lengths, &errors),
        }
    }
}
