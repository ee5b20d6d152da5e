//! Decides where a tool's index is stored: in a local file or on a server.

use std::{path::PathBuf, sync::Arc};

use holodeck_http::HttpClient;
use holodeck_model::{DatabaseConfig, DatabaseProvider, DatabaseRef, ResolvedAgent, ToolConfig, shown_path};
use holodeck_retrieval::{EmbeddedStore, RetrievalError, VectorStore, open_server};

use super::report::IndexError;
use crate::agent::inventory::{index_file, index_folder, is_in_own_folder, slug};

/// The name of the embedded index in `--from` and `--to`.
const EMBEDDED: &str = "in-memory";

/// The location of an index.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In a local file.
    Embedded(PathBuf),
    /// On a server.
    Server(DatabaseConfig),
}

impl Place {
    /// The location that the tool configures.
    pub(super) fn of(agent: &ResolvedAgent, tool: &ToolConfig) -> Self {
        let database = match tool {
            ToolConfig::Vectorstore(tool) => tool.database.as_ref(),
            ToolConfig::HierarchicalDocument(tool) => tool.database.as_ref(),
            _ => None,
        };
        match database {
            Some(DatabaseRef::Config(config)) => Self::configured(agent, tool, config),
            // The loader has already warned about an undefined name.
            Some(DatabaseRef::Name(_)) | None => Self::embedded(agent, tool),
        }
    }

    /// The location that the command line names.
    pub(super) fn named(agent: &ResolvedAgent, tool: &ToolConfig, name: &str) -> Result<Self, IndexError> {
        if let Some(config) = agent.vectorstores.get(name) {
            if !config.provider.is_supported() {
                let provider = config.provider.as_str();
                return Err(IndexError::config(format!(
                    "vector store `{name}` uses provider `{provider}`, which is not supported yet"
                )));
            }
            return Ok(Self::configured(agent, tool, config));
        }
        if name == EMBEDDED {
            return Ok(Self::embedded(agent, tool));
        }
        let mut known: Vec<String> = agent
            .vectorstores
            .keys()
            .map(|name| format!("`{name}`"))
            .collect();
        known.push(format!("`{EMBEDDED}`"));
        Err(IndexError::config(format!(
            "no vector store is called `{name}`; the vector stores are {}",
            known.join(", ")
        ))
        .with_hint("define it under `vectorstores` in `config.yaml`"))
    }

    fn configured(agent: &ResolvedAgent, tool: &ToolConfig, config: &DatabaseConfig) -> Self {
        if !matches!(
            config.provider,
            DatabaseProvider::InMemory | DatabaseProvider::Faiss
        ) {
            return Self::Server(config.clone());
        }
        match index_folder(agent, config) {
            Some(folder) => Self::Embedded(index_file(&folder, agent, tool)),
            None => Self::embedded(agent, tool),
        }
    }

    fn embedded(agent: &ResolvedAgent, tool: &ToolConfig) -> Self {
        Self::Embedded(index_file(&agent.dir.join(".holodeck/index"), agent, tool))
    }

    /// Whether the index is known not to exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Embedded(file) if !file.exists())
    }

    /// Moves a damaged local file aside and returns its new path.
    pub(super) async fn set_aside_if_damaged(&self) -> Result<Option<PathBuf>, RetrievalError> {
        match self {
            // Only what is surely an index of HoloDeck is moved.
            Self::Embedded(file) if is_in_own_folder(file) || EmbeddedStore::may_open(file) => {
                EmbeddedStore::set_aside_if_damaged(file).await
            }
            Self::Embedded(_) | Self::Server(_) => Ok(None),
        }
    }

    /// Opens the store. The file of an embedded store is created if it is missing; a server is contacted on first use.
    pub(super) async fn open(
        &self,
        collection: &str,
        client: &HttpClient,
    ) -> Result<Arc<dyn VectorStore>, RetrievalError> {
        match self {
            Self::Embedded(file) => Ok(Arc::new(EmbeddedStore::open(file).await?)),
            Self::Server(config) => open_server(config, collection, client),
        }
    }

    /// Its description before it is open.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Embedded(file) => shown_path(file).display().to_string(),
            Self::Server(config) => config.provider.as_str().to_owned(),
        }
    }
}

/// The file of a tool's index; `None` if it is on a server.
pub(crate) fn embedded_file(agent: &ResolvedAgent, tool: &ToolConfig) -> Option<PathBuf> {
    match Place::of(agent, tool) {
        Place::Embedded(file) => Some(file),
        Place::Server(_) => None,
    }
}

/// The path of the manifest of a tool's source files. It is local even if the index is on a server, because file times
/// belong to this machine.
pub(crate) fn manifest(agent: &ResolvedAgent, tool: &ToolConfig) -> PathBuf {
    agent
        .dir
        .join(".holodeck/files")
        .join(slug(&agent.config.name))
        .join(format!("{}.json", tool.name()))
}

/// The name of a tool's index on a server that several agents may share.
pub(super) fn collection(agent: &ResolvedAgent, tool: &ToolConfig) -> String {
    format!("{}_{}", slug(&agent.config.name), tool.name())
}
