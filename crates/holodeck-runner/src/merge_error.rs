//! Why shards cannot be merged.

use holodeck_model::Shard;

/// Why shards cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A run is not a shard.
    #[error("run `{run_id}` in `{path}` cannot be merged: {reason}")]
    NotAShard {
        /// The run.
        run_id: String,
        /// Its journal.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// Two shards are parts of different runs.
    #[error("`{first}` and `{second}` are not shards of the same run: {what} differs")]
    Different {
        /// A journal.
        first: String,
        /// Another one.
        second: String,
        /// The difference.
        what: String,
    },
    /// A shard was run twice.
    #[error("shard {shard} was run twice, with different results: `{first}` and `{second}`")]
    Twice {
        /// The shard.
        shard: Shard,
        /// A journal.
        first: String,
        /// Another one.
        second: String,
    },
    /// Shards are missing.
    #[error("{}", describe_missing(shards, *count))]
    Missing {
        /// Their numbers, from 1.
        shards: Vec<u32>,
        /// How many shards the run has.
        count: u32,
    },
    /// A shard has no verdict on some of its cases, or did not end.
    #[error("shard {shard} is not finished: {reason} (run `{run_id}` in `{path}`)")]
    Unfinished {
        /// The shard.
        shard: Shard,
        /// Its run.
        run_id: String,
        /// Its journal.
        path: String,
        /// Why.
        reason: String,
    },
    /// The agent file is not the one that the shards ran.
    #[error("the agent changed since the shards ran: {what} differs")]
    AgentChanged {
        /// The difference.
        what: &'static str,
    },
    /// Something else decided the verdicts of a shard than the agent file says.
    #[error(
        "shard {shard} was not graded as the agent file says: {what} differs (run `{run_id}` in `{path}`)"
    )]
    OtherDeciders {
        /// The shard.
        shard: Shard,
        /// The names of the differences.
        what: String,
        /// Its run.
        run_id: String,
        /// Its journal.
        path: String,
    },
    /// The merge was interrupted.
    #[error("the merge was interrupted; no merged run was written")]
    Interrupted,
}

fn describe_missing(shards: &[u32], count: u32) -> String {
    let numbers: Vec<String> = shards.iter().map(u32::to_string).collect();
    match numbers.as_slice() {
        [number] => format!("shard {number} of {count} is missing"),
        _ => format!(
            "{} of {count} shards are missing: {}",
            numbers.len(),
            numbers.join(", ")
        ),
    }
}
