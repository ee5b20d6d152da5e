//! A row of a table of answers that exist.

use crate::JsonMap;

/// An answer that exists, with the case that it answers.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the reader of tables constructs it as a literal"
)]
pub struct AnswerRow {
    /// The number of the row, from 1, without the row of names.
    pub number: usize,
    /// The name of its case.
    pub name: Option<String>,
    /// The input of its case.
    pub input: Option<String>,
    /// The parts of the answer by their names: `text`, `tool_calls`, …
    pub answer: JsonMap,
    /// How long the answer took.
    pub latency_ms: Option<u64>,
}

impl AnswerRow {
    /// The columns of an answer beside `name` and `input`. The text has one of the first four names.
    pub const COLUMNS: [&str; 13] = [
        "text",
        "answer",
        "response",
        "output",
        "tool_calls",
        "tool_results",
        "retrieval_context",
        "usage",
        "cost",
        "finish_reason",
        "error",
        "latency_ms",
        "session",
    ];
    /// The columns that may hold the text.
    pub const TEXTS: [&str; 4] = ["text", "answer", "response", "output"];
}
