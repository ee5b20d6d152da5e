//! Settings of the OpenAI-compatible backend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Effort;

/// Settings of the OpenAI-compatible backend.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenAiConfig {
    /// How many sessions run at the same time.
    #[schemars(range(min = 1, max = 500))]
    #[schemars(extend("x-no-effect" = "sessions of this backend are not limited by memory"))]
    pub max_concurrent_sessions: Option<u32>,
    /// Memory one session is expected to take.
    #[schemars(range(min = 50, max = 2000))]
    #[schemars(extend("x-no-effect" = "sessions of this backend are not limited by memory"))]
    pub session_memory_estimate_mib: u32,
    /// How often the model may be called for one question.
    #[schemars(range(min = 1))]
    pub max_turns: u32,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "it applies only to the Claude backend"))]
    pub i_understand_this_is_unsafe: bool,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "it applies only to the Claude backend"))]
    pub disable_default_hooks: bool,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "it applies only to the Claude backend"))]
    pub disable_subprocess_env_scrub: bool,
    /// Which tools are offered.
    pub permissions: Option<OpenAiPermissions>,
    /// Reasoning effort of the model.
    pub effort: Option<Effort>,
    /// The highest cost of one question; no further model call once it is spent. `--max-cost-usd` limits a run.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub max_budget_usd: Option<f64>,
    /// The model to use when the first one fails.
    pub fallback_model: Option<String>,
    /// Tools that are not offered.
    pub disallowed_tools: Option<Vec<String>>,
}

impl Default for OpenAiConfig {
    fn default() -> Self {
        Self {
            max_concurrent_sessions: None,
            session_memory_estimate_mib: 100,
            max_turns: 20,
            i_understand_this_is_unsafe: false,
            disable_default_hooks: false,
            disable_subprocess_env_scrub: false,
            permissions: None,
            effort: None,
            max_budget_usd: None,
            fallback_model: None,
            disallowed_tools: None,
        }
    }
}

/// Which tools are offered to the model.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenAiPermissions {
    /// Only these.
    pub allowed_tools: Option<Vec<String>>,
    /// Not these.
    pub disallowed_tools: Option<Vec<String>>,
}
