//! The parts of a score as whole millionths, so that their sum is exact and the same on every platform.

use holodeck_model::SelectionWeights;

use super::ScoreBreakdown;

/// One point: the highest score.
const ONE: i64 = 1_000_000;

/// A part of a score in millionths; a number that is not finite is 0.
pub(super) fn millionths(value: f64) -> i64 {
    if !value.is_finite() {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    let rounded = (value * ONE as f64).round().clamp(-1e15, 1e15) as i64;
    rounded
}

/// A part of a score as it is shown.
fn shown(millionths: i64) -> f64 {
    millionths as f64 / ONE as f64
}

/// The parts of a score in millionths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    pub(super) triggers: i64,
    pub(super) category: i64,
    pub(super) description: i64,
    pub(super) tools: i64,
    pub(super) focus: i64,
    pub(super) files: i64,
    pub(super) tier: i64,
    pub(super) core: i64,
    pub(super) boost: i64,
}

/// The parts of a score that have weights, each 0–1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    pub(super) triggers: f64,
    pub(super) category: f64,
    pub(super) description: f64,
    pub(super) tools: f64,
    pub(super) focus: f64,
    pub(super) files: f64,
}

impl Parts {
    /// The weighted parts; the others are 0.
    pub(super) fn weighted(shares: Shares, weights: &SelectionWeights) -> Self {
        Self {
            triggers: millionths(shares.triggers * weights.triggers),
            category: millionths(shares.category * weights.category),
            description: millionths(shares.description * weights.description),
            tools: millionths(shares.tools * weights.tools),
            focus: millionths(shares.focus * weights.focus),
            files: millionths(shares.files * weights.files),
            ..Self::default()
        }
    }

    /// The score: the sum, clamped to 0–1 in millionths.
    pub(super) fn score(&self) -> i64 {
        let weighted =
            self.triggers + self.category + self.description + self.tools + self.focus + self.files;
        (weighted + self.tier + self.core + self.boost).clamp(0, ONE)
    }

    pub(super) fn breakdown(&self) -> ScoreBreakdown {
        ScoreBreakdown {
            triggers: shown(self.triggers),
            category: shown(self.category),
            description: shown(self.description),
            tools: shown(self.tools),
            focus: shown(self.focus),
            files: shown(self.files),
            tier: shown(self.tier),
            core: shown(self.core),
            boost: shown(self.boost),
            ..ScoreBreakdown::default()
        }
    }
}

/// A score in millionths as 0–1.
pub(super) fn as_score(millionths: i64) -> f64 {
    shown(millionths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_nothing() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(millionths(value), 0);
        }
        assert_eq!(millionths(0.1 + 0.2), 300_000);
        assert!(millionths(f64::MAX) > 0);
        let weights = SelectionWeights {
            triggers: f64::NAN,
            category: -3.0,
            description: f64::MAX,
            ..SelectionWeights::default()
        };
        let shares = Shares {
            triggers: 1.0,
            category: 1.0,
            description: 1.0,
            ..Shares::default()
        };
        let parts = Parts::weighted(shares, &weights);
        assert_eq!((parts.triggers, parts.category), (0, -3_000_000));
        assert_eq!(parts.score(), ONE);
    }
}
