use std::{
    collections::BTreeSet,
    fs,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use holodeck::runner::{Format, ReportError, RunOutcome, write_report};

use crate::failure::Problem;

/// The reports that were asked for.
#[derive(Debug)]
pub(super) struct Reports {
    wanted: Vec<(Format, PathBuf)>,
}

impl Reports {
    pub(super) fn new(wanted: impl Iterator<Item = (Format, PathBuf)>) -> Result<Self, Problem> {
        let wanted: Vec<_> = wanted.collect();
        let mut paths = BTreeSet::new();
        for (_, path) in &wanted {
            if !paths.insert(path) {
                return Err(Problem::config(format!(
                    "two reports would be written to `{}`",
                    path.display()
                )));
            }
        }
        Ok(Self { wanted })
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.wanted.iter().map(|(_, path)| path.clone())
    }

    /// Makes sure before a run that its reports have a place: a run costs time and money.
    pub(super) fn prepare(&self) -> Result<(), Problem> {
        for (_, path) in &self.wanted {
            let wrong = |why: String| {
                Problem::config(format!(
                    "a report can't be written to `{}`: {why}",
                    path.display()
                ))
            };
            if path.is_dir() {
                return Err(wrong("it is a directory".to_owned()));
            }
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(|error| wrong(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Writes all; one that fails keeps no other from being written.
    pub(super) fn write(&self, outcome: &RunOutcome) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (format, path) in &self.wanted {
            if let Err(error) = write(*format, path, outcome) {
                problems.push(Problem::execution(format!(
                    "writing the report `{}`: {error}",
                    path.display()
                )));
            }
        }
        problems
    }
}

/// In one step, so that no one reads half a report; into a pipe or a device as it comes.
fn write(format: Format, path: &Path, outcome: &RunOutcome) -> Result<(), ReportError> {
    let special = fs::metadata(path).is_ok_and(|there| !there.is_file());
    let mut partial = path.as_os_str().to_owned();
    if !special {
        partial.push(".partial");
    }
    let partial = PathBuf::from(partial);
    let file = if special {
        fs::OpenOptions::new().write(true).open(&partial)?
    } else {
        fs::File::create(&partial)?
    };
    let mut file = BufWriter::with_capacity(1 << 16, file);
    outcome.with_view(|view| write_report(format, view, &mut file))?;
    file.flush()?;
    if !special {
        fs::rename(&partial, path)?;
    }
    Ok(())
}
