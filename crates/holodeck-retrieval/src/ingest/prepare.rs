//! Reads one source and prepares its passages with stable ids; only vectors are missing afterwards.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use holodeck_model::{hex, hex_prefix};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{Content, Corpus, Piece};
use crate::{Contexts, Passage, RetrievalError, SourceState};

/// A source that only lacks its vectors.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) state: SourceState,
    pub(super) passages: Vec<Passage>,
    /// The text to embed for each passage, where it differs from its own text.
    leads: Vec<Option<String>>,
    pub(super) notes: Vec<String>,
}

/// Why a source could not be prepared.
#[derive(Debug)]
pub(super) enum PrepareError {
    /// The source failed.
    Failed(String),
    /// The caller cancelled.
    Cancelled,
}

impl Prepared {
    /// The text to embed for a passage.
    pub(super) fn embedded_text(&self, at: usize) -> String {
        let Some(passage) = self.passages.get(at) else {
            return String::new();
        };
        let lead = self.leads.get(at).and_then(Option::as_deref);
        [passage.context.as_deref(), lead, Some(&passage.text)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n\n")
    }
}

/// Reads a source, assigns ids to its pieces and, if configured, writes contexts.
pub(super) async fn prepare(
    corpus: &dyn Corpus,
    contexts: Option<&Contexts>,
    source: &str,
    cut: &str,
    cancel: &CancellationToken,
) -> Result<Prepared, PrepareError> {
    let content = corpus.read(source, cancel).await;
    if cancel.is_cancelled() {
        return Err(PrepareError::Cancelled);
    }
    let content = content.map_err(PrepareError::Failed)?;
    let document = std::sync::Arc::clone(&content.text);
    let mut prepared = named(source, content, cut).map_err(PrepareError::Failed)?;
    if let Some(contexts) = contexts {
        let texts: Vec<String> = prepared
            .passages
            .iter()
            .map(|passage| passage.text.clone())
            .collect();
        let mut requests = Vec::with_capacity(texts.len());
        for text in &texts {
            requests.push(contexts.write(source, &document, text, cancel));
        }
        let written: Result<Vec<String>, RetrievalError> = stream::iter(requests)
            .buffered(contexts.concurrency())
            .try_collect()
            .await;
        match written {
            Ok(written) => {
                for (passage, context) in prepared.passages.iter_mut().zip(written) {
                    passage.context = Some(context);
                }
            }
            Err(RetrievalError::Cancelled) => return Err(PrepareError::Cancelled),
            Err(error) => return Err(PrepareError::Failed(error.to_string())),
        }
    }
    Ok(prepared)
}

/// The state hash: the content and everything that determines its passages.
pub(super) fn state_hash(content: &str, cut: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(content);
    hash.update([0]);
    hash.update(cut);
    hex(&hash.finalize())
}

fn named(source: &str, content: Content, cut: &str) -> Result<Prepared, String> {
    let mut passages = Vec::with_capacity(content.pieces.len());
    let mut leads = Vec::with_capacity(content.pieces.len());
    let mut ids = HashSet::new();
    let mut seen: HashMap<[u8; 32], u64> = HashMap::new();
    for piece in content.pieces {
        if piece.text.trim().is_empty() {
            continue;
        }
        let id = match &piece.id {
            Some(own) if !ids.insert(own.clone()) => return Err(format!("two records have the id `{own}`")),
            Some(own) => format!("{source}#{own}"),
            None => id(source, &piece, &mut seen),
        };
        passages.push(Passage {
            id,
            source: source.to_owned(),
            text: piece.text,
            context: None,
            metadata: piece.metadata,
        });
        leads.push(piece.lead);
    }
    Ok(Prepared {
        state: SourceState {
            source: source.to_owned(),
            hash: state_hash(&content.hash, cut),
            passages: passages.len(),
        },
        passages,
        leads,
        notes: content.notes,
    })
}

/// From the source, the text and the number of earlier occurrences of that text: stable when other parts change.
fn id(source: &str, piece: &Piece, seen: &mut HashMap<[u8; 32], u64>) -> String {
    let text: [u8; 32] = Sha256::digest(&piece.text).into();
    let before = seen.entry(text).or_default();
    let mut hash = Sha256::new();
    hash.update(source);
    hash.update([0]);
    hash.update(text);
    hash.update(before.to_le_bytes());
    *before += 1;
    hex_prefix(&hash.finalize(), 16)
}
