//! The first line of a journal: the plan and the settings that a resumed run must share.

use std::{collections::BTreeMap, sync::Arc};

use holodeck_model::{CaseId, CaseIdentity, Combination, Partial, Replayed, RunMetadata, ShardPart, Spent};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{CaseTrials, RunFlags};

/// The first line of a journal: the plan of the run and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// The format.
    pub holodeck_journal: u64,
    /// The run.
    pub run_id: String,
    /// The start time, RFC 3339.
    pub started_at: String,
    /// The agent.
    pub agent_name: String,
    /// Its file as typed.
    pub agent_path: String,
    /// The name of its file; empty in journals of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_file: String,
    /// Provider and model, for display.
    #[serde(default)]
    pub model: String,
    /// The run whose answers this one regrades; a regrade makes no model calls to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regrades: Option<String>,
    /// Set if the run is one of those of a matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combination: Option<StoredCombination>,
    /// Set if the run is one part of a larger one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<StoredShard>,
    /// The runs of the shards whose results this run consists of; it made no model calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged_from: Vec<String>,
    /// Fingerprint of the agent: each part that affects answers, with its digest. Resuming requires the same.
    #[serde(default)]
    pub agent: BTreeMap<String, String>,
    /// How the cases were selected.
    #[serde(default)]
    pub selected: StoredSelection,
    /// The cases to run, in their order.
    #[serde(default, with = "plan")]
    pub plan: Arc<[CaseIdentity]>,
    /// The trials of each case of the plan; empty if each runs once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<CaseTrials>,
    /// Flags that affect answers; a resumed run uses them again.
    #[serde(default)]
    pub flags: RunFlags,
    /// Set when answers come from a recording.
    pub replayed: Option<Replayed>,
    /// The usage of deriving the steps of judges before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_steps: Option<Spent>,
    /// Settings of the run, for its report.
    pub settings: Value,
    /// Information about the agent, secrets masked.
    pub metadata: RunMetadata,
}

impl JournalHeader {
    /// Set if the run has only some of the cases that the file had.
    pub fn partial(&self) -> Option<Partial> {
        let of = self.selected.of?;
        let cases = self.plan.len();
        (cases < of).then(|| Partial {
            cases,
            of,
            by: self.selected.describe(),
        })
    }
}

/// The combination of a matrix that a run has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct StoredCombination {
    /// The value of each axis.
    pub values: Combination,
    /// Identifies the runs that one command started.
    pub group: String,
    /// The combinations that this command was to run, this one included.
    pub planned: Vec<Combination>,
}

/// The part of a larger run that a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredShard {
    /// Which part.
    #[serde(flatten)]
    pub part: ShardPart,
    /// Digest of the cases of all parts with what is expected of them.
    pub digest: String,
}

/// How the cases of a run were selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSelection {
    /// Cases whose name matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Cases with one of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A sample of the remaining cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// The first N of the remaining cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only cases that did not pass in an earlier run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Only cases that a change concerns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// How many cases the file had; absent in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<usize>,
}

/// A number of cases that are selected by chance: the same ones for the same seed, whatever the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Sample {
    /// How many.
    pub cases: usize,
    /// The seed that selects them.
    pub seed: u64,
}

impl Sample {
    /// The rank of a case: the sample has those with the lowest.
    pub fn rank(self, case: CaseId) -> [u8; 32] {
        Sha256::digest(format!("sample {} {case}", self.seed)).into()
    }
}

impl StoredSelection {
    /// How cases were selected by tags, by chance and by a change; empty if they were not.
    pub fn describe(&self) -> String {
        let tags = (!self.tags.is_empty()).then(|| format!("tag {}", self.tags.join(" or ")));
        let sample = self
            .sample
            .map(|Sample { cases, seed }| format!("sample of {cases} with seed {seed}"));
        let changed = self.changed.then(|| "what a change concerns".to_owned());
        let parts: Vec<String> = tags.into_iter().chain(sample).chain(changed).collect();
        parts.join(", ")
    }
}

/// The plan is one long line, so each case is a single string of both digests.
mod plan {
    use std::sync::Arc;

    use holodeck_model::CaseIdentity;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(plan: &[CaseIdentity], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(plan.iter().map(|case| format!("{}{}", case.id, case.content)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[CaseIdentity]>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let parse = |text: &String| {
            let (id, content) = text
                .split_at_checked(32)
                .ok_or_else(|| D::Error::custom("each case of the plan must consist of two digests"))?;
            Ok(CaseIdentity {
                id: id.parse().map_err(D::Error::custom)?,
                content: content.parse().map_err(D::Error::custom)?,
            })
        };
        texts.iter().map(parse).collect()
    }
}

/// The parts of an agent that differ between two fingerprints.
pub fn changed_parts(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let parts: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let changed = parts
        .into_iter()
        .filter(|&part| before.get(part) != now.get(part));
    changed.cloned().collect()
}
