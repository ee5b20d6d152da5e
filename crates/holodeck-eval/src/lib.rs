#![doc = include_str!("../README.md")]

pub mod calibration;
mod checks;
mod code;
mod config_problem;
mod format;
mod grader;
mod input;
mod instructions;
mod json_text;
mod judges;
mod masked;
mod metric;
pub mod nlp;
mod quality;
mod response_path;
mod similar;
mod simulated_user;
pub mod stats;
mod text_score;
mod tool_calls;

pub use grader::{ConfigError, Grader, MetricKind, MetricOutcome, Verdict};
#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_model as model};

pub use format::VerdictFormat;
pub use holodeck_model::{ExpectedTool, MetricConfig, StandardMetric};
pub use input::{CalledTool, ConversationTurn, EvalInput};
pub use instructions::{JUDGE_INSTRUCTIONS, USER_INSTRUCTIONS};
pub use judges::{JUDGE_PROMPTS, derive_steps};
pub use masked::{InputText, MaskedInput, MaskedText};
pub use metric::{
    Asked, AskingMetric, Comparison, CountingJudge, Judge, JudgeAnswer, JudgeError, JudgeErrorKind,
    JudgeRequest, JudgedLine, Metric, MetricError, NoPrograms, Programs, Score,
};
pub use nlp::WORDNET_LICENSE;
pub use quality::{QualityQuestion, QualityVerdict};
pub use simulated_user::{UserMessage, UserStatus, UserView};
pub use tool_calls::{ApprovalsOutcome, ToolExpectations, ToolsOutcome, check_approvals, check_tools};
