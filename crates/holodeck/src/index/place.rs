//! Where an index is kept.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_http::HttpClient;
use holodeck_model::{DatabaseConfig, DatabaseProvider, DatabaseRef, LoadedAgent, ToolConfig};
use holodeck_retrieval::{EmbeddedStore, RetrievalError, VectorStore, open_server};
use secrecy::ExposeSecret;

use super::told::IndexError;

/// What `--from` and `--to` call the embedded index.
const EMBEDDED: &str = "in-memory";

/// Where an index is kept.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In a file of ours.
    Embedded(PathBuf),
    /// On a server.
    Server(DatabaseConfig),
}

impl Place {
    /// Where a tool's own is.
    pub(super) fn of(agent: &LoadedAgent, tool: &ToolConfig) -> Self {
        let database = match tool {
            ToolConfig::Vectorstore(tool) => tool.database.as_ref(),
            ToolConfig::HierarchicalDocument(tool) => tool.database.as_ref(),
            _ => None,
        };
        match database {
            Some(DatabaseRef::Config(config)) => Self::configured(agent, tool, config),
            // Of a name that nothing defines one was warned.
            Some(DatabaseRef::Name(_)) | None => Self::embedded(agent, tool),
        }
    }

    /// The one that the command line names.
    pub(super) fn named(agent: &LoadedAgent, tool: &ToolConfig, name: &str) -> Result<Self, IndexError> {
        if let Some(config) = agent.vectorstores.get(name) {
            if !config.provider.is_built() {
                let provider = config.provider.as_str();
                return Err(IndexError::config(format!(
                    "vector store `{name}` is of provider `{provider}`, which can't be used yet"
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
            "no vector store is called `{name}`; there are {}\n\nhint: define it under `vectorstores` in `config.yaml`",
            known.join(", ")
        )))
    }

    fn configured(agent: &LoadedAgent, tool: &ToolConfig, config: &DatabaseConfig) -> Self {
        if !matches!(
            config.provider,
            DatabaseProvider::InMemory | DatabaseProvider::Faiss
        ) {
            return Self::Server(config.clone());
        }
        // Its connection is the folder it is kept in; `memory://` and the like name none.
        let folder = config.connection_string.as_ref().map(ExposeSecret::expose_secret);
        match folder.filter(|folder| !folder.contains(':')) {
            Some(folder) => Self::Embedded(file(&agent.dir.join(folder), agent, tool)),
            None => Self::embedded(agent, tool),
        }
    }

    fn embedded(agent: &LoadedAgent, tool: &ToolConfig) -> Self {
        Self::Embedded(file(&agent.dir.join(".holodeck/index"), agent, tool))
    }

    /// Whether it is known that there is nothing.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Embedded(file) if !file.exists())
    }

    /// Moves a damaged file of ours aside; returns where it is then.
    pub(super) async fn set_aside_if_damaged(&self) -> Result<Option<PathBuf>, RetrievalError> {
        match self {
            Self::Embedded(file) => EmbeddedStore::set_aside_if_damaged(file).await,
            Self::Server(_) => Ok(None),
        }
    }

    /// Opens it; of an embedded one that is missing the file is made. A server is asked only when it is needed.
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

    /// What it is called before it is open.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Embedded(file) => file.display().to_string(),
            Self::Server(config) => config.provider.as_str().to_owned(),
        }
    }
}

/// What an agent's index is called on a server that many agents may share.
pub(super) fn collection(agent: &LoadedAgent, tool: &ToolConfig) -> String {
    format!("{}_{}", plain(&agent.config.name), tool.name())
}

fn file(folder: &Path, agent: &LoadedAgent, tool: &ToolConfig) -> PathBuf {
    folder
        .join(plain(&agent.config.name))
        .join(format!("{}.db", tool.name()))
}

/// Small letters, digits, and a single `-` for anything else.
fn plain(name: &str) -> String {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        "agent".to_owned()
    } else {
        words.join("-")
    }
}
