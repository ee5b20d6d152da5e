//! The settings of a run, from the agent file and the flags. It must not open anything.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use holodeck_model::{Redactor, Replayed, ResolvedAgent, RunMetadata, SideEffectGate};
use holodeck_runner::RunSettings;
use holodeck_runs::{JournalHeader, RunFlags};
use holodeck_yaml::LoadedAgent;
use serde_json::{Value, json};

use super::{PrepareError, TestOptions};
use crate::{
    AnswerSource, OpenAgent,
    agent::{claude::machine, git},
    index::Rebuild,
};

/// Restores the options that a resumed run was started with: the source of its answers and the flags that shape them. A
/// flag that is given again must be the same. Only the timeout may differ, because it is a reason to resume; then a
/// warning is returned.
pub(super) fn restore_options(
    options: &mut TestOptions,
    header: &JournalHeader,
    agent: &LoadedAgent,
) -> Result<Option<String>, PrepareError> {
    let differs = |flag, with| PrepareError::FlagDiffers {
        flag,
        with,
        run_id: header.run_id.clone(),
    };
    let flags = &header.flags;
    if options.open.side_effects == SideEffectGate::Open && !flags.allow_side_effects {
        return Err(differs("--allow-side-effects", false));
    }
    if options.without_loop && !flags.without_loop {
        return Err(differs("--without-loop", false));
    }
    options.without_loop = flags.without_loop;
    if options.open.rebuild == Rebuild::Everything && !flags.force_ingest {
        return Err(differs("--force-ingest", false));
    }
    let record = flags.record.as_ref().map(PathBuf::from);
    if options.open.record.is_some() && options.open.record != record {
        return Err(differs("--record", record.is_some()));
    }
    options.open.record = record;
    if flags.allow_side_effects {
        options.open.side_effects = SideEffectGate::Open;
    }
    if flags.force_ingest {
        options.open.rebuild = Rebuild::Everything;
    }
    options.open.answers = match &header.replayed {
        Some(replayed) => AnswerSource::Replay(PathBuf::from(&replayed.cassette)),
        None => AnswerSource::Live,
    };
    let given = options.timeout.is_some();
    options.timeout = options
        .timeout
        .or_else(|| flags.timeout_s.map(Duration::from_secs_f64));
    let mut timeout = agent.execution.llm_timeout.clone();
    timeout.override_with(options.timeout);
    let (now, before) = (timeout.value.as_secs_f64(), header.settings.get("llm_timeout_s"));
    let before = before
        .and_then(Value::as_f64)
        .filter(|&before| given && before.to_bits() != now.to_bits());
    Ok(before.map(|before| {
        format!("resumed with `--timeout {now}`; the run was started with a timeout of {before} s")
    }))
}

pub(super) fn settings(
    agent: &ResolvedAgent,
    options: &TestOptions,
    replayed: Option<&Replayed>,
) -> RunSettings {
    let mut parallel = agent.execution.parallel_test_cases.clone();
    parallel.override_with(options.parallel.map(Some));
    RunSettings {
        concurrency: concurrency(agent, parallel.value, replayed.is_none()),
        on_failure: options.on_failure,
        budget: options.budget,
        flags: RunFlags {
            allow_side_effects: options.open.side_effects == SideEffectGate::Open,
            force_ingest: options.open.rebuild == Rebuild::Everything,
            without_loop: options.without_loop,
            timeout_s: options.timeout.map(|timeout| timeout.as_secs_f64()),
            record: options
                .open
                .record
                .as_ref()
                .map(|path| path.display().to_string()),
            trials: options.trials,
            min_passes: options.min_passes,
        },
    }
}

/// The number of cases that run at a time. HTTP endpoints and recordings need few resources of this machine, but Claude
/// Code runs a process on it for each case.
pub(super) fn concurrency(agent: &ResolvedAgent, requested: Option<NonZeroUsize>, live: bool) -> usize {
    let claude = agent.config.is_claude() && live;
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let default = if claude { 1 } else { (cores * 4).min(8) };
    let limit = agent.config.claude.as_ref().filter(|_| claude);
    let limit = limit.and_then(|claude| usize::try_from(claude.max_concurrent_sessions?).ok());
    let requested = requested.map_or(default, NonZeroUsize::get);
    limit.map_or(requested, |limit| requested.min(limit))
}

/// The stored facts about a run of an open agent: its configuration, its servers and the files of the machine.
pub(super) fn metadata_of_open(open: &OpenAgent, options: &TestOptions) -> RunMetadata {
    let redactor = open.redactor();
    RunMetadata {
        mcp_servers: open.servers().records(&redactor),
        managed_files: machine::managed_records(open.agent(), Path::new(machine::MANAGED)),
        ..metadata(open.agent(), options, &redactor)
    }
}

/// The stored facts about a run of an agent that is not opened for it.
pub(super) fn metadata(agent: &ResolvedAgent, options: &TestOptions, redactor: &Redactor) -> RunMetadata {
    // The report already contains the cases; a second copy would double the size of the file and the memory.
    let mut config = serde_json::to_value(agent.config.without_cases()).unwrap_or(Value::Null);
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
        managed_files: Vec::new(),
    }
}
