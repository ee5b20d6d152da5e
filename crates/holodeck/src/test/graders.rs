//! Runs and checks the programs and Python functions that grade answers.

use std::{
    collections::{BTreeSet, hash_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
    thread::available_parallelism,
};

use async_trait::async_trait;
use holodeck_eval::Programs;
use holodeck_model::{
    CheckIdentities, Code, CodeMetric, Diagnostic, Digest, Digests, Env, GraderFailure, GraderFiles,
    MetricConfig, PathRef, ResolvedAgent,
};
use holodeck_tools::CodeGraders;
use holodeck_validators::Check;
use holodeck_yaml::LoadedAgent;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::agent::{
    fingerprint::{IdentityError, digests_of},
    inventory::{UsedFile, files_of_grader, metrics},
};

/// Runs code graders as child processes, at most one for each processor at the same time.
pub(crate) struct GraderPrograms {
    graders: CodeGraders,
    slots: Semaphore,
    folder: PathBuf,
    /// The files of each grader as they were when the run started.
    files: GraderFiles,
}

/// The digests of the files of every code grader of an agent: its module or program, and the scripts beside it.
pub(crate) fn grader_files(agent: &ResolvedAgent) -> Result<GraderFiles, IdentityError> {
    let mut found = GraderFiles::new();
    for (place, metric) in metrics(agent, None) {
        if let MetricConfig::Code(config) = metric {
            let program = CheckIdentities::program(config);
            if let Entry::Vacant(entry) = found.entry(program) {
                entry.insert(digests_of_grader(config, &agent.dir, &place.pointer())?);
            }
        }
    }
    Ok(found)
}

fn digests_of_grader(config: &CodeMetric, folder: &Path, pointer: &str) -> Result<Digests, IdentityError> {
    let files: Vec<UsedFile<'_>> = files_of_grader(config, folder, pointer).collect();
    let digests = digests_of(folder, &files)?.into_iter();
    Ok(digests
        .map(|(name, digest)| (name, Digest::of(&Value::from(digest))))
        .collect())
}

impl GraderPrograms {
    /// The graders of an agent in `folder`.
    pub(crate) fn new(folder: &Path, env: &Env, files: GraderFiles) -> Arc<Self> {
        Arc::new(Self {
            graders: CodeGraders::new(folder, env),
            folder: folder.to_owned(),
            files,
            slots: Semaphore::new(available_parallelism().map_or(1, usize::from)),
        })
    }

    /// Refuses a grader whose files are not those that the run started with: its verdicts would be those of another program.
    fn check_files(&self, grader: &CodeMetric) -> Result<(), GraderFailure> {
        let before = self.files.get(&CheckIdentities::program(grader));
        let now = digests_of_grader(grader, &self.folder, "")
            .map_err(|error| GraderFailure::failed(error.to_string()))?;
        let nothing = Digests::new();
        let before = before.unwrap_or(&nothing);
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let changed: Vec<String> = names
            .into_iter()
            .filter(|name| before.get(*name) != now.get(*name))
            .map(|name| format!("`{name}`"))
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        Err(GraderFailure::Failed(format!(
            "files of the grader changed during the run: {}",
            changed.join(", ")
        )))
    }

    /// Imports the Python graders of the `planned` cases, so that a missing one is found before the agent is asked. An
    /// error is the grader as written, and why it cannot be called.
    pub(crate) async fn check(
        &self,
        agent: &ResolvedAgent,
        planned: Option<&[usize]>,
    ) -> Result<(), (String, String)> {
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
            found.map_err(|reason| (grader.to_owned(), reason))?;
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
    async fn run(&self, grader: &CodeMetric, context: Value) -> Result<Value, GraderFailure> {
        let _slot = self.slots.acquire().await;
        self.check_files(grader)?;
        // The future is dropped when the run stops, which ends the process.
        let result = self
            .graders
            .run(grader, &context, &CancellationToken::new())
            .await;
        self.check_files(grader)?;
        result
    }
}
