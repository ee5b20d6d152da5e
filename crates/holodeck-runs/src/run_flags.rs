//! The flags of a run that its journal stores.

use serde::{Deserialize, Serialize};

/// Flags of a run that affect its answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFlags {
    /// `--allow-side-effects`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_side_effects: bool,
    /// `--force-ingest`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force_ingest: bool,
    /// `--without-loop`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_loop: bool,
    /// `--timeout`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// `--record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// `--trials`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// `--min-passes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_passes: Option<u32>,
}
