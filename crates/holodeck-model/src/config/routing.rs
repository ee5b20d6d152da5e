//! Which specialist agent executes a command, and what executes it otherwise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::{PathRef, nullable};

/// Which specialist agent executes a command, and what executes it otherwise.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RoutingConfig {
    /// Whether commands are routed to specialist agents.
    pub enabled: bool,
    /// The commands that may be routed; an empty list allows none.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub commands: Vec<String>,
    /// How confident a selection must be.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_confidence: f64,
    /// The executors that may run a command. The order is always `sdk`, `skills`, `legacy`; an executor that is not
    /// listed is skipped.
    pub chain: Vec<ExecutorKind>,
    /// The specialist agents.
    pub agents: Option<AgentsConfig>,
    /// The model that `algorithm: model` asks which agent fits; the agent's own if absent.
    pub model: Option<super::ModelConfig>,
    /// Skills that execute commands.
    pub skills: Option<SkillsConfig>,
    /// The last resort for a command that no other executor runs.
    pub legacy: Option<LegacyConfig>,
    /// When another executor takes over.
    pub fallback: FallbackConfig,
}

impl RoutingConfig {
    /// The specialist agents, if a model is asked which of them fits.
    pub fn asked_agents(&self) -> Option<&AgentsConfig> {
        self.agents.as_ref().filter(|agents| agents.algorithm.asks())
    }
}

impl Default for RoutingConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            commands: Vec::new(),
            min_confidence: 0.5,
            chain: vec![ExecutorKind::Sdk, ExecutorKind::Skills, ExecutorKind::Legacy],
            agents: None,
            model: None,
            skills: None,
            legacy: None,
            fallback: FallbackConfig::default(),
        }
    }
}

/// An executor of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorKind {
    /// The agent's own backend, with the definition of a specialist.
    Sdk,
    /// A skill.
    Skills,
    /// The executor of `legacy`.
    Legacy,
}

impl ExecutorKind {
    /// The name as written in YAML; also the `execution_mode` of a result.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sdk => "sdk",
            Self::Skills => "skills",
            Self::Legacy => "legacy",
        }
    }
}

/// The specialist agents and how one is selected.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentsConfig {
    /// Folders with agents as Markdown files, relative to the agent file.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<AgentsDirectory>>")]
    pub directories: Vec<AgentsDirectory>,
    /// The agent that is selected if no other reaches `candidate_floor`; `null`: the selection declines.
    #[schemars(regex(pattern = r"\S"), extend("x-null-differs" = true))]
    pub default_agent: Option<String>,
    /// Whether the default agent executes commands although its confidence is 0.
    pub default_agent_routes: bool,
    /// The score that an agent must reach to be considered.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub candidate_floor: f64,
    /// Agents that are never selected.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub exclude: Vec<String>,
    /// How agents are scored.
    pub algorithm: SelectionAlgorithm,
    /// The weight of each part of a score.
    pub weights: SelectionWeights,
}

impl Default for AgentsConfig {
    fn default() -> Self {
        Self {
            directories: Vec::new(),
            default_agent: Some("general-purpose".to_owned()),
            default_agent_routes: false,
            candidate_floor: 0.3,
            exclude: Vec::new(),
            algorithm: SelectionAlgorithm::default(),
            weights: SelectionWeights::default(),
        }
    }
}

/// A folder with agents as Markdown files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentsDirectory {
    /// The folder, relative to the agent file.
    pub path: PathRef,
    /// Whether its agents are core agents, which score a little higher.
    #[serde(default)]
    pub core: bool,
}

/// How agents are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectionAlgorithm {
    /// By the words of the task, as a search engine finds documents.
    #[default]
    #[serde(rename = "search-v2")]
    SearchV2,
    /// By triggers and other words of the task, with weights that can be set.
    #[serde(rename = "keyword-v1")]
    KeywordV1,
    /// By what the task means, with the vectors of `embedding_provider`.
    #[serde(rename = "embedding")]
    Embedding,
    /// A model chooses among the names and descriptions.
    #[serde(rename = "model")]
    Model,
}

impl SelectionAlgorithm {
    /// All of them, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::SearchV2, Self::KeywordV1, Self::Embedding, Self::Model];

    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SearchV2 => "search-v2",
            Self::KeywordV1 => "keyword-v1",
            Self::Embedding => "embedding",
            Self::Model => "model",
        }
    }

    /// Whether it asks a model about each task.
    pub fn asks(self) -> bool {
        matches!(self, Self::Embedding | Self::Model)
    }
}

/// The weight of each part of a score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelectionWeights {
    /// The agent's triggers.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub triggers: f64,
    /// Its category.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub category: f64,
    /// Its description.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub description: f64,
    /// Its tools.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tools: f64,
    /// Its focus areas.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub focus: f64,
    /// Its files, if the working directory has some of them.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub files: f64,
}

impl Default for SelectionWeights {
    fn default() -> Self {
        Self {
            triggers: 0.4,
            category: 0.2,
            description: 0.15,
            tools: 0.15,
            focus: 0.1,
            files: 0.1,
        }
    }
}

/// Skills that execute commands.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillsConfig {
    /// The folder of the skills, relative to the agent file; each skill is a folder with a `SKILL.md`.
    pub directory: PathRef,
    /// Whether `legacy` executes a command whose skill failed.
    #[serde(default)]
    pub fallback_on_error: bool,
}

/// The last resort for a command that no other executor runs: one of these.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LegacyConfig {
    /// A program and its arguments; it gets the command as JSON on its standard input.
    #[schemars(length(min = 1))]
    pub command: Option<Vec<String>>,
    /// A provider, whose model answers with the agent's instructions.
    pub backend: Option<super::ModelConfig>,
    /// Another agent file.
    pub agent: Option<PathRef>,
}

/// When another executor takes over.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FallbackConfig {
    /// How to proceed if the failed attempt may have changed something.
    pub after_side_effects: AfterSideEffects,
}

/// How to proceed after an attempt that may have changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterSideEffects {
    /// Nothing repeats it: the command fails.
    #[default]
    Block,
    /// It may be repeated.
    Allow,
}

/// The evidence that a command must produce.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvidenceConfig {
    /// Whether something must have been changed, run or tested.
    pub required: bool,
    /// Whether tests must have been run.
    pub require_tests: bool,
    /// How many files must have been changed.
    pub min_file_changes: u32,
}

/// Where decisions about commands are written, beside `observability`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// A file that gets one line of JSON for each event, relative to the agent file.
    #[schemars(regex(pattern = r"\S"))]
    pub jsonl: Option<String>,
}
