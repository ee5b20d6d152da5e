//! `judge-steps.json` beside the agent file: the steps that judges derived from criteria, derived once and committed.
//!
//! All runs, shards and machines judge by the same steps, which are part of the judge's identity. Steps are never
//! overwritten while their criteria and judge are the same.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck_eval::JUDGE_PROMPTS;
use holodeck_judging::{RunJudge, StepsError, derive_steps};
use holodeck_model::{
    CheckIdentities, Code, DerivedSteps, Diagnostic, Digest, Env, ModelConfig, ResolvedAgent, Spent,
    io_reason, read_text_input,
};
use holodeck_turn::TurnRunner;
use holodeck_yaml::{Load, LoadedAgent};
use serde::{Deserialize, Serialize};

use crate::{
    OpenError, OpenOptions,
    agent::{backends::BackendSelector, inventory::Inventory, judging::JudgeSetup, model_pool::ModelPool},
};

/// The file beside the agent file.
pub const JUDGE_STEPS: &str = "judge-steps.json";

/// The version of its format.
const FORMAT: u32 = 1;

/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// Why the steps of judges cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeStepsError {
    /// The file cannot be read or written, or is damaged.
    #[error("`{path}`: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// Steps are missing where they cannot be derived.
    #[error(
        "the judge's steps of {} are not in `{JUDGE_STEPS}`, and {what} must not derive its own",
        metrics.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    )]
    Missing {
        /// The metrics.
        metrics: Vec<String>,
        /// The part that needs them, as in `a shard`.
        what: &'static str,
    },
    /// The judge cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The judge derived no steps.
    #[error(transparent)]
    Derived(#[from] StepsError),
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepsFile {
    holodeck_judge_steps: u32,
    /// By what they depend on.
    steps: BTreeMap<Digest, StoredSteps>,
}

/// The steps of one metric; all but the steps are for readers of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSteps {
    metric: String,
    judge: String,
    criteria: String,
    steps: Vec<String>,
}

impl StepsFile {
    fn read(path: &Path) -> Result<Self, JudgeStepsError> {
        let problem = |reason: String| JudgeStepsError::File {
            path: path.display().to_string(),
            reason,
        };
        let text = match read_text_input(path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    holodeck_judge_steps: FORMAT,
                    steps: BTreeMap::new(),
                });
            }
            Err(error) => return Err(problem(io_reason(&error))),
        };
        let file: Self =
            serde_json::from_str(&text).map_err(|error| problem(format!("not a file of steps: {error}")))?;
        if file.holodeck_judge_steps != FORMAT {
            let found = file.holodeck_judge_steps;
            return Err(problem(format!(
                "format {found} is not known; this holodeck reads {FORMAT}"
            )));
        }
        let is_empty = |stored: &StoredSteps| {
            stored.steps.is_empty() || stored.steps.iter().any(|step| step.trim().is_empty())
        };
        if let Some((key, stored)) = file.steps.iter().find(|(_, stored)| is_empty(stored)) {
            let metric = &stored.metric;
            return Err(problem(format!("the steps {key} of `{metric}` are empty")));
        }
        Ok(file)
    }

    /// Writes beside the file and renames: a reader sees a whole file.
    fn write(&self, path: &Path) -> Result<(), JudgeStepsError> {
        let written = serde_json::to_string_pretty(self)
            .map_err(io::Error::from)
            .and_then(|text| {
                let partial = partial(path);
                let result = (|| {
                    let mut file = fs::File::create(&partial)?;
                    writeln!(file, "{text}")?;
                    file.sync_all()?;
                    fs::rename(&partial, path)
                })();
                if result.is_err() {
                    // It may not exist.
                    let _ = fs::remove_file(&partial);
                }
                result
            });
        written.map_err(|error| JudgeStepsError::File {
            path: path.display().to_string(),
            reason: format!("cannot be written: {}", io_reason(&error)),
        })
    }
}

fn partial(path: &Path) -> PathBuf {
    path.with_extension(format!("json.{}.partial", std::process::id()))
}

fn file_of(agent: &ResolvedAgent) -> PathBuf {
    agent.dir.join(JUDGE_STEPS)
}

/// Enters the stored steps when an agent is loaded. A damaged file is an error.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &mut load.agent else { return };
    if CheckIdentities::derived_steps(agent, None, JUDGE_PROMPTS).is_empty() {
        return;
    }
    if let Err(error) = enter(Arc::make_mut(&mut agent.agent)) {
        load.diagnostics
            .push(Diagnostic::error(Code::UnreadableFile, error.to_string()));
        load.agent = None;
    }
}

/// Enters the stored steps.
fn enter(agent: &mut ResolvedAgent) -> Result<(), JudgeStepsError> {
    let file = StepsFile::read(&file_of(agent))?;
    CheckIdentities::enter_steps(agent, JUDGE_PROMPTS, &|key| {
        Some(file.steps.get(&key)?.steps.clone())
    });
    Ok(())
}

/// Refuses what must not derive steps of its own, such as a shard.
pub(crate) fn refuse_missing(
    agent: &ResolvedAgent,
    planned: Option<&[usize]>,
    what: &'static str,
) -> Result<(), JudgeStepsError> {
    let missing = CheckIdentities::derived_steps(agent, planned, JUDGE_PROMPTS);
    if missing.is_empty() {
        return Ok(());
    }
    let metrics = missing.into_iter().map(|steps| steps.metric.name).collect();
    Err(JudgeStepsError::Missing { metrics, what })
}

/// Derives the missing steps and writes them. Returns the names of their metrics, and what that cost.
pub(crate) async fn derive_missing(
    agent: &mut LoadedAgent,
    planned: Option<&[usize]>,
    backends: &BackendSelector,
    turns: &TurnRunner,
) -> Result<(Vec<String>, Spent), JudgeStepsError> {
    let path = file_of(agent);
    // Another run may have written them since the agent was loaded.
    enter(Arc::make_mut(&mut agent.agent))?;
    let needed = CheckIdentities::derived_steps(agent, planned, JUDGE_PROMPTS);
    if needed.is_empty() {
        return Ok((Vec::new(), Spent::default()));
    }
    check_writable(&path)?;
    let redactor = backends.answers().redactor();
    let judges = ModelPool::new(&agent.agent, backends).judges(turns);
    let (judge, _) = RunJudge::new(
        Some(judges),
        agent
            .default_judge()
            .map(ModelConfig::answering)
            .unwrap_or_default(),
        &redactor,
    );
    let derived = derive_steps(&needed, &judge).await;
    judge.close().await.map_err(OpenError::from)?;
    let (derived, spent) = derived?;
    let mut file = StepsFile::read(&path)?;
    for (needed, steps) in needed.iter().zip(derived) {
        let DerivedSteps { metric, judge, .. } = needed;
        file.steps.entry(needed.key).or_insert_with(|| StoredSteps {
            metric: redactor.text(&metric.name).into_owned(),
            judge: redactor
                .text(&format!("{} {}", judge.provider, judge.name))
                .into_owned(),
            criteria: redactor.text(&metric.criteria).into_owned(),
            steps,
        });
    }
    file.write(&path)?;
    enter(Arc::make_mut(&mut agent.agent))?;
    let names = needed.into_iter().map(|needed| needed.metric.name);
    Ok((names.collect(), spent))
}

/// Checks that the file can be written, before a judge is asked.
fn check_writable(path: &Path) -> Result<(), JudgeStepsError> {
    let probe = partial(path);
    let result = fs::File::create(&probe).and_then(|_| fs::remove_file(&probe));
    result.map_err(|error| JudgeStepsError::File {
        path: path.display().to_string(),
        reason: format!(
            "cannot be written, and the steps of judges must be kept: {}",
            io_reason(&error)
        ),
    })
}

/// The note of a run that derived steps.
pub(crate) fn note(metrics: &[String]) -> Option<String> {
    let names: Vec<String> = metrics.iter().map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the judge derived the steps of {} from their criteria and they were written to `{JUDGE_STEPS}`: commit it, so \
             that every run judges by the same steps",
            names.join(", ")
        )
    })
}

/// `holodeck test steps`: derives the missing steps of an agent's judges and writes them. Asks no agent. Returns the names
/// of the metrics whose steps were derived, and what that cost.
pub async fn derive_judge_steps(
    mut agent: LoadedAgent,
    env: &Env,
    options: &OpenOptions,
) -> Result<(Vec<String>, Spent), JudgeStepsError> {
    if CheckIdentities::derived_steps(&agent, None, JUDGE_PROMPTS).is_empty() {
        return Ok((Vec::new(), Spent::default()));
    }
    let inventory = Inventory::new(&agent, None);
    let JudgeSetup { backends, turns } = JudgeSetup::new(&agent, &inventory, env, options, None)?;
    derive_missing(&mut agent, None, &backends, &turns).await
}
