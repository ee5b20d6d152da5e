use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendFactory, ModelCalls, NoTools, Occasion, ToolFilter, ToolHost, ToolSpec,
};
use holodeck_backend_openai::{HttpModelCalls, OpenAiBackend};
use holodeck_cassette::{CassetteError, ToolFiles, ToolSet};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{
    EmbeddingProvider, Env, LoadedAgent, Provider, SearchMethod, ServerAccess, SideEffectGate, ToolAccess,
    ToolConfig, ToolFilteringConfig, ToolNames, UnresolvedName, mcp_tool_name,
};
use holodeck_retrieval::{EndpointOptions, embedder};
use holodeck_tools::{PromptTool, Search, SearchTool, SetupError, ToolSearch, Toolbox};
use holodeck_turn::Prices;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    Answers, PolicyApprover, Preparing, approval_policy, claude,
    fingerprint::files_of_tools,
    index::{IndexError, IndexSink, Indexes, Rebuild},
    mcp::McpServers,
    prompts,
    seen::seen,
    telemetry,
};

/// Makes the backend that an agent's provider asks for.
pub struct BackendSelector {
    env: Env,
    answers: Answers,
    side_effects: SideEffectGate,
    prices: Prices,
}

impl BackendSelector {
    /// Backends whose answers come from `answers`.
    pub fn new(env: Env, answers: Answers) -> Self {
        Self {
            env,
            answers,
            side_effects: SideEffectGate::Closed,
            prices: Prices::embedded(),
        }
    }

    /// Whether built-in tools that change something are there in tests.
    pub fn side_effects(mut self, gate: SideEffectGate) -> Self {
        self.side_effects = gate;
        self
    }

    /// By which prices `openai.max_budget_usd` is held; the embedded ones if not set.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// Whether there is a key for the model, before indexes and servers cost time and money.
    pub(crate) fn check_key(&self, agent: &LoadedAgent) -> Result<(), BackendError> {
        if self.answers.replayed().is_some() {
            return Ok(());
        }
        match agent.config.model.provider {
            Provider::Openai | Provider::AzureOpenai | Provider::Ollama => drop(self.live(agent)?),
            Provider::Anthropic => drop(claude::credentials(agent, &self.env)?),
        }
        Ok(())
    }

    /// What chooses the tools that each message is shown, if the YAML asks for it.
    fn filter(
        &self,
        agent: &LoadedAgent,
        tools: &Arc<dyn ToolHost>,
    ) -> Result<Option<Arc<dyn ToolFilter>>, BackendError> {
        let Some(settings) = agent.config.tool_filtering.as_ref().filter(|it| it.enabled) else {
            return Ok(None);
        };
        let specs = tools.specs();
        let always: HashSet<String> = always(agent, settings, specs).collect();
        let search = |embedder| -> Arc<dyn ToolFilter> {
            Arc::new(ToolSearch::new(settings, specs, always.clone(), embedder))
        };
        let meanings = agent.config.own_embedding_settings().filter(|meanings| {
            meanings.provider != EmbeddingProvider::Hash && settings.search_method != SearchMethod::Bm25
        });
        let Some(meanings) = meanings else {
            return Ok(Some(search(None)));
        };
        let names: Vec<&String> = specs.iter().map(|spec| &spec.name).collect();
        let among = json!({"settings": settings, "embedder": meanings.model, "tools": names});
        let live = || {
            let init = |message: String| BackendError::Init { message };
            let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
            let client = HttpClient::new(&options).map_err(|error| init(error.to_string()))?;
            let made = embedder(&meanings, &client, &self.env, &EndpointOptions::default());
            let made = made.map_err(|error| init(format!("`tool_filtering` needs an embedder: {error}")))?;
            Ok::<_, SelectError>(search(Some(made)))
        };
        // What was recorded before choices were compared hashed words.
        let filter = self.answers.choices(among, live, || search(None))?;
        Ok(Some(filter))
    }

    fn live(&self, agent: &LoadedAgent) -> Result<Arc<dyn ModelCalls>, SelectError> {
        self.answers.reach(agent, || {
            let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
            let client = HttpClient::new(&options).map_err(|error| BackendError::Init {
                message: error.to_string(),
            })?;
            Ok(Arc::new(HttpModelCalls::for_agent(client, agent, &self.env)?) as Arc<dyn ModelCalls>)
        })
    }
}

#[async_trait]
impl BackendFactory for BackendSelector {
    async fn create(
        &self,
        agent: Arc<LoadedAgent>,
        occasion: Occasion,
        tools: Arc<dyn ToolHost>,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        let replayed = self.answers.replayed().is_some();
        let redactor = self.answers.redactor();
        let telemetry = telemetry::start(&agent, occasion, &self.env, replayed, redactor);
        let backend: Arc<dyn AgentBackend> = match agent.config.model.provider {
            Provider::Openai | Provider::AzureOpenai | Provider::Ollama => {
                let calls = self.answers.model_calls(|| self.live(&agent))?;
                let filter = self.filter(&agent, &tools)?;
                let approver =
                    PolicyApprover::new(approval_policy(&agent.config), occasion, self.side_effects);
                let mut backend = OpenAiBackend::new(&agent, tools, calls)?.approver(Arc::new(approver));
                if let Some(filter) = filter {
                    backend = backend.filtered(filter);
                }
                let prices = self.prices.clone();
                backend = backend.prices(move |model, usage| prices.cost(model, usage));
                Arc::new(if replayed { backend.replayed() } else { backend })
            }
            Provider::Anthropic => {
                let traceparent = telemetry.traceparent();
                let gate = self.side_effects;
                let live = async {
                    let backend =
                        claude::backend(&agent, &self.env, occasion, gate, tools, traceparent.as_deref());
                    backend.await.map_err(SelectError::from)
                };
                self.answers.agent(|| seen(&agent, occasion, gate), live).await?
            }
        };
        Ok(telemetry.wrap(backend))
    }
}

/// Joins the two ways in which model calls can't be had.
#[derive(Debug, thiserror::Error)]
enum SelectError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Cassette(#[from] CassetteError),
}

impl From<SelectError> for BackendError {
    fn from(error: SelectError) -> Self {
        match error {
            SelectError::Backend(error) => error,
            SelectError::Cassette(error) => Self::Init {
                message: error.to_string(),
            },
        }
    }
}

/// Names of the tools that are shown whatever is asked.
fn always<'a>(
    agent: &'a LoadedAgent,
    settings: &'a ToolFilteringConfig,
    specs: &'a [ToolSpec],
) -> impl Iterator<Item = String> + use<'a> {
    let names = ToolNames::of(&agent.config);
    let named = move |spec: &ToolSpec| {
        let tool = names.identify(&spec.name)?;
        let mut written = settings.always_include.iter();
        Some(written.any(|name| names.refers(name, &tool)))
    };
    specs
        .iter()
        .filter(move |spec| named(spec) == Some(true))
        .map(|spec| spec.name.clone())
}

/// What the tools of an agent are made of.
pub(crate) struct ToolSetup<'a> {
    pub(crate) agent: &'a LoadedAgent,
    pub(crate) env: &'a Env,
    pub(crate) answers: &'a Answers,
    pub(crate) preparing: Preparing,
    /// Whether what the indexes hold counts.
    pub(crate) rebuild: Rebuild,
    pub(crate) on_index: &'a IndexSink,
}

/// The tools of an agent, ready to be called.
pub(crate) struct ReadyTools {
    pub(crate) tools: Arc<dyn ToolHost>,
    /// The servers behind them.
    pub(crate) servers: McpServers,
    /// What a reader of answers must know.
    pub(crate) warnings: Vec<String>,
}

/// Makes the tools of an agent ready. What a recording answers is not.
pub(crate) async fn tools(setup: &ToolSetup<'_>) -> Result<ReadyTools, ToolSetupError> {
    let ToolSetup {
        agent, env, answers, ..
    } = setup;
    let by_turn = agent.config.model.provider == Provider::Anthropic;
    if by_turn && answers.replayed().is_some() {
        // A recorded turn holds what tools did in it.
        return Ok(ReadyTools {
            tools: Arc::new(NoTools),
            servers: McpServers::default(),
            warnings: Vec::new(),
        });
    }
    let mut names = ToolNames::of(&agent.config);
    let access = ToolAccess::of_loaded(agent);
    let mut toolbox = Toolbox::new();
    toolbox
        .add_mocks(&agent.config.tools, &names)
        .map_err(|errors| ToolSetupError::all(&errors))?;
    let real = || agent.config.tools.iter().filter(|tool| !tool.is_mocked());
    let mut declared = serde_json::to_value(real().collect::<Vec<_>>()).unwrap_or_default();
    answers.redactor().configuration(&mut declared);
    let set = ToolSet {
        declared,
        own: toolbox.specs().iter().map(|spec| spec.name.clone()).collect(),
        files: if answers.are_live() || by_turn {
            Vec::new()
        } else {
            files_of_tools(agent)
                .map(|(tool, digests)| ToolFiles {
                    tool: tool.name().to_owned(),
                    // The names of a server's tools begin with its own.
                    shown: tool
                        .model_name()
                        .unwrap_or_else(|| mcp_tool_name(tool.name(), "")),
                    digests,
                    declare: match tool {
                        ToolConfig::Mcp(_) => true,
                        ToolConfig::Function(tool) => tool.parameters.is_none(),
                        _ => false,
                    },
                })
                .collect()
        },
    };
    let mut servers = McpServers::default();
    let mut warnings = Vec::new();
    answers.check_files(&set)?;
    if !answers.know_tools(&set) {
        let functions: Vec<_> = real()
            .filter_map(|tool| match tool {
                ToolConfig::Function(tool) => Some(tool),
                _ => None,
            })
            .collect();
        toolbox
            .add_functions(&functions, env, &CancellationToken::new())
            .await
            .map_err(|errors| ToolSetupError::all(&errors))?;
        add_prompts(&mut toolbox, setup).await?;
        warnings = add_searches(&mut toolbox, setup).await?;
        if setup.preparing == Preparing::Run {
            servers = McpServers::connect(agent, env, answers, |server| {
                access.of_server(&names, server) != ServerAccess::None
            })
            .await?;
            servers.add_to(&mut toolbox);
        }
    }
    // The Claude CLI connects to servers of its own; its backend knows their tools later.
    if !by_turn && setup.preparing == Preparing::Run && answers.replayed().is_none() {
        let shown = toolbox.specs().iter().map(|spec| spec.name.as_str());
        names.list_shown(&servers.names(), &shown);
        let unresolved = access.unresolved(&names);
        if !unresolved.is_empty() {
            servers.close().await;
            return Err(ToolSetupError::names(&unresolved));
        }
    }
    let mut tools: Arc<dyn ToolHost> = Arc::new(toolbox);
    if !by_turn {
        let answered = answers.tools(tools, set);
        tools = answered.map_err(|error| ToolSetupError::Tools(error.to_string()))?;
    }
    Ok(ReadyTools {
        tools,
        servers,
        warnings,
    })
}

/// The tools that ask a model.
async fn add_prompts(toolbox: &mut Toolbox, setup: &ToolSetup<'_>) -> Result<(), ToolSetupError> {
    let limit = setup.agent.execution.llm_timeout.value;
    for tool in &setup.agent.config.tools {
        let ToolConfig::Prompt(config) = tool else {
            continue;
        };
        if tool.is_mocked() {
            continue;
        }
        let model = prompts::model(setup.agent, config, setup.env, setup.answers).await;
        let model = model.map_err(|error| {
            ToolSetupError::Tools(format!("the model of tool `{}`: {error}", config.name))
        })?;
        PromptTool::prepare(config, model)
            .and_then(|tool| toolbox.add(Arc::new(tool), limit))
            .map_err(|error| ToolSetupError::all(&[error]))?;
    }
    Ok(())
}

/// How long a search may take: the embedder of a question may be a slow one.
const SEARCH_LIMIT: Duration = Duration::from_mins(1);

/// The tools that search. Their indexes are brought up to date before anyone is asked; what they lack then is returned.
async fn add_searches(toolbox: &mut Toolbox, setup: &ToolSetup<'_>) -> Result<Vec<String>, ToolSetupError> {
    let mut warnings = Vec::new();
    for index in Indexes::answering(setup.agent, setup.env, setup.answers).iter() {
        if setup.preparing == Preparing::Run {
            // Whoever loses patience drops this; what is finished is kept.
            let never = CancellationToken::new();
            let built = index.build(setup.rebuild, setup.on_index, &never).await?;
            built.refuse_empty()?;
            warnings.extend(built.lacks());
        }
        let tool = SearchTool::new(index.spec(), Arc::clone(index) as Arc<dyn Search>);
        toolbox
            .add(Arc::new(tool), SEARCH_LIMIT)
            .map_err(|error| ToolSetupError::all(&[error]))?;
    }
    Ok(warnings)
}

/// Why the tools of an agent can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetupError {
    /// Tools that can't be offered to the model, one a line.
    #[error("{0}")]
    Tools(String),
    /// Names in allow and deny lists that no tool has, one a line.
    #[error("{0}")]
    Names(String),
    /// An index that can't be searched.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The recording was made with other files.
    #[error(transparent)]
    Replay(#[from] BackendError),
}

impl ToolSetupError {
    fn names(unresolved: &[UnresolvedName]) -> Self {
        let lines: Vec<String> = unresolved.iter().map(ToString::to_string).collect();
        Self::Names(lines.join("\n"))
    }

    fn all(errors: &[SetupError]) -> Self {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Self::Tools(errors.join("\n"))
    }
}
