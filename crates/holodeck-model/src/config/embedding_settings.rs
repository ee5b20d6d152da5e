//! The embeddings that an agent needs, from `embedding_provider` or its model.

use secrecy::SecretString;

use super::{Agent, EmbeddingConfig, EmbeddingProvider, SelectionAlgorithm, ToolConfig};

/// The settings of a model that makes embeddings, with defaults for everything that the agent file omits.
#[derive(Clone, Debug)]
pub struct EmbeddingSettings {
    /// Who makes them.
    pub provider: EmbeddingProvider,
    /// The model's name, or the deployment's.
    pub model: String,
    /// The server, if the YAML names one.
    pub endpoint: Option<String>,
    /// Its key, if the YAML contains one.
    pub api_key: Option<SecretString>,
    /// Azure API version.
    pub api_version: Option<String>,
    /// Maximum number of requests per minute.
    pub rpm: Option<u32>,
    /// The requested length of the vectors.
    pub dimensions: Option<u32>,
    /// The block that defines the server and key: `embedding_provider` or `model`.
    pub block: &'static str,
}

impl EmbeddingConfig {
    /// The settings, with defaults for everything that the YAML omits. `block` is the field that holds them.
    pub fn settings(&self, block: &'static str) -> EmbeddingSettings {
        EmbeddingSettings {
            provider: self.provider,
            model: self
                .name
                .clone()
                .unwrap_or_else(|| self.provider.default_model().to_owned()),
            endpoint: self.endpoint.clone(),
            api_key: self.api_key.clone(),
            api_version: self.api_version.clone(),
            rpm: self.rpm,
            dimensions: None,
            block,
        }
    }
}

impl Agent {
    /// The settings of `embedding_provider`, if present.
    pub fn own_embedding_settings(&self) -> Option<EmbeddingSettings> {
        let config = self.embedding_provider.as_ref()?;
        Some(config.settings("embedding_provider"))
    }

    /// The settings of the embedder by which a metric compares meanings: its own, else that of the agent.
    pub fn comparing_embedder(&self, own: Option<&EmbeddingConfig>) -> Option<EmbeddingSettings> {
        match own {
            Some(own) => Some(own.settings("embedder")),
            None => self.own_embedding_settings(),
        }
    }

    /// The embedder by which specialist agents are selected; `None` if none is.
    pub fn selecting_embedder(&self) -> Option<EmbeddingSettings> {
        let agents = self.routing.as_ref()?.asked_agents()?;
        let embeds = agents.algorithm == SelectionAlgorithm::Embedding;
        self.own_embedding_settings().filter(|_| embeds)
    }

    /// The embedder that is asked which specialist agent fits; `None` if words are hashed.
    pub fn asked_embedder(&self) -> Option<EmbeddingSettings> {
        let embedder = self.selecting_embedder()?;
        (embedder.provider != EmbeddingProvider::Hash).then_some(embedder)
    }

    /// The embedding settings of a retrieval tool: from `embedding_provider`, else from `model`. The embedding model is
    /// the one that the tools name, else that of `embedding_provider`. `None` if nothing computes embeddings.
    pub fn embedding_settings(&self, tool: &ToolConfig) -> Option<EmbeddingSettings> {
        // All tools share one model: a tool that names none uses that of the others.
        let named = self.tools.iter().find_map(ToolConfig::embedding_model);
        let dimensions = match tool {
            ToolConfig::Vectorstore(tool) => tool.embedding_dimensions,
            _ => None,
        };
        let settings = if let Some(config) = &self.embedding_provider {
            EmbeddingSettings {
                provider: config.provider,
                model: named
                    .or(config.name.as_deref())
                    .unwrap_or(config.provider.default_model())
                    .to_owned(),
                endpoint: config.endpoint.clone(),
                api_key: config.api_key.clone(),
                api_version: config.api_version.clone(),
                rpm: config.rpm,
                dimensions,
                block: "embedding_provider",
            }
        } else {
            let own = self.model.as_ref()?;
            let provider = EmbeddingProvider::of(own.provider)?;
            EmbeddingSettings {
                provider,
                model: named.unwrap_or(provider.default_model()).to_owned(),
                endpoint: own.endpoint.clone(),
                api_key: own.api_key.clone(),
                api_version: own.api_version.clone(),
                rpm: own.rpm,
                dimensions,
                block: "model",
            }
        };
        Some(if settings.provider == EmbeddingProvider::Hash {
            EmbeddingSettings {
                model: EmbeddingProvider::Hash.default_model().to_owned(),
                ..settings
            }
        } else {
            settings
        })
    }
}
