//! The files that people attach to messages: where they are kept, and what searches them.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use holodeck_chat::{FileVault, TextEmbedder};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{Agent, Env};
use holodeck_retrieval::{Embedder, EndpointOptions, Purpose, embedder};

/// The files attached to messages to the agent in this file: where its `attachments:` block says, or beside its runs.
pub fn file_vault(agent_file: &Path, agent: &Agent) -> FileVault {
    let folder = agent_file.parent().unwrap_or_else(|| Path::new(""));
    let limits = agent.attachments.clone().unwrap_or_default();
    FileVault::new(folder.join(&limits.path), limits)
}

/// The embedder for the search in files: the agent's `embedding_provider`; `None` without one.
pub(crate) fn file_embedder(agent: &Agent, env: &Env) -> Result<Option<Arc<dyn TextEmbedder>>, String> {
    let Some(settings) = agent.own_embedding_settings() else {
        return Ok(None);
    };
    let options = HttpOptions::from_variables(|name| env.get(name).map(str::to_owned));
    let client = HttpClient::new(&options).map_err(|error| error.to_string())?;
    let embedder = embedder(&settings, &client, env, &EndpointOptions::default());
    let embedder = embedder.map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(FileEmbedder(embedder))))
}

struct FileEmbedder(Arc<dyn Embedder>);

#[async_trait]
impl TextEmbedder for FileEmbedder {
    fn model(&self) -> String {
        let id = self.0.id();
        format!("{} {}", id.provider, id.model)
    }

    async fn embed_parts(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = self.0.embed(&texts, Purpose::Passage).await;
        vectors.map_err(|error| error.to_string())
    }

    async fn embed_message(&self, text: &str) -> Result<Vec<f32>, String> {
        let vectors = self.0.embed(&[text], Purpose::Query).await;
        let vectors = vectors.map_err(|error| error.to_string())?;
        Ok(vectors.into_iter().next().unwrap_or_default())
    }
}
