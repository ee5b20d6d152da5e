//! Fuses several rankings by ranks, since scores of different searches are not comparable.

use std::collections::BTreeMap;

use crate::Scored;

/// Weighted reciprocal rank fusion of items identified by a key.
#[derive(Debug)]
pub struct Fusion<K, V> {
    k: f64,
    /// The score of an item that is first in every ranking.
    greatest: f64,
    /// Ordered by key, so that the result does not depend on the order of rankings.
    sums: BTreeMap<K, (f64, V)>,
}

impl<K: Ord, V> Fusion<K, V> {
    /// Starts empty. The greater `rrf_k`, the less the first ranks count.
    pub fn new(rrf_k: u32) -> Self {
        Self {
            k: f64::from(rrf_k),
            greatest: 0.0,
            sums: BTreeMap::new(),
        }
    }

    /// Adds a ranking, best first. An empty ranking counts too: no item is first in it.
    pub fn add(&mut self, weight: f64, ranking: impl IntoIterator<Item = (K, V)>) {
        self.greatest += weight / (self.k + 1.0);
        for (rank, (key, value)) in (1_u32..).zip(ranking) {
            let part = weight / (self.k + f64::from(rank));
            self.sums.entry(key).or_insert((0.0, value)).0 += part;
        }
    }

    /// Best first with scores from 0 to 1; ties by key.
    pub fn ranked(self) -> Vec<(f64, V)> {
        let greatest = self.greatest;
        let sums = self.sums.into_values();
        let mut ranked: Vec<(f64, V)> = sums
            .map(|(sum, value)| ((sum / greatest).min(1.0), value))
            .collect();
        ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        ranked
    }
}

/// Fuses weighted rankings of passages.
pub(super) fn fuse(rankings: impl IntoIterator<Item = (f64, Vec<Scored>)>, rrf_k: u32) -> Vec<Scored> {
    let mut fusion = Fusion::new(rrf_k);
    for (weight, ranking) in rankings {
        let passages = ranking.into_iter().map(|scored| scored.passage);
        fusion.add(weight, passages.map(|passage| (passage.id.clone(), passage)));
    }
    let ranked = fusion.ranked().into_iter();
    ranked.map(|(score, passage)| Scored { score, passage }).collect()
}
