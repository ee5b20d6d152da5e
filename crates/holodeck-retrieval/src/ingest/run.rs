//! The pipeline: read ahead, embed in groups, store behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Corpus, IngestEvent, IngestPlan, IngestProgress, IngestReport, Ingestor, SourceFailure,
    prepare::{PrepareError, Prepared, prepare},
};
use crate::{Contexts, Entry, Purpose, RetrievalError, SourceState, VectorStore};

/// Sources that are read concurrently, ahead of the one being embedded.
const READERS: usize = 4;
/// Pieces per embedding step: small sources together, large ones in several steps.
const GROUP: usize = 512;
/// Pieces per write to the store, if they arrive fast enough.
const BATCH: usize = 2048;
/// Finished sources are stored after this time at the latest.
const BATCH_TIME: Duration = Duration::from_millis(500);

pub(super) async fn run(
    ingestor: &Ingestor,
    corpus: Arc<dyn Corpus>,
    plan: IngestPlan,
    progress: &dyn IngestProgress,
    cancel: &CancellationToken,
) -> Result<IngestReport, RetrievalError> {
    let of = plan.to_read();
    let mut run = Run {
        ingestor,
        progress,
        cancel,
        of,
        done: 0,
        embedded: 0,
        writer: Writer::new(Arc::clone(&ingestor.store)),
        report: IngestReport {
            stored: 0,
            passages: 0,
            removed: plan.removed.len(),
            unchanged: plan.unchanged.len(),
            failed: Vec::new(),
        },
    };
    for failure in plan.failed {
        run.failed(failure);
    }
    let cut: Arc<str> = ingestor.cut(&*corpus).into();
    let mut sources: Vec<String> = plan.added.into_iter().chain(plan.changed).collect();
    sources.sort_unstable();
    let ended = run.all(corpus, cut, sources).await;
    // Embedded sources are stored even if the run failed.
    let stored = run.flush().await;
    ended.and(stored)?;
    Ok(run.report)
}

struct Run<'a> {
    ingestor: &'a Ingestor,
    progress: &'a dyn IngestProgress,
    cancel: &'a CancellationToken,
    of: usize,
    done: usize,
    embedded: usize,
    writer: Writer,
    report: IngestReport,
}

impl Run<'_> {
    async fn all(
        &mut self,
        corpus: Arc<dyn Corpus>,
        cut: Arc<str>,
        sources: Vec<String>,
    ) -> Result<(), RetrievalError> {
        let contexts = self.ingestor.contexts.clone();
        // With a model in the way, waiting for several sources at once is faster.
        let readers = contexts
            .as_ref()
            .map_or(READERS, |contexts| contexts.concurrency().max(READERS));
        let cancel = self.cancel.clone();
        let reads = sources.into_iter().map(|source| {
            read(
                Arc::clone(&corpus),
                contexts.clone(),
                source,
                Arc::clone(&cut),
                &cancel,
            )
        });
        let mut reads = stream::iter(reads).buffered(readers);
        let mut group = Vec::new();
        let mut pieces = 0;
        let mut number = 0;
        loop {
            let next = cancel.run_until_cancelled(reads.next()).await;
            let Some((source, read)) = next.ok_or(RetrievalError::Cancelled)? else {
                break;
            };
            number += 1;
            match read {
                Ok(prepared) => {
                    self.progress.event(IngestEvent::Read {
                        source,
                        pieces: prepared.passages.len(),
                        number,
                        of: self.of,
                        notes: prepared.notes.clone(),
                    });
                    pieces += prepared.passages.len();
                    group.push(prepared);
                }
                Err(PrepareError::Failed(reason)) => {
                    self.done += 1;
                    self.failed(SourceFailure {
                        source_name: source,
                        reason,
                    });
                }
                Err(PrepareError::Cancelled) => return Err(RetrievalError::Cancelled),
            }
            if pieces >= GROUP {
                self.group(std::mem::take(&mut group)).await?;
                pieces = 0;
            }
        }
        self.group(group).await
    }

    /// Embeds sources and passes them to the store.
    async fn group(&mut self, group: Vec<Prepared>) -> Result<(), RetrievalError> {
        match self.embed(&group).await {
            Ok(vectors) => self.finish(group, vectors).await,
            // One of them is at fault; the others are embedded one by one.
            Err(RetrievalError::Refused { .. }) if group.len() > 1 => {
                for source in group {
                    let alone = vec![source];
                    match self.embed(&alone).await {
                        Ok(vectors) => self.finish(alone, vectors).await?,
                        Err(error) => self.refused(&alone, error)?,
                    }
                }
                Ok(())
            }
            Err(error) => self.refused(&group, error),
        }
    }

    fn refused(&mut self, group: &[Prepared], error: RetrievalError) -> Result<(), RetrievalError> {
        let [source] = group else { return Err(error) };
        if !matches!(error, RetrievalError::Refused { .. }) {
            return Err(error);
        }
        self.done += 1;
        self.failed(SourceFailure {
            source_name: source.state.source.clone(),
            reason: error.explanation().text(),
        });
        Ok(())
    }

    async fn embed(&mut self, group: &[Prepared]) -> Result<VecDeque<Vec<f32>>, RetrievalError> {
        let places: Vec<(&Prepared, usize)> = group
            .iter()
            .flat_map(|source| (0..source.passages.len()).map(move |at| (source, at)))
            .collect();
        let mut vectors = VecDeque::with_capacity(places.len());
        for step in places.chunks(GROUP) {
            let texts: Vec<String> = step
                .iter()
                .map(|(source, at)| source.embedded_text(*at))
                .collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let asked = self.ingestor.embedder.embed(&texts, Purpose::Passage);
            let made = self.cancel.run_until_cancelled(asked).await;
            let made = made.ok_or(RetrievalError::Cancelled)??;
            if made.len() != texts.len() {
                return Err(self.wrong_count(made.len(), texts.len()));
            }
            vectors.extend(made);
            self.embedded += texts.len();
            self.progress.event(IngestEvent::Embedded {
                pieces: self.embedded,
            });
        }
        Ok(vectors)
    }

    fn wrong_count(&self, vectors: usize, texts: usize) -> RetrievalError {
        RetrievalError::Embedding {
            embedder: self.ingestor.embedder.id().to_string(),
            reason: format!("{vectors} vectors for {texts} texts").into(),
            retryable: false,
            retry_after: None,
        }
    }

    async fn finish(
        &mut self,
        group: Vec<Prepared>,
        mut vectors: VecDeque<Vec<f32>>,
    ) -> Result<(), RetrievalError> {
        for source in group {
            let own = vectors.drain(..source.passages.len().min(vectors.len()));
            let entries = source.passages.into_iter().zip(own);
            let entries = entries
                .map(|(passage, vector)| Entry { passage, vector })
                .collect();
            self.writer.add(source.state, entries);
        }
        if self.writer.is_due() {
            let stored = self.writer.write().await?;
            self.stored(stored);
        }
        Ok(())
    }

    /// Stores finished sources and waits for the write.
    async fn flush(&mut self) -> Result<(), RetrievalError> {
        for _ in 0..2 {
            let stored = self.writer.write().await?;
            self.stored(stored);
        }
        Ok(())
    }

    fn stored(&mut self, stored: Vec<SourceState>) {
        if stored.is_empty() {
            return;
        }
        self.done += stored.len();
        self.report.stored += stored.len();
        self.report.passages += stored.iter().map(|state| state.passages).sum::<usize>();
        self.progress.event(IngestEvent::Stored {
            sources: stored.into_iter().map(|state| state.source).collect(),
            done: self.done,
            of: self.of,
        });
    }

    fn failed(&mut self, failure: SourceFailure) {
        self.progress.event(IngestEvent::Failed(failure.clone()));
        self.report.failed.push(failure);
    }
}

/// Reads a source in its own task, concurrently with embedding.
fn read(
    corpus: Arc<dyn Corpus>,
    contexts: Option<Contexts>,
    source: String,
    cut: Arc<str>,
    cancel: &CancellationToken,
) -> impl Future<Output = (String, Result<Prepared, PrepareError>)> + use<> {
    let cancel = cancel.clone();
    async move {
        let name = source.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            prepare(&*corpus, contexts.as_ref(), &source, &cut, &cancel).await
        }));
        let read = match task.await {
            Ok(read) => read,
            Err(error) => Err(PrepareError::Failed(format!("reading it crashed: {error}"))),
        };
        (name, read)
    }
}

type Write = AbortOnDropHandle<Result<Vec<SourceState>, RetrievalError>>;

/// Collects finished sources and stores them while further ones are embedded.
struct Writer {
    store: Arc<dyn VectorStore>,
    waiting: Vec<(SourceState, Vec<Entry>)>,
    pieces: usize,
    last: Instant,
    writing: Option<Write>,
}

impl Writer {
    fn new(store: Arc<dyn VectorStore>) -> Self {
        Self {
            store,
            waiting: Vec::new(),
            pieces: 0,
            last: Instant::now(),
            writing: None,
        }
    }

    fn add(&mut self, state: SourceState, entries: Vec<Entry>) {
        self.pieces += entries.len();
        self.waiting.push((state, entries));
    }

    fn is_due(&self) -> bool {
        self.pieces >= BATCH || self.last.elapsed() >= BATCH_TIME
    }

    /// Starts writing the collected sources; returns those that the previous write stored.
    async fn write(&mut self) -> Result<Vec<SourceState>, RetrievalError> {
        let stored = match &mut self.writing {
            Some(writing) => match writing.await {
                Ok(stored) => stored?,
                Err(error) => {
                    return Err(RetrievalError::Store {
                        store: self.store.describe(),
                        reason: format!("storing crashed: {error}"),
                    });
                }
            },
            None => Vec::new(),
        };
        self.writing = None;
        self.last = Instant::now();
        self.pieces = 0;
        let batch = std::mem::take(&mut self.waiting);
        if !batch.is_empty() {
            let store = Arc::clone(&self.store);
            self.writing = Some(AbortOnDropHandle::new(tokio::spawn(async move {
                store.replace_many(&batch).await?;
                Ok(batch.into_iter().map(|(state, _)| state).collect())
            })));
        }
        Ok(stored)
    }
}
