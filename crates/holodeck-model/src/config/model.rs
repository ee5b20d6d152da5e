//! Which model, where it is served, and how it is called.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::AuthProvider;
use crate::value::{nullable, read_secret, write_secret};

/// A model and its endpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Who serves the model.
    pub provider: Provider,
    /// The model's name; for Azure the name of the deployment.
    #[schemars(regex(pattern = r"\S"))]
    pub name: String,
    /// Sampling temperature; sent only if given.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Longest answer in tokens; sent only if given.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Nucleus sampling; sent only if given.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f64>,
    /// Texts at which the model stops; the answer ends before them.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub stop: Vec<String>,
    /// URL of the server. Without a path it gets `/v1`; one with a path is used as given.
    pub endpoint: Option<String>,
    /// Key of the server; better as `${VARIABLE}`.
    #[serde(default, deserialize_with = "read_secret", serialize_with = "write_secret")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
    /// Azure API version; with it the deployment path is used.
    pub api_version: Option<String>,
    /// How the Anthropic provider signs in.
    pub auth_provider: Option<AuthProvider>,
    /// Maximum number of requests per minute.
    #[schemars(range(min = 1))]
    pub rpm: Option<u32>,
    /// Whether this is a reasoning model, which takes neither temperature nor top_p. Default: derived from the name.
    pub reasoning: Option<bool>,
    /// Whether reasoning that a server leaves in the content (`<think>…</think>`) is separated from the answer: `auto`
    /// (default), or `keep`, which takes all content as the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_in_content: Option<ReasoningInContent>,
}

/// Differences from the agent's model for one tool. With another provider, nothing is taken from the agent's model.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelOverrides {
    /// Who serves the model; the agent's provider if absent.
    pub provider: Option<Provider>,
    /// The model's name; the agent's model if absent.
    #[schemars(regex(pattern = r"\S"))]
    pub name: Option<String>,
    /// Sampling temperature.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Longest answer in tokens.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Nucleus sampling.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f64>,
    /// URL of the server. Without a path it gets `/v1`; one with a path is used as given.
    pub endpoint: Option<String>,
    /// Key of the server; better as `${VARIABLE}`.
    #[serde(default, deserialize_with = "read_secret", serialize_with = "write_secret")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
    /// Azure API version; with it the deployment path is used.
    pub api_version: Option<String>,
    /// How the Anthropic provider signs in.
    pub auth_provider: Option<AuthProvider>,
    /// Maximum number of requests per minute.
    #[schemars(range(min = 1))]
    pub rpm: Option<u32>,
    /// Whether this is a reasoning model, which takes neither temperature nor top_p. Default: derived from the name.
    pub reasoning: Option<bool>,
    /// Whether reasoning that a server leaves in the content (`<think>…</think>`) is separated from the answer: `auto`
    /// (default), or `keep`, which takes all content as the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_in_content: Option<ReasoningInContent>,
}

impl ModelConfig {
    /// A model with nothing but its name.
    pub fn new(provider: Provider, name: String) -> Self {
        Self {
            provider,
            name,
            temperature: None,
            max_tokens: None,
            top_p: None,
            stop: Vec::new(),
            endpoint: None,
            api_key: None,
            api_version: None,
            auth_provider: None,
            rpm: None,
            reasoning: None,
            reasoning_in_content: None,
        }
    }

    /// This model with `overrides` applied; with another provider, only the overrides count. A key is never sent to a
    /// server other than the one it was written for.
    pub fn with_overrides(&self, overrides: &ModelOverrides) -> Self {
        let overrides = overrides.clone();
        let provider = overrides.provider.unwrap_or(self.provider);
        let mut base = if provider == self.provider {
            self.clone()
        } else {
            Self::new(provider, String::new())
        };
        if overrides.endpoint.is_some() && overrides.endpoint != base.endpoint {
            base.api_key = None;
        }
        if overrides.name.as_ref().is_some_and(|name| *name != base.name) {
            // The setting describes the agent's model only.
            base.reasoning = None;
            base.reasoning_in_content = None;
        }
        Self {
            provider,
            name: overrides.name.unwrap_or(base.name),
            temperature: overrides.temperature.or(base.temperature),
            max_tokens: overrides.max_tokens.or(base.max_tokens),
            top_p: overrides.top_p.or(base.top_p),
            stop: base.stop,
            endpoint: overrides.endpoint.or(base.endpoint),
            api_key: overrides.api_key.or(base.api_key),
            api_version: overrides.api_version.or(base.api_version),
            auth_provider: overrides.auth_provider.or(base.auth_provider),
            rpm: overrides.rpm.or(base.rpm),
            reasoning: overrides.reasoning.or(base.reasoning),
            reasoning_in_content: overrides.reasoning_in_content.or(base.reasoning_in_content),
        }
    }
}

/// Whether reasoning that a server leaves in the content of an answer is separated from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningInContent {
    /// A leading `<think>…</think>`, and text that ends with a lone `</think>`, is reasoning.
    #[default]
    Auto,
    /// All content is the answer.
    Keep,
}

/// Who serves a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// OpenAI, or any server compatible with it through `endpoint`.
    Openai,
    /// Azure OpenAI.
    AzureOpenai,
    /// Anthropic, through the Claude Code CLI.
    Anthropic,
    /// Ollama.
    Ollama,
}

impl Provider {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::AzureOpenai => "azure_openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }
}

impl std::fmt::Display for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
