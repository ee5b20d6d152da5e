use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{Content, Corpus, Piece};
use crate::{Contexts, Passage, RetrievalError, SourceState};

/// A source that only lacks its vectors.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) state: SourceState,
    pub(super) passages: Vec<Passage>,
    /// What is embedded of each passage, where it is not its text alone.
    leads: Vec<Option<String>>,
    pub(super) notes: Vec<String>,
}

/// Why a source could not be prepared.
#[derive(Debug)]
pub(super) enum Unprepared {
    /// It is the source's fault.
    Failed(String),
    /// Nobody's.
    Cancelled,
}

impl Prepared {
    /// What is embedded of a passage.
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

/// Reads a source, gives its pieces names and, if asked for, contexts.
pub(super) async fn prepare(
    corpus: &dyn Corpus,
    contexts: Option<&Contexts>,
    source: &str,
    cut: &str,
    cancel: &CancellationToken,
) -> Result<Prepared, Unprepared> {
    let content = corpus.read(source, cancel).await;
    if cancel.is_cancelled() {
        return Err(Unprepared::Cancelled);
    }
    let content = content.map_err(Unprepared::Failed)?;
    let document = std::sync::Arc::clone(&content.text);
    let mut prepared = named(source, content, cut).map_err(Unprepared::Failed)?;
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
            Err(RetrievalError::Cancelled) => return Err(Unprepared::Cancelled),
            Err(error) => return Err(Unprepared::Failed(error.to_string())),
        }
    }
    Ok(prepared)
}

/// The state's hash: content and all that decides what becomes of it.
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
            Some(own) if !ids.insert(own.clone()) => return Err(format!("it has two records `{own}`")),
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

/// Of the source, the text, and how often the same text was there before: it stays the same when other parts change.
fn id(source: &str, piece: &Piece, seen: &mut HashMap<[u8; 32], u64>) -> String {
    let text: [u8; 32] = Sha256::digest(&piece.text).into();
    let before = seen.entry(text).or_default();
    let mut hash = Sha256::new();
    hash.update(source);
    hash.update([0]);
    hash.update(text);
    hash.update(before.to_le_bytes());
    *before += 1;
    hex(hash.finalize().get(..16).unwrap_or_default())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
