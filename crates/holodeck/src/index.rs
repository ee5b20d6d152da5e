//! The indexes that an agent's tools search: builds, inspects, searches and copies them.

mod checks;
pub(crate) mod conversion;
mod migrate;
mod parts;
mod place;
mod progress;
mod report;
mod reranker;
mod sink;
mod sources;
mod status;
mod writer;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use holodeck_backend_api::{ToolCx, ToolSpec};
use holodeck_model::{Env, ResolvedAgent, SearchMode, ToolConfig};
use holodeck_retrieval::{
    Embedder, IngestMode, RetrievalError, SearchRequest, Searcher, VectorStore, Weights, render_hits,
};
use holodeck_tools::{Search, SearchOutput, retrieval_spec};
use holodeck_yaml::{LoadedAgent, Places};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use self::{
    place::Place,
    progress::ProgressReporter,
    reranker::{ModelReranker, chat_reranker},
    sources::Sources,
    writer::ModelWriter,
};
use crate::{
    AnswerSource, Answers,
    agent::{backends::BackendSelector, unsupported::refuse_unsupported_tool},
};

pub(crate) use checks::checks;
pub use holodeck_retrieval::{Hit, SearchResults};
pub(crate) use place::{embedded_file, manifest};
pub use report::{
    Build, IndexError, IndexErrorKind, IndexEvent, IndexStatus, Migration, Rebuild, StatusState,
};
pub use sink::IndexSink;
pub(crate) use sources::check_patterns;

/// The indexes of an agent.
#[derive(Debug)]
pub struct Indexes(Vec<Arc<Index>>);

impl Indexes {
    /// The indexes of the named tools, or of all search tools if none is named. Nothing is opened yet.
    pub fn of(agent: &LoadedAgent, env: &Env, tools: &[String]) -> Result<Self, IndexError> {
        let answers = Answers::open(&AnswerSource::AsConfigured, None, agent, env)
            // The configured recording may not exist yet.
            .or_else(|_unusable| Answers::open(&AnswerSource::Live, None, agent, env))
            .map_err(|error| IndexError::config(error.to_string()))?;
        let all = Self::of_agent(
            agent,
            &BackendSelector::new(env.clone(), answers).endpoints_of(agent),
        );
        if all.0.is_empty() {
            let message = format!("agent `{}` has no search tool", agent.config.name);
            return Err(IndexError::config(message)
                .with_hint("`type: vectorstore` and `type: hierarchical_document` are search tools"));
        }
        if let Some(unknown) = tools
            .iter()
            .find(|name| !all.0.iter().any(|index| index.name() == *name))
        {
            return Err(IndexError::config(format!(
                "no search tool is called `{unknown}`; the search tools are {}",
                all.names()
            )));
        }
        let is_chosen =
            |index: &Arc<Index>| tools.is_empty() || tools.iter().any(|name| index.name() == name);
        let chosen: Vec<_> = all.0.into_iter().filter(is_chosen).collect();
        for index in &chosen {
            refuse_unsupported_tool(agent, index.position)
                .map_err(|error| IndexError::config(error.to_string()))?;
        }
        Ok(Self(chosen))
    }

    /// The indexes of all search tools that are not mocked.
    pub(crate) fn of_agent(agent: &ResolvedAgent, backends: &BackendSelector) -> Self {
        let tools = agent.config.real_tools();
        let searching: Vec<_> = tools.filter(|(_, tool)| tool.is_indexed()).collect();
        if searching.is_empty() {
            return Self(Vec::new());
        }
        let own = Arc::new(agent.without_cases());
        // An index lives as long as the open agent, but does not need its places.
        let backends = backends.clone().places(Places::default());
        Self(
            searching
                .into_iter()
                .map(|(position, tool)| {
                    Arc::new(Index {
                        agent: Arc::clone(&own),
                        backends: backends.clone(),
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

    /// The indexes, in the order of their tools.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.0.iter()
    }

    /// The only index; an error if there are several.
    pub fn single(&self) -> Result<&Arc<Index>, IndexError> {
        match self.0.as_slice() {
            [only] => Ok(only),
            _ => Err(
                IndexError::config(format!("the agent has several search tools: {}", self.names()))
                    .with_hint("select one with `--tool NAME`"),
            ),
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|index| format!("`{}`", index.name())).collect();
        names.join(", ")
    }
}

/// The index of one tool.
pub struct Index {
    agent: Arc<ResolvedAgent>,
    backends: BackendSelector,
    /// The position of the tool in the YAML.
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

    /// Time limit of a call of the tool.
    pub(crate) fn call_limit(&self) -> Duration {
        reranker::call_limit(&self.tool, self.agent.execution.llm_timeout.value)
    }

    /// The tool as the model sees it.
    pub(crate) fn spec(&self) -> ToolSpec {
        let description = match &self.tool {
            ToolConfig::Vectorstore(tool) => tool.description.as_str(),
            ToolConfig::HierarchicalDocument(tool) => tool.description.as_str(),
            _ => "",
        };
        retrieval_spec(self.name(), description)
    }

    /// Brings the index up to date. After `cancel`, finished sources are kept.
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
        sink.emit(&IndexEvent::Built(built.clone()));
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
        let mut notes = sources.notes;
        if rebuild == Rebuild::Everything
            && let Some(aside) = self.place.set_aside_if_damaged().await.map_err(of)?
        {
            notes.push(format!(
                "the old index was damaged and was moved to `{}`",
                aside.display()
            ));
        }
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
            notes,
            ..Build::default()
        };
        if plan.is_empty() {
            self.count(&mut build).await.map_err(of)?;
            return Ok(build);
        }
        for note in &build.notes {
            sink.emit(&IndexEvent::Note {
                tool: build.tool.clone(),
                message: note.clone(),
            });
        }
        if mode == IngestMode::Rebuild {
            self.forget_vectors().await.map_err(of)?;
        }
        let reporter = ProgressReporter::new(self.name(), sink);
        let report = ingestor
            .run(Arc::clone(&sources.corpus), plan, &reporter, cancel)
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

    /// Searches as the tool does; `limit` overrides its `top_k`.
    pub async fn search(&self, query: &str, limit: Option<usize>) -> Result<SearchResults, IndexError> {
        let mut request = self.request(query);
        if let Some(limit) = limit {
            request.limit = limit;
        }
        let of = |error: RetrievalError| IndexError::of(self.name(), &error);
        self.find(&request, &ToolCx::default()).await.map_err(of)
    }

    async fn find(&self, request: &SearchRequest, cx: &ToolCx) -> Result<SearchResults, RetrievalError> {
        let searcher = self.searcher().await?;
        match chat_reranker(&self.tool) {
            Some(model) => {
                let reranker = ModelReranker::new(&self.agent, model, &self.backends, cx);
                searcher.search_with(request, Some(&reranker)).await
            }
            None => searcher.search(request).await,
        }
    }

    fn source(&self) -> &str {
        match &self.tool {
            ToolConfig::Vectorstore(tool) => tool.source.as_str(),
            ToolConfig::HierarchicalDocument(tool) => tool.source.as_str(),
            _ => "",
        }
    }

    async fn sources(&self, cancel: &CancellationToken) -> Result<Sources, IndexError> {
        Sources::of(&self.agent, &self.tool, self.backends.env(), cancel).await
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
}

#[async_trait]
impl Search for Index {
    async fn search(&self, query: &str, cx: &ToolCx) -> Result<SearchOutput, RetrievalError> {
        let results = self.find(&self.request(query), cx).await?;
        let text = match &self.tool {
            ToolConfig::HierarchicalDocument(_) => holodeck_tools::render_documents(&results),
            _ => render_hits(&results),
        };
        Ok(SearchOutput::new(text, &results))
    }
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
