//! The top level of an agent file, with the block that each field holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApprovalsConfig, AttachmentsConfig, Cases, ClaudeConfig, DeploymentConfig, EmbeddingConfig,
    EvaluationConfig, EventsConfig, EvidenceConfig, ExecutionConfig, InstructionsConfig, Matrix,
    MetricConfig, ModelConfig, ObservabilityConfig, OpenAiConfig, Provider, QualityLoopConfig,
    ResponseFormat, RoutingConfig, SelectionAlgorithm, ServeConfig, TargetConfig, TelemetryConfig, TestCase,
    ToolConfig, Turn,
};
use crate::value::{PathRef, nullable};

/// An agent: its model, instructions, tools and tests.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Name of the agent; results are stored under it.
    #[schemars(regex(pattern = r"\S"))]
    pub name: String,
    /// The purpose of the agent.
    #[schemars(regex(pattern = r"\S"))]
    pub description: Option<String>,
    /// Who wrote it.
    #[schemars(regex(pattern = r"\S"))]
    pub author: Option<String>,
    /// The model that answers. Required, unless `target` answers.
    pub model: Option<ModelConfig>,
    /// The system prompt. Required, unless `target` answers.
    pub instructions: Option<InstructionsConfig>,
    /// An agent that is not ours, which answers in the place of `model` and `instructions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetConfig>,
    /// A JSON Schema for the answer, inline or as the path of a JSON file.
    pub response_format: Option<ResponseFormat>,
    /// The tools that the agent can call.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<ToolConfig>>")]
    pub tools: Vec<ToolConfig>,
    /// Which tools are offered to the model at a time.
    pub tool_filtering: Option<ToolFilteringConfig>,
    /// Who decides whether a tool call may run.
    pub approvals: Option<ApprovalsConfig>,
    /// How answers are judged.
    pub evaluations: Option<EvaluationConfig>,
    /// The test cases.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<TestCase>>")]
    pub test_cases: Cases,
    /// A file that holds the test cases, instead of `test_cases`: YAML, CSV, JSON Lines or a workbook (`.xlsx`).
    pub test_cases_file: Option<PathRef>,
    /// Variants to compare: `holodeck test` runs every combination of these values, each of which replaces the field at
    /// its path, as in `model.name: [gpt-4o, gpt-4o-mini]`.
    pub matrix: Option<Matrix>,
    /// Time-outs, concurrency, replay.
    pub execution: Option<ExecutionConfig>,
    /// OpenTelemetry export.
    pub observability: Option<ObservabilityConfig>,
    /// Where conversations are kept, and for how long.
    pub events: Option<EventsConfig>,
    /// Limits of the files that people attach to messages, and where they are kept.
    pub attachments: Option<AttachmentsConfig>,
    /// Which specialist agent executes a command, and what executes it otherwise.
    pub routing: Option<RoutingConfig>,
    /// Improves answers until they are good enough.
    pub quality_loop: Option<QualityLoopConfig>,
    /// The evidence that a command must produce.
    pub evidence: Option<EvidenceConfig>,
    /// Where decisions about commands are written.
    pub telemetry: Option<TelemetryConfig>,
    /// How `holodeck serve` offers the agent.
    pub serve: Option<ServeConfig>,
    /// How the agent is deployed.
    pub deployment: Option<DeploymentConfig>,
    /// The model that makes embeddings; `model` and its server, if absent.
    pub embedding_provider: Option<EmbeddingConfig>,
    /// Settings of the Claude backend.
    pub claude: Option<ClaudeConfig>,
    /// Settings of the OpenAI-compatible backend.
    pub openai: Option<OpenAiConfig>,
}

/// The source of the answers of an agent.
#[derive(Clone, Copy, Debug)]
pub enum AnswersFrom<'a> {
    /// A model, with the agent's instructions and tools.
    Model(&'a ModelConfig),
    /// An agent that is not ours.
    Target(&'a TargetConfig),
}

impl Agent {
    /// The source of its answers. `None` only for an agent that the loader refuses.
    pub fn answers_from(&self) -> Option<AnswersFrom<'_>> {
        let target = self.target.as_ref().map(AnswersFrom::Target);
        target.or_else(|| self.model.as_ref().map(AnswersFrom::Model))
    }

    /// The provider of the model that answers.
    pub fn provider(&self) -> Option<Provider> {
        self.model.as_ref().map(|model| model.provider)
    }

    /// Whether Claude Code answers.
    pub fn is_claude(&self) -> bool {
        self.provider() == Some(Provider::Anthropic)
    }

    /// The name of what answers: that of the model, or the address, program or file of the target.
    pub fn answerer(&self) -> String {
        match self.answers_from() {
            Some(AnswersFrom::Model(model)) => model.name.clone(),
            Some(AnswersFrom::Target(target)) => target.label(),
            None => String::new(),
        }
    }

    /// The kind of backend that answers.
    pub fn backend_name(&self) -> &'static str {
        match self.answers_from() {
            Some(AnswersFrom::Target(_)) => "target",
            _ if self.is_claude() => "claude",
            _ => "openai",
        }
    }

    /// The quality loop, if it is enabled.
    pub fn enabled_loop(&self) -> Option<&QualityLoopConfig> {
        self.quality_loop.as_ref().filter(|config| config.enabled)
    }

    /// The model that chooses the specialist agent of a task, and where the YAML has it; `None` if none is asked.
    pub fn selecting_model(&self) -> Option<(&'static str, &ModelConfig)> {
        let routing = self.routing.as_ref()?;
        routing
            .asked_agents()
            .filter(|agents| agents.algorithm == SelectionAlgorithm::Model)?;
        match &routing.model {
            Some(model) => Some(("routing.model", model)),
            None => Some(("model", self.model.as_ref()?)),
        }
    }

    /// Whether a case needs neither an answer nor a model: it checks only the selection, and no model is asked for it.
    pub fn needs_no_model(&self, case: &TestCase) -> bool {
        case.checks_only_selection() && self.selecting_model().is_none() && self.asked_embedder().is_none()
    }

    /// The metrics that judge a turn: those of the turn, else of its case, else of the agent.
    pub fn metrics_for<'a>(&'a self, case: &'a TestCase, turn: Option<&'a Turn>) -> &'a [MetricConfig] {
        if case.checks_only_selection() {
            return &[];
        }
        [turn.map(|turn| &turn.evaluations), Some(&case.evaluations)]
            .into_iter()
            .flatten()
            .find(|metrics| !metrics.is_empty())
            .or_else(|| self.evaluations.as_ref().map(|evaluations| &evaluations.metrics))
            .map_or(&[], Vec::as_slice)
    }

    /// A copy without test cases, of which there may be many.
    pub fn without_cases(&self) -> Self {
        Self {
            name: self.name.clone(),
            description: self.description.clone(),
            author: self.author.clone(),
            model: self.model.clone(),
            instructions: self.instructions.clone(),
            target: self.target.clone(),
            response_format: self.response_format.clone(),
            tools: self.tools.clone(),
            tool_filtering: self.tool_filtering.clone(),
            approvals: self.approvals.clone(),
            evaluations: self.evaluations.clone(),
            test_cases: Cases::default(),
            test_cases_file: self.test_cases_file.clone(),
            matrix: self.matrix.clone(),
            execution: self.execution.clone(),
            observability: self.observability.clone(),
            events: self.events.clone(),
            attachments: self.attachments.clone(),
            routing: self.routing.clone(),
            quality_loop: self.quality_loop.clone(),
            evidence: self.evidence,
            telemetry: self.telemetry.clone(),
            serve: self.serve.clone(),
            deployment: self.deployment.clone(),
            embedding_provider: self.embedding_provider.clone(),
            claude: self.claude.clone(),
            openai: self.openai.clone(),
        }
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&ToolConfig> {
        self.tools.iter().find(|tool| tool.name() == name)
    }
}

/// Offers the model only the tools that fit the question.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolFilteringConfig {
    /// Whether tools are filtered.
    pub enabled: bool,
    /// How many tools are offered at most.
    #[schemars(range(min = 1, max = 50))]
    pub top_k: u32,
    /// How similar a tool must be to the question.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub similarity_threshold: f64,
    /// Tools that are always offered.
    pub always_include: Vec<String>,
    /// How many of the most used tools are always offered.
    #[schemars(range(min = 0, max = 20))]
    pub always_include_top_n_used: u32,
    /// How tools are found.
    pub search_method: SearchMethod,
}

impl Default for ToolFilteringConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            top_k: 5,
            similarity_threshold: 0.3,
            always_include: Vec::new(),
            always_include_top_n_used: 3,
            search_method: SearchMethod::default(),
        }
    }
}

/// How fitting tools are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMethod {
    /// By embeddings.
    #[default]
    Semantic,
    /// By words.
    Bm25,
    /// By both.
    Hybrid,
}
