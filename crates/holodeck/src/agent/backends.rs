//! Chooses and creates the backend for an agent and for the other models that it uses (judges, simulated users, prompt
//! tools).
//!
//! Callers hold the result as an `AgentBackend`; they must not depend on which one it is.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendFactory, Explanation, ModelCalls, NoTools, Occasion, ToolFilter,
    ToolHost, ToolSpec,
};
use holodeck_backend_openai::{HttpModelCalls, OpenAiBackend};
use holodeck_cassette::{AgentContext, CassetteError, ToolFiles, ToolSet};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{
    ApprovalPolicy, ClaudeConfig, EmbeddingProvider, Env, Location, ModelConfig, Provider, ResolvedAgent,
    SearchMethod, ServerAccess, SideEffectGate, ToolAccess, ToolConfig, ToolFilteringConfig, ToolNames,
    UnresolvedName, mcp_tool_name,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_retrieval::{EndpointOptions, embedder};
use holodeck_tools::{PromptTool, Search, SearchTool, SetupError, ToolSearch, Toolbox};
use holodeck_turn::Prices;
use holodeck_yaml::{LoadedAgent, Places};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    Answers, PolicyApprover, Preparing,
    agent::{
        answer_format::answer_format,
        claude,
        fingerprint::{IdentityError, file_digests, settings_of_user},
        inventory::{FileOwner, Inventory, OWN_MODEL, reranker},
        mcp::{McpServers, McpSetup},
        prompts,
        turn_key::turn_key,
    },
    approval_policy,
    index::{IndexError, IndexSink, Indexes, Rebuild},
    test::trial_tools::TrialTools,
};

/// Creates the backend for an agent's provider. Clones share their connections to models.
#[derive(Clone)]
pub(crate) struct BackendSelector {
    env: Env,
    answers: Answers,
    side_effects: SideEffectGate,
    prices: Prices,
    telemetry: Telemetry,
    places: Places,
    /// The places of the models' endpoints, which are needed when the others are forgotten.
    endpoints: Arc<[(String, Location)]>,
    /// Files that the agent may not touch.
    protected: Arc<[PathBuf]>,
    /// Where the YAML has the model.
    model_at: String,
}

/// The model, instructions and answer format of a backend for another task of an agent.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a specialist has exactly these parts")]
pub struct Specialist {
    /// The model that answers.
    pub model: ModelConfig,
    /// The system prompt; empty for none.
    pub instructions: String,
    /// The JSON Schema of its answers; `None` for text.
    pub response_format: Option<Value>,
}

impl Specialist {
    /// `agent` with this model, these instructions and this answer format, and without tools and tool limits.
    pub(crate) fn of(self, agent: &ResolvedAgent) -> ResolvedAgent {
        let cli_path = agent
            .config
            .claude
            .as_ref()
            .and_then(|claude| claude.cli_path.clone());
        let mut specialist = agent.for_one_question(self.model);
        specialist.config.claude = cli_path.map(|path| ClaudeConfig {
            cli_path: Some(path),
            ..ClaudeConfig::default()
        });
        specialist.instructions.text = self.instructions;
        if self.response_format.is_some()
            && let Some(openai) = &mut specialist.config.openai
        {
            // A second call asks for a correction if the answer does not have the format.
            openai.max_turns = openai.max_turns.max(2);
        }
        specialist.response_format = self.response_format;
        specialist
    }
}

impl BackendSelector {
    /// Backends whose answers come from `answers`.
    pub(crate) fn new(env: Env, answers: Answers) -> Self {
        Self {
            env,
            answers,
            side_effects: SideEffectGate::Closed,
            prices: Prices::embedded(),
            telemetry: Telemetry::off(),
            places: Places::default(),
            endpoints: Arc::default(),
            protected: Arc::default(),
            model_at: OWN_MODEL.to_owned(),
        }
    }

    /// Sets the places of the agent's fields, for errors that name a field.
    pub(crate) fn places(mut self, places: Places) -> Self {
        self.places = places;
        self
    }

    /// Sets the places of the endpoints of the agent's models, for errors of these.
    pub(crate) fn endpoints_of(mut self, agent: &LoadedAgent) -> Self {
        let inventory = Inventory::new(agent, None);
        let endpoints = inventory.models().iter().filter_map(|used| {
            let pointer = format!("{}.endpoint", used.pointer);
            let place = agent.locate(&pointer)?;
            Some((pointer, place))
        });
        self.endpoints = endpoints.collect();
        self
    }

    /// Sets the files that the agent may not touch.
    pub(crate) fn protected(mut self, files: Vec<PathBuf>) -> Self {
        self.protected = files.into();
        self
    }

    /// The approval policy of an agent.
    pub(crate) fn policy(&self, agent: &ResolvedAgent) -> ApprovalPolicy {
        approval_policy(agent, &self.protected, &self.env)
    }

    /// Sets whether built-in tools with side effects are available in tests.
    pub(crate) fn side_effects(mut self, gate: SideEffectGate) -> Self {
        self.side_effects = gate;
        self
    }

    /// Sets the prices that enforce `openai.max_budget_usd`; by default the embedded ones.
    pub(crate) fn prices(mut self, prices: Prices) -> Self {
        self.prices = prices;
        self
    }

    /// Traces the backends.
    pub(crate) fn traced(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    pub(crate) fn price_list(&self) -> &Prices {
        &self.prices
    }

    /// A backend for another task of `agent`, without side effects.
    pub(crate) async fn specialist(
        &self,
        agent: &ResolvedAgent,
        specialist: Specialist,
        occasion: Occasion,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        let factory = self.for_model(agent, &specialist.model);
        let agent = Arc::new(specialist.of(agent));
        factory.create(agent, occasion, Arc::new(NoTools)).await
    }

    /// The backends of specialists with `model`.
    fn for_model(&self, agent: &ResolvedAgent, model: &ModelConfig) -> Self {
        Self {
            model_at: Inventory::new(agent, None).pointer_of(model).to_owned(),
            ..self.clone().side_effects(SideEffectGate::Closed)
        }
    }

    /// The places of the agent's fields; none if another model than the agent's own answers.
    fn own_places(&self) -> Places {
        if self.model_at == OWN_MODEL {
            self.places.clone()
        } else {
            Places::default()
        }
    }

    /// The place of a field of the agent that is run, as in `model.temperature`.
    fn locate(&self, field: &str) -> Option<Location> {
        match field.strip_prefix(OWN_MODEL).filter(|rest| rest.starts_with('.')) {
            Some(rest) => self.places.locate(&format!("{}{rest}", self.model_at)),
            None if self.model_at == OWN_MODEL => self.places.locate(field),
            // The rest of the YAML is about the agent itself.
            None => None,
        }
    }

    /// The filter that chooses the tools of each message, if the YAML enables it.
    fn filter(
        &self,
        agent: &ResolvedAgent,
        tools: &Arc<dyn ToolHost>,
    ) -> Result<Option<Arc<dyn ToolFilter>>, BackendError> {
        let Some(settings) = agent.config.tool_filtering.as_ref().filter(|it| it.enabled) else {
            return Ok(None);
        };
        let specs = tools.specs();
        let always: HashSet<String> = always_included(agent, settings, specs).collect();
        let search = |embedder| -> Arc<dyn ToolFilter> {
            Arc::new(ToolSearch::new(settings, specs, always.clone(), embedder))
        };
        let embedding = agent.config.own_embedding_settings().filter(|embedding| {
            embedding.provider != EmbeddingProvider::Hash && settings.search_method != SearchMethod::Bm25
        });
        let Some(embedding) = embedding else {
            return Ok(Some(search(None)));
        };
        let names: Vec<&String> = specs.iter().map(|spec| &spec.name).collect();
        let among = json!({"settings": settings, "embedder": embedding.model, "tools": names});
        let live = || {
            let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
            let client = HttpClient::new(&options).map_err(|error| BackendError::init(error.to_string()))?;
            let embedder = embedder(&embedding, &client, &self.env, &EndpointOptions::default());
            let embedder = embedder.map_err(|error| {
                BackendError::init(error.explanation().within("`tool_filtering` needs an embedder"))
            })?;
            Ok::<_, SelectError>(search(Some(embedder)))
        };
        // Older recordings have no choices; they were made with hashed words.
        let filter = self.answers.choices(among, live, || search(None))?;
        Ok(Some(filter))
    }

    /// The key of the turns of `agent` in recordings.
    fn turn_key(
        &self,
        agent: &ResolvedAgent,
        occasion: Occasion,
        gate: SideEffectGate,
    ) -> Result<AgentContext, SelectError> {
        let key = turn_key(agent, occasion, gate).and_then(|mut key| {
            let settings = settings_of_user(agent, &self.env)?;
            if let Some(content) = key.content.as_object_mut().filter(|_| !settings.is_empty()) {
                content.insert("settings of the user".to_owned(), json!(settings));
            }
            Ok(key)
        });
        Ok(key.map_err(|error| error.located(|field| self.locate(field)))?)
    }

    fn live_calls(&self, agent: &ResolvedAgent) -> Result<Arc<dyn ModelCalls>, SelectError> {
        self.answers.share_calls(agent, || {
            let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
            let client = HttpClient::new(&options).map_err(|error| BackendError::init(error.to_string()))?;
            let endpoint = format!("{}.endpoint", self.model_at);
            let known = self.endpoints.iter().find(|(pointer, _)| *pointer == endpoint);
            let at = known.map(|(_, place)| place);
            let calls = HttpModelCalls::for_agent(client, agent, &self.model_at, at, &self.env)?;
            Ok(Arc::new(calls) as Arc<dyn ModelCalls>)
        })
    }
}

#[async_trait]
impl BackendFactory for BackendSelector {
    async fn create(
        &self,
        agent: Arc<ResolvedAgent>,
        occasion: Occasion,
        tools: Arc<dyn ToolHost>,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        let backend: Arc<dyn AgentBackend> = match agent.config.model.provider {
            Provider::Openai | Provider::AzureOpenai | Provider::Ollama => {
                let calls = self.answers.model_calls(|| self.live_calls(&agent))?;
                let filter = self.filter(&agent, &tools)?;
                let approver = PolicyApprover::new(self.policy(&agent), occasion, self.side_effects);
                let mut backend = OpenAiBackend::new(&agent, answer_format(&agent)?, tools, calls)
                    .approver(Arc::new(approver))
                    .with_locations(|field| self.locate(field));
                if let Some(filter) = filter {
                    backend = backend.with_tool_filter(filter);
                }
                let prices = self.prices.clone();
                backend = backend.prices(move |model, usage| prices.cost(model, usage));
                Arc::new(backend)
            }
            Provider::Anthropic => {
                let traceparent = self.telemetry.traceparent();
                let gate = self.side_effects;
                let loaded = LoadedAgent {
                    agent: Arc::clone(&agent),
                    places: self.own_places(),
                };
                let live = async {
                    let policy = self.policy(&agent);
                    let backend = claude::backend(
                        &loaded,
                        &self.env,
                        policy,
                        (occasion, gate),
                        tools,
                        traceparent.as_deref(),
                    );
                    backend.await.map_err(SelectError::from)
                };
                self.answers
                    .agent(|| self.turn_key(&agent, occasion, gate), live)
                    .await?
            }
        };
        Ok(self.telemetry.wrap(backend, &agent.config.model))
    }
}

/// Joins the errors of backends and recordings.
#[derive(Debug, thiserror::Error)]
enum SelectError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl From<SelectError> for BackendError {
    fn from(error: SelectError) -> Self {
        match error {
            SelectError::Backend(error) => error,
            SelectError::Cassette(error) => Self::init(error.to_string()),
            SelectError::Identity(error) => Self::config(error.explanation()),
        }
    }
}

/// Names of the tools that are always shown.
fn always_included<'a>(
    agent: &'a ResolvedAgent,
    settings: &'a ToolFilteringConfig,
    specs: &'a [ToolSpec],
) -> impl Iterator<Item = String> + use<'a> {
    let names = ToolNames::of(&agent.config);
    let is_included = move |spec: &ToolSpec| {
        let tool = names.identify(&spec.name)?;
        let mut included = settings.always_include.iter();
        Some(included.any(|name| names.refers(name, &tool)))
    };
    specs
        .iter()
        .filter(move |spec| is_included(spec) == Some(true))
        .map(|spec| spec.name.clone())
}

/// The parts that are needed to prepare the tools of an agent.
pub(crate) struct ToolSetup<'a> {
    pub(crate) agent: &'a LoadedAgent,
    /// For tools that ask a model.
    pub(crate) backends: &'a BackendSelector,
    pub(crate) occasion: Occasion,
    pub(crate) preparing: Preparing,
    /// Whether indexes are rebuilt completely.
    pub(crate) rebuild: Rebuild,
    pub(crate) on_index: &'a IndexSink,
}

/// The tools of an agent, ready to be called.
pub(crate) struct ReadyTools {
    pub(crate) tools: Arc<dyn ToolHost>,
    /// The servers behind them.
    pub(crate) servers: McpServers,
    /// The same tools for all trials of a test, if trials have servers of their own.
    pub(crate) trials: Option<Arc<TrialTools>>,
    /// Warnings about the answers.
    pub(crate) warnings: Vec<String>,
}

/// Prepares the tools of an agent, except those that a recording answers.
pub(crate) async fn prepare_tools(setup: &ToolSetup<'_>) -> Result<ReadyTools, ToolSetupError> {
    let ToolSetup { agent, backends, .. } = setup;
    let (env, answers) = (backends.env(), backends.answers());
    let by_turn = agent.config.model.provider == Provider::Anthropic;
    if by_turn && answers.replayed().is_some() {
        // A recorded turn contains the answers of its tools.
        return Ok(ReadyTools {
            tools: Arc::new(NoTools),
            servers: McpServers::default(),
            trials: None,
            warnings: Vec::new(),
        });
    }
    let mut names = ToolNames::of(&agent.config);
    let access = ToolAccess::of(&agent.config).with_places(|field| agent.locate(field));
    let mut toolbox = Toolbox::new();
    toolbox
        .add_mocks(&agent.config.tools, &names)
        .map_err(|errors| ToolSetupError::all(&errors))?;
    let real = || agent.config.real_tools().map(|(_, tool)| tool);
    let mut declared = serde_json::to_value(real().collect::<Vec<_>>()).unwrap_or_default();
    answers.redactor().configuration(&mut declared);
    let set = ToolSet {
        declared,
        own: toolbox.specs().iter().map(|spec| spec.name.clone()).collect(),
        files: if answers.are_live() || by_turn {
            Vec::new()
        } else {
            file_digests(agent, |owner| matches!(owner, FileOwner::Tool(_)))
                .map_err(|error| error.located(|field| agent.locate(field)))?
                .into_iter()
                .filter_map(|(owner, digests)| match owner {
                    FileOwner::Tool(tool) => Some(recorded_files(tool, digests)),
                    _ => None,
                })
                .collect()
        },
        models: real()
            .filter_map(|tool| Some((tool.model_name()?, recorded_reranker(tool)?)))
            .collect(),
    };
    let mut servers = McpServers::default();
    let mut trials = None;
    let mut warnings = Vec::new();
    answers.check_files(&set)?;
    if !answers.can_replay_tools(&set) {
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
            let mcp = McpSetup::new(agent, backends, setup.occasion, |server| {
                access.of_server(&names, server) != ServerAccess::None
            });
            servers = mcp.connect().await?;
            if setup.occasion == Occasion::Test {
                trials = TrialTools::new(mcp, &servers, toolbox.clone()).map(Arc::new);
            }
            servers.add_to(&mut toolbox);
        }
    }
    // The Claude CLI connects to its own servers; their tools are listed later.
    if !by_turn && setup.preparing == Preparing::Run && answers.replayed().is_none() {
        let shown = toolbox.specs().iter().map(|spec| spec.name.as_str());
        names.list_shown(&servers.names(), &shown);
        let unresolved = access.unresolved(&names);
        if !unresolved.is_empty() {
            servers.close().await;
            return Err(ToolSetupError::names(&unresolved));
        }
    }
    let mut tools = match &trials {
        Some(trials) => Arc::clone(trials) as Arc<dyn ToolHost>,
        None => Arc::new(toolbox),
    };
    if !by_turn {
        let result = answers.tools(tools, set);
        tools = result.map_err(|error| ToolSetupError::Tools(error.to_string().into()))?;
    }
    Ok(ReadyTools {
        tools,
        servers,
        trials,
        warnings,
    })
}

/// The files of a tool, as recordings identify it.
fn recorded_files(tool: &ToolConfig, digests: BTreeMap<String, String>) -> ToolFiles {
    ToolFiles {
        tool: tool.name().to_owned(),
        // The names of a server's tools begin with the name of the server.
        shown: tool
            .model_name()
            .unwrap_or_else(|| mcp_tool_name(tool.name(), "")),
        digests,
        declare: match tool {
            ToolConfig::Mcp(_) => true,
            ToolConfig::Function(tool) => tool.parameters.is_none(),
            _ => false,
        },
    }
}

/// The model that reranks the results of a tool, as recordings identify it: by what they have of every other model.
fn recorded_reranker(tool: &ToolConfig) -> Option<Value> {
    let mut value = serde_json::to_value(reranker(tool)?).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        let is_elsewhere = |name: &str| ["api_key", "endpoint", "api_version", "rpm"].contains(&name);
        fields.retain(|name, value| !is_elsewhere(name) && !value.is_null());
    }
    Some(value)
}

/// Adds the tools that ask a model.
async fn add_prompts(toolbox: &mut Toolbox, setup: &ToolSetup<'_>) -> Result<(), ToolSetupError> {
    let limit = setup.agent.execution.llm_timeout.value;
    for (_, tool) in setup.agent.config.real_tools() {
        let ToolConfig::Prompt(config) = tool else {
            continue;
        };
        let model = prompts::model(setup.agent, config, setup.backends).await;
        let model = model.map_err(|error| {
            let explanation = error.explanation();
            ToolSetupError::Tools(explanation.within(format!("the model of tool `{}`", config.name)))
        })?;
        PromptTool::prepare(config, model)
            .and_then(|tool| toolbox.add(Arc::new(tool), limit))
            .map_err(|error| ToolSetupError::all(&[error]))?;
    }
    Ok(())
}

/// Adds the search tools and brings their indexes up to date first. Returns warnings about incomplete indexes.
async fn add_searches(toolbox: &mut Toolbox, setup: &ToolSetup<'_>) -> Result<Vec<String>, ToolSetupError> {
    let mut warnings = Vec::new();
    for index in Indexes::of_agent(setup.agent, setup.backends).iter() {
        if setup.preparing == Preparing::Run {
            // Callers cancel by dropping the future; finished sources stay indexed.
            let never = CancellationToken::new();
            let built = index.build(setup.rebuild, setup.on_index, &never).await?;
            built.refuse_empty()?;
            warnings.extend(built.warning());
        }
        let limit = index.call_limit();
        let tool = SearchTool::new(index.spec(), Arc::clone(index) as Arc<dyn Search>);
        toolbox
            .add(Arc::new(tool), limit)
            .map_err(|error| ToolSetupError::all(&[error]))?;
    }
    Ok(warnings)
}

/// Why the tools of an agent can't be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetupError {
    /// Tools that can't be offered to the model, one per line.
    #[error("{0}")]
    Tools(Explanation),
    /// Names in allow and deny lists that match no tool, one per line.
    #[error("{0}")]
    Names(String),
    /// An index that can't be searched.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A file of a tool cannot be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The recording was made with different files.
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
        Self::Tools(errors.join("\n").into())
    }
}
