//! How much of a file's cases a run has, for the headlines of partial runs.

use serde::{Deserialize, Serialize};

/// How many of the cases of the file a run has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Partial {
    /// The cases of the run.
    pub cases: usize,
    /// The cases of the file.
    pub of: usize,
    /// How they were selected by tags and by chance; empty if they were not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

impl Partial {
    /// `partial: 3 of 20 cases` or `partial: 3 of 20 cases (tag slow)`, for every headline.
    pub fn describe(self) -> String {
        let by = match self.by.as_str() {
            "" => String::new(),
            by => format!(" ({by})"),
        };
        format!("partial: {} of {} cases{by}", self.cases, self.of)
    }
}
