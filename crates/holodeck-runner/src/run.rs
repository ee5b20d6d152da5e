//! The entry point for running tests: plans or resumes a run, dispatches it, and writes the run file.
//!
//! Start reading at [`run_tests`]; the decisions during the run are in `dispatch`.

use std::{
    collections::BTreeMap,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_backend_api::{AgentBackend, BackendError};
use holodeck_eval::Programs;
use holodeck_judging::{JudgeSettings, Judges};
use holodeck_model::{
    CaseIdentity, CheckIdentities, Combination, NotRun, REPORT_SCHEMA_VERSION, Redactor, Replayed,
    ReportHead, ReportSummary, ResolvedAgent, RunMetadata, Spent, TaskRouter,
};
use holodeck_turn::TurnRunner;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    AnswerLoop, Budget, CurrentDeciders, OnFailure, Plan, PlanError, RunControl, RunEvent, RunSink,
    Selection, TrialResources,
    deciders::RenewError,
    dispatch::Dispatcher,
    execute::Executor,
    grade::Graders,
    grading::GradingStage,
    merge::MergeError,
    plan::{digest_cases, plan_trials},
    trial_resources::TrialUses,
};
use holodeck_reports::{
    PlannedResult, ReportError, Results, RunView, Totals, format, run_file, write_baseline,
};
use holodeck_runs::{
    Break, ExitCode, JOURNAL_VERSION, Journal, JournalError, JournalHeader, LockError, RunEnd, RunEndKind,
    RunFlags, RunLock, RunOwner, RunStore, StoreError, StoredCombination, StoredSelection, StoredShard,
    changed_parts, new_run_id, read_case,
};

/// A request for a run.
#[derive(Clone)]
pub struct TestRequest {
    /// The agent.
    pub agent: Arc<ResolvedAgent>,
    /// Its file, as given on the command line.
    pub agent_path: String,
    /// The identities of its test cases.
    pub identities: Arc<[CaseIdentity]>,
    /// Each part that affects its answers, with its digest.
    pub fingerprint: BTreeMap<String, String>,
    /// Allows resuming a run although the agent changed; every report then shows a warning.
    pub accept_changes: bool,
    /// The backend of the agent; `None` if no planned case asks it.
    pub backend: Option<Arc<dyn AgentBackend>>,
    /// The judges, if metrics need one.
    pub judge: Option<JudgeSettings>,
    /// The models that play users, if a case has one.
    pub users: Option<Arc<dyn Judges>>,
    /// Selects specialist agents, if a case expects one.
    pub router: Option<Arc<dyn TaskRouter>>,
    /// The quality loop that improves the answers of cases, if the agent has one.
    pub answer_loop: Option<Arc<dyn AnswerLoop>>,
    /// The resources that each trial has for itself, if there are any.
    pub trial_resources: Option<Arc<dyn TrialResources>>,
    /// The usage of deriving the steps of judges; ignored when a run is resumed.
    pub judge_steps: Spent,
    /// The programs that grade.
    pub programs: Arc<dyn Programs>,
    /// Everything that decides each check of the agent.
    pub checks: Arc<CheckIdentities>,
    /// Set when answers come from a recording.
    pub replayed: Option<Replayed>,
    /// Which cases to run; ignored when a run is resumed.
    pub selection: Selection,
    /// Runs the turns.
    pub turns: TurnRunner,
    /// How to run them.
    pub settings: RunSettings,
    /// Masks secrets.
    pub redactor: Arc<Redactor>,
    /// Warnings that concern every verdict, such as sources that the agent's tools could not read.
    pub warnings: Vec<String>,
    /// The journal of a run to resume.
    pub resume: Option<PathBuf>,
    /// The combination of the agent's matrix, if it has one; ignored when a run is resumed.
    pub combination: Option<StoredCombination>,
    /// About the agent, for the run file.
    pub metadata: RunMetadata,
}

/// The settings of a run.
#[derive(Clone, Debug, Default)]
pub struct RunSettings {
    /// The number of cases that run at the same time.
    pub concurrency: usize,
    /// The effect of a failed case on the remaining cases.
    pub on_failure: OnFailure,
    /// Limits for cost and tokens.
    pub budget: Budget,
    /// Flags that affect answers; a resumed run uses them again.
    pub flags: RunFlags,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// Totals.
    pub head: Arc<ReportHead>,
    /// The exit code.
    pub exit: ExitCode,
    /// The run file.
    pub run_file: PathBuf,
    /// Why the run file could not be written, if so.
    pub run_file_error: Option<ReportError>,
    /// About the agent.
    pub metadata: RunMetadata,
    cases: PlannedCases,
}

impl RunOutcome {
    /// Calls `report` with a view of this run.
    pub fn with_view<T>(&self, report: impl FnOnce(&RunView<'_>) -> T) -> T {
        let results = || self.cases.results();
        let model = &self.cases.journal.header().model;
        report(&RunView::new(&self.head, &self.metadata, model, &results))
    }

    /// Writes its verdicts and scores as a baseline for later comparisons.
    pub fn write_baseline(&self, out: &mut dyn std::io::Write) -> Result<(), ReportError> {
        let owner = RunOwner::of(&self.cases.agent);
        self.with_view(|view| write_baseline(view, &owner, &self.cases.redactor, out))
    }

    /// Whether every planned case has a result.
    pub fn is_complete(&self) -> bool {
        self.head.ended == RunEndKind::Completed.as_str()
    }

    /// How many of the agent's cases this run selected, and how many the agent has.
    pub fn selection(&self) -> (usize, usize) {
        (self.cases.indices.len(), self.cases.agent.config.test_cases.len())
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

/// The planned cases of a run, with its journal.
#[derive(Debug)]
pub(crate) struct PlannedCases {
    pub(crate) agent: Arc<ResolvedAgent>,
    pub(crate) journal: Journal,
    pub(crate) redactor: Arc<Redactor>,
    /// The place of each planned case in the file.
    pub(crate) indices: Vec<usize>,
    pub(crate) ended: RunEnd,
}

impl PlannedCases {
    fn results(&self) -> Results<'_> {
        let cases = self.indices.iter().enumerate();
        Box::new(cases.filter_map(|(place, &index)| self.result(place, index).transpose()))
    }

    fn result(&self, place: usize, index: usize) -> Result<Option<PlannedResult>, JournalError> {
        let cases = &self.agent.config.test_cases;
        if index >= cases.len() {
            return Ok(None);
        }
        if let Some(case) = read_case(&self.agent, &self.journal, place, index, &self.redactor)? {
            return Ok(Some(PlannedResult::Finished(Box::new(case))));
        }
        Ok(Some(PlannedResult::NotRun(NotRun {
            index,
            test_name: cases.name(index).map(str::to_owned),
            reason: self.not_run_reason(place),
        })))
    }

    fn not_run_reason(&self, place: usize) -> String {
        let units = self.journal.units_of(place);
        let trials = units.len();
        let finished = units
            .clone()
            .filter(|&unit| self.journal.is_finished(unit))
            .count();
        let state = if finished > 0 {
            format!("not all trials were run ({finished} of {trials} have a verdict)")
        } else if units.into_iter().any(|unit| self.journal.has_answer(unit)) {
            "answered, but not graded".to_owned()
        } else {
            "not run".to_owned()
        };
        let regraded = self.journal.header().regrades.is_some();
        match &self.ended.because {
            None if regraded && finished == 0 => {
                "not run: the graded run has no answer for this case".to_owned()
            }
            None => state,
            Some(because) => format!("{state}: {}", because.lines().next().unwrap_or_default()),
        }
    }
}

/// Why a run could not start or finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Another run is writing.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The selection is not valid.
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
        /// The cause.
        source: std::io::Error,
    },
    /// The agent changed since the run started.
    #[error(
        "the agent changed since run `{run_id}` started, so its results cannot be mixed with new ones; changed: {}",
        parts.join(", ")
    )]
    AgentChanged {
        /// The run.
        run_id: String,
        /// The changed parts.
        parts: Vec<String>,
    },
    /// The run belongs to another agent.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The test cases changed since the run started.
    #[error("the test cases of run `{run_id}` changed since it started")]
    PlanChanged {
        /// The run.
        run_id: String,
    },
    /// The run has another combination of the agent's matrix.
    #[error("run `{run_id}` has {run}, not {agent}")]
    OtherCombination {
        /// The run.
        run_id: String,
        /// Its combination.
        run: String,
        /// That of the agent.
        agent: String,
    },
    /// The run is a regrade, or an earlier version recorded it.
    #[error("run `{run_id}` cannot be resumed: {reason}")]
    NotResumable {
        /// The run.
        run_id: String,
        /// Why.
        reason: &'static str,
    },
    /// The totals cannot be computed.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A metric of the YAML cannot be set up.
    #[error("{0}")]
    Metric(String),
    /// No metric has this name.
    #[error("no metric is named `{name}`")]
    UnknownMetric {
        /// The name.
        name: String,
        /// The names of the metrics.
        known: Vec<String>,
    },
    /// The verdict of a metric would have to be kept, but is not one of the metric as the file has it now.
    #[error("the verdicts of `{metric}` in run `{run_id}` cannot be kept: {reason}")]
    CannotKeep {
        /// The metric.
        metric: String,
        /// The run.
        run_id: String,
        /// Why.
        reason: String,
    },
    /// Shards cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// No case is selected.
    #[error("no test case to run")]
    Nothing,
}

impl From<RenewError> for RunError {
    fn from(error: RenewError) -> Self {
        match error {
            RenewError::Journal(error) => error.into(),
            RenewError::Plan(error) => error.into(),
        }
    }
}

/// Runs the test cases of an agent, or resumes a run.
pub async fn run_tests(
    request: TestRequest,
    control: &RunControl,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let store = RunStore::new(&request.agent.dir);
    let _lock = RunLock::acquire(&store.lock_path(), &describe_holder(&request))?;
    store.sweep();
    check_run_file(&store, &request.agent.config.name)?;
    let graders =
        Graders::new(&request.agent, &request.checks, &request.redactor).map_err(RunError::Metric)?;
    let (mut journal, indices) = match open_journal(&request, &store) {
        Err(RunError::Nothing) => {
            // Why there is nothing to run would be lost with the journal.
            for message in &request.warnings {
                sink.on(&RunEvent::Notice {
                    message: request.redactor.text(message).into_owned(),
                });
            }
            return Err(RunError::Nothing);
        }
        opened => opened?,
    };
    if request.resume.is_some() {
        let now = CurrentDeciders {
            agent: Arc::clone(&request.agent),
            checks: Arc::clone(&request.checks),
        };
        let changes = now.renew(&mut journal, &indices)?;
        if !changes.is_empty() {
            let changed = changes.describe();
            journal.warn(format!(
                "the stored answers were graded again when the run was resumed, because {changed} changed"
            ))?;
        }
    }
    for warning in &request.warnings {
        journal.warn(request.redactor.text(warning).into_owned())?;
    }
    let initialize = async {
        match &request.backend {
            Some(backend) => backend.initialize().await,
            None => Ok(()),
        }
    };
    tokio::select! {
        ready = initialize => ready?,
        // The dispatcher then starts no case.
        () = control.cancelled() => {}
    }
    sink.on(&RunEvent::Started {
        run_id: journal.header().run_id.clone(),
        agent_name: request.agent.config.name.clone(),
        model: journal.header().model.clone(),
        total: indices.len(),
        trials: journal.unit_count(),
        already: journal.finished(),
        concurrency: request.settings.concurrency,
        replayed: journal.header().replayed.clone(),
    });
    let (notify, notices) = tokio::sync::mpsc::unbounded_channel();
    let (grading, judged) = GradingStage::new(
        &request.agent,
        graders,
        &request.redactor,
        request.judge.clone(),
        &request.programs,
    );
    let grading = Arc::new(grading);
    let executor = Arc::new(Executor {
        grading: Arc::clone(&grading),
        backend: request.backend.clone(),
        turns: request.turns.clone(),
        users: request.users.clone(),
        router: request.router.clone(),
        answer_loop: request.answer_loop.clone(),
        trials: TrialUses::new(request.trial_resources.clone()),
        notices: notify,
    });
    let replayed = journal.header().replayed.is_some();
    let dispatcher = Dispatcher {
        executor: Some(executor),
        grading: Arc::clone(&grading),
        judged,
        journal: &mut journal,
        sink,
        notices,
        indices: &indices,
        concurrency: request.settings.concurrency.max(1),
        on_failure: request.settings.on_failure,
        // A replayed run costs nothing.
        budget: if replayed {
            Budget::default()
        } else {
            request.settings.budget
        },
    };
    let ended = dispatcher.run(control).await?;
    let close_users = async {
        match &request.users {
            Some(users) => users.close().await,
            None => Ok(()),
        }
    };
    let close_loop = async {
        match &request.answer_loop {
            Some(answer_loop) => answer_loop.close().await,
            None => Ok(()),
        }
    };
    let close_backend = async {
        match &request.backend {
            Some(backend) => backend.teardown().await,
            None => Ok(()),
        }
    };
    for closed in [
        control.within(close_backend).await,
        control.within(grading.judge.close()).await,
        control.within(close_users).await,
        control.within(close_loop).await,
    ] {
        closed.transpose()?;
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
        settings_json(&request.settings, &request.turns),
        &store,
        sink,
    )
}

/// The journal to write to, and the place of each planned case in the file.
fn open_journal(request: &TestRequest, store: &RunStore) -> Result<(Journal, Vec<usize>), RunError> {
    if let Some(path) = &request.resume {
        return reopen_journal(request, Journal::open(path)?);
    }
    let cases = &request.agent.config.test_cases;
    let mut plan = Plan::with_all_shards(cases, &request.identities, &request.selection)?;
    if plan.cases.is_empty() {
        return Err(RunError::Nothing);
    }
    let mut shard = None;
    if let Some(own) = request.selection.shard {
        let digest = digest_cases(cases, &request.identities, plan.cases.iter().copied());
        plan.take_shard(own);
        // A shard without cases has a journal too: without it, merging would miss the shard.
        shard = plan.shard.map(|part| StoredShard { part, digest });
    }
    let indices = plan.cases;
    let now = Timestamp::now();
    let header = JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id: new_run_id(now),
        started_at: now.to_string(),
        agent_name: request.agent.config.name.clone(),
        agent_path: request.agent_path.clone(),
        agent_file: RunOwner::of(&request.agent).file().to_owned(),
        model: describe_model(&request.agent),
        regrades: None,
        combination: request.combination.clone(),
        shard,
        merged_from: Vec::new(),
        agent: request.fingerprint.clone(),
        selected: StoredSelection {
            filter: request.selection.filter.clone(),
            limit: request.selection.limit,
            failed: request.selection.failed_in.is_some(),
            of: Some(cases.len()),
        },
        plan: select(&request.identities, &indices),
        trials: plan_trials(&request.agent, &indices, &request.settings.flags)?,
        flags: request.settings.flags.clone(),
        replayed: request.replayed.clone(),
        judge_steps: request.judge_steps.some(),
        settings: settings_json(&request.settings, &request.turns),
        metadata: request.metadata.clone(),
    };
    let journal = Journal::create(&store.journal_path(&header.run_id), header)?;
    Ok((journal, indices))
}

/// The identities at these places; those of all cases are shared.
pub(crate) fn select(identities: &Arc<[CaseIdentity]>, indices: &[usize]) -> Arc<[CaseIdentity]> {
    if indices.iter().copied().eq(0..identities.len()) {
        return Arc::clone(identities);
    }
    let selected = indices.iter().filter_map(|&index| identities.get(index));
    selected.copied().collect()
}

/// The journal of a run to resume. It is not changed before all checks succeeded.
fn reopen_journal(request: &TestRequest, journal: Journal) -> Result<(Journal, Vec<usize>), RunError> {
    let changed = check_resumable(
        &journal,
        &RunOwner::of(&request.agent),
        &request.fingerprint,
        request.accept_changes,
    )?;
    check_combination(&request.agent, journal.header())?;
    let run_id = || journal.header().run_id.clone();
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
    let broken = journal.broken();
    let mut journal = journal.reopen()?;
    if let Some(broken) = broken {
        journal.warn(describe_break(broken))?;
    }
    if !changed.is_empty() {
        let parts = changed.join(", ");
        journal.warn(format!("resumed although the agent changed: {parts}"))?;
    }
    Ok((journal, indices))
}

/// The notice of a resumed run about lines that do not count.
fn describe_break(broken: Break) -> String {
    format!(
        "line {} of the journal did not fit to the lines before it, so that {} did not count when the run was resumed; {} \
         asked again",
        broken.line,
        format::count(broken.lines, "line"),
        match broken.cases {
            1 => "1 case was".to_owned(),
            cases => format!("{cases} cases were"),
        }
    )
}

/// Returns an error if the run cannot be resumed with this agent; otherwise the parts of the agent that changed, if
/// changes are accepted.
pub fn check_resumable(
    journal: &Journal,
    owner: &RunOwner,
    fingerprint: &BTreeMap<String, String>,
    accept_changes: bool,
) -> Result<Vec<String>, RunError> {
    let header = journal.header();
    let not_resumable = |reason| RunError::NotResumable {
        run_id: header.run_id.clone(),
        reason,
    };
    if header.regrades.is_some() {
        return Err(not_resumable("it is a regrade; resume the run that it grades"));
    }
    if !header.merged_from.is_empty() {
        return Err(not_resumable(
            "it is merged of shards; resume the shard that is not finished, and merge again",
        ));
    }
    if journal.is_without_chain() {
        return Err(not_resumable(
            "an earlier version of holodeck recorded it, and its lines have no digests",
        ));
    }
    let run_owner = RunOwner::of_run(header);
    if !owner.is_same(&run_owner) {
        return Err(RunError::Store(StoreError::OtherAgent {
            run_id: header.run_id.clone(),
            owner: run_owner,
        }));
    }
    let parts = changed_parts(&header.agent, fingerprint);
    if accept_changes {
        return Ok(parts);
    }
    if parts.is_empty() {
        return Ok(parts);
    }
    Err(RunError::AgentChanged {
        run_id: header.run_id.clone(),
        parts,
    })
}

fn describe_combination(combination: Option<&Combination>) -> String {
    match combination {
        Some(combination) => format!("the combination {combination} of the matrix"),
        None => "no combination of the matrix".to_owned(),
    }
}

/// Refuses a run of another combination of the matrix than that of the agent.
pub(crate) fn check_combination(agent: &ResolvedAgent, header: &JournalHeader) -> Result<(), RunError> {
    let run = header.combination.as_ref().map(|stored| &stored.values);
    if run == agent.combination.as_ref() {
        return Ok(());
    }
    Err(RunError::OtherCombination {
        run_id: header.run_id.clone(),
        run: describe_combination(run),
        agent: describe_combination(agent.combination.as_ref()),
    })
}

fn describe_model(agent: &ResolvedAgent) -> String {
    let model = &agent.config.model;
    format!("{} {}", model.provider, model.name)
}

const FOREIGN_LINES: &str = "another program wrote to the journal while the run was live; its lines do not count, nor does \
                             anything that it changed";

/// Ends a run: closes its journal, writes its run file, and computes its totals and exit code.
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
    // While the run is live, only this process writes to its journal.
    let is_foreign = cases.journal.check_written()?;
    if is_foreign {
        cases.ended = cases.ended.with_foreign_lines();
        cases.journal.warn(FOREIGN_LINES.to_owned())?;
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
        combination: header.combination.as_ref().map(|stored| stored.values.clone()),
        shard: header.shard.as_ref().map(|shard| shard.part),
        merged_from: header.merged_from.clone(),
        partial: header.partial(),
        judge_steps: header.judge_steps,
        agent_parts: header.agent.clone(),
    };
    let run_file = store.run_file_path(&agent_name, now);
    let results = || cases.results();
    let view = RunView::new(&head, &metadata, &header.model, &results);
    let written = write_run_file(&run_file, &view);
    // The exit code must not depend on the disk: without a run file, the totals are computed separately.
    let (totals, run_file_error) = match written {
        Ok(totals) => (totals, None),
        Err(error) => (
            holodeck_reports::run_file(&view, &mut std::io::sink())?,
            Some(error),
        ),
    };
    head.summary = totals.summary.finish();
    let mut exit = totals.exit.worse(cases.ended.exit());
    if is_foreign || run_file_error.is_some() || head.regraded_from.is_some() && head.summary.not_run > 0 {
        exit = exit.worse(ExitCode::Execution);
    }
    if checked_cases(&head.summary) == 0 {
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

fn checked_cases(summary: &ReportSummary) -> usize {
    summary.total_tests - summary.unchecked
}

/// Checks before the run that its run file can be written, because a run costs time and money.
pub(crate) fn check_run_file(store: &RunStore, agent_name: &str) -> Result<(), RunError> {
    let path = store.run_file_path(agent_name, Timestamp::now());
    let probe = partial_path(&path);
    let result = probe
        .parent()
        .map_or(Ok(()), holodeck_model::create_private_folder);
    let result = result.and_then(|()| std::fs::File::create_new(&probe).map(drop));
    result
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|source| RunError::RunFile {
            path: path.parent().unwrap_or(&path).display().to_string(),
            source,
        })
}

fn partial_path(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    PathBuf::from(partial)
}

/// Writes the run file and renames it into place, so that it is never incomplete. Returns the totals.
fn write_run_file(path: &Path, view: &RunView<'_>) -> Result<Totals, ReportError> {
    if let Some(parent) = path.parent() {
        holodeck_model::create_private_folder(parent)?;
    }
    let partial = partial_path(path);
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
        // A partial run file is useless, and the disk may be full.
        let _ = std::fs::remove_file(&partial);
    }
    written
}

fn settings_json(settings: &RunSettings, turns: &TurnRunner) -> Value {
    json!({
        "llm_timeout_s": turns.timeout.map(|timeout| timeout.as_secs_f64()),
        "parallel_test_cases": settings.concurrency,
        "max_cost_usd": settings.budget.max_cost_usd,
        "max_tokens_total": settings.budget.max_tokens_total,
    })
}

fn describe_holder(request: &TestRequest) -> String {
    format!(
        "`holodeck test {}` (process {}, since {})",
        request.agent_path,
        std::process::id(),
        Timestamp::now()
    )
}
