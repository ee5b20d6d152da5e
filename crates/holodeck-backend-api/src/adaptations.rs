//! Collects what was adapted in the requests to models, by every user of these models.

use std::sync::{Arc, Mutex, PoisonError};

use holodeck_model::Adaptation;

/// The parts of requests that were adapted, in the order in which they were found. Clones share state.
#[derive(Clone, Debug, Default)]
pub struct Adaptations(Arc<Mutex<Vec<Adaptation>>>);

impl Adaptations {
    /// Adds an adaptation unless it is known.
    pub fn add(&self, adaptation: &Adaptation) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(adaptation) {
            known.push(adaptation.clone());
        }
    }

    /// The adaptations that were found after the first `known` ones.
    pub fn since(&self, known: usize) -> Vec<Adaptation> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(known..).unwrap_or_default().to_vec()
    }
}
