//! Merges the shards of a run. It must not ask a model.

use std::path::PathBuf;

use holodeck_model::{DiskFiles, Env, identify_cases};
use holodeck_runner::{MergeRequest, RunControl, RunOutcome, RunSink, VerdictSource};
use holodeck_runs::AgentRuns;
use holodeck_yaml::LoadedAgent;

use super::{PrepareError, TestError, TestOptions, check_identities, settings::metadata};
use crate::{
    agent::secrets::redactor,
    test::{calibrated::refuse_uncalibrated, judge_steps},
};

/// Shards that can be merged.
pub struct PreparedMerge {
    request: MergeRequest,
    journals: Vec<PathBuf>,
}

/// As [`prepare_test`], for merging the shards of a run, each a run id, its beginning, a journal or a folder with
/// journals: no tool, server or model is needed.
pub fn prepare_merge(
    agent: LoadedAgent,
    env: &Env,
    options: &TestOptions,
    runs: &[String],
) -> Result<PreparedMerge, PrepareError> {
    judge_steps::refuse_missing(&agent, None, "a merge")?;
    let found = AgentRuns::of(&agent).find_shards(runs)?.into_iter();
    let journals = found.map(|run| run.journal).collect();
    let identities = identify_cases(&agent.config.test_cases, &DiskFiles).into();
    let redactor = redactor(&agent, env);
    refuse_uncalibrated(
        &agent,
        &agent.places,
        None,
        env,
        &redactor,
        VerdictSource::Recorded,
    )?;
    let request = MergeRequest {
        metadata: metadata(&agent.agent, options, &redactor),
        checks: check_identities(&agent, env)?.0,
        agent: agent.agent,
        agent_path: options.agent_path.clone(),
        identities,
        redactor,
    };
    Ok(PreparedMerge { request, journals })
}

impl PreparedMerge {
    /// Merges the shards.
    pub async fn run(self, control: &RunControl, sink: &mut dyn RunSink) -> Result<RunOutcome, TestError> {
        Ok(holodeck_runner::merge_shards(self.request, &self.journals, control, sink).await?)
    }
}
