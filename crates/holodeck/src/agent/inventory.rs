//! Every model, metric and file that a run uses, with its role and its place in the YAML, found once.
//!
//! Keys, prices, warnings, masking, `doctor`, the dry run and the fingerprint are loops over it. It must not open a model
//! or a file.

mod files;
mod keys;
mod outputs;
mod programs;

use std::{borrow::Cow, fmt};

use holodeck_model::{
    AnswersFrom, EmbeddingProvider, EmbeddingSettings, Env, ExecutorKind, MetricConfig, MetricPlace,
    ModelConfig, Provider, QualityLoopConfig, ResolvedAgent, SearchMethod, StandardMetric, ToolConfig,
};
use holodeck_retrieval::serves_rerank;
use holodeck_runner::JudgedSubject;
use secrecy::{ExposeSecret as _, SecretString};

pub(crate) use files::{FileOwner, Named, UsedFile, files, files_of_grader};
pub(crate) use keys::checks;
pub(crate) use outputs::{Output, OutputKind, index_file, index_folder, is_in_own_folder, outputs, slug};
pub(crate) use programs::{missing_programs, programs};

/// The block of the agent's own model.
pub(crate) const OWN_MODEL: &str = "model";

/// The task of a model in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelRole {
    /// Answers as the agent.
    Own,
    /// Judges answers or conversations.
    Judge,
    /// Judges answers in the quality loop.
    LoopJudge,
    /// Plays the user of a case.
    SimulatedUser,
    /// Chooses the specialist agent of a message.
    AgentSelector,
    /// Answers in place of the agent, as `routing.legacy.backend`.
    Legacy,
    /// Answers for a prompt tool.
    PromptTool,
    /// Orders the results of a search.
    Reranker,
    /// The same behind a server's `/rerank`: it is no chat model.
    RerankServer,
    /// Writes the contexts of passages when an index is built.
    ContextWriter,
    /// Computes the vectors by which specialist agents are selected.
    AgentEmbedder,
    /// Computes the vectors of a search. Its tokens are not counted.
    Embedder,
}

impl ModelRole {
    /// All whose calls cost what a run reports.
    pub(crate) const PRICED: [Self; 10] = [
        Self::Own,
        Self::AgentSelector,
        Self::AgentEmbedder,
        Self::Legacy,
        Self::Judge,
        Self::LoopJudge,
        Self::SimulatedUser,
        Self::PromptTool,
        Self::Reranker,
        Self::ContextWriter,
    ];
    /// Those that take part in the answer to a message.
    pub(crate) const OF_TURNS: [Self; 3] = [Self::Own, Self::PromptTool, Self::Reranker];
    /// Those without which an agent cannot be opened.
    pub(crate) const OF_AGENT: [Self; 8] = [
        Self::Own,
        Self::AgentSelector,
        Self::AgentEmbedder,
        Self::PromptTool,
        Self::Reranker,
        Self::RerankServer,
        Self::ContextWriter,
        Self::Embedder,
    ];
    /// Those that only a test asks.
    pub(crate) const OF_TESTS: [Self; 2] = [Self::Judge, Self::SimulatedUser];
    /// Those that judge.
    pub(crate) const JUDGES: [Self; 2] = [Self::Judge, Self::LoopJudge];

    /// The variables that may hold its key: those of the environment belong to other servers than one with `/rerank`.
    fn variables(self, env: &Env) -> Cow<'_, Env> {
        match self {
            Self::RerankServer => Cow::Owned(Env::empty()),
            _ => Cow::Borrowed(env),
        }
    }
}

impl fmt::Display for ModelRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "model",
            Self::Judge | Self::LoopJudge => "judge",
            Self::SimulatedUser => "simulated user",
            Self::AgentSelector => "selector of agents",
            Self::Legacy => "model of `routing.legacy`",
            Self::PromptTool => "model of a prompt tool",
            Self::Reranker | Self::RerankServer => "reranker",
            Self::ContextWriter => "writer of contexts",
            Self::AgentEmbedder | Self::Embedder => "embedder",
        })
    }
}

/// A model in one of its roles.
#[derive(Clone, Debug)]
pub(crate) struct UsedModel {
    pub(crate) role: ModelRole,
    /// Where the YAML has it, as in `evaluations.model`.
    pub(crate) pointer: String,
    pub(crate) config: ModelConfig,
    /// Whether it is the agent's own model.
    pub(crate) is_own: bool,
    /// The user of it: the name of the metric or tool; empty for the agent.
    pub(crate) user: String,
}

/// Everything that a run uses.
#[derive(Clone, Debug)]
pub(crate) struct Inventory {
    models: Vec<UsedModel>,
}

impl Inventory {
    /// The models that a run of the `planned` cases uses; `None` means all cases.
    pub(crate) fn new(agent: &ResolvedAgent, planned: Option<&[usize]>) -> Self {
        let mut finder = Finder {
            agent,
            models: Vec::new(),
        };
        if let Some(AnswersFrom::Model(model)) = agent.config.answers_from() {
            finder.add(ModelRole::Own, OWN_MODEL.to_owned(), model, "");
        }
        finder.add_judges(planned);
        if planned.is_none_or(|planned| !planned.is_empty()) {
            finder.add_selector();
            finder.add_legacy();
            finder.add_loop();
            finder.add_tools();
        }
        for (case, user) in agent.config.simulated_users(planned) {
            let pointer = format!("test_cases.{case}.user.model");
            finder.add_or_default(ModelRole::SimulatedUser, pointer, user.model.as_ref(), "");
        }
        Self {
            models: finder.models,
        }
    }

    /// Every model in each of its roles and places.
    pub(crate) fn models(&self) -> &[UsedModel] {
        &self.models
    }

    /// Each model of these roles once.
    pub(crate) fn each(&self, roles: &[ModelRole]) -> Vec<&UsedModel> {
        let mut found: Vec<&UsedModel> = Vec::new();
        for used in self.models.iter().filter(|used| roles.contains(&used.role)) {
            if !found.iter().any(|known| is_same(&known.config, &used.config)) {
                found.push(used);
            }
        }
        found
    }

    /// The models of these roles whose cost comes from the price list: the Claude Code CLI reports its own costs.
    pub(crate) fn priced_by_list(&self, roles: &[ModelRole]) -> impl Iterator<Item = &str> {
        let used = self.models.iter().filter(|used| roles.contains(&used.role));
        let priced = used.map(|used| &used.config);
        let priced = priced.filter(|model| model.provider != Provider::Anthropic);
        priced.map(|model| model.name.as_str())
    }

    /// Where the YAML has this model; the agent's own model if nothing else has it.
    pub(crate) fn pointer_of(&self, model: &ModelConfig) -> &str {
        let mut models = self.models.iter();
        let found = models.find(|used| is_same(&used.config, model));
        found.map_or(OWN_MODEL, |used| &used.pointer)
    }

    /// Whether a metric names no judge and `evaluations` neither, so that another `model` also is another judge.
    pub(crate) fn judges_with_agent(&self) -> bool {
        let mut judges = self.models.iter().filter(|used| used.role == ModelRole::Judge);
        judges.any(|used| used.pointer == OWN_MODEL)
    }

    /// The warning that the agent's own model judges its answers.
    pub(crate) fn warn_own_judge(&self) -> Option<String> {
        let own = |used: &&UsedModel| used.role == ModelRole::Judge && used.is_own;
        let judges: Vec<&UsedModel> = self.models.iter().filter(own).collect();
        let mut names: Vec<String> = judges.iter().map(|used| format!("`{}`", used.user)).collect();
        names.sort();
        names.dedup();
        Some(format!(
            "the agent's own model `{}` judges its answers ({}); set `evaluations.model` for an independent judge",
            judges.first()?.config.name,
            names.join(", ")
        ))
    }

    /// The warning that the agent's own model plays its users.
    pub(crate) fn warn_own_user(&self) -> Option<String> {
        let mut models = self.models.iter();
        let own = models.find(|used| used.role == ModelRole::SimulatedUser && used.is_own)?;
        Some(format!(
            "the agent's own model `{}` plays the user, who decides whether the goal is reached; set `user.model` or \
             `evaluations.model` for an independent one",
            own.config.name
        ))
    }
}

struct Finder<'a> {
    agent: &'a ResolvedAgent,
    models: Vec<UsedModel>,
}

impl Finder<'_> {
    fn add(&mut self, role: ModelRole, pointer: String, model: &ModelConfig, user: &str) {
        self.models.push(UsedModel {
            role,
            pointer,
            config: model.clone(),
            is_own: self.agent.has_model(model),
            user: user.to_owned(),
        });
    }

    /// A model, or else the default one of judges and simulated users.
    fn add_or_default(&mut self, role: ModelRole, pointer: String, model: Option<&ModelConfig>, user: &str) {
        let agent = self.agent;
        let evaluations = agent.config.evaluations.as_ref();
        let (pointer, model) = match model {
            Some(model) => (pointer, Some(model)),
            None if evaluations.is_some_and(|it| it.model.is_some()) => {
                ("evaluations.model".to_owned(), agent.default_judge())
            }
            None => (OWN_MODEL.to_owned(), agent.default_judge()),
        };
        // With a target, the loader has refused what names no model.
        if let Some(model) = model {
            self.add(role, pointer, model, user);
        }
    }

    fn add_judges(&mut self, planned: Option<&[usize]>) {
        for (place, metric) in metrics(self.agent, planned) {
            if let Some(comparing) = metric.comparing() {
                self.add_comparing(place, comparing);
            }
            self.add_judges_of(ModelRole::Judge, place, metric);
        }
    }

    /// Adds the embedder of a metric that compares meanings.
    fn add_comparing(&mut self, place: MetricPlace, metric: &StandardMetric) {
        let own = metric.embedder.as_deref();
        let settings = self.agent.config.comparing_embedder(own);
        let before = self.models.len();
        self.add_embedder(ModelRole::Embedder, settings, metric.metric.as_str());
        if own.is_some() {
            let pointer = format!("{}.embedder", place.pointer());
            for used in self.models.iter_mut().skip(before) {
                used.pointer.clone_from(&pointer);
            }
        }
    }

    fn add_judges_of(&mut self, role: ModelRole, place: MetricPlace, metric: &MetricConfig) {
        let Some(judging) = metric.judging() else { return };
        let place = place.pointer();
        if judging.judges.is_empty() {
            self.add_or_default(role, place.clone(), None, metric.name());
        }
        for (index, judge) in judging.judges.iter().enumerate() {
            let pointer = match metric.model() {
                Some(own) if is_same(own, judge) => format!("{place}.model"),
                _ => format!("{place}.judges.{index}"),
            };
            self.add(role, pointer, judge, metric.name());
        }
    }

    fn add_loop(&mut self) {
        let agent = self.agent;
        let Some(config) = agent.config.enabled_loop() else {
            return;
        };
        for (place, metric) in loop_metrics(agent, config) {
            self.add_judges_of(ModelRole::LoopJudge, place, metric);
        }
        if let Some(judge) = &config.scorer.judge {
            let pointer = "quality_loop.scorer.judge.model".to_owned();
            self.add_or_default(
                ModelRole::LoopJudge,
                pointer,
                judge.model.as_ref(),
                "quality_loop",
            );
        }
    }

    fn add_selector(&mut self) {
        if let Some((pointer, model)) = self.agent.config.selecting_model() {
            self.add(ModelRole::AgentSelector, pointer.to_owned(), model, "routing");
        }
        let embedder = self.agent.config.selecting_embedder();
        self.add_embedder(ModelRole::AgentEmbedder, embedder, "routing");
    }

    /// Adds the model that answers where the agent does not.
    fn add_legacy(&mut self) {
        let routing = self.agent.config.routing.as_ref();
        let routing = routing.filter(|routing| routing.chain.contains(&ExecutorKind::Legacy));
        if let Some(model) = routing.and_then(|routing| routing.legacy.as_ref()?.backend.as_ref()) {
            self.add(
                ModelRole::Legacy,
                "routing.legacy.backend".to_owned(),
                model,
                "routing",
            );
        }
    }

    fn add_tools(&mut self) {
        let agent = self.agent;
        let own = agent.config.model.as_ref();
        for (index, tool) in agent.config.real_tools() {
            match tool {
                ToolConfig::Prompt(config) => {
                    let Some((own, overrides)) = own.zip(config.model.as_ref()) else {
                        continue;
                    };
                    let model = own.with_overrides(overrides);
                    // Without an endpoint or a provider of its own, it has those of the agent's model.
                    let pointer = if overrides.endpoint.is_some() || model.provider != own.provider {
                        format!("tools.{index}.model")
                    } else {
                        OWN_MODEL.to_owned()
                    };
                    self.add(ModelRole::PromptTool, pointer, &model, &config.name);
                }
                ToolConfig::HierarchicalDocument(config) => {
                    if let Some(model) = reranker(tool) {
                        let pointer = format!("tools.{index}.reranker_model");
                        let role = if serves_rerank(model) {
                            ModelRole::RerankServer
                        } else {
                            ModelRole::Reranker
                        };
                        self.add(role, pointer, model, &config.name);
                    }
                    if let Some(model) = config
                        .context_model
                        .as_ref()
                        .filter(|_| config.contextual_embeddings)
                    {
                        // As it is asked.
                        let mut model = model.clone();
                        model.max_tokens = Some(config.context_max_tokens);
                        let pointer = format!("tools.{index}.context_model");
                        self.add(ModelRole::ContextWriter, pointer, &model, &config.name);
                    }
                }
                _ => {}
            }
            if tool.is_indexed() {
                self.add_embedder(
                    ModelRole::Embedder,
                    agent.config.embedding_settings(tool),
                    tool.name(),
                );
            }
        }
        let filter = agent.config.tool_filtering.as_ref().filter(|it| it.enabled);
        if filter.is_some_and(|it| it.search_method != SearchMethod::Bm25) && !agent.config.is_claude() {
            let settings = agent.config.own_embedding_settings();
            self.add_embedder(ModelRole::Embedder, settings, "tool_filtering");
        }
    }

    /// Adds the model that makes embeddings; none if words are hashed.
    fn add_embedder(&mut self, role: ModelRole, settings: Option<EmbeddingSettings>, user: &str) {
        let Some(settings) = settings else { return };
        let provider = match settings.provider {
            EmbeddingProvider::Openai => Provider::Openai,
            EmbeddingProvider::AzureOpenai => Provider::AzureOpenai,
            EmbeddingProvider::Ollama => Provider::Ollama,
            EmbeddingProvider::Hash => return,
        };
        let model = ModelConfig {
            endpoint: settings.endpoint,
            api_key: settings.api_key,
            api_version: settings.api_version,
            rpm: settings.rpm,
            ..ModelConfig::new(provider, settings.model)
        };
        self.add(role, settings.block.to_owned(), &model, user);
    }
}

/// The enabled metrics of an agent and of its `planned` cases, with their places; `None` means all cases.
pub(crate) fn metrics<'a>(
    agent: &'a ResolvedAgent,
    planned: Option<&'a [usize]>,
) -> impl Iterator<Item = (MetricPlace, &'a MetricConfig)> {
    let metrics = agent.config.metrics(planned);
    metrics.filter(|(_, metric)| metric.enabled())
}

/// The metrics that score the answers of the quality loop, in the order of `scorer.metrics`.
pub(crate) fn loop_metrics<'a>(
    agent: &'a ResolvedAgent,
    config: &'a QualityLoopConfig,
) -> impl Iterator<Item = (MetricPlace, &'a MetricConfig)> {
    let named = config.scorer.metrics.iter();
    named.flat_map(move |name| {
        let shared = metrics(agent, None).take_while(|(place, _)| place.is_of_agent());
        shared.filter(move |(_, metric)| metric.name() == name)
    })
}

/// The subject of a metric at this place.
pub(crate) fn judged_subject(place: MetricPlace) -> JudgedSubject {
    if place.is_of_conversation() {
        JudgedSubject::Conversations
    } else {
        JudgedSubject::Answers
    }
}

/// The model that reranks the results of a tool.
pub(crate) fn reranker(tool: &ToolConfig) -> Option<&ModelConfig> {
    let ToolConfig::HierarchicalDocument(tool) = tool else {
        return None;
    };
    tool.reranker_model.as_ref().filter(|_| tool.enable_reranking)
}

/// Whether two models are equal, with their endpoints and keys: they can share a connection.
pub(crate) fn is_same(one: &ModelConfig, other: &ModelConfig) -> bool {
    let ModelConfig {
        provider,
        name,
        temperature,
        max_tokens,
        top_p,
        stop,
        endpoint,
        api_key,
        api_version,
        auth_provider,
        rpm,
        reasoning,
        reasoning_in_content,
    } = one;
    let key = |key: &Option<SecretString>| key.as_ref().map(|key| key.expose_secret().to_owned());
    *name == other.name
        && *provider == other.provider
        && (temperature, max_tokens, top_p, stop)
            == (&other.temperature, &other.max_tokens, &other.top_p, &other.stop)
        && (endpoint, api_version, auth_provider)
            == (&other.endpoint, &other.api_version, &other.auth_provider)
        && (rpm, reasoning, reasoning_in_content)
            == (&other.rpm, &other.reasoning, &other.reasoning_in_content)
        && key(api_key) == key(&other.api_key)
}

#[cfg(test)]
mod tests;
