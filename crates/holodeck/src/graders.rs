//! The code graders of an agent.

use std::{path::Path, sync::Arc, thread::available_parallelism};

use async_trait::async_trait;
use holodeck_eval::Programs;
use holodeck_model::{CodeMetric, Env, MetricConfig, ResolvedAgent};
use holodeck_tools::CodeGraders;
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
