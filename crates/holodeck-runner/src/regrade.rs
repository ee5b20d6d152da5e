use std::path::Path;

use holodeck_model::TestResult;
use jiff::Timestamp;

use crate::{
    Journal, Plan, RunError, RunEvent, RunLock, RunOutcome, RunSink, RunStore, TestRequest,
    dispatch::Ended,
    grade::Graders,
    plan::Earlier,
    redact::redact,
    run::{agent_hash, finish, header},
    store::new_run_id,
};

/// Grades the answers of an earlier run with the expectations the YAML has now, without a model call, into a run of
/// its own.
pub fn regrade(request: &TestRequest, old: &Path, sink: &mut dyn RunSink) -> Result<RunOutcome, RunError> {
    let store = RunStore::new(&request.agent.dir);
    let _lock = RunLock::acquire(
        &store.lock_path(),
        &format!("`holodeck test regrade {}`", request.agent_path),
    )?;
    store.sweep();
    let graders = Graders::new(&request.agent).map_err(RunError::Metric)?;
    let old = Journal::open(old)?;
    let pairs = Earlier::read(&old)?.places_of(&request.agent.config.test_cases);
    if pairs.is_empty() {
        return Err(RunError::Nothing);
    }
    let now = Timestamp::now();
    let indices: Vec<usize> = pairs.iter().map(|(index, _)| *index).collect();
    let plan = Plan::of_indices(&request.agent.config.test_cases, &indices);
    let mut header = header(request, new_run_id(now), now, agent_hash(request)?, &plan);
    header.replayed.clone_from(&old.header().replayed);
    if let Some(settings) = header.settings.as_object_mut() {
        settings.insert("regraded_from".to_owned(), old.header().run_id.clone().into());
    }
    let mut journal = Journal::create(&store.journal_path(&header.run_id), header)?;
    for warning in old.warnings() {
        journal.warn(warning.clone())?;
    }
    sink.on(&RunEvent::Started {
        run_id: journal.header().run_id.clone(),
        agent_name: request.agent.config.name.clone(),
        model: format!(
            "{} {}",
            request.agent.config.model.provider, request.agent.config.model.name
        ),
        total: pairs.len(),
        already: 0,
        concurrency: 1,
        replayed: journal.header().replayed.clone(),
    });
    for (index, old_index) in pairs {
        let (Some(result), Some(case)) = (old.result(old_index), request.agent.config.test_cases.get(index))
        else {
            continue;
        };
        let mut result: TestResult = result?;
        result.index = index;
        result.test_name.clone_from(&case.name);
        graders.grade(&mut result, case);
        redact(&request.redactor, &mut result);
        journal.record(&result)?;
        sink.on(&RunEvent::CaseFinished {
            finished: journal.finished(),
            result: result.into(),
        });
    }
    finish(request, &store, journal, &Ended::Completed, sink)
}
