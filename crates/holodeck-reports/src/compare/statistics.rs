//! The tests of a comparison: whether passes and scores changed by more than chance.

use std::collections::BTreeMap;

use holodeck_eval::stats::{
    PairedBootstrap, detectable_difference, holm, mcnemar_exact, mcnemar_needed, paired_bootstrap,
};
use holodeck_model::{CaseState, Decider};
use serde::Serialize;

use super::{
    pairs::{Pair, Pairs},
    run::{ComparedScore, MetricKey, ScoreSource},
};

const RESAMPLES: u32 = 10_000;
/// Fixed, so that the same two runs always give the same report.
const SEED: u64 = 20_260_101;
/// The probability with which a detectable drop would have been detected.
const POWER: f64 = 0.8;
/// Scores that differ by less are equal: the last digit of a sum is no change.
const EQUAL: f64 = 1e-9;

/// How passes and failures were tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TestMethod {
    /// McNemar's exact test of the cases whose verdict changed.
    Mcnemar,
    /// A paired bootstrap of the pass rates of the cases, if they ran more than once.
    Bootstrap,
}

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Significantly worse.
    Worse,
    /// Significantly better.
    Better,
    /// No significant change; not a proof that nothing changed.
    Unclear,
    /// Too few pairs to test.
    NotTested,
}

/// The test of passes and failures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VerdictTest {
    /// The test.
    pub method: TestMethod,
    /// Cases with a verdict on both sides of which the same is expected, and the same judges and programs decide.
    pub pairs: usize,
    /// Mean pass rate of these cases before.
    pub rate_before: Option<f64>,
    /// Mean pass rate of these cases now.
    pub rate_after: Option<f64>,
    /// Passed before, fail now.
    pub newly_failing: u64,
    /// Failed before, pass now.
    pub newly_passing: u64,
    /// The two-sided p-value.
    pub p_value: Option<f64>,
    /// 95 % interval of the change of the pass rate (bootstrap only).
    pub interval: Option<[f64; 2]>,
    /// How many cases must change in one direction for significance.
    pub needed: u64,
    /// The smallest drop of the pass rate that these pairs could have shown; absent if no drop could.
    pub smallest_drop: Option<f64>,
    /// The verdict of the test.
    pub outcome: Outcome,
}

/// The test of one metric's scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MetricTest {
    /// The metric.
    pub metric: String,
    /// Cases with a score of the same check by the same judge on both sides.
    pub pairs: usize,
    /// Mean score of these cases before.
    pub mean_before: Option<f64>,
    /// Mean score of these cases now.
    pub mean_after: Option<f64>,
    /// 95 % interval of the mean difference.
    pub interval: Option<[f64; 2]>,
    /// The two-sided p-value.
    pub p_value: Option<f64>,
    /// The p-value adjusted for all metrics (Holm).
    pub p_adjusted: Option<f64>,
    /// The smallest drop that would have been detected with a probability of 80 %.
    pub smallest_drop: Option<f64>,
    /// The verdict of the test.
    pub outcome: Outcome,
    /// Cases whose scores come from different judges or programs, and are not tested.
    pub other_judge: Option<OtherJudge>,
    /// Cases that had a score and have none now, although they have a verdict.
    pub lost: usize,
    /// Cases in which the check expects something else now, such as another threshold; their scores are not tested.
    pub other_expectation: usize,
}

/// Scores of different judges or grader programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OtherJudge {
    /// Cases.
    pub cases: usize,
    /// A judge before.
    pub before: ScoreSource,
    /// The judge of the same case now.
    pub after: ScoreSource,
}

impl OtherJudge {
    /// `gpt-4o, scale 0-1 before, gpt-4o-mini, scale 0-1 now`.
    pub fn describe(&self) -> String {
        if self.before.kind == "code" && self.after.kind == "code" {
            return "its program or a file beside it changed".to_owned();
        }
        format!("{} before, {} now", self.before.describe(), self.after.describe())
    }
}

fn outcome(p_value: f64, difference: f64, alpha: f64) -> Outcome {
    if p_value.is_nan() || p_value >= alpha {
        Outcome::Unclear
    } else if difference < 0.0 {
        Outcome::Worse
    } else {
        Outcome::Better
    }
}

fn bootstrap(differences: &[f64], alpha: f64) -> Option<PairedBootstrap> {
    paired_bootstrap(differences, None, RESAMPLES, 1.0 - alpha.clamp(1e-6, 0.5), SEED)
}

/// Tests the passes and failures.
pub(super) fn verdicts(pairs: &Pairs<'_>, alpha: f64) -> VerdictTest {
    let mut rates: Vec<(f64, f64)> = Vec::new();
    let (mut newly_failing, mut newly_passing, mut has_trials) = (0_u64, 0_u64, false);
    for pair in pairs.iter().filter(Pair::is_comparable) {
        let Some(rate) = pair.before.rate().zip(pair.after.rate()) else {
            continue;
        };
        let passed = |state| state == Some(CaseState::Passed);
        match (passed(pair.before.state), passed(pair.after.state)) {
            (true, false) => newly_failing += 1,
            (false, true) => newly_passing += 1,
            _ => {}
        }
        has_trials |= pair.before.repeated() || pair.after.repeated();
        rates.push(rate);
    }
    let needed = mcnemar_needed(alpha);
    let mut test = VerdictTest {
        method: if has_trials {
            TestMethod::Bootstrap
        } else {
            TestMethod::Mcnemar
        },
        pairs: rates.len(),
        rate_before: mean(rates.iter().map(|(before, _)| *before)),
        rate_after: mean(rates.iter().map(|(_, after)| *after)),
        newly_failing,
        newly_passing,
        p_value: None,
        interval: None,
        needed,
        smallest_drop: None,
        outcome: Outcome::NotTested,
    };
    if rates.is_empty() {
        return test;
    }
    if has_trials {
        let differences: Vec<f64> = rates
            .iter()
            .map(|(before, after)| change(*before, *after))
            .collect();
        test.smallest_drop = detectable_difference(&differences, alpha, POWER);
        if let Some(bootstrap) = bootstrap(&differences, alpha) {
            test.p_value = Some(bootstrap.p_value);
            test.interval = Some([bootstrap.interval.low, bootstrap.interval.high]);
            test.outcome = outcome(bootstrap.p_value, bootstrap.mean_difference, alpha);
        }
    } else {
        let mcnemar = mcnemar_exact(newly_failing, newly_passing);
        let could_detect = needed <= rates.len() as u64;
        test.smallest_drop = could_detect.then(|| needed as f64 / rates.len() as f64);
        test.p_value = Some(mcnemar.p_value);
        let difference = newly_passing as f64 - newly_failing as f64;
        test.outcome = outcome(mcnemar.p_value, difference, alpha);
    }
    test
}

/// The scores of one metric in all pairs.
#[derive(Default)]
struct Scores {
    pairs: Vec<(f64, f64)>,
    other_judge: Option<OtherJudge>,
    lost: usize,
    other_expectation: usize,
}

impl Scores {
    fn add(
        &mut self,
        key: &MetricKey,
        before: &ComparedScore,
        after: Option<&ComparedScore>,
        has_result: bool,
    ) {
        let Some(score) = before.score else { return };
        let Some(after) = after else {
            self.lost += usize::from(has_result);
            return;
        };
        let (source, now) = (&before.metric.source, &after.metric.source);
        let Some(score_now) = after.score else {
            // A metric that a missed gate skipped has no score in a failed case.
            self.lost += usize::from(has_result && !after.skipped);
            return;
        };
        let differences = source.differences(now, &key.name);
        if differences.contains(&Decider::Expectation) {
            self.other_expectation += 1;
        }
        if differences.iter().any(|decider| *decider != Decider::Expectation) {
            let other = self.other_judge.get_or_insert_with(|| OtherJudge {
                cases: 0,
                before: source.clone(),
                after: now.clone(),
            });
            other.cases += 1;
        }
        if differences.is_empty() {
            self.pairs.push((score, score_now));
        }
    }
}

/// Tests the scores of every metric of the earlier run.
pub(super) fn metrics(pairs: &Pairs<'_>, alpha: f64) -> Vec<MetricTest> {
    let mut all: BTreeMap<MetricKey, Scores> = BTreeMap::new();
    for pair in pairs.iter() {
        // A case that ended in an error is counted as such, not once more for each of its metrics.
        let has_result = matches!(
            pair.after.state,
            Some(CaseState::Passed | CaseState::Failed | CaseState::Flaky | CaseState::Unchecked)
        );
        for before in &pair.before.scores {
            let key = &before.metric.key;
            if pair.is_removed(key) {
                continue;
            }
            let scores = match all.get_mut(key) {
                Some(scores) => scores,
                None => all.entry(key.clone()).or_default(),
            };
            scores.add(key, before, pair.after.score(key), has_result);
        }
    }
    let mut tests: Vec<MetricTest> = all
        .into_iter()
        .map(|(key, scores)| test(&key, scores, alpha))
        .collect();
    let p_values: Vec<f64> = tests.iter().filter_map(|test| test.p_value).collect();
    let tested = tests.iter_mut().filter(|test| test.p_value.is_some());
    for (test, adjusted) in tested.zip(holm(&p_values)) {
        test.p_adjusted = Some(adjusted);
        let difference = test.mean_after.unwrap_or_default() - test.mean_before.unwrap_or_default();
        test.outcome = outcome(adjusted, difference, alpha);
    }
    tests
}

fn test(key: &MetricKey, scores: Scores, alpha: f64) -> MetricTest {
    let pairs = &scores.pairs;
    let differences: Vec<f64> = pairs
        .iter()
        .map(|(before, after)| change(*before, *after))
        .collect();
    let bootstrap = bootstrap(&differences, alpha);
    MetricTest {
        metric: key.label(),
        pairs: pairs.len(),
        mean_before: mean(pairs.iter().map(|(before, _)| *before)),
        mean_after: mean(pairs.iter().map(|(_, after)| *after)),
        interval: bootstrap.map(|bootstrap| [bootstrap.interval.low, bootstrap.interval.high]),
        p_value: bootstrap.map(|bootstrap| bootstrap.p_value),
        p_adjusted: None,
        smallest_drop: detectable_difference(&differences, alpha, POWER),
        outcome: Outcome::NotTested,
        other_judge: scores.other_judge,
        lost: scores.lost,
        other_expectation: scores.other_expectation,
    }
}

fn change(before: f64, after: f64) -> f64 {
    let difference = after - before;
    if difference.abs() < EQUAL { 0.0 } else { difference }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = values.len();
    (count > 0).then(|| values.sum::<f64>() / count as f64)
}
