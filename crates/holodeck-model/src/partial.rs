//! How much of a file's cases a run has, for the headlines of partial runs.

use serde::{Deserialize, Serialize};

/// How many of the cases of the file a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Partial {
    /// The cases of the run.
    pub cases: usize,
    /// The cases of the file.
    pub of: usize,
}

impl Partial {
    /// `partial: 3 of 20 cases`, for every headline.
    pub fn describe(self) -> String {
        format!("partial: {} of {} cases", self.cases, self.of)
    }
}
