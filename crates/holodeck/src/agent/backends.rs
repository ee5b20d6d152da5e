//! Chooses and creates the backend for an agent and for the other models that it uses (judges, simulated users, prompt
//! tools).
//!
//! Callers hold the result as an `AgentBackend`; they must not depend on which one it is.

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendFactory, Explanation, ModelCalls, NoTools, Occasion, TextSimilarity,
    ToolFilter, ToolHost, ToolSpec,
};
use holodeck_backend_openai::{HttpModelCalls, OpenAiBackend};
use holodeck_backend_target::{TargetBackend, TargetSetup};
use holodeck_cassette::{AgentContext, CassetteError};
use holodeck_http::{HttpClient, HttpOptions};
use holodeck_model::{
    AnswerRow, AnswersFrom, ApprovalPolicy, ClaudeConfig, DiskFiles, EmbeddingProvider, EmbeddingSettings,
    Env, Location, ModelConfig, Provider, ResolvedAgent, SearchMethod, SideEffectGate, TargetConfig,
    ToolFilteringConfig, ToolNames,
};
use holodeck_otel_bridge::Telemetry;
use holodeck_retrieval::{EndpointOptions, embedder};
use holodeck_tools::ToolSearch;
use holodeck_turn::Prices;
use holodeck_yaml::{LoadedAgent, Places};
use serde_json::{Value, json};

use crate::{
    Answers, PolicyApprover,
    agent::{
        answer_format::answer_format,
        claude,
        fingerprint::{IdentityError, settings_of_user},
        hooks,
        inventory::{Inventory, OWN_MODEL},
        turn_key::turn_key,
    },
    approval_policy,
};

/// Joins the errors of embedders and recordings.
#[derive(Debug, thiserror::Error)]
enum SimilarityError {
    #[error(transparent)]
    Backend(BackendError),
    #[error(transparent)]
    Cassette(#[from] CassetteError),
}

impl From<SimilarityError> for BackendError {
    fn from(error: SimilarityError) -> Self {
        match error {
            SimilarityError::Backend(error) => error,
            SimilarityError::Cassette(error) => Self::init(error.to_string()),
        }
    }
}

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

    /// Whether built-in tools with side effects are available in tests.
    pub(crate) fn gate(&self) -> SideEffectGate {
        self.side_effects
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

    /// How similar texts are by this embedder, as this run uses it: directly, recorded, or replayed.
    pub(crate) fn similarity(
        &self,
        settings: &EmbeddingSettings,
        live: impl FnOnce(Prices) -> Result<Arc<dyn TextSimilarity>, BackendError>,
    ) -> Result<Arc<dyn TextSimilarity>, BackendError> {
        // What is computed here is the same again, as the texts are.
        if settings.provider == EmbeddingProvider::Hash {
            return live(Prices::embedded());
        }
        let live = || live(self.prices.clone()).map_err(SimilarityError::Backend);
        let similarity = self.answers.similarity(&settings.model, live);
        similarity.map_err(BackendError::from)
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

    /// The backend of a target. Its turns are recorded, because what it asks is its own.
    async fn target(
        &self,
        agent: &ResolvedAgent,
        target: &TargetConfig,
        occasion: Occasion,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        if target.exists() && matches!(occasion, Occasion::Chat | Occasion::Serve) {
            let mut explanation = Explanation::new("answers that exist cannot answer a new message")
                .with_hint("`type: answers` of `target` is for `holodeck test`");
            explanation.place = self.places.locate("target");
            return Err(BackendError::config(explanation));
        }
        let live = async {
            let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
            let client = HttpClient::new(&options).map_err(|error| BackendError::init(error.to_string()))?;
            let setup = TargetSetup {
                client,
                folder: agent.dir.clone(),
                env: self.env.clone(),
                answers: answers_of(target, &self.env)?,
                at: self.places.locate("target"),
            };
            let backend = TargetBackend::new(target, setup)?;
            Ok::<_, SelectError>(Arc::new(backend) as Arc<dyn AgentBackend>)
        };
        let backend = self
            .answers
            .agent(|| self.turn_key(agent, occasion, self.side_effects), live)
            .await?;
        Ok(backend)
    }

    fn live_calls(
        &self,
        agent: &ResolvedAgent,
        model: &ModelConfig,
    ) -> Result<Arc<dyn ModelCalls>, SelectError> {
        self.answers.share_calls(agent, model, || {
            let options = HttpOptions::from_variables(|name| self.env.get(name).map(str::to_owned));
            let client = HttpClient::new(&options).map_err(|error| BackendError::init(error.to_string()))?;
            let endpoint = format!("{}.endpoint", self.model_at);
            let known = self.endpoints.iter().find(|(pointer, _)| *pointer == endpoint);
            let at = known.map(|(_, place)| place);
            let calls = HttpModelCalls::for_agent(client, agent, model, &self.model_at, at, &self.env)?;
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
        let model = match agent.config.answers_from() {
            Some(AnswersFrom::Model(model)) => model,
            Some(AnswersFrom::Target(target)) => {
                let backend = self.target(&agent, target, occasion).await?;
                return Ok(self.telemetry.wrap_named(backend, target.label(), "target"));
            }
            None => return Err(BackendError::config("the agent has neither `model` nor `target`")),
        };
        let backend: Arc<dyn AgentBackend> = match model.provider {
            Provider::Openai | Provider::AzureOpenai | Provider::Ollama => {
                let calls = self.answers.model_calls(|| self.live_calls(&agent, model))?;
                let filter = self.filter(&agent, &tools)?;
                let approver = PolicyApprover::new(self.policy(&agent), occasion, self.side_effects);
                let mut backend = OpenAiBackend::new(&agent, model, answer_format(&agent)?, tools, calls)
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
                    let backend = backend.await.map_err(SelectError::from)?;
                    let redactor = self.answers.redactor();
                    Ok(hooks::observe(
                        backend,
                        &agent,
                        (occasion, gate),
                        &self.env,
                        redactor,
                    ))
                };
                self.answers
                    .agent(|| self.turn_key(&agent, occasion, gate), live)
                    .await?
            }
        };
        Ok(self.telemetry.wrap(backend, model))
    }
}

/// The rows of a target that reads answers that exist.
fn answers_of(target: &TargetConfig, env: &Env) -> Result<Arc<[AnswerRow]>, BackendError> {
    let TargetConfig::Answers(config) = target else {
        return Ok(Arc::default());
    };
    let (rows, load) = holodeck_yaml::load_answers(&config.file.path(), env, &DiskFiles);
    match load.diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
        Some(problem) => Err(BackendError::config(Explanation::from(problem))),
        None => Ok(rows.into()),
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
