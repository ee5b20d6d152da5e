//! The indexes that an agent's tools search: built, looked at, searched, copied.

mod place;
mod progress;
mod sources;
mod told;
mod writer;

use std::{fmt, sync::Arc, time::Instant};

use async_trait::async_trait;
use holodeck_backend_api::ToolSpec;
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{
    Code, Diagnostic, EmbeddingProvider, Env, HierarchicalDocumentTool, LoadedAgent, SearchMode, Severity,
    ToolConfig,
};
use holodeck_retrieval::{
    CachedEmbedder, Contexts, Embedder, EndpointOptions, HttpReranker, IngestMode, Ingestor, ModelCache,
    MoveProgress, Reranker, RetrievalError, SearchRequest, Searcher, VectorStore, Weights, embedder,
    render_hits,
};
use holodeck_tools::{Search, retrieval_spec};
use holodeck_validators::{Check, CheckState};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use self::{
    place::{Place, collection},
    progress::Following,
    sources::Sources,
    writer::ModelWriter,
};
use crate::{AnswerSource, Answers, unsupported::refuse_unbuilt_tool};

pub use holodeck_retrieval::{Hit, SearchResults};
pub(crate) use sources::check_patterns;
pub use told::{Build, IndexError, IndexErrorKind, IndexEvent, IndexStatus, Migration, Rebuild, StatusState};

/// Hears what happens while indexes are built.
#[derive(Clone)]
pub struct IndexSink(Arc<dyn Fn(&IndexEvent) + Send + Sync>);

impl IndexSink {
    /// Calls `on` for each event, in order.
    pub fn new(on: impl Fn(&IndexEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(on))
    }

    fn tell(&self, event: &IndexEvent) {
        (self.0)(event);
    }
}

impl Default for IndexSink {
    /// Nobody listens.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for IndexSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexSink")
    }
}

/// Whether the indexes of an agent are there and up to date. What is not can be mended before a run.
pub(crate) async fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let Ok(answers) = Answers::open(&AnswerSource::Live, None, agent, env) else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    for index in Indexes::answering(agent, env, &answers).iter() {
        if refuse_unbuilt_tool(agent, index.position).is_err() {
            continue;
        }
        let subject = format!("index `{}`", index.name());
        let status = index.status().await;
        let (state, help) = match status.state {
            StatusState::Ready => (CheckState::Ok, None),
            StatusState::NotBuilt | StatusState::Stale => {
                let help = "`holodeck index build` does it now; a test or a run does it first";
                (CheckState::Warning, Some(help.to_owned()))
            }
            // A recording answers without it.
            StatusState::Unusable if agent.execution.replay.value.is_some() => (CheckState::Warning, None),
            StatusState::Unusable => (CheckState::Missing, None),
        };
        let (found, hint) = (status.found, status.hint);
        let diagnostic = (state != CheckState::Ok).then(|| {
            let severity = if state == CheckState::Warning {
                Severity::Warning
            } else {
                Severity::Error
            };
            let place = agent.locate(&format!("tools.{}.source", index.position));
            let mut diagnostic = Diagnostic::new(Code::UnusableIndex, severity, found.as_str()).at(place);
            diagnostic.help = hint.or(help);
            diagnostic
        });
        checks.push(Check {
            subject,
            state,
            found,
            diagnostic,
        });
    }
    checks
}

/// The indexes of an agent.
#[derive(Debug)]
pub struct Indexes(Vec<Arc<Index>>);

impl Indexes {
    /// Those of the named tools; of all that search, if none is named. Nothing is opened yet.
    pub fn of(agent: &LoadedAgent, env: &Env, tools: &[String]) -> Result<Self, IndexError> {
        let answers = Answers::open(&AnswerSource::AsConfigured, None, agent, env)
            // A recording that is still to be made has no answers yet.
            .or_else(|_unusable| Answers::open(&AnswerSource::Live, None, agent, env))
            .map_err(IndexError::config)?;
        let all = Self::answering(agent, env, &answers);
        if all.0.is_empty() {
            let message = format!("agent `{}` has no tool that searches", agent.config.name);
            return Err(IndexError::config(format!(
                "{message}\n\nhint: `type: vectorstore` and `type: hierarchical_document` do"
            )));
        }
        if let Some(unknown) = tools
            .iter()
            .find(|name| !all.0.iter().any(|index| index.name() == *name))
        {
            return Err(IndexError::config(format!(
                "no tool that searches is called `{unknown}`; there are {}",
                all.names()
            )));
        }
        let wanted = |index: &Arc<Index>| tools.is_empty() || tools.iter().any(|name| index.name() == name);
        let chosen: Vec<_> = all.0.into_iter().filter(wanted).collect();
        for index in &chosen {
            refuse_unbuilt_tool(agent, index.position).map_err(IndexError::config)?;
        }
        Ok(Self(chosen))
    }

    /// Those of every tool that searches and is not mocked.
    pub(crate) fn answering(agent: &LoadedAgent, env: &Env, answers: &Answers) -> Self {
        let tools = agent.config.tools.iter().enumerate();
        let searching: Vec<_> = tools
            .filter(|(_, tool)| tool.is_indexed() && !tool.is_mocked())
            .collect();
        if searching.is_empty() {
            return Self(Vec::new());
        }
        let own = Arc::new(without_cases(agent));
        Self(
            searching
                .into_iter()
                .map(|(position, tool)| {
                    Arc::new(Index {
                        agent: Arc::clone(&own),
                        env: env.clone(),
                        answers: answers.clone(),
                        position,
                        tool: tool.clone(),
                        place: Place::of(agent, tool),
                        store: OnceCell::new(),
                        embedder: OnceCell::new(),
                        searcher: OnceCell::new(),
                    })
                })
                .collect(),
        )
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.0.iter()
    }

    /// The only one; which one is meant must be said if there are several.
    pub fn single(&self) -> Result<&Arc<Index>, IndexError> {
        match self.0.as_slice() {
            [only] => Ok(only),
            _ => Err(IndexError::config(format!(
                "several tools search: {}\n\nhint: `--tool NAME` says which",
                self.names()
            ))),
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|index| format!("`{}`", index.name())).collect();
        names.join(", ")
    }
}

/// The index of one tool.
pub struct Index {
    agent: Arc<LoadedAgent>,
    env: Env,
    answers: Answers,
    /// Which tool of the YAML it is.
    position: usize,
    tool: ToolConfig,
    place: Place,
    store: OnceCell<Arc<dyn VectorStore>>,
    embedder: OnceCell<Arc<dyn Embedder>>,
    searcher: OnceCell<Searcher>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("tool", &self.name())
            .field("place", &self.place.describe())
            .finish_non_exhaustive()
    }
}

impl Index {
    /// The tool, as the YAML names it.
    pub fn name(&self) -> &str {
        self.tool.name()
    }

    /// How the model sees the tool.
    pub(crate) fn spec(&self) -> ToolSpec {
        let description = match &self.tool {
            ToolConfig::Vectorstore(tool) => tool.description.as_str(),
            ToolConfig::HierarchicalDocument(tool) => tool.description.as_str(),
            _ => "",
        };
        retrieval_spec(self.name(), description)
    }

    /// Brings it up to date. Stopped by `cancel`, what is finished is kept.
    pub async fn build(
        &self,
        rebuild: Rebuild,
        sink: &IndexSink,
        cancel: &CancellationToken,
    ) -> Result<Build, IndexError> {
        let started = Instant::now();
        let sources = self.sources(cancel).await?;
        let writer = self.writer();
        let built = self.ingest(sources, writer.clone(), rebuild, sink, cancel).await;
        if let Some(writer) = writer {
            writer.close().await;
        }
        let mut built = built?;
        built.took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        sink.tell(&IndexEvent::Built(built.clone()));
        Ok(built)
    }

    async fn ingest(
        &self,
        sources: Sources,
        writer: Option<Arc<ModelWriter>>,
        rebuild: Rebuild,
        sink: &IndexSink,
        cancel: &CancellationToken,
    ) -> Result<Build, IndexError> {
        let of = |error: RetrievalError| IndexError::of(self.name(), &error);
        let ingestor = self.ingestor(writer).await.map_err(of)?;
        let mode = match rebuild {
            Rebuild::Changed => IngestMode::Update,
            Rebuild::Everything => IngestMode::Rebuild,
        };
        let plan = ingestor.plan(&*sources.corpus, mode, cancel).await.map_err(of)?;
        let mut build = Build {
            tool: self.name().to_owned(),
            added: plan.added.len(),
            changed: plan.changed.len(),
            removed: plan.removed.len(),
            notes: sources.notes,
            ..Build::default()
        };
        if plan.is_empty() {
            self.count(&mut build).await.map_err(of)?;
            return Ok(build);
        }
        for note in &build.notes {
            sink.tell(&IndexEvent::Note {
                tool: build.tool.clone(),
                message: note.clone(),
            });
        }
        if mode == IngestMode::Rebuild {
            self.forget_vectors().await.map_err(of)?;
        }
        let following = Following::new(self.name(), sink);
        let report = ingestor
            .run(Arc::clone(&sources.corpus), plan, &following, cancel)
            .await
            .map_err(of)?;
        build.failed = report.failed.iter().map(ToString::to_string).collect();
        self.count(&mut build).await.map_err(of)?;
        Ok(build)
    }

    async fn count(&self, build: &mut Build) -> Result<(), RetrievalError> {
        let stats = self.store().await?.stats().await?;
        build.sources = stats.sources;
        build.passages = stats.passages;
        Ok(())
    }

    /// How it stands. Nothing is made or changed.
    pub async fn status(&self) -> IndexStatus {
        let mut status = IndexStatus {
            tool: self.name().to_owned(),
            state: StatusState::NotBuilt,
            found: "not built yet".to_owned(),
            hint: None,
            source: self.source().to_owned(),
            store: self.place.describe(),
            made: None,
            sources: 0,
            passages: 0,
            bytes: None,
            added: 0,
            changed: 0,
            removed: 0,
        };
        if self.place.is_missing() {
            if let Err(error) = self.sources(&CancellationToken::new()).await {
                status.state = StatusState::Unusable;
                (status.found, status.hint) = (error.message, error.hint);
            }
            return status;
        }
        if let Err(error) = self.look(&mut status).await {
            status.state = StatusState::Unusable;
            status.hint = error.hint.or_else(|| {
                let anew = error.kind == IndexErrorKind::Mixed;
                anew.then(|| "`holodeck index build --force` builds it anew".to_owned())
            });
            status.found = error.message;
        }
        status
    }

    async fn look(&self, status: &mut IndexStatus) -> Result<(), IndexError> {
        let of = |error: RetrievalError| IndexError::of(self.name(), &error);
        let store = self.store().await.map_err(of)?;
        status.store = store.describe();
        let Some(info) = store.info().await.map_err(of)? else {
            return self.sources(&CancellationToken::new()).await.map(|_| ());
        };
        status.made = Some(format!("{} · {}", info.embedder, info.chunker));
        let stats = store.stats().await.map_err(of)?;
        (status.sources, status.passages, status.bytes) = (stats.sources, stats.passages, stats.bytes);
        let never = CancellationToken::new();
        let sources = self.sources(&never).await?;
        let ingestor = self.ingestor(self.writer()).await.map_err(of)?;
        let plan = ingestor
            .plan(&*sources.corpus, IngestMode::Update, &never)
            .await
            .map_err(of)?;
        (status.added, status.changed, status.removed) =
            (plan.added.len(), plan.changed.len(), plan.removed.len());
        let is_ready = plan.added.is_empty() && plan.changed.is_empty() && plan.removed.is_empty();
        status.state = if is_ready {
            StatusState::Ready
        } else {
            StatusState::Stale
        };
        status.found = told::stands(&plan, &stats);
        Ok(())
    }

    /// Searches as the tool does; `limit` outranks its `top_k`.
    pub async fn search(&self, query: &str, limit: Option<usize>) -> Result<SearchResults, IndexError> {
        let mut request = self.request(query);
        if let Some(limit) = limit {
            request.limit = limit;
        }
        let of = |error: RetrievalError| IndexError::of(self.name(), &error);
        self.searcher()
            .await
            .map_err(of)?
            .search(&request)
            .await
            .map_err(of)
    }

    /// Copies an index from one store to another; either is the tool's own if it is not named.
    pub async fn migrate(
        &self,
        from: Option<&str>,
        to: Option<&str>,
        sink: &IndexSink,
        cancel: &CancellationToken,
    ) -> Result<Migration, IndexError> {
        let place = |name: Option<&str>| match name {
            Some(name) => Place::named(&self.agent, &self.tool, name),
            None => Ok(self.place.clone()),
        };
        let (from, to) = (place(from)?, place(to)?);
        if from.is_missing() {
            return Err(IndexError::config(format!(
                "there is no index of tool `{}` at {}",
                self.name(),
                from.describe()
            )));
        }
        let of = |error: RetrievalError| IndexError::of(self.name(), &error);
        let collection = collection(&self.agent, &self.tool);
        if from.describe() == to.describe() {
            return Err(IndexError::config(format!(
                "the index of tool `{}` is at {} already\n\nhint: `--from` and `--to` name stores; one left out is the tool's own",
                self.name(),
                to.describe()
            )));
        }
        let client = self.client().map_err(of)?;
        let from = from.open(&collection, &client).await.map_err(of)?;
        let to = to.open(&collection, &client).await.map_err(of)?;
        let on = |progress: MoveProgress| {
            sink.tell(&IndexEvent::Progress {
                tool: self.name().to_owned(),
                done: progress.done,
                total: progress.sources,
                passages: progress.passages,
                source: None,
            });
        };
        let moved = holodeck_retrieval::migrate(&*from, &*to, &on, cancel)
            .await
            .map_err(of)?;
        Ok(Migration {
            tool: self.name().to_owned(),
            from: from.describe(),
            to: to.describe(),
            sources: moved.stats.sources,
            passages: moved.stats.passages,
        })
    }

    fn source(&self) -> &str {
        match &self.tool {
            ToolConfig::Vectorstore(tool) => tool.source.as_str(),
            ToolConfig::HierarchicalDocument(tool) => tool.source.as_str(),
            _ => "",
        }
    }

    async fn sources(&self, cancel: &CancellationToken) -> Result<Sources, IndexError> {
        Sources::of(&self.agent, &self.tool, &self.env, cancel).await
    }

    fn request(&self, query: &str) -> SearchRequest {
        match &self.tool {
            ToolConfig::HierarchicalDocument(tool) => SearchRequest {
                min_score: tool.min_score,
                weights: Weights {
                    semantic: tool.semantic_weight,
                    keyword: tool.keyword_weight,
                    exact: tool.exact_weight,
                },
                rrf_k: tool.rrf_k,
                ..SearchRequest::new(query, tool.search_mode, size(tool.top_k))
            },
            ToolConfig::Vectorstore(tool) => SearchRequest {
                min_score: tool.min_similarity_score,
                ..SearchRequest::new(query, SearchMode::Semantic, size(tool.top_k))
            },
            _ => SearchRequest::new(query, SearchMode::Semantic, 0),
        }
    }

    async fn store(&self) -> Result<&Arc<dyn VectorStore>, RetrievalError> {
        self.store
            .get_or_try_init(|| async {
                self.place
                    .open(&collection(&self.agent, &self.tool), &self.client()?)
                    .await
            })
            .await
    }

    async fn embedder(&self) -> Result<&Arc<dyn Embedder>, RetrievalError> {
        self.embedder
            .get_or_try_init(|| async {
                let settings = self.agent.config.embedding_settings(&self.tool).ok_or_else(|| {
                    RetrievalError::Setup("nothing makes embeddings for this agent".to_owned())
                })?;
                let made = embedder(&settings, &self.client()?, &self.env, &EndpointOptions::default())?;
                if settings.provider == EmbeddingProvider::Hash {
                    return Ok(made);
                }
                let cached = CachedEmbedder::new(made, self.cache().await?);
                Ok(Arc::new(cached) as Arc<dyn Embedder>)
            })
            .await
    }

    /// Whoever builds anew means that passages are embedded anew: behind the same name a provider may have put another
    /// model. What models wrote about passages stays, as it does not age.
    async fn forget_vectors(&self) -> Result<(), RetrievalError> {
        let settings = self.agent.config.embedding_settings(&self.tool);
        if settings.is_some_and(|settings| settings.provider != EmbeddingProvider::Hash) {
            self.cache().await?.forget_vectors().await?;
        }
        Ok(())
    }

    async fn searcher(&self) -> Result<&Searcher, RetrievalError> {
        self.searcher
            .get_or_try_init(|| async {
                let (store, embedder) = (self.store().await?, self.embedder().await?);
                let searcher = Searcher::new(Arc::clone(store), Arc::clone(embedder));
                Ok(match self.reranker()? {
                    Some(reranker) => searcher.reranked_by(reranker),
                    None => searcher,
                })
            })
            .await
    }

    fn reranker(&self) -> Result<Option<Arc<dyn Reranker>>, RetrievalError> {
        let model = match &self.tool {
            ToolConfig::HierarchicalDocument(tool) if tool.enable_reranking => tool.reranker_model.as_ref(),
            _ => None,
        };
        let Some(model) = model else { return Ok(None) };
        let reranker = HttpReranker::new(model, self.client()?, &EndpointOptions::default())?;
        Ok(Some(Arc::new(reranker)))
    }

    async fn ingestor(&self, writer: Option<Arc<ModelWriter>>) -> Result<Ingestor, RetrievalError> {
        let (store, embedder) = (self.store().await?, self.embedder().await?);
        let ingestor = Ingestor::new(Arc::clone(store), Arc::clone(embedder));
        let (Some(writer), Some(tool)) = (writer, self.contextual()) else {
            return Ok(ingestor);
        };
        let (tokens, concurrency) = (size(tool.context_max_tokens), size(tool.context_concurrency));
        let contexts = Contexts::new(writer, tokens, concurrency).cached(self.cache().await?);
        Ok(ingestor.with_contexts(contexts))
    }

    fn writer(&self) -> Option<Arc<ModelWriter>> {
        let tool = self.contextual()?;
        let writer = ModelWriter::new(&self.agent, tool, &self.env, self.answers.clone());
        Some(Arc::new(writer))
    }

    /// The tool, if its passages get a context.
    fn contextual(&self) -> Option<&HierarchicalDocumentTool> {
        match &self.tool {
            ToolConfig::HierarchicalDocument(tool) if tool.contextual_embeddings => Some(tool),
            _ => None,
        }
    }

    async fn cache(&self) -> Result<ModelCache, RetrievalError> {
        ModelCache::open(self.agent.execution.cache_dir.value.join("models.db")).await
    }

    fn client(&self) -> Result<HttpClient, RetrievalError> {
        let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
        HttpClient::new(&options).map_err(|error| RetrievalError::Setup(error.to_string()))
    }
}

#[async_trait]
impl Search for Index {
    async fn search(&self, query: &str) -> Result<String, RetrievalError> {
        let results = self.searcher().await?.search(&self.request(query)).await?;
        Ok(match &self.tool {
            ToolConfig::HierarchicalDocument(_) => holodeck_tools::render_documents(&results),
            _ => render_hits(&results),
        })
    }
}

/// An agent for as long as its indexes are used, without what of many cases is felt.
fn without_cases(agent: &LoadedAgent) -> LoadedAgent {
    let mut agent = agent.clone();
    agent.config.test_cases = Vec::new();
    agent.forget_places();
    agent
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
