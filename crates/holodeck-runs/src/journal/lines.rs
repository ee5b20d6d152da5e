//! The payloads of the lines of a journal.

use holodeck_model::UnitKey;
use serde::{Deserialize, Serialize};

use crate::record::{Grade, UnitRecord};

/// The payload of a line `ran`: a unit, and its checks where they had to see it before it was masked. They are no verdict.
#[derive(Deserialize)]
pub(super) struct UnitLine {
    pub(super) unit: UnitRecord,
    #[serde(default, alias = "grade")]
    pub(super) checks: Option<Grade>,
}

#[derive(Serialize)]
pub(super) struct UnitLineRef<'a> {
    pub(super) unit: &'a UnitRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) checks: Option<&'a Grade>,
}

/// The payload of a line `graded`.
#[derive(Serialize, Deserialize)]
pub(super) struct GradeLine<G> {
    pub(super) key: UnitKey,
    pub(super) grade: G,
}
