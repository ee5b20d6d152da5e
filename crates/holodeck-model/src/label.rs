use crate::Location;

/// An answer that people judged, to compare a judge with them.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct LabelledAnswer {
    /// Its row in the file.
    pub location: Location,
    /// The case that it answers, if the row names one.
    pub case: Option<String>,
    /// The question.
    pub input: String,
    /// The answer.
    pub response: String,
    /// The expected answer.
    pub ground_truth: Option<String>,
    /// The passages that the answer should follow.
    pub retrieval_context: Option<Vec<String>>,
    /// Whether people let it pass.
    pub passed: bool,
}
