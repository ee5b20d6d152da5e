//! Caches conversions on disk by content and options. A damaged or missing entry is converted again.

use std::path::PathBuf;

use holodeck_model::{create_private_folder, hex, private_file};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::{ConvertOptions, Document, Format};

/// Part of every key: increased whenever a converter's output for the same file changes.
const CONVERTERS: u32 = 3;

/// A folder of earlier conversions.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// Identifies a conversion: content, options and version of the converters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn of(format: Format, bytes: &[u8], options: &ConvertOptions) -> Self {
        let asked = (&options.pages, &options.sheet, &options.range, &options.charset);
        Self::hash(&format!("{format:?} {asked:?}"), bytes)
    }

    /// The key of the text in an image.
    pub(crate) fn of_text_in(bytes: &[u8]) -> Self {
        Self::hash("text in a picture", bytes)
    }

    fn hash(what: &str, bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(format!("{CONVERTERS} {what}\0"));
        hash.update(bytes);
        Self(hex(&hash.finalize()))
    }
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// A complete entry. Anything else is converted again.
    pub(crate) async fn get(&self, key: &Key) -> Option<Document> {
        let json = tokio::fs::read(self.path(key)).await.ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// A cache that can't be written only costs time.
    pub(crate) async fn keep(&self, key: &Key, document: &Document) {
        if let Err(error) = self.write(key, document).await {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot cache a converted document");
        }
    }

    async fn write(&self, key: &Key, document: &Document) -> std::io::Result<()> {
        create_private_folder(&self.folder)?;
        let json = serde_json::to_vec(document)?;
        // Renamed into place, because other processes may write the same entry.
        let unfinished = self.folder.join(format!("{}.{}.part", key.0, std::process::id()));
        let file = private_file().truncate(true).open(&unfinished)?;
        let mut file = tokio::fs::File::from_std(file);
        file.write_all(&json).await?;
        file.flush().await?;
        tokio::fs::rename(&unfinished, self.path(key)).await
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.json", key.0))
    }
}
