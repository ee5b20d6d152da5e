//! Grades the answers of an earlier run again. It must not ask the agent.

use std::{path::PathBuf, sync::Arc};

use holodeck_backend_api::Adaptations;
use holodeck_model::{DiskFiles, Env, identify_cases};
use holodeck_otel_bridge::Telemetry;
use holodeck_runner::{RegradeRequest, Renew, RunControl, RunOutcome, RunSink};
use holodeck_runs::{AgentRuns, Journal, Member, RunUse};
use holodeck_yaml::LoadedAgent;

use super::{
    PrepareError, TestError, TestOptions, check_identities, settings::concurrency, source_of_verdicts,
};
use crate::{
    agent::{
        inventory::{Inventory, ModelRole},
        judging::JudgeSetup,
        model_pool::ModelPool,
        secrets::redactor,
        telemetry::{self, TracedRun},
    },
    test::{calibrated::refuse_uncalibrated, graders::GraderPrograms, judge_steps},
};

/// Answers of an earlier run that can be graded again.
pub struct PreparedRegrade {
    request: RegradeRequest,
    old: PathBuf,
    telemetry: Telemetry,
}

/// As [`prepare_test`], for grading the answers of an earlier run again: no tool or server is needed, and of models only
/// the judges. Must be called inside a tokio runtime if the agent's `observability` is enabled.
pub fn prepare_regrade(
    agent: LoadedAgent,
    env: &Env,
    options: &TestOptions,
    run: &str,
    renew: Renew,
) -> Result<PreparedRegrade, PrepareError> {
    judge_steps::refuse_missing(&agent, None, "a regrade")?;
    let member = Member::Of(agent.combination.as_ref());
    let old = AgentRuns::of(&agent).find(run, RunUse::Regrade, member)?.journal;
    let identities = identify_cases(&agent.config.test_cases, &DiskFiles).into();
    let (mut judge, mut redactor) = (None, redactor(&agent, env));
    let mut adaptations = Adaptations::default();
    let mut telemetry = Telemetry::off();
    let is_observed = agent
        .config
        .observability
        .as_ref()
        .is_some_and(|config| config.enabled);
    let regraded = is_observed.then(|| Journal::open(&old)).transpose()?;
    let regraded = regraded.map(|journal| {
        let header = journal.header();
        header.regrades.clone().unwrap_or_else(|| header.run_id.clone())
    });
    let start = |redactor| match regraded {
        Some(run) => telemetry::start_regrade(&agent, run, env, redactor),
        None => Telemetry::off(),
    };
    let inventory = Inventory::new(&agent, None);
    if inventory.each(&ModelRole::JUDGES).is_empty() {
        telemetry = start(Arc::clone(&redactor));
    } else {
        let setup = JudgeSetup::new(&agent, &inventory, env, &options.open, options.timeout)?;
        redactor = setup.answers().redactor();
        adaptations = setup.answers().adaptations();
        refuse_uncalibrated(
            &agent,
            &agent.places,
            None,
            env,
            &redactor,
            source_of_verdicts(setup.answers()),
        )?;
        if setup.answers().replayed().is_none() {
            telemetry = start(Arc::clone(&redactor));
        }
        let JudgeSetup { backends, turns } = setup;
        let backends = backends.traced(telemetry.clone());
        let pool = ModelPool::new(&agent.agent, &backends);
        judge = pool.has_judges(None).then(|| pool.judges(&turns));
    }
    let mut cli_args = options.cli_args.clone();
    redactor.arguments(&mut cli_args);
    let (checks, files_of_graders) = check_identities(&agent, env)?;
    let programs = GraderPrograms::new(&agent.dir, env, files_of_graders);
    let request = RegradeRequest {
        concurrency: concurrency(&agent, agent.execution.parallel_test_cases.value, false),
        agent: agent.agent,
        agent_path: options.agent_path.clone(),
        identities,
        redactor,
        judge,
        programs,
        checks,
        adaptations,
        renew,
        cli_args,
    };
    Ok(PreparedRegrade {
        request,
        old,
        telemetry,
    })
}

impl PreparedRegrade {
    /// Grades the answers.
    pub async fn run(&self, control: &RunControl, sink: &mut dyn RunSink) -> Result<RunOutcome, TestError> {
        let telemetry = self.telemetry.clone();
        let mut sink = TracedRun {
            telemetry,
            regrades: true,
            sink,
        };
        let outcome = holodeck_runner::regrade(&self.request, &self.old, control, &mut sink).await;
        control.within(telemetry::finish(&self.telemetry)).await;
        Ok(outcome?)
    }
}
