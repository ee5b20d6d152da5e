//! Several rankings made one, by ranks: scores of different searches can't be compared.

use std::collections::BTreeMap;

use crate::Scored;

/// Weighted reciprocal rank fusion.
pub(super) struct Fusion {
    k: f64,
    /// The sum of a passage that is first everywhere.
    greatest: f64,
    /// By id, so that passages come in the same order whatever order they were added in.
    sums: BTreeMap<String, Scored>,
}

impl Fusion {
    pub(super) fn new(rrf_k: u32) -> Self {
        Self {
            k: f64::from(rrf_k),
            greatest: 0.0,
            sums: BTreeMap::new(),
        }
    }

    /// Adds a ranking, best first. One that found nothing counts too: nothing is first in it.
    pub(super) fn add(&mut self, weight: f64, ranking: Vec<Scored>) {
        self.greatest += weight / (self.k + 1.0);
        for (rank, scored) in (1_u32..).zip(ranking) {
            let part = weight / (self.k + f64::from(rank));
            let passage = scored.passage;
            let sum = self
                .sums
                .entry(passage.id.clone())
                .or_insert(Scored { score: 0.0, passage });
            sum.score += part;
        }
    }

    /// Best first, scores from 0 to 1.
    pub(super) fn ranked(self) -> Vec<Scored> {
        let mut ranked: Vec<Scored> = self.sums.into_values().collect();
        for scored in &mut ranked {
            scored.score = (scored.score / self.greatest).min(1.0);
        }
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranked
    }
}

/// One ranking with scores that tell ranks.
pub(super) fn by_rank(ranking: Vec<Scored>, rrf_k: u32) -> Vec<Scored> {
    let mut fusion = Fusion::new(rrf_k);
    fusion.add(1.0, ranking);
    fusion.ranked()
}
