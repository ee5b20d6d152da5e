use std::{
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use holodeck_backend_api::{AgentBackend, BackendError};
use holodeck_model::{
    LoadedAgent, REPORT_SCHEMA_VERSION, Redactor, Replayed, ReportHead, ReportSummary, RunMetadata,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    Budget, ExitCode, FileReader, JOURNAL_VERSION, Journal, JournalError, JournalHeader, LockError,
    OnFailure, Plan, PlanError, Prices, ReportError, RunControl, RunEvent, RunLock, RunSink, RunStore,
    RunView, Selection,
    dispatch::{Dispatcher, Ended},
    execute::Executor,
    grade::Graders,
    journal::Selected,
    plan::hex,
    report::{Results, Totals, run_file},
    store::new_run_id,
};

/// A run to make.
#[derive(Clone)]
pub struct TestRequest {
    /// The agent.
    pub agent: Arc<LoadedAgent>,
    /// Its file as typed.
    pub agent_path: String,
    /// What answers.
    pub backend: Arc<dyn AgentBackend>,
    /// Set when answers come from a recording.
    pub replayed: Option<Replayed>,
    /// Which cases; not looked at when a run is resumed.
    pub selection: Selection,
    /// Reads the files of questions.
    pub files: FileReader,
    /// How.
    pub settings: RunSettings,
    /// What tokens cost.
    pub prices: Prices,
    /// Knows what must not be written down.
    pub redactor: Arc<Redactor>,
    /// What a reader of the verdicts must know, such as what the agent's tools could not read.
    pub warnings: Vec<String>,
    /// The journal of a run to go on with.
    pub resume: Option<PathBuf>,
    /// About the agent, for the run file.
    pub metadata: RunMetadata,
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Cases at a time.
    pub concurrency: usize,
    /// The longest a turn may take.
    pub timeout: Duration,
    /// What set it, as in `` `execution.llm_timeout` ``.
    pub timeout_source: String,
    /// What a failed case means for the rest.
    pub on_failure: OnFailure,
    /// What the run may use.
    pub budget: Budget,
}

/// What a run came to.
#[derive(Debug)]
pub struct RunOutcome {
    /// Totals.
    pub head: Arc<ReportHead>,
    /// The exit code.
    pub exit: ExitCode,
    /// The run file.
    pub run_file: PathBuf,
    /// About the agent.
    pub metadata: RunMetadata,
    journal: Journal,
}

impl RunOutcome {
    /// Shows the run to a report.
    pub fn with_view<T>(&self, show: impl FnOnce(&RunView<'_>) -> T) -> T {
        let results = || -> Results<'_> { Box::new(self.journal.results()) };
        show(&RunView::new(&self.head, &self.metadata, &results))
    }

    /// Whether every case of the plan was run to its end.
    pub fn is_complete(&self) -> bool {
        self.head.ended == Ended::Completed.as_str()
    }

    /// The journal.
    pub fn journal_path(&self) -> &Path {
        self.journal.path()
    }
}

/// Why there was no run, or why it broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Another run is writing.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The selection.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The backend could not start.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The run file could not be written.
    #[error("writing `{path}`: {source}")]
    RunFile {
        /// The file.
        path: String,
        /// Why.
        source: ReportError,
    },
    /// The agent is not the one the run began with.
    #[error("the agent changed since run `{run_id}` began, so its results can't be mixed with new ones")]
    AgentChanged {
        /// The run.
        run_id: String,
    },
    /// A metric of the YAML can't be set up.
    #[error("{0}")]
    Metric(String),
    /// No case is left to run.
    #[error("no test case to run")]
    Nothing,
}

/// Makes a run, or goes on with one, to its end.
pub async fn run_tests(
    request: TestRequest,
    control: &RunControl,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let store = RunStore::new(&request.agent.dir);
    let _lock = RunLock::acquire(&store.lock_path(), &holder(&request))?;
    store.sweep();
    let graders = Graders::new(&request.agent).map_err(RunError::Metric)?;
    let (mut journal, plan) = open_journal(&request, &store)?;
    for warning in &request.warnings {
        journal.warn(request.redactor.text(warning).into_owned())?;
    }
    tokio::select! {
        ready = request.backend.initialize() => ready?,
        // The dispatcher starts nothing then.
        () = control.cancelled() => {}
    }
    sink.on(&RunEvent::Started {
        run_id: journal.header().run_id.clone(),
        agent_name: request.agent.config.name.clone(),
        model: format!(
            "{} {}",
            request.agent.config.model.provider, request.agent.config.model.name
        ),
        total: plan.cases.len(),
        already: journal.finished(),
        concurrency: request.settings.concurrency,
        replayed: journal.header().replayed.clone(),
    });
    let (notify, notices) = tokio::sync::mpsc::unbounded_channel();
    let executor = Arc::new(Executor {
        agent: Arc::clone(&request.agent),
        backend: Arc::clone(&request.backend),
        graders,
        prices: request.prices.clone(),
        redactor: Arc::clone(&request.redactor),
        files: request.files.clone(),
        timeout: request.settings.timeout,
        timeout_source: request.settings.timeout_source.clone(),
        notices: notify,
    });
    let replayed = journal.header().replayed.is_some();
    let dispatcher = Dispatcher {
        executor,
        journal: &mut journal,
        sink,
        notices,
        concurrency: request.settings.concurrency.max(1),
        on_failure: request.settings.on_failure,
        // A replayed run uses nothing.
        budget: if replayed {
            Budget::default()
        } else {
            request.settings.budget
        },
    };
    let ended = dispatcher.run(plan, control).await?;
    if let Some(closed) = control.within(request.backend.teardown()).await {
        closed?;
    }
    finish(&request, &store, journal, &ended, sink)
}

/// The journal to write to, and the plan it stands for.
fn open_journal(request: &TestRequest, store: &RunStore) -> Result<(Journal, Plan), RunError> {
    let cases = &request.agent.config.test_cases;
    let hash = agent_hash(&request.agent)?;
    if let Some(path) = &request.resume {
        let journal = Journal::reopen(path)?;
        if journal.header().agent_hash != hash {
            return Err(RunError::AgentChanged {
                run_id: journal.header().run_id.clone(),
            });
        }
        let plan = Plan::of_indices(cases, &journal.header().selected.indices(cases.len()));
        return Ok((journal, plan));
    }
    let plan = Plan::new(cases, &request.selection)?;
    if plan.cases.is_empty() {
        return Err(RunError::Nothing);
    }
    let now = Timestamp::now();
    let header = header(request, new_run_id(now), now, hash, &plan);
    let journal = Journal::create(&store.journal_path(&header.run_id), header)?;
    Ok((journal, plan))
}

pub(crate) fn header(
    request: &TestRequest,
    run_id: String,
    now: Timestamp,
    agent_hash: String,
    plan: &Plan,
) -> JournalHeader {
    JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id,
        started_at: now.to_string(),
        agent_name: request.agent.config.name.clone(),
        agent_path: request.agent_path.clone(),
        agent_hash,
        holodeck_version: env!("CARGO_PKG_VERSION").to_owned(),
        cli_args: request.metadata.cli_args.clone(),
        selected: Selected::from_indices(&plan.indices()),
        replayed: request.replayed.clone(),
        settings: settings(&request.settings),
        mcp_servers: request.metadata.mcp_servers.clone(),
    }
}

/// Writes the end down: totals, run file, exit code.
pub(crate) fn finish(
    request: &TestRequest,
    store: &RunStore,
    mut journal: Journal,
    ended: &Ended,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let now = Timestamp::now();
    journal.close(ended.as_str(), &now.to_string())?;
    let mut head = ReportHead {
        agent_name: request.agent.config.name.clone(),
        agent_config_path: request.agent_path.clone(),
        summary: ReportSummary::default(),
        timestamp: now.to_string(),
        holodeck_version: env!("CARGO_PKG_VERSION").to_owned(),
        environment: settings(&request.settings),
        schema_version: REPORT_SCHEMA_VERSION,
        run_id: journal.header().run_id.clone(),
        replayed: journal.header().replayed.clone(),
        warnings: journal.warnings().to_vec(),
        ended: ended.as_str().to_owned(),
    };
    let run_file = store.run_file_path(&request.agent.config.name, now);
    let totals = write_run_file(&run_file, &head, &request.metadata, &journal).map_err(|source| {
        RunError::RunFile {
            path: run_file.display().to_string(),
            source,
        }
    })?;
    head.summary = totals.summary.finish();
    let mut exit = totals.exit.worse(match ended {
        Ended::Interrupted => ExitCode::Interrupted,
        Ended::Terminated => ExitCode::Terminated,
        Ended::Budget => ExitCode::Budget,
        Ended::Completed | Ended::Stopped => ExitCode::Passed,
    });
    if checked(&head.summary) == 0 {
        exit = exit.worse(ExitCode::Nothing);
    }
    let head = Arc::new(head);
    sink.on(&RunEvent::Finished {
        head: Arc::clone(&head),
        exit,
    });
    Ok(RunOutcome {
        head,
        exit,
        run_file,
        metadata: request.metadata.clone(),
        journal,
    })
}

fn checked(summary: &ReportSummary) -> usize {
    summary.total_tests - summary.unchecked
}

/// In one step: a run file is whole or not there. Tells the totals, which no one knows before.
fn write_run_file(
    path: &Path,
    head: &ReportHead,
    metadata: &RunMetadata,
    journal: &Journal,
) -> Result<Totals, ReportError> {
    if let Some(parent) = path.parent() {
        holodeck_model::create_private_folder(parent)?;
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&partial)?;
    let results = || -> Results<'_> { Box::new(journal.results()) };
    let totals = run_file(&RunView::new(head, metadata, &results), &mut file)?;
    file.sync_all()?;
    std::fs::rename(&partial, path)?;
    Ok(totals)
}

fn settings(settings: &RunSettings) -> Value {
    json!({
        "llm_timeout_s": settings.timeout.as_secs_f64(),
        "parallel_test_cases": settings.concurrency,
        "max_cost_usd": settings.budget.max_cost_usd,
        "max_tokens_total": settings.budget.max_tokens_total,
    })
}

fn holder(request: &TestRequest) -> String {
    format!(
        "`holodeck test {}` (process {}, since {})",
        request.agent_path,
        std::process::id(),
        Timestamp::now()
    )
}

/// A hash of everything in the YAML and its files that decides what a run gives.
pub(crate) fn agent_hash(agent: &LoadedAgent) -> Result<String, RunError> {
    struct Hasher(Sha256);
    impl std::io::Write for Hasher {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut hasher = Hasher(Sha256::new());
    serde_json::to_writer(&mut hasher, &agent.config)
        .and_then(|()| {
            serde_json::to_writer(
                &mut hasher,
                &(&agent.instructions.body_hash, &agent.response_format),
            )
        })
        .map_err(|error| RunError::Metric(error.to_string()))?;
    Ok(hex(hasher.0.finalize().iter()))
}
