//! Metrics over what an agent answered: deterministic checks, text metrics, tool-call expectations.
//!
//! [`Grader`] holds the metrics of a configuration, made ready once, and grades one answer at a time; [`check_tools`]
//! holds the calls an agent made against what a test expects. A score is in 0..=1 and never NaN; what cannot be
//! computed is an error, never 0. Nothing here does input or output: the same input gives the same verdict.

mod checks;
mod grader;
mod input;
mod json_text;
mod judged;
mod metric;
pub mod nlp;
mod response_path;
mod text_score;
mod tool_calls;

pub use grader::{ConfigError, Grader, MetricKind, MetricOutcome, Verdict};
pub use input::{CalledTool, EvalInput};
pub use metric::{Metric, MetricError, Need, Score};
pub use nlp::WORDNET_LICENSE;
pub use tool_calls::{ToolExpectations, ToolsOutcome, check_tools};
