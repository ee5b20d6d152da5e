//! The summary of a quality loop, for a case and for a whole run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TerminationReason;

/// A summary of a quality loop.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LoopSummary {
    /// The score of the first answer, 0–100; absent if nothing was scored.
    pub first_score: Option<f64>,
    /// The score of the returned answer, 0–100.
    pub final_score: Option<f64>,
    /// How many answers were scored.
    pub iterations: u32,
    /// Why it ended.
    pub termination_reason: TerminationReason,
    /// The score of each answer.
    #[serde(default)]
    pub scores: Vec<f64>,
    /// The answers, counted from 0, for which the scorer gave no score, so that theirs is 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_scores: Vec<u32>,
    /// Whether the returned answer met the threshold.
    #[serde(default)]
    pub passed: bool,
    /// The cost of the loop beyond the first answer, in US dollars: scoring and further answers; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Answers after the first one that may have changed something outside: work that may have been done twice.
    #[serde(default, skip_serializing_if = "is_none")]
    pub repeated_side_effects: u32,
}

impl LoopSummary {
    /// How many points the returned answer is better than the first one.
    pub fn gain(&self) -> Option<f64> {
        Some(self.final_score? - self.first_score?)
    }
}

/// A summary of the quality loops of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LoopTotals {
    /// Cases with a loop that scored an answer.
    pub cases: usize,
    /// Points that the returned answers are better than the first ones, of all cases.
    pub points: f64,
    /// The cost of the loops beyond the first answers, in US dollars; absent if a part is unknown.
    pub cost_usd: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

/// Whether the answers of a run of an agent with a quality loop are those of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a loop is used, or it is not")]
pub enum LoopUse {
    /// They are.
    Used,
    /// The run left it out, as `chat` and `serve` do.
    LeftOut,
}

impl LoopUse {
    /// The line for reports.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Used => {
                "the answers are those of the quality loop; `chat` and `serve` answer without it (`--without-loop` tests that)"
            }
            Self::LeftOut => "answered without the quality loop, as `chat` and `serve` do",
        }
    }
}
