//! Compares two runs of an agent: finds them, compares them with the runner, and masks the agent's secrets.
//!
//! The agent may be invalid or missing as long as the runs can be read. The comparison itself is in `holodeck-runner`.

use std::{collections::HashMap, path::Path, sync::Arc};

use holodeck_model::{CaseId, DiskFiles, Redactor, identify_cases};
use holodeck_runner::{Comparison, GateOptions, ReadRunError, RunReader, RunStore, compare};

use crate::{EnvironmentError, environment, load, redactor};

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
/// `baseline:NAME` or a path. The agent does not have to be valid, and if both runs are files, it does not have to
/// exist: its secrets and the names of its cases are used as far as they are known.
pub fn compare_runs(
    agent: &Path,
    before: &str,
    after: &str,
    options: &GateOptions,
) -> Result<Compared, CompareError> {
    let are_files = [before, after].iter().all(|run| Path::new(run).is_file());
    if !agent.is_file() && !are_files {
        return Err(CompareError::NoAgent {
            path: agent.display().to_string(),
        });
    }
    let (redactor, names) = known_parts(agent)?;
    let folder = agent.parent().filter(|folder| !folder.as_os_str().is_empty());
    let store = RunStore::new(folder.unwrap_or(Path::new(".")));
    let reader = RunReader::new(&store, &redactor, names);
    let (before, after) = (reader.read(before)?, reader.read(after)?);
    let comparison = compare(&reader, &before, &after, options)?;
    Ok(Compared { comparison, redactor })
}

/// The secrets of the agent and the names of its cases.
fn known_parts(agent: &Path) -> Result<(Arc<Redactor>, HashMap<CaseId, String>), CompareError> {
    if !agent.is_file() {
        return Ok((Arc::default(), HashMap::new()));
    }
    let env = environment(agent)?;
    let Some(agent) = load(agent, &env).agent else {
        return Ok((Arc::default(), HashMap::new()));
    };
    let cases = &agent.config.test_cases;
    let identities = identify_cases(cases, &DiskFiles);
    let names = identities.iter().enumerate();
    let names = names
        .filter_map(|(index, identity)| Some((identity.id, cases.name(index)?.to_owned())))
        .collect();
    Ok((redactor(&agent, &env), names))
}
