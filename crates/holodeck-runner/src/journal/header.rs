use std::collections::BTreeMap;

use holodeck_model::{CaseIdentity, Replayed, RunMetadata};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first line of a journal: what is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// The format.
    pub holodeck_journal: u64,
    /// The run.
    pub run_id: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// The agent.
    pub agent_name: String,
    /// Its file as typed.
    pub agent_path: String,
    /// Provider and model, as people write it.
    #[serde(default)]
    pub model: String,
    /// The run whose answers this one graded again; it asked nothing itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regrades: Option<String>,
    /// Fingerprint of the agent: each part that shapes an answer, with its digest. A resumed run must find it unchanged.
    #[serde(default)]
    pub agent: BTreeMap<String, String>,
    /// Which cases of the file were chosen.
    #[serde(default)]
    pub selected: Selected,
    /// The cases to run, in their order.
    #[serde(default, with = "plan")]
    pub plan: Vec<CaseIdentity>,
    /// Flags that shape answers; a resumed run takes them over.
    #[serde(default)]
    pub flags: RunFlags,
    /// Set when answers come from a recording.
    pub replayed: Option<Replayed>,
    /// Settings of the run, for its report.
    pub settings: Value,
    /// What is known about the agent, secrets masked.
    pub metadata: RunMetadata,
}

/// How the cases of a run were chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// Cases whose name matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The first N of what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only what did not pass in an earlier run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// Flags of a run that shape its answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFlags {
    /// `--allow-side-effects`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_side_effects: bool,
    /// `--force-ingest`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force_ingest: bool,
    /// `--timeout`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// `--record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// Many cases make a long line: each is one string of both digests.
mod plan {
    use holodeck_model::CaseIdentity;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(plan: &[CaseIdentity], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(plan.iter().map(|case| format!("{}{}", case.id, case.content)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<CaseIdentity>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let parse = |text: &String| {
            let (id, content) = text
                .split_at_checked(32)
                .ok_or_else(|| D::Error::custom("a case of the plan must be two digests"))?;
            Ok(CaseIdentity {
                id: id.parse().map_err(D::Error::custom)?,
                content: content.parse().map_err(D::Error::custom)?,
            })
        };
        texts.iter().map(parse).collect()
    }
}
