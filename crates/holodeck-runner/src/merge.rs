//! Merges the journals of shards to one run. Everything is checked before anything is written: a merged run exists only
//! if each shard was run to its end, once, with the same agent, the same cases and the same expectations.
//!
//! Memory holds positions of lines, never lines, as in every other run.

mod shards;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_model::{
    CaseId, CaseIdentity, CaseState, CheckIdentities, Redactor, ResolvedAgent, RunMetadata,
};
use jiff::Timestamp;
use serde_json::Value;

use self::shards::{ShardJournal, Shards};
use crate::{
    CurrentDeciders, MergeError, RunControl, RunError, RunEvent, RunOutcome, RunSink, Stop,
    finish::{PlannedCases, check_run_file, finish},
    plan::digest_cases,
    run::check_combination,
};
use holodeck_runs::{
    CaseTrials, JOURNAL_VERSION, Journal, JournalError, JournalHeader, RunEnd, RunLock, RunOwner, RunStore,
    new_run_id, read_case,
};

/// A request to merge shards.
#[derive(Clone)]
pub struct MergeRequest {
    /// The agent; it must be the one that the shards ran.
    pub agent: Arc<ResolvedAgent>,
    /// Its file, as given on the command line.
    pub agent_path: String,
    /// The identities of its test cases.
    pub identities: Arc<[CaseIdentity]>,
    /// Masks secrets.
    pub redactor: Arc<Redactor>,
    /// Everything that decides each check of the agent.
    pub checks: Arc<CheckIdentities>,
    /// About the agent, for the run file.
    pub metadata: RunMetadata,
}

/// Merges the shards in these journals to one run, as if they had been run together.
pub async fn merge_shards(
    request: MergeRequest,
    journals: &[PathBuf],
    control: &RunControl,
    sink: &mut dyn RunSink,
) -> Result<RunOutcome, RunError> {
    let store = RunStore::new(&request.agent.dir);
    let holder = format!("`holodeck test merge {}`", request.agent_path);
    let _lock = RunLock::acquire(&store.lock_path(), &holder)?;
    store.sweep();
    check_run_file(&store, &request.agent.config.name)?;
    let shards = Shards::open(journals)?;
    check_combination(&request.agent, shards.first().journal.header())?;
    let indices = find_cases(&request, &shards)?;
    check_deciders(&request, &shards, &indices)?;
    check_agent(&request, &shards, &indices)?;
    let header = merged_header(&request, &shards);
    let metadata = header.metadata.clone();
    let environment = header.settings.clone();
    let mut journal = Journal::create(&store.journal_path(&header.run_id), header)?;
    sink.on(&RunEvent::Started {
        run_id: journal.header().run_id.clone(),
        agent_name: journal.header().agent_name.clone(),
        model: journal.header().model.clone(),
        total: indices.len(),
        trials: journal.unit_count(),
        already: journal.unit_count(),
        concurrency: 1,
        replayed: journal.header().replayed.clone(),
    });
    for message in &shards.notices {
        sink.on(&RunEvent::Notice {
            message: message.clone(),
        });
    }
    if let Err(error) = copy(&shards, &mut journal, control).await {
        // Half a merged run is of no use, and could be taken for the newest run.
        let _ = std::fs::remove_file(journal.path());
        return Err(error);
    }
    let cases = PlannedCases {
        agent: request.agent,
        journal,
        redactor: request.redactor,
        indices,
        ended: RunEnd::completed(),
    };
    emit_not_passed(&cases, sink)?;
    finish(cases, metadata, &request.agent_path, environment, &store, sink)
}

/// The place in the file of each case of the whole run. The cases, with what is expected of them, must be the same as
/// those of the shards: the merged reports show the expectations of the file.
fn find_cases(request: &MergeRequest, shards: &Shards) -> Result<Vec<usize>, MergeError> {
    let changed = |what| MergeError::AgentChanged { what };
    let header = shards.first().journal.header();
    if header.agent_name != request.agent.config.name {
        return Err(changed("its name"));
    }
    let owner = RunOwner::of(&request.agent);
    let is_own = |shard: &ShardJournal| owner.is_same(&RunOwner::of_run(shard.journal.header()));
    if !shards.iter().all(is_own) {
        return Err(changed("the name of its file"));
    }
    let places: HashMap<CaseId, usize> = request
        .identities
        .iter()
        .enumerate()
        .map(|(index, identity)| (identity.id, index))
        .collect();
    let indices: Option<Vec<usize>> = shards
        .places()
        .map(|(shard, place)| places.get(&shard.journal.plan().get(place)?.id).copied())
        .collect();
    let indices = indices.ok_or_else(|| changed("a test case"))?;
    Ok(indices)
}

/// Refuses another agent than that of the shards. What is expected of the cases is part of the digest, too.
fn check_agent(request: &MergeRequest, shards: &Shards, indices: &[usize]) -> Result<(), MergeError> {
    let changed = |what| MergeError::AgentChanged { what };
    if shards.first().journal.header().metadata.agent_config != request.metadata.agent_config {
        return Err(changed("its configuration"));
    }
    let cases = &request.agent.config.test_cases;
    let digest = digest_cases(cases, &request.identities, indices.iter().copied());
    if digest != shards.first().stored.digest {
        return Err(changed("a test case, or what is expected of it,"));
    }
    Ok(())
}

/// Refuses shards whose verdicts something else decided than the agent file says, and so than in the other shards.
fn check_deciders(request: &MergeRequest, shards: &Shards, indices: &[usize]) -> Result<(), RunError> {
    let now = CurrentDeciders {
        agent: Arc::clone(&request.agent),
        checks: Arc::clone(&request.checks),
    };
    for ((shard, place), &index) in shards.places().zip(indices) {
        let flags = &shard.journal.header().flags;
        let changes = now.changes(&shard.journal, place, index, flags)?;
        if !changes.is_empty() {
            return Err(shard.other_deciders(changes.describe()).into());
        }
    }
    Ok(())
}

fn merged_header(request: &MergeRequest, shards: &Shards) -> JournalHeader {
    let first = shards.first().journal.header();
    let plan = shards
        .places()
        .filter_map(|(shard, place)| shard.journal.plan().get(place).copied());
    let has_trials = shards
        .iter()
        .any(|shard| !shard.journal.header().trials.is_empty());
    let trials: Vec<CaseTrials> = if has_trials {
        shards
            .places()
            .map(|(shard, place)| shard.journal.trials_of(place))
            .collect()
    } else {
        Vec::new()
    };
    let started = shards
        .iter()
        .map(|shard| &shard.journal.header().started_at)
        .min();
    let now = Timestamp::now();
    JournalHeader {
        holodeck_journal: JOURNAL_VERSION,
        run_id: new_run_id(now),
        started_at: started.map_or_else(|| now.to_string(), String::clone),
        agent_path: request.agent_path.clone(),
        agent_file: RunOwner::of(&request.agent).file().to_owned(),
        shard: None,
        merged_from: shards
            .iter()
            .map(|shard| shard.journal.header().run_id.clone())
            .collect(),
        plan: plan.collect(),
        trials,
        settings: common_settings(shards),
        metadata: RunMetadata {
            cli_args: request.metadata.cli_args.clone(),
            ..first.metadata.clone()
        },
        ..first.clone()
    }
}

/// The settings that all shards had. Machines may differ in others, such as how many cases run at a time.
fn common_settings(shards: &Shards) -> Value {
    let mut common = shards.first().journal.header().settings.clone();
    if let Value::Object(common) = &mut common {
        for (name, value) in common.iter_mut() {
            let is_common = shards
                .iter()
                .all(|shard| shard.journal.header().settings.get(name) == Some(&*value));
            if !is_common {
                *value = Value::Null;
            }
        }
    }
    common
}

/// After this many units, an interrupt is noticed.
const UNITS_AT_A_TIME: usize = 256;

async fn copy(shards: &Shards, journal: &mut Journal, control: &RunControl) -> Result<(), RunError> {
    for shard in shards.iter() {
        for warning in shard.journal.warnings() {
            journal.warn(warning.clone())?;
        }
        for adaptation in shard.journal.adaptations() {
            journal.adapted(adaptation)?;
        }
    }
    let mut copied = 0;
    for (case, (shard, place)) in shards.places().enumerate() {
        for (unit, from) in journal.units_of(case).zip(shard.journal.units_of(place)) {
            journal.copy_unit(unit, &shard.journal, from)?;
            copied += 1;
            if copied % UNITS_AT_A_TIME == 0 {
                tokio::task::yield_now().await;
                if control.requested() != Stop::No {
                    return Err(MergeError::Interrupted.into());
                }
            }
        }
    }
    // Every line was checked before it was copied; a shard that changes meanwhile must not end in a verdict.
    if journal.finished() < journal.unit_count() {
        let shard = shards.first();
        return Err(shard
            .unfinished("a verdict is missing after the merge".to_owned())
            .into());
    }
    Ok(())
}

/// Shows the cases that did not pass; the logs of the shards have the others.
fn emit_not_passed(cases: &PlannedCases, sink: &mut dyn RunSink) -> Result<(), JournalError> {
    let PlannedCases {
        agent,
        journal,
        redactor,
        ..
    } = cases;
    for (place, &index) in cases.indices.iter().enumerate() {
        if journal.case_state(place)? == Some(CaseState::Passed) {
            continue;
        }
        if let Some(case) = read_case(agent, journal, place, index, redactor)? {
            sink.on(&RunEvent::CaseFinished {
                finished: place + 1,
                case: Arc::new(case),
            });
        }
    }
    Ok(())
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
