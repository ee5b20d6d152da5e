use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use holodeck_backend_api::{BackendError, BackendFactory as _, Occasion};
use holodeck_cassette::{CassetteError, RecordMode};
use holodeck_model::{
    Env, Layer, LoadedAgent, Provider, Redactor, Replayed, RunMetadata, SideEffectGate, ToolConfig,
};
use holodeck_runner::{
    Budget, FileReader, OnFailure, Plan, PlanError, PriceError, Prices, RunControl, RunError, RunOutcome,
    RunSettings, RunSink, RunStore, Selection, StoreError, TestRequest, run_tests,
};
use serde_json::{Value, json};

use crate::{
    AnswerError, AnswerSource, Answers, BackendSelector, DryRun, ToolSetupError, Unbuilt,
    backends::{ReadyTools, ToolSetup, tools},
    conversion::{Keep, converter, fetcher},
    dry_run::estimate,
    git,
    index::{IndexSink, Rebuild},
    mcp::McpServers,
    unsupported::refuse_unbuilt,
};

/// What the flags of `holodeck test` mean.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// What is made ready.
    pub preparing: Preparing,
    /// The agent's file as typed.
    pub agent_path: String,
    /// Where answers come from.
    pub answers: AnswerSource,
    /// Whether what the agent's indexes hold counts.
    pub rebuild: Rebuild,
    /// Hears how that goes.
    pub on_index: IndexSink,
    /// Where to record live answers.
    pub record: Option<PathBuf>,
    /// Cases whose name matches.
    pub filter: Option<String>,
    /// The first so many.
    pub limit: Option<usize>,
    /// Only what did not pass in the newest run.
    pub failed: bool,
    /// The run to go on with: an id, the beginning of one, `latest`, or a path.
    pub resume: Option<String>,
    /// The longest a turn may take.
    pub timeout: Option<Duration>,
    /// Cases at a time.
    pub parallel: Option<NonZeroUsize>,
    /// Whether built-in tools that change something are there.
    pub side_effects: SideEffectGate,
    /// What a failed case means for the rest.
    pub on_failure: OnFailure,
    /// What the run may use.
    pub budget: Budget,
    /// A price list over the embedded one.
    pub prices: Option<PathBuf>,
    /// The command line, for the run file.
    pub cli_args: Vec<String>,
}

/// What is made ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preparing {
    /// A run.
    #[default]
    Run,
    /// Looking at what would run: no server is started.
    Plan,
}

/// Why a run can't begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The YAML asks for something that this version can't run.
    #[error(transparent)]
    Unbuilt(#[from] Unbuilt),
    /// Recording or replaying.
    #[error(transparent)]
    Answers(#[from] AnswerError),
    /// The selection.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The price list.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// The price of the model is not known.
    #[error("`--max-cost-usd` can't be held: the price of `{model}` is not in the price list of {as_of}")]
    UnknownPrice {
        /// The model.
        model: String,
        /// The day of the list.
        as_of: String,
    },
    /// An earlier run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An earlier run's journal.
    #[error(transparent)]
    Journal(#[from] holodeck_runner::JournalError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The recording.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// How files of the web are got.
    #[error("files can't be fetched: {0}")]
    Files(holodeck_http::SetupError),
    /// The tools.
    #[error(transparent)]
    Tools(#[from] ToolSetupError),
}

/// A run that can begin.
pub struct PreparedTest {
    request: TestRequest,
    answers: Answers,
    plan: Plan,
    every_case: bool,
    servers: McpServers,
}

/// Makes everything ready that a run needs, and refuses what it can't have.
pub async fn prepare_test(
    mut agent: LoadedAgent,
    env: &Env,
    options: &TestOptions,
) -> Result<PreparedTest, PrepareError> {
    let store = RunStore::new(&agent.dir);
    let mut source = options.answers.clone();
    let resume = options
        .resume
        .as_deref()
        .map(|name| store.find(name))
        .transpose()?;
    if let Some(path) = &resume
        && source == AnswerSource::AsConfigured
    {
        // A run goes on as it began.
        let header = holodeck_runner::Journal::open(path)?.header().clone();
        source = match header.replayed {
            Some(replayed) => AnswerSource::Replay(PathBuf::from(replayed.cassette)),
            None => AnswerSource::Live,
        };
    }
    let selection = Selection {
        filter: options.filter.clone(),
        limit: options.limit,
        failed_in: options.failed.then(|| store.find("latest")).transpose()?,
    };
    let plan = Plan::new(&agent.config.test_cases, &selection)?;
    let planned: Vec<usize> = plan.cases.iter().map(|case| case.index).collect();
    refuse_unbuilt(&agent, Some(&planned))?;
    let every_case = selection.is_everything() && resume.is_none();
    let answers = Answers::open(&source, options.record.as_deref(), &agent, env)?;
    let prices = prices(&agent, env, options.prices.as_deref())?;
    if options.budget.max_cost_usd.is_some()
        && answers.replayed().is_none()
        && let Some(model) = models(&agent).find(|model| !prices.knows(model))
    {
        return Err(PrepareError::UnknownPrice {
            model: model.to_owned(),
            as_of: prices.as_of().to_owned(),
        });
    }
    let factory = BackendSelector::new(env.clone(), answers.clone()).side_effects(options.side_effects);
    factory.check_key(&agent)?;
    let settings = settings(&agent, options, answers.replayed().as_ref());
    let files = files(&agent, env)?;
    let mut metadata = metadata(&mut agent, options, &answers.redactor());
    let mut agent = Arc::new(agent);
    let setup = ToolSetup {
        agent: &agent,
        env,
        answers: &answers,
        preparing: options.preparing,
        rebuild: options.rebuild,
        on_index: &options.on_index,
    };
    let ReadyTools {
        tools,
        servers,
        warnings,
    } = tools(&setup).await?;
    metadata.mcp_servers = servers.records(&answers.redactor());
    let backend = factory.create(Arc::clone(&agent), Occasion::Test, tools).await?;
    // Whoever tells places has looked them up by now.
    if let Some(agent) = Arc::get_mut(&mut agent) {
        agent.forget_places();
    }
    let request = TestRequest {
        agent,
        agent_path: options.agent_path.clone(),
        backend,
        replayed: answers.replayed(),
        selection,
        files,
        settings,
        prices,
        redactor: answers.redactor(),
        warnings,
        resume,
        metadata,
    };
    Ok(PreparedTest {
        request,
        answers,
        plan,
        every_case,
        servers,
    })
}

/// As [`prepare_test`], for grading the answers of an earlier run again: nothing that answers is needed.
pub async fn prepare_regrade(
    mut agent: LoadedAgent,
    env: &Env,
    options: &TestOptions,
    run: &str,
) -> Result<(PreparedTest, PathBuf), PrepareError> {
    let old = RunStore::new(&agent.dir).find(run)?;
    let settings = settings(&agent, options, None);
    let prices = prices(&agent, env, options.prices.as_deref())?;
    let answers = Answers::open(&AnswerSource::Live, None, &agent, env)?;
    let metadata = metadata(&mut agent, options, &answers.redactor());
    let plan = Plan::new(&agent.config.test_cases, &Selection::default())?;
    let files = files(&agent, env)?;
    let request = TestRequest {
        agent: Arc::new(agent),
        agent_path: options.agent_path.clone(),
        backend: Arc::new(crate::backends::NoBackend),
        replayed: None,
        selection: Selection::default(),
        files,
        settings,
        prices,
        redactor: answers.redactor(),
        warnings: Vec::new(),
        resume: None,
        metadata,
    };
    Ok((
        PreparedTest {
            request,
            answers,
            plan,
            every_case: false,
            servers: McpServers::default(),
        },
        old,
    ))
}

impl PreparedTest {
    /// What would run, and what it may cost.
    pub fn dry_run(&self) -> DryRun {
        let live = self.request.replayed.is_none();
        let estimate = live.then(|| estimate(&self.request.agent, &self.plan, &self.request.prices));
        DryRun {
            plan: self.plan.clone(),
            estimate,
        }
    }

    /// The agent.
    pub fn agent(&self) -> &LoadedAgent {
        &self.request.agent
    }

    /// Runs to the end. A recording is put in its place whatever the verdicts.
    pub async fn run(self, control: &RunControl, sink: &mut dyn RunSink) -> Result<RunOutcome, TestError> {
        let Self {
            request,
            answers,
            every_case,
            plan,
            servers,
        } = self;
        // The run makes its own; of many cases, two would be felt.
        drop(plan);
        let outcome = run_tests(request, control, sink).await;
        control.within(servers.close()).await;
        // Only a run of everything may take old calls out of a recording.
        let whole = every_case && outcome.as_ref().is_ok_and(RunOutcome::is_complete);
        answers.finish(if whole {
            RecordMode::Replace
        } else {
            RecordMode::Merge
        })?;
        Ok(outcome?)
    }

    /// Grades the answers of the run in `old` again.
    pub fn regrade(self, old: &Path, sink: &mut dyn RunSink) -> Result<RunOutcome, RunError> {
        holodeck_runner::regrade(&self.request, old, sink)
    }
}

/// Why a run broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The recording.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
}

/// The models that an agent and its tools ask.
fn models(agent: &LoadedAgent) -> impl Iterator<Item = &str> {
    let tools = agent.config.tools.iter().filter(|tool| !tool.is_mocked());
    let of_tools = tools.filter_map(|tool| match tool {
        ToolConfig::Prompt(tool) => tool.model.as_ref()?.name.as_deref(),
        _ => None,
    });
    std::iter::once(agent.config.model.name.as_str()).chain(of_tools)
}

/// Reads the files of questions.
fn files(agent: &LoadedAgent, env: &Env) -> Result<FileReader, PrepareError> {
    let reader = FileReader::new(converter(agent, env), agent.execution.file_timeout.value);
    match (fetcher(agent, env, Keep::Yes), fetcher(agent, env, Keep::No)) {
        (Ok(keeping), Ok(fresh)) => Ok(reader.fetching(keeping, fresh)),
        (Err(error), _) | (_, Err(error)) => Err(PrepareError::Files(error)),
    }
}

fn settings(agent: &LoadedAgent, options: &TestOptions, replayed: Option<&Replayed>) -> RunSettings {
    let mut timeout = agent.execution.llm_timeout.clone();
    timeout.override_with(options.timeout);
    let timeout_source = match timeout.layer {
        Layer::Cli => "`--timeout`",
        Layer::Env => "`HOLODECK_LLM_TIMEOUT`",
        _ => "`execution.llm_timeout`",
    };
    let mut parallel = agent.execution.parallel_test_cases.clone();
    parallel.override_with(options.parallel.map(Some));
    RunSettings {
        concurrency: concurrency(agent, parallel.value, replayed),
        timeout: timeout.value,
        timeout_source: timeout_source.to_owned(),
        on_failure: options.on_failure,
        budget: options.budget,
    }
}

/// Endpoints over HTTP do the work elsewhere, and a recording has it done; Claude Code does it on this machine, a
/// process for each case.
fn concurrency(agent: &LoadedAgent, asked: Option<NonZeroUsize>, replayed: Option<&Replayed>) -> usize {
    let claude = agent.config.model.provider == Provider::Anthropic && replayed.is_none();
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let default = if claude { 1 } else { (cores * 4).min(8) };
    let most = agent.config.claude.as_ref().filter(|_| claude);
    let most = most.and_then(|claude| usize::try_from(claude.max_concurrent_sessions?).ok());
    let asked = asked.map_or(default, NonZeroUsize::get);
    most.map_or(asked, |most| asked.min(most))
}

/// The embedded list, under the user's, under the project's, under the flag's.
fn prices(agent: &LoadedAgent, env: &Env, flag: Option<&Path>) -> Result<Prices, PriceError> {
    let mut prices = Prices::embedded();
    if let Some(user) = env.user_dir() {
        prices = prices.overlay(&user.join("prices.json"))?;
    }
    prices = prices.overlay(&agent.dir.join("prices.json"))?;
    match flag {
        Some(path) if !path.exists() => Err(PriceError::Io {
            path: path.display().to_string(),
            source: std::io::ErrorKind::NotFound.into(),
        }),
        Some(path) => prices.overlay(path),
        None => Ok(prices),
    }
}

fn metadata(agent: &mut LoadedAgent, options: &TestOptions, redactor: &Redactor) -> RunMetadata {
    // The cases are in the report: a second copy would double the file, and many of them as JSON values the memory.
    let cases = std::mem::take(&mut agent.config.test_cases);
    let mut config = serde_json::to_value(&agent.config).unwrap_or(Value::Null);
    agent.config.test_cases = cases;
    if let Some(config) = config.as_object_mut() {
        config.remove("test_cases");
    }
    redactor.configuration(&mut config);
    let mut cli_args = options.cli_args.clone();
    redactor.arguments(&mut cli_args);
    let instructions = &agent.instructions;
    let mut prompt_version = json!({
        "version": instructions.version,
        "author": instructions.author,
        "description": instructions.description,
        "tags": instructions.tags,
        "source": instructions.source,
        "file_path": instructions.file_path,
        "body_hash": instructions.body_hash,
        "extra": instructions.extra,
    });
    redactor.configuration(&mut prompt_version);
    RunMetadata {
        agent_config: config,
        prompt_version,
        holodeck_version: env!("CARGO_PKG_VERSION").to_owned(),
        cli_args,
        git_commit: git::commit(&agent.dir),
        mcp_servers: Vec::new(),
    }
}
