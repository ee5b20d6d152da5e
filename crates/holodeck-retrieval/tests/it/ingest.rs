//! Tests that an ingest processes only changes, and continues after any interruption.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use holodeck_retrieval::{
    CachedEmbedder, ContextRequest, ContextWriter, Contexts, EmbeddedStore, Embedder, EmbedderId,
    HashEmbedder, IngestEvent, IngestMode, IngestReport, Ingestor, ModelCache, Purpose, RetrievalError,
    VectorStore,
};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use crate::corpus::{Listening, MemoryCorpus, RecordedEvents, dump};

struct Bench {
    folder: tempfile::TempDir,
    embedder: Arc<Listening>,
    corpus: MemoryCorpus,
    events: RecordedEvents,
    cancel: CancellationToken,
    contexts: Option<Contexts>,
    cached: bool,
}

impl Bench {
    fn new(corpus: MemoryCorpus) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            embedder: Listening::new(),
            corpus,
            events: RecordedEvents::default(),
            cancel: CancellationToken::new(),
            contexts: None,
            cached: false,
        }
    }

    async fn ingest(&self) -> Result<IngestReport, RetrievalError> {
        self.ingest_as(IngestMode::Update).await
    }

    async fn fill(&self) {
        assert_eq!(self.ingest().await.unwrap().failed, []);
    }

    async fn ingest_as(&self, mode: IngestMode) -> Result<IngestReport, RetrievalError> {
        let store = EmbeddedStore::open(self.folder.path().join("index.db")).await?;
        let mut embedder: Arc<dyn holodeck_retrieval::Embedder> = Arc::clone(&self.embedder) as _;
        if self.cached {
            let cache = ModelCache::open(self.folder.path().join("cache.db")).await?;
            embedder = Arc::new(CachedEmbedder::new(embedder, cache));
        }
        let mut ingestor = Ingestor::new(Arc::new(store), embedder);
        if let Some(contexts) = &self.contexts {
            ingestor = ingestor.with_contexts(contexts.clone());
        }
        let corpus = Arc::new(self.corpus.clone());
        ingestor.ingest(corpus, mode, &self.events, &self.cancel).await
    }

    async fn dump(&self) -> String {
        dump(&self.folder.path().join("index.db")).await
    }

    async fn sources(&self) -> Vec<(String, usize)> {
        let store = EmbeddedStore::open(self.folder.path().join("index.db"))
            .await
            .unwrap();
        let mut sources = store.sources().await.unwrap();
        sources.sort_by(|a, b| a.source.cmp(&b.source));
        sources
            .into_iter()
            .map(|state| (state.source, state.passages))
            .collect()
    }
}

fn three() -> MemoryCorpus {
    MemoryCorpus::of(&[
        ("a.md", &["one", "two", "one"]),
        ("b.md", &["three"]),
        ("empty.md", &[]),
    ])
}

#[tokio::test]
async fn only_what_changed_is_embedded_again() {
    let mut bench = Bench::new(three());
    let report = bench.ingest().await.unwrap();
    assert_eq!((report.stored, report.passages), (3, 4));
    assert_eq!(bench.embedder.take(), ["one", "one", "three", "two"]);

    let report = bench.ingest().await.unwrap();
    assert_eq!((report.stored, report.unchanged), (0, 3));
    assert_eq!(bench.embedder.take(), [""; 0]);

    bench.corpus.set("b.md", &["three", "four"]);
    bench.corpus.set("c.md", &["five"]);
    bench.corpus.sources.remove("empty.md");
    let report = bench.ingest().await.unwrap();
    assert_eq!((report.stored, report.removed, report.unchanged), (2, 1, 1));
    assert_eq!(bench.embedder.take(), ["five", "four", "three"]);

    let updated = bench.dump().await;
    let whole = Bench::new(bench.corpus.clone());
    whole.fill().await;
    assert_eq!(updated, whole.dump().await);
}

#[tokio::test]
async fn with_a_cache_an_edit_costs_its_chunks_and_a_new_name_nothing() {
    let mut bench = Bench::new(three());
    bench.cached = true;
    bench.fill().await;
    assert_eq!(bench.embedder.take(), ["one", "three", "two"]);
    bench.corpus.set("b.md", &["three", "four"]);
    let renamed = bench.corpus.sources.remove("a.md").unwrap();
    bench.corpus.sources.insert("z.md".to_owned(), renamed);
    bench.fill().await;
    assert_eq!(bench.embedder.take(), ["four"]);
    let _ = bench.ingest_as(IngestMode::Rebuild).await.unwrap();
    assert_eq!(bench.embedder.take(), [""; 0]);
    assert_eq!(
        bench.sources().await,
        [("b.md", 2), ("empty.md", 0), ("z.md", 3)].map(|(source, count)| (source.to_owned(), count))
    );
    let events = bench.events.0.lock().unwrap();
    let renamed = events.iter().find_map(|event| match event {
        IngestEvent::Planned(plan) => plan.renamed.first().cloned(),
        _ => None,
    });
    assert_eq!(renamed, Some(("a.md".to_owned(), "z.md".to_owned())));
}

#[tokio::test]
async fn an_index_with_other_settings_is_refused_until_it_is_rebuilt() {
    let mut bench = Bench::new(three());
    bench.fill().await;
    let before = bench.dump().await;
    bench.corpus.chunker = "words".to_owned();
    let error = bench.ingest().await.unwrap_err();
    assert!(matches!(error, RetrievalError::Mixed { .. }), "{error:?}");
    assert_snapshot!(error.explanation().text(), @r"
    the index was built with chunks by lines, not with chunks by words

    hint: rebuild it with `--force-ingest`
    ");
    assert_eq!(bench.dump().await, before);
    let _ = bench.ingest_as(IngestMode::Rebuild).await.unwrap();
    assert_eq!(bench.ingest().await.unwrap().unchanged, 3);
}

#[tokio::test]
async fn a_source_that_fails_is_named_and_the_others_are_taken_in() {
    let mut bench = Bench::new(three());
    bench.fill().await;
    let failed = Err("it is protected by a password".to_owned());
    bench.corpus.sources.insert("b.md".to_owned(), failed);
    bench.corpus.set("bad.md", &["fine", "REFUSED"]);
    bench.corpus.set("c.md", &["five"]);
    let report = bench.ingest().await.unwrap();
    let failed: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    assert_eq!(
        failed,
        [
            "`b.md`: it is protected by a password",
            "`bad.md`: embedding with hash words-1 (32 dimensions): the text is refused: a bad word",
        ]
    );
    // The index still has the previous passages.
    assert_eq!(
        bench.sources().await,
        [("a.md", 3), ("b.md", 1), ("c.md", 1), ("empty.md", 0)]
            .map(|(source, count)| (source.to_owned(), count))
    );
    assert_eq!(bench.ingest().await.unwrap().failed.len(), 2);
}

/// Enough for several groups, and sources larger than one.
fn large() -> MemoryCorpus {
    let mut corpus = MemoryCorpus::of(&[]);
    for source in 0..30 {
        let pieces: Vec<String> = (0..(source * 37) % 200 + if source == 11 { 1500 } else { 0 })
            .map(|piece| format!("source {source} describes piece {piece}"))
            .collect();
        let pieces = pieces.iter().map(String::as_str).collect::<Vec<_>>();
        corpus.set(&format!("{source:02}.md"), &pieces);
    }
    corpus
}

#[tokio::test]
async fn stopped_at_any_event_finished_sources_stay_and_the_next_run_continues() {
    let undisturbed = Bench::new(large());
    undisturbed.fill().await;
    let events = undisturbed.events.0.lock().unwrap().len();
    let all = undisturbed.embedder.take().len();
    let expected = undisturbed.dump().await;
    for stop in (1..events).step_by(17) {
        let bench = Bench::new(large());
        let store = EmbeddedStore::open(bench.folder.path().join("index.db"))
            .await
            .unwrap();
        let ingestor = Ingestor::new(Arc::new(store), Arc::clone(&bench.embedder) as _);
        let (cancel, count) = (CancellationToken::new(), AtomicUsize::new(0));
        let stored = AtomicUsize::new(0);
        let progress = |event: IngestEvent| {
            if let IngestEvent::Stored { sources, .. } = &event {
                stored.fetch_add(sources.len(), Ordering::Relaxed);
            }
            if count.fetch_add(1, Ordering::Relaxed) + 1 == stop {
                cancel.cancel();
            }
        };
        let corpus = Arc::new(bench.corpus.clone());
        let ended = ingestor
            .ingest(corpus, IngestMode::Update, &progress, &cancel)
            .await;
        assert!(matches!(ended, Err(RetrievalError::Cancelled)), "{ended:?}");
        let kept = bench.sources().await;
        assert_eq!(kept.len(), stored.load(Ordering::Relaxed));
        let before: usize = kept.iter().map(|(_, passages)| passages).sum();
        bench.embedder.take();
        let report = bench.ingest().await.unwrap();
        assert_eq!((report.unchanged, report.stored), (kept.len(), 30 - kept.len()));
        assert_eq!(bench.embedder.take().len(), all - before);
        assert_eq!(bench.dump().await, expected);
    }
}

#[tokio::test]
async fn an_embedder_that_is_down_ends_it_and_keeps_what_was_stored() {
    struct Failing(Arc<Listening>);

    #[async_trait]
    impl holodeck_retrieval::Embedder for Failing {
        fn id(&self) -> &holodeck_retrieval::EmbedderId {
            self.0.id()
        }

        async fn embed(
            &self,
            texts: &[&str],
            purpose: holodeck_retrieval::Purpose,
        ) -> Result<Vec<Vec<f32>>, RetrievalError> {
            if self.0.asked.lock().unwrap().len() > 2000 {
                return Err(RetrievalError::Embedding {
                    embedder: self.id().to_string(),
                    reason: "down".into(),
                    retryable: true,
                    retry_after: None,
                });
            }
            self.0.embed(texts, purpose).await
        }
    }

    let bench = Bench::new(large());
    let store = EmbeddedStore::open(bench.folder.path().join("index.db"))
        .await
        .unwrap();
    let failing = Failing(Arc::clone(&bench.embedder));
    let ingestor = Ingestor::new(Arc::new(store), Arc::new(failing));
    let corpus = Arc::new(bench.corpus.clone());
    let ended = ingestor
        .ingest(corpus, IngestMode::Update, &bench.events, &bench.cancel)
        .await;
    assert_snapshot!(ended.unwrap_err(), @"embedding with hash words-1 (32 dimensions): down");
    let kept: usize = bench.sources().await.iter().map(|(_, passages)| passages).sum();
    assert!(kept > 0 && kept <= 3000, "{kept}");
}

/// The first three requests wait for each other, so that a run that sends them
/// one after the other never ends.
struct Writer {
    first: tokio::sync::Barrier,
    asked: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl ContextWriter for Writer {
    fn id(&self) -> String {
        "openai small".to_owned()
    }

    async fn write(
        &self,
        request: &ContextRequest<'_>,
        _cancel: &CancellationToken,
    ) -> Result<String, RetrievalError> {
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        if before < 3 {
            self.first.wait().await;
        }
        tokio::task::yield_now().await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        assert!(request.document.contains(request.chunk));
        if request.chunk.contains("unplaceable") {
            return Err(RetrievalError::Context {
                writer: self.id(),
                reason: "the model refuses".into(),
            });
        }
        Ok(format!("About {}.", request.chunk))
    }
}

#[tokio::test]
async fn contexts_are_embedded_with_the_text_some_at_a_time_and_none_twice() {
    let writer = Arc::new(Writer {
        first: tokio::sync::Barrier::new(3),
        asked: AtomicUsize::new(0),
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let mut bench = Bench::new(MemoryCorpus::of(&[
        ("a.md", &["one", "two", "three", "four", "five"]),
        ("b.md", &["six", "unplaceable"]),
        ("c.md", &["seven"]),
    ]));
    let cache = ModelCache::open(bench.folder.path().join("cache.db"))
        .await
        .unwrap();
    let dynamic = Arc::clone(&writer) as Arc<dyn ContextWriter>;
    bench.contexts = Some(Contexts::new(dynamic, 100, 3).cached(cache));
    let report = bench.ingest().await.unwrap();
    assert_eq!(
        report.failed[0].to_string(),
        "`b.md`: context by openai small: the model refuses"
    );
    assert_eq!(writer.asked.load(Ordering::Relaxed), 8);
    assert_eq!(writer.most.load(Ordering::Relaxed), 3);
    let mut expected =
        ["one", "two", "three", "four", "five", "seven"].map(|word| format!("About {word}.\n\n{word}"));
    expected.sort();
    assert_eq!(bench.embedder.take(), expected);
    assert!(
        bench
            .dump()
            .await
            .contains(r#"text: "two", context: Some("About two.")"#)
    );

    // Only the failed request is repeated.
    let _ = bench.ingest_as(IngestMode::Rebuild).await.unwrap();
    assert_eq!(writer.asked.load(Ordering::Relaxed), 9);

    // Texts with and without contexts do not mix.
    bench.contexts = None;
    assert_snapshot!(bench.ingest().await.unwrap_err().explanation().text(), @r"
    the index was built with chunks by lines; context by openai small, 100 tokens, prompt 1, not with chunks by lines

    hint: rebuild it with `--force-ingest`
    ");
}

/// An embedder of unknown length, which the first attempt configured.
struct Unsized {
    inner: HashEmbedder,
    id: EmbedderId,
}

impl Unsized {
    fn new(length: usize, configured: Option<usize>) -> Arc<Self> {
        let inner = HashEmbedder::new(length);
        let id = EmbedderId {
            dimensions: configured,
            ..inner.id().clone()
        };
        Arc::new(Self { inner, id })
    }
}

#[async_trait]
impl Embedder for Unsized {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Vec<f32>>, RetrievalError> {
        self.inner.embed(texts, purpose).await
    }
}

#[tokio::test]
async fn an_index_without_a_passage_takes_the_shape_of_the_next_attempt() {
    for corpus in [MemoryCorpus::of(&[("a.md", &["one", "two"])]), three()] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.db");
        let ingest = async |embedder: Arc<Unsized>, corpus: &MemoryCorpus| {
            let store = EmbeddedStore::open(&path).await?;
            let ingestor = Ingestor::new(Arc::new(store), embedder);
            let (events, cancel) = (RecordedEvents::default(), CancellationToken::new());
            let corpus = Arc::new(corpus.clone());
            ingestor
                .ingest(corpus, IngestMode::Update, &events, &cancel)
                .await
        };
        // The YAML sets 48, the vectors have 32.
        let failed = ingest(Unsized::new(32, Some(48)), &corpus).await;
        assert!(
            !matches!(&failed, Ok(report) if report.failed.is_empty()),
            "{failed:?}"
        );
        let nothing = MemoryCorpus::of(&[("empty.md", &[])]);
        let _ = ingest(Unsized::new(32, Some(48)), &nothing).await;
        let built = ingest(Unsized::new(32, None), &corpus).await.unwrap();
        assert_eq!(built.failed, []);
        assert!(built.passages > 0);
        // Once it holds passages, another length is refused.
        let mixed = ingest(Unsized::new(16, Some(16)), &corpus).await.unwrap_err();
        assert!(matches!(mixed, RetrievalError::Mixed { .. }), "{mixed}");
    }
}
