//! The shards of a matrix: which of them belong to one combination.

use std::path::PathBuf;

use holodeck_model::Combination;
use holodeck_runs::{AgentRuns, StoreError};

/// Shards by their combination of the matrix: its journals, in the order in which the combinations appear; and the
/// combinations that were to be run, but of which there is no shard.
pub fn shards_by_combination(agent: &AgentRuns, runs: &[String]) -> Result<ShardGroups, StoreError> {
    let mut groups: Vec<(Option<Combination>, Vec<PathBuf>)> = Vec::new();
    let mut planned: Vec<Combination> = Vec::new();
    for found in agent.find_shards(runs)? {
        let (journal, stored) = (found.journal, found.combination);
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
