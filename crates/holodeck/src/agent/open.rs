//! An open agent: its answers, tools, servers and telemetry, and the backends that share them.

use std::{path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use holodeck_backend_api::{
    AgentBackend, BackendError, BackendFactory as _, Explanation, NoTools, Occasion, ToolHost,
};
use holodeck_model::{Env, Redactor, ResolvedAgent, SideEffectGate};
use holodeck_otel_bridge::Telemetry;
use holodeck_turn::{PriceError, Prices};
use holodeck_yaml::{LoadedAgent, Places};

use crate::{
    AnswerError, AnswerSource, Answers, LoopSetupError, Preparing, ToolSetupError, UnsupportedParts,
    agent::{
        approvals::protected_files,
        backends::{BackendSelector, Specialist},
        claude, hooks,
        inventory::{Inventory, ModelRole, missing_programs},
        mcp::McpServers,
        prices, target_checks,
        targets::{RefusedTarget, check_yaml_targets},
        telemetry,
        tools::{ReadyTools, ToolSetup, prepare_tools},
        unsupported::refuse_unsupported,
    },
    commands::routed::{Messages, OtherExecutors},
    index::{IndexSink, Rebuild},
    test::trial_tools::TrialTools,
};

/// How an agent is opened.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct OpenOptions {
    /// How much is prepared.
    pub preparing: Preparing,
    /// Where answers come from.
    pub answers: AnswerSource,
    /// Where to record live answers.
    pub record: Option<PathBuf>,
    /// The reports of the run. Those of an earlier one hold its answers and expectations: the agent may not read them.
    pub reports: Vec<PathBuf>,
    /// Whether built-in tools with side effects are available.
    pub side_effects: SideEffectGate,
    /// Whether indexes are rebuilt completely.
    pub rebuild: Rebuild,
    /// Receives the progress of building them.
    pub on_index: IndexSink,
    /// A price list that overrides the embedded one.
    pub prices: Option<PathBuf>,
}

/// Why an agent cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The YAML asks for something that this version cannot run.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedParts),
    /// The YAML names a file that must not be written.
    #[error(transparent)]
    Target(#[from] RefusedTarget),
    /// The recording.
    #[error(transparent)]
    Answers(#[from] AnswerError),
    /// The price list.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// The price of a model is not known.
    #[error("cannot enforce `{limit}`: no price known for `{model}` (price list of {as_of})")]
    UnknownPrice {
        /// The flag or field.
        limit: &'static str,
        /// The model.
        model: String,
        /// The day of the list.
        as_of: String,
    },
    /// The quality loop.
    #[error(transparent)]
    QualityLoop(#[from] LoopSetupError),
    /// The tools.
    #[error(transparent)]
    Tools(#[from] ToolSetupError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The HTTP client for files from the web.
    #[error("files can't be fetched: {0}")]
    Files(holodeck_http::SetupError),
}

impl From<OpenError> for BackendError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Backend(error) => error,
            other => Self::init(Explanation::new(other.to_string())),
        }
    }
}

/// An agent whose files and variables have been checked, so that it can be opened. Nothing is started yet.
pub(crate) struct CheckedAgent {
    pub(crate) agent: LoadedAgent,
    backends: BackendSelector,
    occasion: Occasion,
    options: OpenOptions,
    /// The models that the planned cases use.
    inventory: Inventory,
    /// Whether the agent itself answers; otherwise nothing is opened for it.
    answers_itself: bool,
    /// The warnings of a test.
    warnings: Vec<String>,
    /// Why its own backend cannot be used on this machine, as far as that is known.
    unavailable: Option<BackendError>,
    /// The messages that may be answered in its place if it cannot be opened; `None` if nothing answers then.
    replaceable: Option<Messages>,
    /// Whether a test runs the programs of `claude.hooks`; `None` without any.
    hooks: Option<String>,
}

impl CheckedAgent {
    /// Returns an error if something that the agent needs is missing or unsupported. Of the test cases, only the
    /// `planned` ones are considered.
    pub(crate) fn check(
        agent: LoadedAgent,
        env: &Env,
        occasion: Occasion,
        options: OpenOptions,
        planned: Option<&[usize]>,
    ) -> Result<Self, OpenError> {
        Self::check_others(agent, env, occasion, options, planned)?.require_keys()
    }

    /// Returns an error if a key is missing.
    pub(crate) fn require_keys(self) -> Result<Self, OpenError> {
        match self.unavailable {
            Some(error) => Err(error.into()),
            None => Ok(self),
        }
    }

    /// As [`check`](Self::check), but a missing key of a model without which the agent cannot answer is kept as the reason
    /// that its backend is [unavailable](Self::unavailable): something else may answer in its place.
    pub(crate) fn check_others(
        agent: LoadedAgent,
        env: &Env,
        occasion: Occasion,
        options: OpenOptions,
        planned: Option<&[usize]>,
    ) -> Result<Self, OpenError> {
        let answers = Answers::open(&options.answers, options.record.as_deref(), &agent, env)?;
        let checked = Self::check_with(agent, env, occasion, options, planned, answers)?;
        if occasion == Occasion::Test {
            checked.check_graders(env)?;
        }
        Ok(checked)
    }

    /// Returns an error if a key of a judge or a simulated user is missing. One that the agent lacks too is reported as the
    /// agent's.
    fn check_graders(&self, env: &Env) -> Result<(), OpenError> {
        if !self.answers_itself || self.answers().replayed().is_some() {
            return Ok(());
        }
        let graders = [&[ModelRole::LoopJudge], &ModelRole::OF_TESTS[..]].concat();
        let keys = self.inventory.check_keys(&self.agent, env, &graders);
        keys.map_err(|error| self.unavailable.clone().unwrap_or(error).into())
    }

    /// As [`check_others`](Self::check_others), with answers that are open already: those of the agent that delegates to it.
    pub(crate) fn check_with(
        agent: LoadedAgent,
        env: &Env,
        occasion: Occasion,
        options: OpenOptions,
        planned: Option<&[usize]>,
        answers: Answers,
    ) -> Result<Self, OpenError> {
        refuse_unsupported(&agent, planned)?;
        check_yaml_targets(&agent, env)?;
        let prices = prices::prices(&agent, env, options.prices.as_deref())?;
        let mut protected = protected_files(&agent, env, occasion);
        protected.extend(options.record.clone());
        protected.extend(options.reports.iter().cloned());
        if let AnswerSource::Replay(path) = &options.answers {
            protected.push(path.clone());
        }
        let backends = BackendSelector::new(env.clone(), answers)
            .protected(protected)
            .places(agent.places.clone())
            .endpoints_of(&agent)
            .side_effects(options.side_effects)
            .prices(prices);
        let answers_itself = !checks_only_selection(&agent, planned);
        let inventory = Inventory::new(&agent, planned);
        let (mut warnings, mut hooks) = (Vec::new(), None);
        if occasion == Occasion::Test {
            warnings.extend(missing_programs(&agent, env));
            warnings.extend(target_checks::notes(&agent, env));
            // A recording answers without the CLI, and there is nothing that a hook could observe.
            if backends.answers().replayed().is_none() {
                hooks = hooks::note(&agent, options.side_effects);
                warnings.extend(hooks.clone());
            }
            warnings.extend(inventory.warn_own_judge());
            warnings.extend(inventory.warn_own_user());
        }
        let mut checked = Self {
            agent,
            backends,
            occasion,
            options,
            inventory,
            answers_itself,
            warnings,
            unavailable: None,
            replaceable: None,
            hooks,
        };
        if !answers_itself {
            return Ok(checked);
        }
        let config = &checked.agent.config;
        let budget = config.openai.as_ref().and_then(|openai| openai.max_budget_usd);
        if budget.is_some() && !config.is_claude() {
            // This budget is that of a turn, which asks no judge.
            checked.require_prices("openai.max_budget_usd", &ModelRole::OF_TURNS)?;
        }
        let budget = checked
            .agent
            .config
            .enabled_loop()
            .and_then(|config| config.budget.max_cost_usd);
        if budget.is_some() && matches!(occasion, Occasion::Run | Occasion::Test) {
            checked.require_prices("quality_loop.budget.max_cost_usd", &ModelRole::PRICED)?;
        }
        if checked.answers().replayed().is_some() {
            return Ok(checked);
        }
        let mut own = ModelRole::OF_AGENT.to_vec();
        if occasion == Occasion::Run {
            own.push(ModelRole::LoopJudge);
        }
        let keys = checked.inventory.check_keys(&checked.agent, env, &own);
        checked.unavailable = keys.err();
        Ok(checked)
    }

    /// Why the agent's own backend cannot be used on this machine: a key or the CLI is missing. The only place that decides
    /// it. Nothing is asked.
    pub(crate) async fn unavailable(&self) -> Option<BackendError> {
        let is_live = self.answers().replayed().is_none();
        match &self.unavailable {
            Some(error) => Some(error.clone()),
            None if is_live && self.agent.config.is_claude() => {
                claude::missing_cli(&self.agent, self.backends.env()).await
            }
            None => None,
        }
    }

    /// Returns an error if the agent's own backend cannot be used on this machine and nothing else answers these messages, as
    /// `routing:` says. Else they are answered also if the agent cannot be opened.
    pub(crate) async fn check_answers(mut self, messages: Messages) -> Result<Self, OpenError> {
        if !self.answers_itself {
            return Ok(self);
        }
        self.unavailable = self.unavailable().await;
        if let Some(error) = &self.unavailable
            && !self.are_answered(&messages).await
        {
            return Err(error.clone().into());
        }
        self.replaceable = Some(messages);
        Ok(self)
    }

    /// Whether something else answers these messages in place of the agent.
    async fn are_answered(&self, messages: &Messages) -> bool {
        let others = OtherExecutors::of(&self.agent, self.backends.env());
        others.answer_enough(messages).await
    }

    /// Returns an error if the cost `limit` cannot be enforced because the price of a model of these roles is not known.
    pub(crate) fn require_prices(&self, limit: &'static str, roles: &[ModelRole]) -> Result<(), OpenError> {
        if self.answers().replayed().is_some() {
            return Ok(());
        }
        let prices = self.prices();
        let mut priced = self.inventory.priced_by_list(roles);
        let unknown = priced.find(|model| !prices.has_price(model));
        unknown.map_or(Ok(()), |model| {
            Err(OpenError::UnknownPrice {
                limit,
                model: model.to_owned(),
                as_of: prices.as_of().to_owned(),
            })
        })
    }

    /// Whether a test runs the programs of `claude.hooks`; `None` without any.
    pub(crate) fn hooks_note(&self) -> Option<String> {
        self.hooks.clone()
    }

    /// The selector that creates its backends.
    pub(crate) fn into_backends(self) -> BackendSelector {
        self.backends
    }

    pub(crate) fn answers(&self) -> &Answers {
        self.backends.answers()
    }

    /// The backends of its models, which can be asked before it is open.
    pub(crate) fn backends(&self) -> &BackendSelector {
        &self.backends
    }

    pub(crate) fn prices(&self) -> &Prices {
        self.backends.price_list()
    }

    /// Builds the indexes, connects the servers and creates the backend. If a later part fails, what was started is
    /// closed again.
    pub(crate) async fn open(self) -> Result<OpenAgent, OpenError> {
        let answers = self.backends.answers();
        let replayed = answers.replayed().is_some();
        let env = self.backends.env();
        let telemetry = telemetry::start(&self.agent, self.occasion, env, replayed, answers.redactor());
        self.open_traced(telemetry).await
    }

    /// As [`open`](Self::open), with an export that is already running. Boxed, so that the compiler checks the many parts of
    /// this future once, and not in each caller: that took a third of its checking.
    pub(crate) fn open_traced(
        self,
        telemetry: Telemetry,
    ) -> BoxFuture<'static, Result<OpenAgent, OpenError>> {
        Box::pin(self.open_parts(telemetry))
    }

    async fn open_parts(mut self, telemetry: Telemetry) -> Result<OpenAgent, OpenError> {
        self.backends = self.backends.traced(telemetry.clone());
        if !self.answers_itself {
            return Ok(self.closed(OwnBackend::NotAsked, telemetry));
        }
        if let Some(error) = self.unavailable.clone() {
            return Ok(self.closed(OwnBackend::Unavailable(error), telemetry));
        }
        let error = match self.open_own().await {
            Ok(own) => return Ok(self.opened(own, telemetry)),
            Err(error) => error,
        };
        let is_live = self.answers().replayed().is_none();
        match &self.replaceable {
            Some(messages) if is_live && self.are_answered(messages).await => {
                Ok(self.closed(OwnBackend::Failed(error.into()), telemetry))
            }
            _ => Err(error),
        }
    }

    /// Builds what the agent itself needs. If a later part fails, what was started is closed again.
    async fn open_own(&self) -> Result<(ReadyTools, Arc<dyn AgentBackend>), OpenError> {
        let setup = ToolSetup {
            agent: &self.agent,
            backends: &self.backends,
            occasion: self.occasion,
            preparing: self.options.preparing,
            rebuild: self.options.rebuild,
            on_index: &self.options.on_index,
        };
        let ready = prepare_tools(&setup).await?;
        let agent = Arc::clone(&self.agent.agent);
        let backend = self
            .backends
            .create(agent, self.occasion, Arc::clone(&ready.tools));
        match backend.await {
            Ok(backend) => Ok((ready, backend)),
            Err(error) => {
                ready.servers.close().await;
                Err(error.into())
            }
        }
    }

    fn opened(
        self,
        (tools, backend): (ReadyTools, Arc<dyn AgentBackend>),
        telemetry: Telemetry,
    ) -> OpenAgent {
        let mut open = self.closed(OwnBackend::Open(backend), telemetry);
        open.tools = tools.tools;
        open.servers = tools.servers;
        open.trials = tools.trials;
        open.warnings.extend(tools.warnings);
        open
    }

    /// The agent without its tools and servers.
    fn closed(self, backend: OwnBackend, telemetry: Telemetry) -> OpenAgent {
        let mut warnings = self.warnings;
        if let OwnBackend::Unavailable(error) | OwnBackend::Failed(error) = &backend {
            let (name, reason) = (&self.agent.config.name, error.explanation().sentence());
            warnings.push(format!(
                "`{name}` itself cannot be asked, only what `routing:` has in its place: {reason}"
            ));
        }
        OpenAgent {
            agent: self.agent.agent,
            // Places are not needed from here on, and with many test cases they are large.
            backends: self.backends.places(Places::default()),
            backend,
            tools: Arc::new(NoTools),
            servers: McpServers::default(),
            trials: None,
            telemetry,
            warnings,
        }
    }
}

/// Whether every planned case checks only which specialist agent is selected.
fn checks_only_selection(agent: &ResolvedAgent, planned: Option<&[usize]>) -> bool {
    let cases = &agent.config.test_cases;
    let mut planned = planned
        .unwrap_or_default()
        .iter()
        .filter_map(|index| cases.get(*index))
        .peekable();
    planned.peek().is_some() && planned.all(|case| agent.config.needs_no_model(&case))
}

/// The agent's own backend.
enum OwnBackend {
    Open(Arc<dyn AgentBackend>),
    /// Nothing that a run asks.
    NotAsked,
    /// It cannot be used on this machine; something else answers in its place.
    Unavailable(BackendError),
    /// It could not be opened, such as for a server that does not start; something else answers in its place.
    Failed(BackendError),
}

/// An agent with its backend, tools and servers. [`close`](Self::close) it: dropping it ends its processes without
/// waiting for them.
pub struct OpenAgent {
    agent: Arc<ResolvedAgent>,
    backends: BackendSelector,
    backend: OwnBackend,
    tools: Arc<dyn ToolHost>,
    servers: McpServers,
    trials: Option<Arc<TrialTools>>,
    telemetry: Telemetry,
    warnings: Vec<String>,
}

impl OpenAgent {
    /// Opens an agent: answers, indexes, servers, telemetry and its backend.
    pub async fn open(
        agent: LoadedAgent,
        env: &Env,
        occasion: Occasion,
        options: OpenOptions,
    ) -> Result<Self, OpenError> {
        CheckedAgent::check(agent, env, occasion, options, None)?
            .open()
            .await
    }

    /// The agent as it was loaded.
    pub fn agent(&self) -> &Arc<ResolvedAgent> {
        &self.agent
    }

    /// Its backend; an error if it was not opened: no planned case asks the agent, or it cannot be used on this machine.
    pub fn backend(&self) -> Result<&Arc<dyn AgentBackend>, BackendError> {
        match &self.backend {
            OwnBackend::Open(backend) => Ok(backend),
            OwnBackend::NotAsked => Err(BackendError::init(
                "the agent was not opened, because no case asks it",
            )),
            OwnBackend::Unavailable(error) | OwnBackend::Failed(error) => Err(error.clone()),
        }
    }

    /// Whether anything is asked of it, also in its place.
    pub(crate) fn is_asked(&self) -> bool {
        !matches!(self.backend, OwnBackend::NotAsked)
    }

    /// Why its own backend cannot be used on this machine.
    pub(crate) fn unavailable(&self) -> Option<&BackendError> {
        match &self.backend {
            OwnBackend::Unavailable(error) => Some(error),
            OwnBackend::Open(_) | OwnBackend::NotAsked | OwnBackend::Failed(_) => None,
        }
    }

    /// Its backend, unless something else answers in its place; an error if it was not opened because no case asks it.
    pub(crate) fn answering(&self) -> Result<Option<&Arc<dyn AgentBackend>>, BackendError> {
        match &self.backend {
            OwnBackend::Unavailable(_) | OwnBackend::Failed(_) => Ok(None),
            OwnBackend::Open(_) | OwnBackend::NotAsked => self.backend().map(Some),
        }
    }

    /// A backend for another task of this agent: with its answers, request limits, prices and telemetry, but without
    /// its tools.
    pub async fn specialist(
        &self,
        specialist: Specialist,
        occasion: Occasion,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        self.backends.specialist(&self.agent, specialist, occasion).await
    }

    /// A backend for a variant of this agent, such as one with the definition of a specialist: it shares the open servers,
    /// answers, prices and telemetry.
    pub(crate) async fn variant(
        &self,
        agent: Arc<ResolvedAgent>,
        occasion: Occasion,
        tools: Arc<dyn ToolHost>,
    ) -> Result<Arc<dyn AgentBackend>, BackendError> {
        self.backends.create(agent, occasion, tools).await
    }

    /// Its tools.
    pub(crate) fn tools(&self) -> &Arc<dyn ToolHost> {
        &self.tools
    }

    pub(crate) fn backends(&self) -> &BackendSelector {
        &self.backends
    }

    /// Warnings about its answers, for instance about documents that could not be read; of a test also about its judges and
    /// about programs that are missing.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Masks the secrets of the agent.
    pub fn redactor(&self) -> Arc<Redactor> {
        self.answers().redactor()
    }

    /// Where its answers come from.
    pub fn answers(&self) -> &Answers {
        self.backends.answers()
    }

    pub(crate) fn servers(&self) -> &McpServers {
        &self.servers
    }

    /// The tools for all trials of a test, if trials have servers of their own.
    pub(crate) fn trials(&self) -> Option<&Arc<TrialTools>> {
        self.trials.as_ref()
    }

    /// The export of telemetry.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Ends the backend, the servers and the export of telemetry, and waits for them.
    pub async fn close(&self) -> Result<(), BackendError> {
        let telemetry = self.telemetry.clone();
        let result = self.close_traced().await;
        telemetry::finish(&telemetry).await;
        result
    }

    /// As [`close`](Self::close), without the export of telemetry, which the caller ends.
    pub(crate) async fn close_traced(&self) -> Result<(), BackendError> {
        let result = match &self.backend {
            OwnBackend::Open(backend) => backend.teardown().await,
            OwnBackend::NotAsked | OwnBackend::Unavailable(_) | OwnBackend::Failed(_) => Ok(()),
        };
        if let Some(trials) = &self.trials {
            trials.close().await;
        }
        self.servers.close().await;
        result
    }
}
