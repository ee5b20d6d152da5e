#![doc = include_str!("../README.md")]

mod quality;
mod registry;
mod select;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_model as model};

pub use quality::{
    Assessment, ImproveError, Improver, LoopOutput, LoopReport, QualityAssessment, Scorer, ScorerError,
};
pub use registry::{AgentDefinition, AgentRegistry};
pub use select::{
    KeywordSelector, RankedAgent, ScoreBreakdown, ScoredAgent, SelectedBy, Selection, SelectionTask, Selector,
};
