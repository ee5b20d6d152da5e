//! Runs and checks the programs and Python functions that grade answers.

use std::{path::Path, sync::Arc, thread::available_parallelism};

use async_trait::async_trait;
use holodeck_eval::Programs;
use holodeck_model::{Code, CodeMetric, Diagnostic, Env, MetricConfig, PathRef, ResolvedAgent};
use holodeck_tools::CodeGraders;
use holodeck_validators::Check;
use holodeck_yaml::LoadedAgent;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{PrepareError, judges::metrics};

/// Runs code graders as child processes, at most one for each processor at the same time.
pub(crate) struct GraderPrograms {
    graders: CodeGraders,
    slots: Semaphore,
}

impl GraderPrograms {
    /// The graders of an agent in `folder`.
    pub(crate) fn new(folder: &Path, env: &Env) -> Arc<Self> {
        Arc::new(Self {
            graders: CodeGraders::new(folder, env),
            slots: Semaphore::new(available_parallelism().map_or(1, usize::from)),
        })
    }

    /// Imports the Python graders of the `planned` cases, so that a missing one is found before the agent is asked.
    pub(crate) async fn check(
        &self,
        agent: &ResolvedAgent,
        planned: Option<&[usize]>,
    ) -> Result<(), PrepareError> {
        let mut checked: Vec<&str> = Vec::new();
        for (_, metric) in metrics(agent, planned) {
            let MetricConfig::Code(config) = metric else {
                continue;
            };
            let Some(grader) = config.grader.as_deref().filter(|name| !checked.contains(name)) else {
                continue;
            };
            checked.push(grader);
            let found = self.graders.check(config, &CancellationToken::new()).await;
            found.map_err(|reason| PrepareError::Grader {
                grader: grader.to_owned(),
                reason,
            })?;
        }
        Ok(())
    }
}

/// Checks whether the programs of all code graders exist, and imports those in Python.
pub(crate) async fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let graders = CodeGraders::new(&agent.dir, env);
    let mut checks: Vec<Check> = Vec::new();
    for (place, metric) in metrics(agent, None) {
        let MetricConfig::Code(config) = metric else {
            continue;
        };
        let command = config.command.as_ref().map(PathRef::as_str);
        let (field, name) = match command {
            Some(command) => ("command", command),
            None => ("grader", config.grader.as_deref().unwrap_or_default()),
        };
        let subject = format!("grader `{name}`");
        if checks.iter().any(|check| check.subject == subject) {
            continue;
        }
        let found = match command {
            Some(command) => match graders.find_program(command, config) {
                Some(program) => Ok(format!("runs `{}`", program.display())),
                None => Err(format!("`{command}` was not found or is not executable")),
            },
            None => graders
                .check(config, &CancellationToken::new())
                .await
                .map(|()| "can be imported".to_owned()),
        };
        checks.push(match found {
            Ok(found) => Check::ok(subject, found),
            Err(reason) => {
                let pointer = format!("{}.{field}", place.pointer());
                let error = Diagnostic::error(Code::MissingProgram, reason);
                Check::problem(subject, error.at(agent.locate(&pointer)).about(pointer))
            }
        });
    }
    checks
}

#[async_trait]
impl Programs for GraderPrograms {
    async fn run(&self, grader: &CodeMetric, context: Value) -> Result<Value, String> {
        let _slot = self.slots.acquire().await;
        // The future is dropped when the run stops, which ends the process.
        self.graders
            .run(grader, &context, &CancellationToken::new())
            .await
    }
}
