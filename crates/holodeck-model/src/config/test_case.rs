//! The `test_cases` block: the questions of a test and the expectations about their answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ExpectedApproval, ExpectedTool, FileInput, MetricConfig, SimulatedUser, ToolOrder,
    evaluation::inferred_metrics,
};
use crate::value::{JsonMap, nullable};

/// A test: one question, several `turns` of one conversation, or a conversation with a simulated `user`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// Name shown in reports.
    #[schemars(regex(pattern = r"\S"))]
    pub name: Option<String>,
    /// The question. Required unless there are `turns` or a `user`.
    #[schemars(regex(pattern = r"\S"))]
    pub input: Option<String>,
    /// The command of `routing.commands` that the question is; without it, the question is a plain message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"\S"))]
    pub command: Option<String>,
    /// Tools that must be called.
    pub expected_tools: Option<Vec<ExpectedTool>>,
    /// Whether the order of `expected_tools` matters.
    #[serde(default)]
    pub expected_tools_order: ToolOrder,
    /// Tools that must not be called.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub forbidden_tools: Vec<String>,
    /// Decisions that are expected about tool calls.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<ExpectedApproval>>")]
    pub expected_approvals: Vec<ExpectedApproval>,
    /// The right answer, for metrics that compare.
    #[schemars(regex(pattern = r"\S"))]
    pub ground_truth: Option<String>,
    /// Files given with the question.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<FileInput>>", length(max = 10))]
    pub files: Vec<FileInput>,
    /// Passages that a retrieval tool would have found, for metrics that need them.
    pub retrieval_context: Option<Vec<String>>,
    /// Metrics of this case, instead of the agent's. `type` may be omitted if the other keys determine it.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(schema_with = "inferred_metrics")]
    pub evaluations: Vec<MetricConfig>,
    /// Metrics of the whole conversation, beside those of its turns. `type` may be omitted if the other keys determine
    /// it.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "inferred_metrics")]
    pub conversation_evaluations: Vec<MetricConfig>,
    /// The questions of a conversation, in order.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<Turn>>")]
    pub turns: Vec<Turn>,
    /// A user that a model plays: it writes the questions, after `input` if there is one.
    pub user: Option<Box<SimulatedUser>>,
    /// The specialist agent of `routing.agents` that must be selected for the task; null: none. Without other checks only
    /// the selection runs, and the agent is not asked.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>", regex(pattern = r"\S"), extend("x-null-differs" = true))]
    #[allow(clippy::option_option, reason = "absent, null and a name differ")]
    pub expected_agent: Option<Option<String>>,
    /// How often the case runs, instead of `execution.trials`.
    #[schemars(range(min = 1, max = 10_000))]
    pub trials: Option<u32>,
    /// How many of its trials must pass, instead of `execution.min_passes`.
    #[schemars(range(min = 1, max = 10_000))]
    pub min_passes: Option<u32>,
    /// Values by name. With them, the case's questions and `messages` are templates, as in `{{ city }}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vars: Option<JsonMap>,
    /// The conversation before the first question, oldest message first.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<EarlierMessage>>")]
    pub messages: Vec<EarlierMessage>,
    /// Words by which cases are selected, as in `--tag slow`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>", inner(regex(pattern = r"\S")))]
    pub tags: Vec<String>,
    /// The lowest score of the case that passes: the mean of the scores of its metrics by their `weight`. With it, the
    /// verdicts of single metrics do not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_score: Option<f64>,
    /// The names of the `vars` that requests to the agent contain beside the questions; the loader sets them.
    #[serde(skip)]
    pub sent_vars: Vec<String>,
}

/// A message of the conversation before a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EarlierMessage {
    /// Who wrote it.
    pub role: MessageRole,
    /// Its text.
    #[schemars(regex(pattern = r"\S"))]
    pub content: String,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(
    clippy::exhaustive_enums,
    reason = "backends send each of them in another form"
)]
pub enum MessageRole {
    /// The user.
    User,
    /// The agent.
    Assistant,
}

impl MessageRole {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl TestCase {
    /// Whether it is a conversation: it has `turns` or a simulated `user`.
    pub fn is_conversation(&self) -> bool {
        !self.turns.is_empty() || self.user.is_some()
    }

    /// Whether nothing but the selection of a specialist agent is checked, so that the agent need not be asked. Metrics that
    /// are shared by all cases do not count.
    pub fn checks_only_selection(&self) -> bool {
        let expects_tools = self
            .expected_tools
            .as_ref()
            .is_some_and(|tools| !tools.is_empty());
        let expects =
            expects_tools || !self.forbidden_tools.is_empty() || !self.expected_approvals.is_empty();
        let measures = !self.evaluations.is_empty() || !self.conversation_evaluations.is_empty();
        let compares = self.ground_truth.is_some() || self.retrieval_context.is_some();
        self.expected_agent.is_some() && !(self.is_conversation() || expects || measures || compares)
    }
}

/// Reads `null` as a value of its own, unlike an absent field.
#[allow(clippy::option_option, reason = "absent, null and a name differ")]
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// One question of a conversation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The question.
    #[schemars(regex(pattern = r"\S"))]
    pub input: String,
    /// The command of `routing.commands` that the question is; without it, the question is a plain message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"\S"))]
    pub command: Option<String>,
    /// The right answer, for metrics that compare.
    #[schemars(regex(pattern = r"\S"))]
    pub ground_truth: Option<String>,
    /// Tools that must be called in this turn.
    pub expected_tools: Option<Vec<ExpectedTool>>,
    /// Whether the order of `expected_tools` matters.
    #[serde(default)]
    pub expected_tools_order: ToolOrder,
    /// Tools that must not be called in this turn.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub forbidden_tools: Vec<String>,
    /// Decisions that are expected about the tool calls of this turn.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<ExpectedApproval>>")]
    pub expected_approvals: Vec<ExpectedApproval>,
    /// Files given with the question.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<FileInput>>", length(max = 10))]
    pub files: Vec<FileInput>,
    /// Passages that a retrieval tool would have found, for metrics that need them.
    pub retrieval_context: Option<Vec<String>>,
    /// Metrics of this turn, instead of the case's.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(schema_with = "inferred_metrics")]
    pub evaluations: Vec<MetricConfig>,
    /// Passed to code graders unchanged.
    pub turn_config: Option<JsonMap>,
}

impl TestCase {
    /// The goal of this case's user, for a metric that does not state it.
    pub fn goal(&self) -> Option<&str> {
        let user = self.user.as_deref().map(|user| user.goal.as_str());
        user.or(self.ground_truth.as_deref())
    }

    /// The values that requests to the agent contain beside the questions, by name.
    pub fn sent_values(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        let vars = self.vars.iter().flatten();
        vars.filter(|(name, _)| self.sent_vars.contains(*name))
            .map(|(name, value)| (name.as_str(), value))
    }

    /// The same as a mapping; nothing if there are none, as for every model.
    pub fn sent_map(&self) -> Option<JsonMap> {
        if self.sent_vars.is_empty() {
            return None;
        }
        let sent = self.sent_values();
        Some(
            sent.map(|(name, value)| (name.to_owned(), value.clone()))
                .collect(),
        )
    }

    /// The enabled metrics of its whole conversation.
    pub fn conversation_metrics(&self) -> impl Iterator<Item = &MetricConfig> {
        self.conversation_evaluations
            .iter()
            .filter(|metric| metric.enabled())
    }
}
