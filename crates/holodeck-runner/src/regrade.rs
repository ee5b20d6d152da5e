//! Grades the answers of an earlier run again with the current checks, as a run with its own journal.
//!
//! Must not call the agent, and must not keep a verdict whose check has changed.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use holodeck_backend_api::Adaptations;
use holodeck_eval::Programs;
use holodeck_judging::JudgeSettings;
use holodeck_model::{
    CaseIdentity, Cases, CheckIdentities, Redactor, ResolvedAgent, RunMetadata, TestCase, match_cases,
};
use jiff::Timestamp;

use crate::{
    Budget, OnFailure, Renew, RunControl, RunError, RunEvent, RunOutcome, RunSink,
    adaptation_notes::AdaptationNotes,
    dispatch::Dispatcher,
    finish::{PlannedCases, check_run_file, finish},
    grade::Graders,
    grading::GradingStage,
    plan::match_plan,
    run::{check_combination, select},
};
use holodeck_runs::{
    CaseTrials, JOURNAL_VERSION, Journal, JournalHeader, RunEnd, RunEndKind, RunLock, RunOwner, RunStore,
    StoredSelection, new_run_id,
};

/// A request to regrade the answers of a run.
#[derive(Clone)]
pub struct RegradeRequest {
    /// The current agent; only its expectations are used.
    pub agent: Arc<ResolvedAgent>,
    /// Its file, as given on the command line.
    pub agent_path: String,
    /// The identities of its test cases.
    pub identities: Arc<[CaseIdentity]>,
    /// Masks secrets.
    pub redactor: Arc<Redactor>,
    /// The judges, if metrics need one.
    pub judge: Option<JudgeSettings>,
    /// The programs that grade.
    pub programs: Arc<dyn Programs>,
    /// Everything that decides each check of the agent.
    pub checks: Arc<CheckIdentities>,
    /// Collects the parts of requests to judges that are adapted.
    pub adaptations: Adaptations,
    /// Which verdicts of judges and programs are renewed; the others are kept.
    pub renew: Renew,
    /// The number of cases that are graded at the same time.
    pub concurrency: usize,
    /// The command line.
    pub cli_args: Vec<String>,
}

/// Grades the answers of an earlier run against the current YAML, without calling the agent: only the grading stage, as
/// a separate run. It inherits how that run ended; cases without an answer there count as not run.
pub async fn regrade(
    request: &RegradeRequest,
    old: &Path,
    control: &RunControl,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let store = RunStore::new(&request.agent.dir);
    let _lock = RunLock::acquire(
        &store.lock_path(),
        &format!("`holodeck test regrade {}`", request.agent_path),
    )?;
    store.sweep();
    check_run_file(&store, &request.agent.config.name)?;
    let graders =
        Graders::new(&request.agent, &request.checks, &request.redactor).map_err(RunError::Metric)?;
    let cases = &request.agent.config.test_cases;
    check_names(&request.renew, &graders, cases)?;
    let mut old = Journal::open(old)?;
    old.check_trusted()?;
    let mut verdicts = None;
    if let Some(run) = old.header().regrades.clone() {
        // That run has the answers and the verdicts from before masking.
        let answers = Journal::open(&old.path().with_file_name(format!("{run}.jsonl")))?;
        verdicts = Some(std::mem::replace(&mut old, answers));
    }
    check_combination(&request.agent, old.header())?;
    let planned = match_plan(&old, cases, &request.identities)?;
    let indices = indices_of(&planned);
    // How many trials of a case have an answer, and how many it has.
    let answers = |place: Option<usize>| {
        let units = place.map_or(0..0, |place| old.units_of(place));
        let answered = units.clone().filter(|&unit| old.has_answer(unit)).count();
        (answered, units.len())
    };
    if !planned.iter().any(|&(_, place)| answers(place).0 > 0) {
        return Err(RunError::Nothing);
    }
    let is_missing = |place: Option<usize>| {
        let (answered, trials) = answers(place);
        answered == 0 || answered < trials
    };
    let missing = planned.iter().filter(|&&(_, place)| is_missing(place)).count();
    let (mut grading, judged) = GradingStage::new(
        &request.agent,
        graders,
        &request.redactor,
        request.judge.clone(),
        &request.programs,
    );
    grading.renew = request.renew.clone();
    grading.without_loop = old.header().flags.without_loop;
    check_kept(
        &grading,
        &planned,
        verdicts.as_ref().unwrap_or(&old),
        &request.identities,
    )?;
    let inherited = inherited_end(&old, missing);
    let adapted = old.adaptations().to_vec();
    let mut warnings = old.warnings().to_vec();
    if old.ended().is_none() {
        warnings.push("the graded run was not ended: it was killed, or its journal was cut".to_owned());
    }
    let header = regrade_header(request, &old, &planned);
    let path = store.journal_path(&header.run_id);
    let mut journal = Journal::create_regrade(&path, header, old, verdicts)?;
    for warning in warnings {
        journal.warn(warning)?;
    }
    for adaptation in &adapted {
        journal.adapted(adaptation)?;
    }
    sink.on(&RunEvent::Started {
        run_id: journal.header().run_id.clone(),
        agent_name: journal.header().agent_name.clone(),
        model: journal.header().model.clone(),
        total: indices.len(),
        trials: journal.unit_count(),
        already: 0,
        concurrency: request.concurrency,
        replayed: journal.header().replayed.clone(),
    });
    let grading = Arc::new(grading);
    // Nothing is executed, so there are no notices.
    let (_, notices) = tokio::sync::mpsc::unbounded_channel();
    let dispatcher = Dispatcher {
        executor: None,
        grading: Arc::clone(&grading),
        judged,
        journal: &mut journal,
        sink,
        notices,
        adaptations: AdaptationNotes::new(request.adaptations.clone()),
        indices: &indices,
        concurrency: request.concurrency.max(1),
        on_failure: OnFailure::Continue,
        budget: Budget::default(),
    };
    let ended = match dispatcher.run(control).await? {
        // Only cases without an answer in the graded run are missing.
        ended if matches!(ended.how, RunEndKind::Completed | RunEndKind::Incomplete) => inherited,
        stopped => stopped,
    };
    control.within(grading.judge.close()).await.transpose()?;
    let metadata = RunMetadata {
        cli_args: request.cli_args.clone(),
        ..journal.header().metadata.clone()
    };
    let environment = journal.header().settings.clone();
    let cases = PlannedCases {
        agent: Arc::clone(&request.agent),
        journal,
        redactor: Arc::clone(&request.redactor),
        indices,
        ended,
    };
    finish(cases, metadata, &request.agent_path, environment, &store, sink)
}

fn check_names(renew: &Renew, graders: &Graders, cases: &Cases) -> Result<(), RunError> {
    let Renew::Metrics(names) = renew else {
        return Ok(());
    };
    let plain = TestCase::default();
    let detailed: Vec<&TestCase> = cases.detailed().map(|(_, case)| case).collect();
    let plain = (detailed.len() < cases.len()).then_some(&plain);
    let known: BTreeSet<&str> = detailed
        .into_iter()
        .chain(plain)
        .flat_map(|case| graders.names_of_metrics(case))
        .collect();
    match names.iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => Err(RunError::UnknownMetric {
            name: name.clone(),
            known: known.into_iter().map(str::to_owned).collect(),
        }),
        None => Ok(()),
    }
}

/// Whether every verdict that is not renewed can be kept, before the first judge is asked.
fn check_kept(
    grading: &GradingStage,
    planned: &[(usize, Option<usize>)],
    verdicts: &Journal,
    identities: &Arc<[CaseIdentity]>,
) -> Result<(), RunError> {
    if grading.renew == Renew::All {
        return Ok(());
    }
    let places = match_cases(verdicts.plan(), &select(identities, &indices_of(planned)));
    for (&(index, _), place) in planned.iter().zip(places) {
        for unit in place.map_or(0..0, |place| verdicts.units_of(place)) {
            if let Some(grade) = verdicts.verdict(unit).transpose()? {
                let kept = grading.kept(index, &grade);
                kept.map_err(|cannot| cannot.into_error(verdicts.header()))?;
            }
        }
    }
    Ok(())
}

fn indices_of(planned: &[(usize, Option<usize>)]) -> Vec<usize> {
    planned.iter().map(|(index, _)| *index).collect()
}

/// The end of a regrade: that of the run whose answers it grades. A killed run has no end; it is incomplete if a case
/// has no answer.
fn inherited_end(old: &Journal, missing: usize) -> RunEnd {
    match old.ended() {
        Some(ended) if missing > 0 && ended.how != RunEndKind::Completed => ended.clone(),
        Some(ended) if matches!(ended.how, RunEndKind::Interrupted | RunEndKind::Terminated) => ended.clone(),
        _ if missing == 0 => RunEnd::completed(),
        Some(_) => RunEnd::early(
            RunEndKind::Incomplete,
            "the graded run has no answer for this case",
        ),
        None => RunEnd::early(RunEndKind::Incomplete, "the graded run did not finish"),
    }
}

fn regrade_header(
    request: &RegradeRequest,
    old: &Journal,
    planned: &[(usize, Option<usize>)],
) -> JournalHeader {
    let now = Timestamp::now();
    let indices = indices_of(planned);
    // As many trials as the run has; how many must pass is an expectation, so the current file decides.
    let trials = planned.iter().map(|&(index, place)| {
        let count = place.map_or(1, |place| old.trials_of(place).count);
        CaseTrials::of(&request.agent, index, &old.header().flags, Some(count))
    });
    let trials: Vec<CaseTrials> = trials.collect();
    let is_once = trials.iter().all(|trials| *trials == CaseTrials::ONCE);
    JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id: new_run_id(now),
        started_at: now.to_string(),
        agent_path: request.agent_path.clone(),
        agent_file: RunOwner::of(&request.agent).file().to_owned(),
        regrades: Some(old.header().run_id.clone()),
        judge_steps: None,
        plan: select(&request.identities, &indices),
        trials: if is_once { Vec::new() } else { trials },
        selected: StoredSelection {
            of: Some(request.agent.config.test_cases.len()),
            ..old.header().selected.clone()
        },
        ..old.header().clone()
    }
}
