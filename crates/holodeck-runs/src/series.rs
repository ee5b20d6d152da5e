//! Which runs are one series, so that a later one is compared with the one before.

use holodeck_model::{Combination, ShardPart};
use serde::{Deserialize, Serialize};

use crate::{JournalHeader, RunOwner, StoredCombination, StoredShard};

/// The runs of one agent that follow each other: those of a combination of a matrix, or of a shard, are a series of their
/// own. A run whose answers were graded again or merged follows the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSeries {
    owner: RunOwner,
    combination: Option<Combination>,
    shard: Option<ShardPart>,
}

impl RunSeries {
    /// The series of the run with this journal.
    pub fn of_run(header: &JournalHeader) -> Self {
        Self::new(
            RunOwner::of_run(header),
            header.combination.as_ref(),
            header.shard.as_ref(),
        )
    }

    pub(crate) fn new(
        owner: RunOwner,
        combination: Option<&StoredCombination>,
        shard: Option<&StoredShard>,
    ) -> Self {
        Self {
            owner,
            combination: combination.map(|stored| stored.values.clone()),
            shard: shard.map(|stored| stored.part),
        }
    }

    /// Whose runs they are.
    pub fn owner(&self) -> &RunOwner {
        &self.owner
    }
}
