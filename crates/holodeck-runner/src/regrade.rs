use std::{path::Path, sync::Arc};

use holodeck_model::{CaseIdentity, LoadedAgent, Redactor, RunMetadata};
use jiff::Timestamp;

use crate::{
    Ended, HowEnded, JOURNAL_VERSION, Journal, JournalHeader, RunError, RunEvent, RunLock, RunOutcome,
    RunSink, RunStore,
    grade::{Graders, Sight},
    plan::planned_now,
    project::project,
    run::{PlannedCases, finish, try_run_file},
    store::new_run_id,
};

/// The answers of a run to grade again.
#[derive(Clone)]
pub struct RegradeRequest {
    /// The agent as it is now; only what it expects counts.
    pub agent: Arc<LoadedAgent>,
    /// Its file as typed.
    pub agent_path: String,
    /// The identities of its test cases.
    pub identities: Arc<[CaseIdentity]>,
    /// Knows what must not be written down.
    pub redactor: Arc<Redactor>,
    /// The command line.
    pub cli_args: Vec<String>,
}

/// Grades the answers of an earlier run with what the YAML expects now, without a model call: the grading stage alone,
/// as a run of its own. It inherits how that run ended; what that run has no answer to stays not run.
pub fn regrade(request: &RegradeRequest, old: &Path, sink: &mut dyn RunSink) -> Result<RunOutcome, RunError> {
    let store = RunStore::new(&request.agent.dir);
    let _lock = RunLock::acquire(
        &store.lock_path(),
        &format!("`holodeck test regrade {}`", request.agent_path),
    )?;
    store.sweep();
    try_run_file(&store, &request.agent.config.name)?;
    let graders = Graders::new(&request.agent).map_err(RunError::Metric)?;
    let mut old = Journal::open(old)?;
    if let Some(run) = old.header().regrades.clone() {
        // The answers are there, and so is what the checks saw before masking.
        old = Journal::open(&old.path().with_file_name(format!("{run}.jsonl")))?;
    }
    let cases = &request.agent.config.test_cases;
    let planned = planned_now(&old, cases, &request.identities)?;
    let indices: Vec<usize> = planned.iter().map(|(index, _)| *index).collect();
    let answered = |place: &Option<usize>| place.is_some_and(|place| old.has_answer(place));
    if !planned.iter().any(|(_, place)| answered(place)) {
        return Err(RunError::Nothing);
    }
    let missing = planned.iter().filter(|(_, place)| !answered(place)).count();
    let ended = inherited(&old, missing);
    let warnings = old.warnings().to_vec();
    let header = header(request, &old, &indices);
    let path = store.journal_path(&header.run_id);
    let mut journal = Journal::create_regrade(&path, header, old)?;
    for warning in warnings {
        journal.warn(warning)?;
    }
    sink.on(&RunEvent::Started {
        run_id: journal.header().run_id.clone(),
        agent_name: journal.header().agent_name.clone(),
        model: journal.header().model.clone(),
        total: indices.len(),
        already: 0,
        concurrency: 1,
        replayed: journal.header().replayed.clone(),
    });
    for (unit, &index) in indices.iter().enumerate() {
        let (Some(record), Some(case)) = (journal.unit(unit), cases.get(index)) else {
            continue;
        };
        let record = record?;
        let before = journal.first_verdict(unit).transpose()?;
        let mut grade = graders.grade(&record, case, Sight::Masked(before.as_ref()));
        grade.mask(&request.redactor);
        journal.grade(unit, &grade)?;
        sink.on(&RunEvent::CaseFinished {
            finished: journal.finished(),
            result: project(case, index, record, grade, &request.redactor).into(),
        });
    }
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

/// How a regrade ends: as the run whose answers it grades. One that was killed has no end, and is incomplete if
/// something is missing.
fn inherited(old: &Journal, missing: usize) -> Ended {
    match old.ended() {
        Some(ended) if missing > 0 && ended.how != HowEnded::Completed => ended.clone(),
        Some(ended) if matches!(ended.how, HowEnded::Interrupted | HowEnded::Terminated) => ended.clone(),
        _ if missing == 0 => Ended::completed(),
        Some(_) => Ended::early(HowEnded::Incomplete, "the graded run has no answer to it"),
        None => Ended::early(HowEnded::Incomplete, "the graded run did not come to its end"),
    }
}

fn header(request: &RegradeRequest, old: &Journal, indices: &[usize]) -> JournalHeader {
    let now = Timestamp::now();
    let identity = |&index: &usize| request.identities.get(index).copied();
    JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id: new_run_id(now),
        started_at: now.to_string(),
        agent_path: request.agent_path.clone(),
        regrades: Some(old.header().run_id.clone()),
        plan: indices.iter().filter_map(identity).collect(),
        ..old.header().clone()
    }
}
