//! A user of the agent that a model plays in a test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ModelConfig, StandardMetric, StandardMetricName};

/// A user that a model plays: it writes the messages of a conversation, until it reaches its goal or gives up.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulatedUser {
    /// The goal that the user wants to reach with the agent.
    #[schemars(regex(pattern = r"\S"))]
    pub goal: String,
    /// Who the user is, what they know and how they write.
    #[schemars(regex(pattern = r"\S"))]
    pub persona: Option<String>,
    /// How often the agent may answer before the conversation ends.
    #[serde(default = "default_max_turns")]
    #[schemars(range(min = 1, max = 100))]
    pub max_turns: u32,
    /// The model that plays the user, instead of `evaluations.model`.
    pub model: Option<ModelConfig>,
    /// A check of each answer of the agent; the conversation ends when it is met.
    pub stop_when: Option<StandardMetric>,
    /// How the conversation must end. If absent: the user must not give up or reach `max_turns`.
    #[schemars(length(min = 1))]
    pub expected_end: Option<Vec<ConversationEnd>>,
}

fn default_max_turns() -> u32 {
    10
}

/// The reason for the end of a conversation with a simulated user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConversationEnd {
    /// The user reached the goal.
    GoalReached,
    /// The user gave up.
    GaveUp,
    /// The agent answered `max_turns` times.
    MaxTurns,
    /// An answer met `stop_when`.
    StopWhen,
}

impl ConversationEnd {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GoalReached => "goal_reached",
            Self::GaveUp => "gave_up",
            Self::MaxTurns => "max_turns",
            Self::StopWhen => "stop_when",
        }
    }
}

impl StandardMetricName {
    /// Whether it checks the text of an answer and has its own verdict, so that it can end a conversation.
    pub fn checks_answer(self) -> bool {
        self.has_own_verdict() && !matches!(self, Self::Latency | Self::Cost | Self::FinishReason)
    }
}
