//! Compares two runs of an agent: finds them, compares them with the runner, and masks the agent's secrets.
//!
//! The agent may be invalid or missing as long as the runs can be read. The comparison itself is in `holodeck-runner`.

use std::{collections::HashMap, path::Path, sync::Arc};

use holodeck_model::{CaseId, DiskFiles, Redactor, identify_cases};
use holodeck_reports::{ComparedRun, Comparison, GateOptions, ReadRunError, RunReader, compare};
use holodeck_runs::{AgentRuns, LATEST, RunOwner, RunStore, is_path};

use crate::{EnvironmentError, agent::environment::environment, load, redactor, test::prepare::WITHOUT_LOOP};

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The environment of the agent.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The agent file does not exist, and the runs are not files.
    #[error("there is no agent file `{path}` that the runs could belong to")]
    NoAgent {
        /// The agent file.
        path: String,
    },
    /// `--matrix` was given, and neither run is `latest`.
    #[error("`--matrix` chooses the run that `latest` means, and neither run is `latest`")]
    NoLatest,
    /// A gate cannot rely on a journal whose lines have no digests.
    #[error(
        "`--gate` cannot rely on run `{run}`: an earlier version of holodeck recorded it, without digests"
    )]
    WithoutChain {
        /// The run.
        run: String,
    },
    /// One of the runs left out the quality loop.
    #[error(
        "the answers of one of the runs are those of the quality loop, and the other was run with `--without-loop`"
    )]
    LoopDiffers,
    /// One of the runs.
    #[error(transparent)]
    Read(#[from] ReadRunError),
}

/// A comparison, and what masks the agent's secrets in everything that is written about it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Compared {
    /// The comparison.
    pub comparison: Comparison,
    /// Masks secrets.
    pub redactor: Arc<Redactor>,
}

/// Compares two runs of the agent in the file `agent`, each a run id, its beginning, `latest`, `baseline`,
/// `baseline:NAME` or a path. Of a matrix, `matrix` says which run `latest` means, as `--matrix` does. The agent does not have to be valid, and if both runs are files, it does not have to
/// exist: its secrets and the names of its cases are used as far as they are known.
pub fn compare_runs(
    agent: &Path,
    before: &str,
    after: &str,
    matrix: &[(String, String)],
    options: &GateOptions,
) -> Result<Compared, CompareError> {
    if !matrix.is_empty() && before != LATEST && after != LATEST {
        return Err(CompareError::NoLatest);
    }
    let are_files = [before, after]
        .iter()
        .all(|run| is_path(run) && Path::new(run).is_file());
    if !agent.is_file() && !are_files {
        return Err(CompareError::NoAgent {
            path: agent.display().to_string(),
        });
    }
    let StoredRuns {
        runs,
        redactor,
        names,
    } = runs_of(agent)?;
    let reader = RunReader::new(&runs, &redactor, names);
    let (before, after) = (reader.read(before, matrix)?, reader.read(after, matrix)?);
    if let Some(run) = [&before, &after]
        .into_iter()
        .find(|run| options.gate && run.is_without_chain())
    {
        return Err(CompareError::WithoutChain {
            run: run.info().name.clone(),
        });
    }
    let is_without_loop = |run: &ComparedRun| run.info().agent_parts.contains_key(WITHOUT_LOOP);
    if is_without_loop(&before) != is_without_loop(&after) {
        return Err(CompareError::LoopDiffers);
    }
    let comparison = compare(&reader, &before, &after, options)?;
    Ok(Compared { comparison, redactor })
}

/// The stored runs of an agent that does not have to be valid, and what is known of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoredRuns {
    /// The runs.
    pub runs: AgentRuns,
    /// Masks its secrets.
    pub redactor: Arc<Redactor>,
    /// The names of its cases.
    pub names: HashMap<CaseId, String>,
}

/// The stored runs of the agent in the file `agent`, which must exist.
pub fn stored_runs(agent: &Path) -> Result<StoredRuns, CompareError> {
    if !agent.is_file() {
        return Err(CompareError::NoAgent {
            path: agent.display().to_string(),
        });
    }
    runs_of(agent)
}

fn runs_of(agent: &Path) -> Result<StoredRuns, CompareError> {
    let Known {
        redactor,
        names,
        owner,
    } = known_parts(agent)?;
    let folder = agent.parent().filter(|folder| !folder.as_os_str().is_empty());
    let runs = AgentRuns::new(RunStore::new(folder.unwrap_or(Path::new("."))), owner);
    Ok(StoredRuns {
        runs,
        redactor,
        names,
    })
}

/// The known parts of an agent that does not have to be valid.
struct Known {
    redactor: Arc<Redactor>,
    names: HashMap<CaseId, String>,
    owner: RunOwner,
}

/// The secrets of the agent, the names of its cases, and its own name.
fn known_parts(path: &Path) -> Result<Known, CompareError> {
    let unknown = || Known {
        redactor: Arc::default(),
        names: HashMap::new(),
        owner: RunOwner::new(path, None),
    };
    if !path.is_file() {
        return Ok(unknown());
    }
    let env = environment(path)?;
    let Some(agent) = load(path, &env).agent else {
        return Ok(unknown());
    };
    let cases = &agent.config.test_cases;
    let identities = identify_cases(cases, &DiskFiles);
    let names = identities.iter().enumerate();
    let names = names
        .filter_map(|(index, identity)| Some((identity.id, cases.name(index)?.to_owned())))
        .collect();
    Ok(Known {
        redactor: redactor(&agent, &env),
        names,
        owner: RunOwner::of(&agent),
    })
}
