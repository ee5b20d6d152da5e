//! A corpus in memory, and a view of an index.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::TryStreamExt as _;
use holodeck_retrieval::{
    Content, Corpus, EmbeddedStore, Embedder, Filter, HashEmbedder, IngestEvent, IngestProgress,
    KeywordSearch as _, ListedSource, Piece, Purpose, RetrievalError, VectorStore,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Sources by name: their pieces, or the reason of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryCorpus {
    pub(crate) sources: BTreeMap<String, Result<Vec<String>, String>>,
    pub(crate) chunker: String,
}

impl MemoryCorpus {
    pub(crate) fn of(sources: &[(&str, &[&str])]) -> Self {
        let mut corpus = Self {
            chunker: "lines".to_owned(),
            ..Self::default()
        };
        for (source, pieces) in sources {
            corpus.set(source, pieces);
        }
        corpus
    }

    pub(crate) fn set(&mut self, source: &str, pieces: &[&str]) {
        let pieces = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        self.sources.insert(source.to_owned(), Ok(pieces));
    }
}

#[async_trait]
impl Corpus for MemoryCorpus {
    fn describe(&self) -> String {
        self.chunker.clone()
    }

    async fn list(&self, _cancel: &CancellationToken) -> Result<Vec<ListedSource>, RetrievalError> {
        let listed = self.sources.iter().map(|(source, pieces)| ListedSource {
            source: source.clone(),
            content: Ok(format!("{pieces:?}")),
        });
        Ok(listed.collect())
    }

    async fn read(&self, source: &str, _cancel: &CancellationToken) -> Result<Content, String> {
        let pieces = self.sources[source].clone()?;
        Ok(Content {
            hash: format!("{:?}", self.sources[source]),
            text: pieces.join("\n").into(),
            pieces: pieces
                .into_iter()
                .map(|text| Piece {
                    text,
                    ..Piece::default()
                })
                .collect(),
            notes: Vec::new(),
        })
    }
}

/// Embeds with hashes and records the requested texts.
pub(crate) struct Listening {
    inner: HashEmbedder,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Listening {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: HashEmbedder::new(32),
            asked: Mutex::default(),
        })
    }

    /// The texts requested since the last call, sorted.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort();
        asked
    }
}

#[async_trait]
impl Embedder for Listening {
    fn id(&self) -> &holodeck_retrieval::EmbedderId {
        self.inner.id()
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        if texts.iter().any(|text| text.contains("REFUSED")) {
            return Err(RetrievalError::Refused {
                embedder: self.id().to_string(),
                reason: "a bad word".into(),
            });
        }
        let own = texts.iter().map(|text| (*text).to_owned());
        self.asked.lock().unwrap().extend(own);
        self.inner.embed(texts, purpose).await
    }
}

/// Records events, one line each.
#[derive(Default)]
pub(crate) struct RecordedEvents(pub(crate) Mutex<Vec<IngestEvent>>);

impl IngestProgress for RecordedEvents {
    fn event(&self, event: IngestEvent) {
        self.0.lock().unwrap().push(event);
    }
}

/// Everything that is visible of an index.
pub(crate) async fn dump(path: &Path) -> String {
    let store = EmbeddedStore::open(path).await.unwrap();
    let mut dump = format!("{:?}\n{:?}\n", store.info().await.unwrap(), {
        let stats = store.stats().await.unwrap();
        (stats.sources, stats.passages)
    });
    let mut sources: Vec<_> = store.entries().try_collect().await.unwrap();
    sources.sort_by(|(a, _), (b, _)| a.source.cmp(&b.source));
    for (state, mut entries) in sources {
        entries.sort_by(|a, b| a.passage.id.cmp(&b.passage.id));
        let _ = writeln!(dump, "{state:?}");
        for entry in entries {
            let _ = writeln!(dump, "  {entry:?}");
        }
    }
    for query in ["piece 3", "ship", "the last word of source 7"] {
        let vector = HashEmbedder::new(32).vector(query);
        let nearest = store.nearest(&vector, 20, &Filter::default()).await.unwrap();
        let ranked = store.ranked(query, 500, &Filter::default()).await.unwrap();
        for scored in nearest {
            let _ = writeln!(dump, "near {query}: {} {}", scored.passage.id, scored.score);
        }
        let mut ranked: Vec<String> = ranked.into_iter().map(|scored| scored.passage.id).collect();
        ranked.sort();
        let _ = writeln!(dump, "words {query}: {ranked:?}");
    }
    dump
}
