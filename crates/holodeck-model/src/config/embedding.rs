//! Which model makes embeddings.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::{AuthProvider, Provider, ToolConfig};
use crate::value::{read_secret, write_secret};

/// The model that makes embeddings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingConfig {
    /// Who makes them. `hash` needs no server, no key and no `name`: it compares words, not meanings.
    pub provider: EmbeddingProvider,
    /// The model's name; for Azure the name of the deployment. Not needed for `hash`.
    #[schemars(regex(pattern = r"\S"))]
    pub name: Option<String>,
    /// URL of the server. Without a path it gets `/v1`; one with a path is used as given.
    pub endpoint: Option<String>,
    /// Key of the server; better as `${VARIABLE}`.
    #[serde(default, deserialize_with = "read_secret", serialize_with = "write_secret")]
    #[schemars(with = "Option<String>")]
    pub api_key: Option<SecretString>,
    /// Azure API version; with it the deployment path is used.
    pub api_version: Option<String>,
    /// Maximum number of requests per minute.
    #[schemars(range(min = 1))]
    pub rpm: Option<u32>,
    /// Without effect.
    #[schemars(range(min = 0.0, max = 2.0), extend("x-no-effect" = "embeddings are not sampled"))]
    pub temperature: Option<f64>,
    /// Without effect.
    #[schemars(range(min = 1), extend("x-no-effect" = "embeddings are not sampled"))]
    pub max_tokens: Option<u32>,
    /// Without effect.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-no-effect" = "embeddings are not sampled"))]
    pub top_p: Option<f64>,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "embeddings are not sampled"))]
    pub reasoning: Option<bool>,
    /// Without effect.
    pub auth_provider: Option<AuthProvider>,
}

/// Who makes embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingProvider {
    /// OpenAI, or any server compatible with it through `endpoint`.
    Openai,
    /// Azure OpenAI.
    AzureOpenai,
    /// Ollama.
    Ollama,
    /// Words hashed into a vector, on this machine: for work offline and for tests.
    Hash,
}

impl EmbeddingProvider {
    /// The name as written in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::AzureOpenai => "azure_openai",
            Self::Ollama => "ollama",
            Self::Hash => "hash",
        }
    }

    /// The model if the YAML names none.
    pub(super) fn default_model(self) -> &'static str {
        match self {
            Self::Openai | Self::AzureOpenai => "text-embedding-3-small",
            Self::Ollama => "nomic-embed-text:latest",
            Self::Hash => "hash",
        }
    }

    /// The same provider, if it makes embeddings.
    pub(super) fn of(provider: Provider) -> Option<Self> {
        match provider {
            Provider::Openai => Some(Self::Openai),
            Provider::AzureOpenai => Some(Self::AzureOpenai),
            Provider::Ollama => Some(Self::Ollama),
            Provider::Anthropic => None,
        }
    }
}

impl std::fmt::Display for EmbeddingProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ToolConfig {
    /// The embedding model that a retrieval tool names.
    pub fn embedding_model(&self) -> Option<&str> {
        match self {
            Self::Vectorstore(tool) => tool.embedding_model.as_deref(),
            Self::HierarchicalDocument(tool) => tool.embedding_model.as_deref(),
            Self::Function(_) | Self::Mcp(_) | Self::Prompt(_) => None,
        }
    }

    /// Whether it searches an index.
    pub fn is_indexed(&self) -> bool {
        matches!(self, Self::Vectorstore(_) | Self::HierarchicalDocument(_))
    }
}
