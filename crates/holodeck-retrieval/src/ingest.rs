//! From sources to an index that holds them: only changes are processed, and finished work is kept.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{Contexts, Embedder, IndexInfo, Purpose, RetrievalError, VectorStore};

mod corpus;
mod files;
mod plan;
mod prepare;
mod progress;
mod run;

pub use corpus::{Content, Corpus, ListedSource, Piece};
pub use files::{Cutting, FileCorpus, FileSource};
use plan::SourceFailure;
pub use plan::{IngestMode, IngestPlan};
pub use progress::{IngestEvent, IngestProgress};

/// Brings an index up to date with its sources.
///
/// A source enters the store complete and with its state, so a run that is stopped or killed leaves an index that the
/// next run completes. Reading, embedding and storing overlap; only a handful of sources is in memory at a time.
pub struct Ingestor {
    store: Arc<dyn VectorStore>,
    embedder: Arc<dyn Embedder>,
    contexts: Option<Contexts>,
}

/// The outcome of an ingest.
#[must_use = "it lists the sources that failed"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestReport {
    /// Sources written to the index, new or changed.
    pub stored: usize,
    /// Their passages.
    pub passages: usize,
    /// Sources removed from the index.
    pub removed: usize,
    /// Sources that did not change.
    pub unchanged: usize,
    /// Sources that failed; the index keeps their previous passages.
    pub failed: Vec<SourceFailure>,
}

impl Ingestor {
    /// Ingests into `store` with vectors of `embedder`.
    pub fn new(store: Arc<dyn VectorStore>, embedder: Arc<dyn Embedder>) -> Self {
        Self {
            store,
            embedder,
            contexts: None,
        }
    }

    /// Writes a context for each piece, which is embedded with it.
    pub fn with_contexts(mut self, contexts: Contexts) -> Self {
        self.contexts = Some(contexts);
        self
    }

    /// Compares the index with its sources. An index built with other settings is an error, unless it is rebuilt.
    pub async fn plan(
        &self,
        corpus: &dyn Corpus,
        mut mode: IngestMode,
        cancel: &CancellationToken,
    ) -> Result<IngestPlan, RetrievalError> {
        let cut = self.cut(corpus);
        let known = match mode {
            IngestMode::Rebuild => Vec::new(),
            IngestMode::Update => {
                let mut known = self.store.sources().await?;
                if let Some(found) = self.store.info().await?
                    && !known.is_empty()
                    && let Err(other) = plan::check_same(&found, self.embedder.id(), &cut)
                {
                    if known.iter().any(|source| source.passages > 0) {
                        return Err(other);
                    }
                    // None of the existing entries can be combined with new ones.
                    known.clear();
                    mode = IngestMode::Rebuild;
                }
                known
            }
        };
        let listed = corpus.list(cancel).await?;
        let mut plan = IngestPlan::compare(known, listed, |content| prepare::state_hash(content, &cut));
        if mode == IngestMode::Rebuild {
            plan.rebuild = plan::Rebuild::Yes;
        }
        Ok(plan)
    }

    /// Executes `plan`. On `cancel` it returns an error and keeps what is finished. A failing embedder or store ends it
    /// too; a failing source does not.
    pub async fn run(
        &self,
        corpus: Arc<dyn Corpus>,
        plan: IngestPlan,
        progress: &dyn IngestProgress,
        cancel: &CancellationToken,
    ) -> Result<IngestReport, RetrievalError> {
        progress.event(IngestEvent::Planned(plan.clone()));
        if plan.rebuild == plan::Rebuild::Yes {
            self.store.clear().await?;
        }
        if plan.to_read() > 0 {
            let info = self.info(&*corpus, cancel).await?;
            self.store.prepare(&info).await?;
        }
        if !plan.removed.is_empty() {
            self.store.remove(&plan.removed).await?;
            progress.event(IngestEvent::Removed(plan.removed.clone()));
        }
        run::run(self, corpus, plan, progress, cancel).await
    }

    /// [`plan`](Self::plan) and [`run`](Self::run) in one.
    pub async fn ingest(
        &self,
        corpus: Arc<dyn Corpus>,
        mode: IngestMode,
        progress: &dyn IngestProgress,
        cancel: &CancellationToken,
    ) -> Result<IngestReport, RetrievalError> {
        let plan = self.plan(&*corpus, mode, cancel).await?;
        self.run(corpus, plan, progress, cancel).await
    }

    /// Everything that determines the passages of a content, in one line.
    fn cut(&self, corpus: &dyn Corpus) -> String {
        match &self.contexts {
            Some(contexts) => format!("{}; {}", corpus.describe(), contexts.describe()),
            None => corpus.describe(),
        }
    }

    /// How the index is built; if the length of an embedder's vectors is unknown, it embeds one text to find out.
    async fn info(
        &self,
        corpus: &dyn Corpus,
        cancel: &CancellationToken,
    ) -> Result<IndexInfo, RetrievalError> {
        let mut embedder = self.embedder.id().clone();
        let known = match embedder.dimensions {
            Some(dimensions) => Some(dimensions),
            // Without a passage, the recorded length is only the assumption of an earlier attempt.
            None if self.store.stats().await?.passages > 0 => {
                self.store.info().await?.map(|info| info.dimensions)
            }
            None => None,
        };
        let dimensions = if let Some(known) = known {
            known
        } else {
            let asked = self.embedder.embed(&["dimensions"], Purpose::Passage);
            let vectors = cancel.run_until_cancelled(asked).await;
            let vectors = vectors.ok_or(RetrievalError::Cancelled)??;
            vectors.first().map_or(0, Vec::len)
        };
        embedder.dimensions = Some(dimensions);
        Ok(IndexInfo {
            embedder,
            dimensions,
            chunker: self.cut(corpus),
        })
    }
}
