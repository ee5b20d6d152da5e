//! Which combination of its `matrix` an agent must be loaded with, for commands about earlier runs.

use std::path::{Path, PathBuf};

use holodeck_model::Combination;
use holodeck_runner::{
    RunStore, SiblingState, SiblingsError, StoreError, StoredCombination, siblings, stored_combination,
};

/// An earlier run of a matrix.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MatrixRun {
    /// Its journal.
    pub journal: PathBuf,
    /// Its combination.
    pub stored: StoredCombination,
}

/// The run that `name` means for the agent in this file, if it is one of a matrix; to resume it, if `resumes`. Of the
/// newest matrix, `latest` then means the newest run that is not finished.
pub fn find_run(agent: &Path, name: &str, resumes: bool) -> Result<Option<MatrixRun>, SiblingsError> {
    let store = store(agent);
    let journal = if resumes {
        store.find_resumable(name)?
    } else {
        store.find(name)?
    };
    let Some(stored) = stored_combination(&journal) else {
        return Ok(None);
    };
    let run = MatrixRun { journal, stored };
    if !resumes || name != "latest" || is_unfinished(&run.journal) {
        return Ok(Some(run));
    }
    let unfinished = siblings(&store, &run.stored)?;
    let unfinished = unfinished.iter().rev().find_map(|sibling| match &sibling.state {
        SiblingState::Unfinished { run_id } => Some(store.journal_path(run_id)),
        _ => None,
    });
    let Some(journal) = unfinished else {
        return Ok(Some(run));
    };
    Ok(stored_combination(&journal).map(|stored| MatrixRun { journal, stored }))
}

fn is_unfinished(journal: &Path) -> bool {
    // Opening a damaged journal again reports the error.
    holodeck_runner::Journal::open(journal).map_or(true, |journal| !journal.is_completed())
}

impl MatrixRun {
    /// The other runs of the same matrix, for the agent in this file.
    pub fn siblings(&self, agent: &Path) -> Result<Vec<holodeck_runner::Sibling>, SiblingsError> {
        siblings(&store(agent), &self.stored)
    }
}

/// Shards by their combination of the matrix: its journals, in the order in which the combinations appear; and the
/// combinations that were to be run, but of which there is no shard.
pub fn shards_by_combination(agent: &Path, runs: &[String]) -> Result<ShardGroups, StoreError> {
    let mut groups: Vec<(Option<Combination>, Vec<PathBuf>)> = Vec::new();
    let mut planned: Vec<Combination> = Vec::new();
    for journal in store(agent).find_shards(runs)? {
        let stored = stored_combination(&journal);
        let of_run = stored.iter().flat_map(|stored| &stored.planned);
        for combination in of_run {
            if !planned.contains(combination) {
                planned.push(combination.clone());
            }
        }
        let values = stored.map(|stored| stored.values);
        match groups.iter_mut().find(|(other, _)| *other == values) {
            Some((_, journals)) => journals.push(journal),
            None => groups.push((values, vec![journal])),
        }
    }
    let has = |combination: &Combination| {
        groups
            .iter()
            .any(|(values, _)| values.as_ref() == Some(combination))
    };
    planned.retain(|combination| !has(combination));
    Ok((groups, planned))
}

/// The journals of each combination, and the combinations without one.
pub type ShardGroups = (Vec<(Option<Combination>, Vec<PathBuf>)>, Vec<Combination>);

fn store(agent: &Path) -> RunStore {
    RunStore::new(agent.parent().map(Path::to_path_buf).unwrap_or_default())
}
