#![doc = include_str!("../README.md")]

mod quality;
mod registry;
mod select;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_events as events, holodeck_model as model};

pub use quality::{
    AnswerScorer, Assessment, CountingJudge, ImproveError, Improver, InvalidRule, LoopControl, LoopObserver, LoopOutput, LoopReplay,
    LoopReport, LoopRules, LoopState, LoopStep, LoopVerdict, QualityAssessment, QualityLoop,
    ReplayedIteration, Scorer, ScorerError, ScorerParts, Signals, data_block, repair_prompt, replay, split_command,
};
pub use registry::AgentRegistry;
pub use select::{ScoreBreakdown, SelectedBy, Selection, SelectionTask, Selector};
