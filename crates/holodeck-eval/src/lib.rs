#![doc = include_str!("../README.md")]

pub mod calibration;
#[cfg(feature = "grading")]
mod checks;
#[cfg(feature = "grading")]
mod code;
#[cfg(feature = "grading")]
mod config_problem;
#[cfg(feature = "grading")]
mod format;
#[cfg(feature = "grading")]
mod grader;
#[cfg(feature = "grading")]
mod input;
#[cfg(feature = "grading")]
mod instructions;
#[cfg(feature = "grading")]
mod json_text;
#[cfg(feature = "grading")]
mod judges;
#[cfg(feature = "grading")]
mod masked;
#[cfg(feature = "grading")]
mod metric;
pub mod nlp;
#[cfg(feature = "grading")]
mod quality;
#[cfg(feature = "grading")]
mod response_path;
#[cfg(feature = "grading")]
mod similar;
#[cfg(feature = "grading")]
mod simulated_user;
pub mod stats;
#[cfg(feature = "grading")]
mod text_score;
#[cfg(feature = "grading")]
mod tool_calls;

pub use nlp::WORDNET_LICENSE;

#[cfg(feature = "grading")]
#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_model as model};

#[cfg(feature = "grading")]
pub use {
    format::VerdictFormat,
    grader::{ConfigError, Grader, MetricKind, MetricOutcome, Verdict},
    holodeck_model::{ExpectedTool, MetricConfig, StandardMetric},
    input::{CalledTool, ConversationTurn, EvalInput},
    instructions::{JUDGE_INSTRUCTIONS, USER_INSTRUCTIONS},
    judges::{JUDGE_PROMPTS, derive_steps},
    masked::{InputText, MaskedInput, MaskedText},
    metric::{
        Asked, AskingMetric, Comparison, CountingJudge, Judge, JudgeAnswer, JudgeError, JudgeErrorKind,
        JudgeRequest, JudgedLine, KEPT_PROMPT, Metric, MetricError, NoPrograms, Programs, Score,
        UNFIT_VERDICT,
    },
    quality::{QualityQuestion, QualityVerdict},
    simulated_user::{UserMessage, UserStatus, UserView},
    tool_calls::{ApprovalsOutcome, ToolExpectations, ToolsOutcome, check_approvals, check_tools},
};
