//! Reads and compares runs by the paths of their files, without an agent file.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use holodeck_model::Redactor;
use holodeck_runs::{AgentRuns, RunOwner, RunStore};

use super::{CaseTexts, ComparedRun, Comparison, GateOptions, ReadRunError, RunReader, compare};

/// Reads the run in a file: a journal, a run file or a baseline.
pub fn read_compared(path: &Path) -> Result<ComparedRun, ReadRunError> {
    with_reader(|reader| reader.read(&path.display().to_string(), &[]))
}

/// Compares two runs that were read by their paths.
pub fn compare_read(before: &ComparedRun, after: &ComparedRun) -> Result<Comparison, ReadRunError> {
    with_reader(|reader| compare(reader, before, after, &GateOptions::default()))
}

/// The texts of the cases at these places of a run that was read by its path.
pub(super) fn texts_of(
    run: &ComparedRun,
    places: &[usize],
) -> Result<HashMap<usize, CaseTexts>, ReadRunError> {
    let places: BTreeSet<usize> = places.iter().copied().collect();
    with_reader(|reader| reader.texts(run, &places))
}

/// A reader for runs that are named by their paths: those of no agent in particular.
fn with_reader<T>(read: impl FnOnce(&RunReader<'_>) -> T) -> T {
    let runs = AgentRuns::new(RunStore::new("."), RunOwner::new(Path::new(""), None));
    let redactor = Redactor::default();
    read(&RunReader::new(&runs, &redactor, HashMap::new()))
}
