#![doc = include_str!("../README.md")]

mod chain;
mod command_line;
mod evidence;
mod executor;
mod facade;
mod gates;
mod hooks;
mod legacy;
mod quality;
mod registry;
mod select;
mod skills;
mod telemetry;
mod test_report;
mod turn;

#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_events as events, holodeck_model as model};

pub use chain::{ExecutorCall, ExecutorFailure, ExecutorOutput, FailureClass, LegacyExecutor, SkillsRuntime};
pub use evidence::{CommandRun, Evidence, EvidenceIssue, KnownTools, ToolInvocation, missing_expectations};
pub use executor::{
    AgentChoice, AttemptDetails, ExecuteOptions, Refined, Refiner, SdkExecutor, SdkSettings, Specialists,
    TaskBuilder, selection_task,
};
pub use facade::{Execution, ExecutionFacade, FALLBACK_BLOCKED, FacadeError, FacadeSettings, Verdict};
pub use gates::{Gate, GateResult, GateState};
pub use hooks::{FLUSH_LIMIT, Hook, HookEvent, HookPoint, HookReport};
pub use legacy::{LegacyAgent, LegacyOpening, LegacyProgram};
pub use quality::{
    AnswerScorer, Assessment, ImproveError, Improver, InvalidRule, LoopControl, LoopObserver, LoopOutput,
    LoopReplay, LoopReport, LoopRules, LoopState, LoopStep, LoopVerdict, QualityAssessment, QualityLoop,
    ReplayedIteration, Scorer, ScorerError, ScorerParts, Signals, data_block, repair_prompt, replay,
    split_command,
};
pub use registry::{AgentDefinition, AgentRegistry};
pub use select::{
    KeywordSelector, RankedAgent, ScoreBreakdown, ScoredAgent, SelectedBy, Selection, SelectionTask, Selector,
};
pub use skills::{SkillAgents, SkillPrograms, SkillTool, Skills};
pub use telemetry::{ExecutionEvent, JsonLines, TelemetryRecord, TelemetrySink};
pub use test_report::TestCounts;
pub use turn::{ReadyAgent, TurnObserver};
