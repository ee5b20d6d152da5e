//! How often a match with some evidence is right: the table by which scores become confidence.

/// The evidence for the best agent, in millionths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Its score.
    pub(super) score: i64,
    /// The score of the second.
    pub(super) next: i64,
}

impl Evidence {
    /// The score and half of what it is ahead. Of two that are equal, only the name decides: that is right half of the time
    /// at most.
    pub(super) fn strength(self) -> i64 {
        let ahead = self.score - self.next;
        let strength = self.score + ahead / 2;
        if ahead == 0 { strength.min(TIED) } else { strength }
    }
}

/// The strength of a tie.
const TIED: i64 = 700_000;

/// From this strength on, the confidence, in millionths: the share of selections that were right on the set to tune on, with
/// one right and one wrong added. A test computes it again.
pub(super) const TABLE: &[(i64, i64)] = &[
    (0, 70_000),
    (400_000, 270_000),
    (800_000, 800_000),
    (1_200_000, 920_000),
    (2_000_000, 970_000),
];

/// How confident a selection is, 0–1.
pub(super) fn confidence(evidence: Evidence) -> f64 {
    let strength = evidence.strength();
    let row = TABLE.iter().rev().find(|(from, _)| *from <= strength);
    super::components::as_score(row.map_or(0, |(_, confidence)| *confidence))
}

/// The highest confidence that words can have, 0–1.
pub(super) fn highest() -> f64 {
    let last = TABLE.last().map_or(0, |(_, confidence)| *confidence);
    super::components::as_score(last)
}
