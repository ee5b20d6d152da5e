//! Names of the GenAI semantic conventions, which are still in development: those of semantic-conventions-genai as of
//! November 2026.

use holodeck_model::{AuthProvider, ModelConfig, ObservabilityConfig, Provider};

pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_CREATION_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const ERROR_TYPE: &str = "error.type";

pub(crate) const EVALUATION_RESULT: &str = "gen_ai.evaluation.result";
pub(crate) const EVALUATION_NAME: &str = "gen_ai.evaluation.name";
pub(crate) const SCORE_VALUE: &str = "gen_ai.evaluation.score.value";
pub(crate) const SCORE_LABEL: &str = "gen_ai.evaluation.score.label";

// Content, only on request.
pub(crate) const EXPLANATION: &str = "gen_ai.evaluation.explanation";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// HoloDeck's own: the caller, for instance a test case.
pub(crate) const UNIT: &str = "holodeck.unit";

pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
/// The run whose answers a regrade grades.
pub(crate) const REGRADED_RUN: &str = "holodeck.regraded_run";

pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

pub(crate) const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
pub(crate) const TOKEN_USAGE: &str = "gen_ai.client.token.usage";

/// Seconds.
pub(crate) const DURATION_BUCKETS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
/// Tokens.
pub(crate) const TOKEN_BUCKETS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The conventions' name of the model's provider.
pub(crate) fn provider_name(model: &ModelConfig) -> &'static str {
    match (model.provider, model.auth_provider) {
        (Provider::Openai, _) => "openai",
        (Provider::AzureOpenai, _) => "azure.ai.openai",
        (Provider::Ollama, _) => "ollama",
        (Provider::Anthropic, Some(AuthProvider::Bedrock)) => "aws.bedrock",
        (Provider::Anthropic, Some(AuthProvider::Vertex)) => "gcp.vertex_ai",
        (Provider::Anthropic, Some(AuthProvider::Foundry)) => "azure.ai.inference",
        (Provider::Anthropic, _) => "anthropic",
    }
}

/// The name of the service in telemetry.
pub(crate) fn service_name(config: &ObservabilityConfig, agent: &str) -> String {
    let named = config.service_name.clone();
    named.unwrap_or_else(|| format!("holodeck-{agent}"))
}
