use std::{
    collections::{BTreeMap, HashSet},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_backend_api::{AgentBackend, BackendError};
use holodeck_model::{
    CaseIdentity, LoadedAgent, NotRun, REPORT_SCHEMA_VERSION, Redactor, Replayed, ReportHead, ReportSummary,
    RunMetadata, TestCase,
};
use holodeck_turn::TurnRunner;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    Budget, ExitCode, JOURNAL_VERSION, Journal, JournalError, JournalHeader, LockError, OnFailure, Plan,
    PlanError, PlannedResult, ReportError, RunControl, RunEvent, RunFlags, RunLock, RunSink, RunStore,
    RunView, Selected, Selection,
    dispatch::Dispatcher,
    ended::{Ended, HowEnded},
    execute::Executor,
    grade::Graders,
    project::project,
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
    /// The identities of its test cases.
    pub identities: Arc<[CaseIdentity]>,
    /// Each part that shapes its answers, with its digest.
    pub fingerprint: BTreeMap<String, String>,
    /// Resumes a run although the agent changed; every report says so.
    pub accept_changes: bool,
    /// What answers.
    pub backend: Arc<dyn AgentBackend>,
    /// Set when answers come from a recording.
    pub replayed: Option<Replayed>,
    /// Which cases; not looked at when a run is resumed.
    pub selection: Selection,
    /// Runs the turns.
    pub turns: TurnRunner,
    /// How.
    pub settings: RunSettings,
    /// Knows what must not be written down.
    pub redactor: Arc<Redactor>,
    /// What a reader of the verdicts must know, such as what the agent's tools could not read.
    pub warnings: Vec<String>,
    /// The journal of a run to resume.
    pub resume: Option<PathBuf>,
    /// About the agent, for the run file.
    pub metadata: RunMetadata,
}

/// How a run is made.
#[derive(Clone, Debug, Default)]
pub struct RunSettings {
    /// Cases at a time.
    pub concurrency: usize,
    /// What a failed case means for the rest.
    pub on_failure: OnFailure,
    /// What the run may use.
    pub budget: Budget,
    /// Flags that shape answers, which a resumed run takes over.
    pub flags: RunFlags,
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
    /// Why there is no run file, if it could not be written.
    pub run_file_error: Option<ReportError>,
    /// About the agent.
    pub metadata: RunMetadata,
    cases: PlannedCases,
}

impl RunOutcome {
    /// Shows the run to a report.
    pub fn with_view<T>(&self, show: impl FnOnce(&RunView<'_>) -> T) -> T {
        let results = || self.cases.results();
        show(&RunView::new(&self.head, &self.metadata, &results))
    }

    /// Whether every planned case has a result.
    pub fn is_complete(&self) -> bool {
        self.head.ended == HowEnded::Completed.as_str()
    }

    /// The planned cases without a result.
    pub fn not_run(&self) -> Result<Vec<NotRun>, JournalError> {
        self.with_view(|view| view.not_run().collect())
    }

    /// The journal.
    pub fn journal_path(&self) -> &Path {
        self.cases.journal.path()
    }
}

/// The planned cases of a run, with what its journal holds of them.
#[derive(Debug)]
pub(crate) struct PlannedCases {
    pub(crate) agent: Arc<LoadedAgent>,
    pub(crate) journal: Journal,
    pub(crate) redactor: Arc<Redactor>,
    /// Where each planned case is in the file.
    pub(crate) indices: Vec<usize>,
    pub(crate) ended: Ended,
}

impl PlannedCases {
    fn results(&self) -> Results<'_> {
        let units = self.indices.iter().enumerate();
        Box::new(units.filter_map(|(unit, &index)| self.result(unit, index).transpose()))
    }

    fn result(&self, unit: usize, index: usize) -> Result<Option<PlannedResult>, JournalError> {
        let Some(case) = self.agent.config.test_cases.get(index) else {
            return Ok(None);
        };
        let record = self.journal.unit(unit).transpose()?;
        let verdict = self.journal.verdict(unit).transpose()?;
        let answered = record.is_some();
        Ok(Some(match (record, verdict) {
            (Some(record), Some(grade)) => {
                PlannedResult::Finished(Box::new(project(case, index, record, grade, &self.redactor)))
            }
            _ => PlannedResult::NotRun(NotRun {
                index,
                test_name: case.name.clone(),
                reason: self.why_not_run(answered),
            }),
        }))
    }

    fn why_not_run(&self, answered: bool) -> String {
        let what = if answered {
            "answered, but not graded"
        } else {
            "not run"
        };
        let regraded = self.journal.header().regrades.is_some();
        match &self.ended.because {
            None if regraded => "not run: the graded run has no answer to it".to_owned(),
            None => what.to_owned(),
            Some(because) => format!("{what}: {}", because.lines().next().unwrap_or_default()),
        }
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
    /// The run file cannot be written.
    #[error("cannot write to `{path}`: {source}")]
    RunFile {
        /// The file or its folder.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The agent is not the one the run began with.
    #[error(
        "the agent changed since run `{run_id}` began, so its results cannot be mixed with new ones; changed: {}",
        parts.join(", ")
    )]
    AgentChanged {
        /// The run.
        run_id: String,
        /// What changed.
        parts: Vec<String>,
    },
    /// The test cases are not the ones the run began with.
    #[error("the test cases of run `{run_id}` changed since it began")]
    PlanChanged {
        /// The run.
        run_id: String,
    },
    /// The run asked nothing, or an earlier version recorded it.
    #[error("run `{run_id}` cannot be resumed: {reason}")]
    NotResumable {
        /// The run.
        run_id: String,
        /// Why.
        reason: &'static str,
    },
    /// The totals could not be made.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A metric of the YAML can't be set up.
    #[error("{0}")]
    Metric(String),
    /// No case is left to run.
    #[error("no test case to run")]
    Nothing,
}

/// Makes a run, or resumes one, to its end.
pub async fn run_tests(
    request: TestRequest,
    control: &RunControl,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let store = RunStore::new(&request.agent.dir);
    let _lock = RunLock::acquire(&store.lock_path(), &holder(&request))?;
    store.sweep();
    try_run_file(&store, &request.agent.config.name)?;
    let graders = Graders::new(&request.agent).map_err(RunError::Metric)?;
    let (mut journal, indices) = open_journal(&request, &store)?;
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
        model: journal.header().model.clone(),
        total: indices.len(),
        already: journal.finished(),
        concurrency: request.settings.concurrency,
        replayed: journal.header().replayed.clone(),
    });
    let (notify, notices) = tokio::sync::mpsc::unbounded_channel();
    let executor = Arc::new(Executor {
        agent: Arc::clone(&request.agent),
        backend: Arc::clone(&request.backend),
        graders,
        turns: request.turns.clone(),
        redactor: Arc::clone(&request.redactor),
        notices: notify,
        repeated_names: repeated_names(&request.agent.config.test_cases),
    });
    let replayed = journal.header().replayed.is_some();
    let dispatcher = Dispatcher {
        executor,
        journal: &mut journal,
        sink,
        notices,
        indices: &indices,
        concurrency: request.settings.concurrency.max(1),
        on_failure: request.settings.on_failure,
        // A replayed run uses nothing.
        budget: if replayed {
            Budget::default()
        } else {
            request.settings.budget
        },
    };
    let ended = dispatcher.run(control).await?;
    if let Some(closed) = control.within(request.backend.teardown()).await {
        closed?;
    }
    let cases = PlannedCases {
        agent: request.agent,
        journal,
        redactor: request.redactor,
        indices,
        ended,
    };
    finish(
        cases,
        request.metadata,
        &request.agent_path,
        settings(&request.settings, &request.turns),
        &store,
        sink,
    )
}

/// The journal to write to, and where each planned case is in the file.
fn open_journal(request: &TestRequest, store: &RunStore) -> Result<(Journal, Vec<usize>), RunError> {
    if let Some(path) = &request.resume {
        return reopen_journal(request, Journal::open(path)?);
    }
    let cases = &request.agent.config.test_cases;
    let plan = Plan::new(cases, &request.identities, &request.selection)?;
    if plan.cases.is_empty() {
        return Err(RunError::Nothing);
    }
    let indices = plan.indices();
    let now = Timestamp::now();
    let header = JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id: new_run_id(now),
        started_at: now.to_string(),
        agent_name: request.agent.config.name.clone(),
        agent_path: request.agent_path.clone(),
        model: model(&request.agent),
        regrades: None,
        agent: request.fingerprint.clone(),
        selected: Selected {
            filter: request.selection.filter.clone(),
            limit: request.selection.limit,
            failed: request.selection.failed_in.is_some(),
        },
        plan: indices
            .iter()
            .filter_map(|&index| request.identities.get(index).copied())
            .collect(),
        flags: request.settings.flags.clone(),
        replayed: request.replayed.clone(),
        settings: settings(&request.settings, &request.turns),
        metadata: request.metadata.clone(),
    };
    let journal = Journal::create(&store.journal_path(&header.run_id), header)?;
    Ok((journal, indices))
}

/// The journal of a run to resume. It is not changed before it is clear that it can be.
fn reopen_journal(request: &TestRequest, journal: Journal) -> Result<(Journal, Vec<usize>), RunError> {
    let header = journal.header();
    let run_id = || header.run_id.clone();
    let not_resumable = |reason| RunError::NotResumable {
        run_id: run_id(),
        reason,
    };
    if header.regrades.is_some() {
        return Err(not_resumable(
            "it grades the answers of another run, which can be resumed",
        ));
    }
    if journal.version() != JOURNAL_VERSION {
        return Err(not_resumable(
            "an earlier version of holodeck recorded it; it can be regraded",
        ));
    }
    let changed = changed_parts(&header.agent, &request.fingerprint);
    if !changed.is_empty() && !request.accept_changes {
        return Err(RunError::AgentChanged {
            run_id: run_id(),
            parts: changed,
        });
    }
    let places: std::collections::HashMap<_, _> = request
        .identities
        .iter()
        .enumerate()
        .map(|(index, identity)| (identity.id, index))
        .collect();
    let indices: Option<Vec<usize>> = journal
        .plan()
        .iter()
        .map(|case| places.get(&case.id).copied())
        .collect();
    let Some(indices) = indices else {
        return Err(RunError::PlanChanged { run_id: run_id() });
    };
    let mut journal = journal.reopen()?;
    if !changed.is_empty() {
        let parts = changed.join(", ");
        journal.warn(format!("resumed although the agent changed: {parts}"))?;
    }
    Ok((journal, indices))
}

/// The parts of an agent that are not the same in both fingerprints.
fn changed_parts(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let parts: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let changed = parts
        .into_iter()
        .filter(|&part| before.get(part) != now.get(part));
    changed.cloned().collect()
}

fn model(agent: &LoadedAgent) -> String {
    let model = &agent.config.model;
    format!("{} {}", model.provider, model.name)
}

/// Ends a run: its journal, its run file, its totals and its exit code.
pub(crate) fn finish(
    mut cases: PlannedCases,
    metadata: RunMetadata,
    agent_path: &str,
    environment: Value,
    store: &RunStore,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let now = Timestamp::now();
    if let Some(because) = &mut cases.ended.because {
        cases.redactor.mask_text(because);
    }
    cases.journal.close(&cases.ended, &now.to_string())?;
    let header = cases.journal.header();
    let agent_name = cases.agent.config.name.clone();
    let mut head = ReportHead {
        agent_name: header.agent_name.clone(),
        agent_config_path: agent_path.to_owned(),
        summary: ReportSummary::default(),
        timestamp: now.to_string(),
        holodeck_version: env!("CARGO_PKG_VERSION").to_owned(),
        environment,
        schema_version: REPORT_SCHEMA_VERSION,
        run_id: header.run_id.clone(),
        replayed: header.replayed.clone(),
        warnings: cases.journal.warnings().to_vec(),
        ended: cases.ended.how.as_str().to_owned(),
        ended_because: cases.ended.because.clone(),
        regraded_from: header.regrades.clone(),
    };
    let run_file = store.run_file_path(&agent_name, now);
    let results = || cases.results();
    let view = RunView::new(&head, &metadata, &results);
    let written = write_run_file(&run_file, &view);
    // The verdict does not depend on the disk: without a run file the totals are made on their own.
    let (totals, run_file_error) = match written {
        Ok(totals) => (totals, None),
        Err(error) => (crate::report::run_file(&view, &mut std::io::sink())?, Some(error)),
    };
    head.summary = totals.summary.finish();
    let mut exit = totals.exit.worse(cases.ended.exit());
    if run_file_error.is_some() || head.regraded_from.is_some() && head.summary.not_run > 0 {
        exit = exit.worse(ExitCode::Execution);
    }
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
        run_file_error,
        metadata,
        cases,
    })
}

fn checked(summary: &ReportSummary) -> usize {
    summary.total_tests - summary.unchecked
}

/// Finds out before the run whether its run file will have a place: a run costs time and money.
pub(crate) fn try_run_file(store: &RunStore, agent_name: &str) -> Result<(), RunError> {
    let path = store.run_file_path(agent_name, Timestamp::now());
    let attempt = partial(&path);
    let tried = attempt
        .parent()
        .map_or(Ok(()), holodeck_model::create_private_folder);
    let tried = tried.and_then(|()| std::fs::File::create_new(&attempt).map(drop));
    tried
        .and_then(|()| std::fs::remove_file(&attempt))
        .map_err(|source| RunError::RunFile {
            path: path.parent().unwrap_or(&path).display().to_string(),
            source,
        })
}

fn partial(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    PathBuf::from(partial)
}

/// In one step: a run file is whole or not there. Returns the totals, which are not known before.
fn write_run_file(path: &Path, view: &RunView<'_>) -> Result<Totals, ReportError> {
    if let Some(parent) = path.parent() {
        holodeck_model::create_private_folder(parent)?;
    }
    let partial = partial(path);
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&partial)?;
    let written = run_file(view, &mut file).and_then(|totals| {
        file.sync_all()?;
        std::fs::rename(&partial, path)?;
        Ok(totals)
    });
    if written.is_err() {
        // Half a run file is of no use, and a full disk needs the room.
        let _ = std::fs::remove_file(&partial);
    }
    written
}

fn settings(settings: &RunSettings, turns: &TurnRunner) -> Value {
    json!({
        "llm_timeout_s": turns.timeout.map(|timeout| timeout.as_secs_f64()),
        "parallel_test_cases": settings.concurrency,
        "max_cost_usd": settings.budget.max_cost_usd,
        "max_tokens_total": settings.budget.max_tokens_total,
    })
}

fn repeated_names(cases: &[TestCase]) -> HashSet<String> {
    let mut seen = HashSet::new();
    let names = cases.iter().filter_map(|case| case.name.as_deref());
    names
        .filter(|name| !seen.insert(*name))
        .map(str::to_owned)
        .collect()
}

fn holder(request: &TestRequest) -> String {
    format!(
        "`holodeck test {}` (process {}, since {})",
        request.agent_path,
        std::process::id(),
        Timestamp::now()
    )
}
