#![doc = include_str!("../README.md")]

mod caught;
#[cfg(feature = "routing")]
mod chain;
#[cfg(feature = "routing")]
mod command_line;
#[cfg(feature = "routing")]
mod evidence;
#[cfg(feature = "routing")]
mod executor;
#[cfg(feature = "routing")]
mod facade;
#[cfg(feature = "routing")]
mod gates;
#[cfg(feature = "routing")]
mod hooks;
#[cfg(feature = "routing")]
mod legacy;
mod quality;
#[cfg(feature = "routing")]
mod registry;
#[cfg(feature = "routing")]
mod select;
#[cfg(feature = "routing")]
mod skills;
#[cfg(feature = "routing")]
mod telemetry;
#[cfg(feature = "routing")]
mod test_report;
#[cfg(feature = "routing")]
mod verdict;
#[cfg(feature = "routing")]
mod watch;

#[cfg(feature = "routing")]
#[doc(no_inline)]
pub use {holodeck_backend_api as api, holodeck_process as process, holodeck_turn as turns};
#[doc(no_inline)]
pub use {holodeck_model as model, tokio_util::sync::CancellationToken};

#[cfg(feature = "routing")]
pub use chain::{ExecutorCall, ExecutorFailure, ExecutorOutput, LegacyExecutor, SkillsRuntime};
#[cfg(feature = "routing")]
pub use evidence::{CommandRun, Evidence, EvidenceIssue, KnownTools, ToolInvocation, missing_expectations};
#[cfg(feature = "routing")]
pub use executor::{
    AgentChoice, AttemptDetails, ExecuteOptions, Refined, Refiner, SdkExecutor, SdkSettings, Specialists,
    TaskBuilder, selection_task,
};
#[cfg(feature = "routing")]
pub use facade::{Execution, ExecutionFacade, FALLBACK_BLOCKED, FacadeError, FacadeSettings, FailedExecutor};
#[cfg(feature = "routing")]
pub use gates::{Gate, GateResult, GateState};
#[cfg(feature = "routing")]
pub use hooks::{FLUSH_LIMIT, Hook, HookEvent, HookPoint, HookReport};
#[cfg(feature = "routing")]
pub use legacy::{LegacyAgent, LegacyOpening, LegacyProgram};
#[cfg(feature = "scorers")]
pub use quality::{AnswerScorer, ScorerParts, Signals, split_command};
pub use quality::{
    Assessment, ImproveError, Improver, InvalidRule, LoopControl, LoopObserver, LoopOutput, LoopReplay,
    LoopReport, LoopRules, LoopState, LoopStep, LoopVerdict, QualityAssessment, QualityLoop,
    ReplayedIteration, Scorer, ScorerError, StepObserver, data_block, repair_prompt, replay, shown_points,
};
#[cfg(feature = "routing")]
pub use registry::{AgentDefinition, AgentRegistry};
#[cfg(feature = "routing")]
pub use select::{
    AgentSelector, AskedModel, Asking, EmbeddingSelector, ModelSelector, RankedAgent, Route, RouteRules,
    ScoreBreakdown, ScoredAgent, SelectError, Selected, SelectedBy, Selection, SelectionModel,
    SelectionQuestion, SelectionTask, Selector,
};
#[cfg(feature = "routing")]
pub use skills::{SkillAgents, SkillPrograms, SkillTool, Skills};
#[cfg(feature = "routing")]
pub use telemetry::{ExecutionEvent, JsonLines, TelemetryRecord, TelemetrySink};
#[cfg(feature = "routing")]
pub use test_report::TestCounts;
#[cfg(feature = "routing")]
pub use verdict::{FailureClass, Verdict};
#[cfg(feature = "routing")]
pub use watch::{ReadyAgent, TurnObserver};
