//! Finds the files of one user that match a message, by vectors. Files of other users must never be read.

use std::cmp::Ordering;

use holodeck_documents::{ChunkOptions, Document, chunk};
use holodeck_model::events::Attachment;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    StoredFile,
    reader::{Attachments, attachment},
};
use crate::FileSearch;

/// The vectors of a file's parts.
#[derive(Serialize, Deserialize)]
struct FileIndex {
    /// The content that was indexed.
    hash: String,
    vectors: Vec<Vec<f32>>,
}

/// The files of `owner` that match a message, best first. Only this user's files are looked at.
pub(super) async fn search(
    files: &Attachments,
    owner: &str,
    message: &str,
    options: &FileSearch,
    cancel: &CancellationToken,
) -> Result<Vec<Attachment>, String> {
    let failed = |reason: String| format!("the search in your files failed: {reason}");
    let embedder = files
        .embedder
        .as_ref()
        .ok_or_else(|| failed("there is no model for it".to_owned()))?;
    let own = files.vault.list(owner).await;
    let own = own.map_err(|error| failed(error.to_string()))?;
    if own.is_empty() {
        return Err("there are no files to search".to_owned());
    }
    let question = embedder.embed_message(message).await.map_err(failed)?;
    let mut scored = Vec::new();
    for file in own {
        let index = index(files, owner, &file, cancel).await.map_err(failed)?;
        let scores = index.vectors.iter().map(|vector| cosine(&question, vector));
        let best = scores.fold(0.0, f64::max);
        if best >= options.threshold {
            scored.push((best, file));
        }
    }
    scored.sort_by(|(a, one), (b, other)| {
        let by_score = b.partial_cmp(a).unwrap_or(Ordering::Equal);
        by_score.then_with(|| one.file_id.cmp(&other.file_id))
    });
    let mut found = Vec::new();
    for (score, file) in scored {
        if found.len() == options.max_files {
            break;
        }
        // It may have been deleted during the search.
        if let Ok(file) = files.vault.get(owner, &file.file_id).await {
            found.push(attachment(file, Some(score)));
        }
    }
    if found.is_empty() {
        let threshold = options.threshold;
        return Err(format!(
            "no file matches the message with a score of {threshold} or more"
        ));
    }
    Ok(found)
}

/// The vectors of a file, made now if they are not stored.
pub(crate) async fn index_file(
    files: &Attachments,
    owner: &str,
    file: &StoredFile,
    cancel: &CancellationToken,
) -> Result<(), String> {
    index(files, owner, file, cancel).await.map(|_| ())
}

async fn index(
    files: &Attachments,
    owner: &str,
    file: &StoredFile,
    cancel: &CancellationToken,
) -> Result<FileIndex, String> {
    let Some(embedder) = &files.embedder else {
        return Err("there is no model for it".to_owned());
    };
    let model = embedder.model();
    let stored: Option<FileIndex> = files.vault.read_index(owner, &file.file_id, &model).await;
    if let Some(stored) = stored.filter(|index| index.hash == file.hash) {
        return Ok(stored);
    }
    let read = files.read(owner, &attachment(file.clone(), None), cancel).await;
    // A file that can't be read, and an image, has no text to find.
    let document = Document {
        text: read.map(|content| content.text).unwrap_or_default(),
        ..Document::default()
    };
    let texts: Vec<String> = chunk(&document, &ChunkOptions::default())
        .into_iter()
        .map(|chunk| chunk.text)
        .collect();
    let vectors = if texts.is_empty() {
        Vec::new()
    } else {
        embedder.embed_parts(&texts).await?
    };
    let index = FileIndex {
        hash: file.hash.clone(),
        vectors,
    };
    let written = files
        .vault
        .write_index(owner, &file.file_id, &model, &index)
        .await;
    written.map_err(|error| error.to_string())?;
    Ok(index)
}

/// The cosine of the angle between two vectors; 0 for vectors that can't be compared.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let (mut dot, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (f64::from(*x), f64::from(*y));
        dot += x * y;
        of_a += x * x;
        of_b += y * y;
    }
    let length = f64::sqrt(of_a) * f64::sqrt(of_b);
    if length > 0.0 { dot / length } else { 0.0 }
}
