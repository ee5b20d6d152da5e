//! The entry point for running tests: plans or resumes a run, dispatches it, and writes the run file.
//!
//! Start reading at [`run_tests`]; the decisions during the run are in `dispatch`.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use holodeck_backend_api::{Adaptations, AgentBackend};
use holodeck_eval::Programs;
use holodeck_judging::{JudgeSettings, Judges};
use holodeck_model::{
    CaseIdentity, CheckIdentities, Combination, Redactor, Replayed, ResolvedAgent, RunMetadata, Spent,
    TaskRouter,
};
use holodeck_reports::format;
use holodeck_runs::{
    Break, JOURNAL_VERSION, Journal, JournalHeader, RunFlags, RunLock, RunOwner, RunStore, StoreError,
    StoredCombination, StoredShard, changed_parts, new_run_id,
};
use holodeck_turn::TurnRunner;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    AnswerLoop, Budget, CurrentDeciders, OnFailure, Plan, RunControl, RunError, RunEvent, RunOutcome,
    RunSink, Selection, TrialResources,
    adaptation_notes::AdaptationNotes,
    dispatch::Dispatcher,
    execute::Executor,
    finish::{PlannedCases, check_run_file, finish},
    grade::Graders,
    grading::GradingStage,
    plan::{digest_cases, plan_trials},
    trial_resources::TrialUses,
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
    /// Collects the parts of requests to the models of the run that are adapted.
    pub adaptations: Adaptations,
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
    let (mut grading, judged) = GradingStage::new(
        &request.agent,
        graders,
        &request.redactor,
        request.judge.clone(),
        &request.programs,
    );
    grading.without_loop = request.settings.flags.without_loop;
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
        adaptations: AdaptationNotes::new(request.adaptations.clone()),
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
        selected: request.selection.stored(cases.len()),
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
    let name = agent.config.answerer();
    match agent.config.provider() {
        Some(provider) => format!("{provider} {name}"),
        None => format!("target {name}"),
    }
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
