//! Reads the stored files of one user for a message. Files of other users must never be read.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_model::events::Attachment;
use holodeck_turn::FileReader;
use tokio_util::sync::CancellationToken;

use super::{FileVault, StoredFile};

/// Turns texts into vectors.
#[async_trait]
pub trait TextEmbedder: Send + Sync {
    /// The model: vectors of another one are not compared with its own.
    fn model(&self) -> String;

    /// A vector for each part of a file; the error says why there is none.
    async fn embed_parts(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, String>;

    /// The vector of a message that parts are compared with.
    async fn embed_message(&self, text: &str) -> Result<Vec<f32>, String>;
}

/// Reads the files that are attached to messages.
#[derive(Clone)]
pub(crate) struct Attachments {
    pub(crate) vault: FileVault,
    pub(crate) reader: FileReader,
    pub(crate) embedder: Option<Arc<dyn TextEmbedder>>,
}

impl Attachments {
    pub(super) async fn read(
        &self,
        owner: &str,
        file: &Attachment,
        cancel: &CancellationToken,
    ) -> Result<holodeck_turn::FileContent, String> {
        let bytes = self.vault.read(owner, &file.hash).await;
        let bytes = bytes.map_err(|error| error.to_string())?;
        self.reader.read_bytes(&file.name, bytes, cancel).await
    }
}

pub(super) fn attachment(file: StoredFile, score: Option<f64>) -> Attachment {
    Attachment {
        id: file.file_id,
        hash: file.hash,
        name: file.name,
        mime: file.mime,
        size: file.size,
        truncated: false,
        score,
    }
}
