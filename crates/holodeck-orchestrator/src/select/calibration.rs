//! How often a match with some evidence is right: the curve by which scores become confidence. All numbers are whole, so
//! that the confidence is the same on every platform.

/// The evidence for the best agent, in millionths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Its score.
    pub(super) score: i64,
    /// The score of the second.
    pub(super) next: i64,
}

/// As much evidence that no agent fits as every task has, in millionths of a score.
const NONE_FITS: i64 = 600_000;

/// How much more a wrong agent costs than none.
const COST: i64 = 2;

/// How often the odds double for a score of 1, in millionths: they grow by the factor e⁸.
const STEPS: i64 = 11_541_560;

/// The highest confidence that words can have, in millionths.
const HIGHEST: i64 = 970_000;

const ONE: i64 = 1_000_000;

/// How confident a selection is, 0–1: the odds of the best agent against the second and against none, as a logistic model of
/// the three sets of `fixtures/routing` has them, with the cost of a wrong agent. Of two that are equal, only the name
/// decides: that is never enough.
pub(super) fn confidence(evidence: Evidence) -> f64 {
    let Evidence { score, next } = evidence;
    let against = odds(NONE_FITS - score) + odds(next - score);
    let confidence = ONE * ONE / (ONE + COST * against).max(1);
    super::components::as_score(if score > 0 { confidence.min(HIGHEST) } else { 0 })
}

/// The highest confidence that words can have, 0–1.
pub(super) fn highest() -> f64 {
    super::components::as_score(HIGHEST)
}

/// The odds of a difference of scores, in millionths: they double with each step, and grow evenly between two steps.
fn odds(difference: i64) -> i64 {
    const MOST: i64 = 20;
    let steps = difference.saturating_mul(STEPS) / ONE;
    let steps = steps.clamp(-MOST * ONE, MOST * ONE);
    let (whole, rest) = (steps.div_euclid(ONE), steps.rem_euclid(ONE));
    if whole < 0 {
        (ONE + rest) >> -whole
    } else {
        (ONE + rest) << whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_odds_double_with_each_step() {
        let step = ONE * ONE / STEPS + 1;
        assert_eq!(odds(0), ONE);
        for (steps, expected) in [(1, 2.0), (3, 8.0), (-1, 0.5), (-3, 0.125)] {
            let found = odds(steps * step) as f64 / 1e6;
            assert!((found / expected - 1.0).abs() < 1e-3, "{steps}: {found}");
        }
        assert!(odds(i64::MAX / 2) > 0 && odds(i64::MIN / 2) >= 0);
    }

    #[test]
    fn equal_agents_are_never_confident_and_one_far_ahead_is() {
        for score in [0, 1, 500_000, 2_000_000, 100_000_000] {
            let equal = Evidence { score, next: score };
            assert!(confidence(equal) < 0.5, "{score}");
        }
        let alone = Evidence {
            score: 2_000_000,
            next: 0,
        };
        assert_eq!(confidence(alone).to_bits(), highest().to_bits());
        let weak = Evidence {
            score: 300_000,
            next: 0,
        };
        assert!(confidence(weak) < 0.2);
    }
}
