//! The types of the YAML language, one module per block.

mod agent;
mod approvals;
mod arg_matcher;
mod attachments;
mod calibration;
mod cases;
mod claude;
mod database;
mod deployment;
mod embedding;
mod embedding_settings;
mod evaluation;
mod execution;
mod expected_approval;
mod expected_tool;
mod files;
mod global;
mod goal_success;
mod hooks;
mod instructions;
mod judged_metric;
mod judging;
mod matrix;
mod mock;
mod model;
mod observability;
mod openai;
mod optimizer;
mod places;
mod quality_loop;
mod response_paths;
mod retrieval_tool;
mod routing;
mod sandbox;
mod schema_ref;
mod serve;
mod simulated_user;
mod standard_metric;
mod target;
mod test_case;
mod tool;

pub use agent::{Agent, AnswersFrom, SearchMethod, ToolFilteringConfig};
pub use approvals::{
    ApprovalPriority, ApprovalRule, ApprovalsConfig, NonInteractive, OnApprovalTimeout, RuleApprover,
    RuleDecision, ScopeName,
};
pub use arg_matcher::{ArgMatcher, Bound};
pub use attachments::AttachmentsConfig;
pub use calibration::{CalibrationMinimum, RequireCalibrated};
pub use cases::{Cases, PlainCase, TextRange};
pub use claude::{
    AuthProvider, BashConfig, ClaudeConfig, Effort, ExtendedThinkingConfig, FileSystemConfig,
    MAX_CLAUDE_SCHEMA_BYTES, PermissionMode, SettingSource, SubagentConfig, SubagentsConfig,
};
pub use database::{DatabaseConfig, DatabaseProvider, DatabaseRef, KeywordIndexConfig, KeywordIndexProvider};
pub use deployment::{
    AwsTarget, AzureTarget, CloudProvider, DeploymentConfig, DeploymentTarget, GcpTarget, RegistryConfig,
    Runtime, ServeProtocol, TagStrategy,
};
pub use embedding::{EmbeddingConfig, EmbeddingProvider};
pub use embedding_settings::EmbeddingSettings;
pub use evaluation::{
    CodeMetric, EvalParam, EvaluationConfig, GevalMetric, GraderFailure, Judging, MetricConfig, RagMetric,
    RagMetricType, RubricLevel,
};
pub use execution::{ExecutionConfig, OnTruncated};
pub use expected_approval::{CallDecision, ExpectedApproval};
pub use expected_tool::{ExpectedTool, ToolOrder};
pub use files::{FileInput, FileType};
pub use global::{GlobalConfig, VectorstoreEntry};
pub use goal_success::GoalSuccessMetric;
pub use hooks::{HookConfig, HookEvent, HooksConfig};
pub use instructions::{InstructionsConfig, NoInstructions, PromptSource};
pub use judging::{Aggregate, MetricCondition, OnMasked};
pub use matrix::{Combination, Matrix, axis_value};
pub use mock::{McpMockConfig, MockAnswer, MockConfig, MockOutcome, MockUsedUp, MockedMcpTool};
pub use model::{ModelConfig, ModelOverrides, Provider, ReasoningInContent};
pub use observability::{
    AzureMonitorExporter, ConsoleExporter, ExportersConfig, LogLevel, LogsConfig, MetricsConfig,
    ObservabilityConfig, OtlpExporter, OtlpProtocol, PrometheusExporter, TracesConfig,
};
pub use openai::{OpenAiConfig, OpenAiPermissions};
pub use optimizer::{AxisType, NumericAxis, OptimizerAxes, OptimizerConfig, PhaseConfig, TextualAxis};
pub use places::MetricPlace;
pub use quality_loop::{
    LoopBudget, LoopJudge, LoopReturn, LoopStrategy, MinImprovement, NoiseMultiple, OnScorerError,
    OscillationConfig, QualityLoopConfig, ScorerConfig, SignalsConfig, StopOn,
};
pub use response_paths::{DetailedPath, ResponsePath, ResponsePaths};
pub use retrieval_tool::{
    ChunkingStrategy, DocumentDomain, HierarchicalDocumentTool, SearchMode, VectorstoreTool,
};
pub use routing::{
    AfterSideEffects, AgentsConfig, AgentsDirectory, EvidenceConfig, ExecutorKind, FallbackConfig,
    LegacyConfig, RoutingConfig, SelectionAlgorithm, SelectionWeights, SkillsConfig, TelemetryConfig,
};
pub use sandbox::{SandboxConfig, SandboxFilesConfig, SandboxNetworkConfig};
pub use schema_ref::{ResponseFormat, SchemaRef};
pub use serve::{
    AuthMode, Durability, EventStoreKind, EventsConfig, OnDisconnect, OnRestart, ServeAuth, ServeConcurrency,
    ServeConfig, ServeToken, Survives,
};
pub use simulated_user::{ConversationEnd, SimulatedUser};
pub use standard_metric::{RougeVariant, StandardMetric, StandardMetricName};
pub use target::{
    AgUiTarget, AnswersTarget, CommandTarget, FunctionTarget, HolodeckTarget, HttpMethod, HttpTarget,
    TargetConfig, TargetFresh, TargetOutput, TargetShare, TargetStream,
};
pub use test_case::{EarlierMessage, MessageRole, TestCase, Turn};
pub use tool::{
    FunctionTool, McpOauth, McpSampling, McpShare, McpTool, McpTransport, PromptTool, ServerNeed,
    SideEffects, ToolConfig, parameters_schema,
};
