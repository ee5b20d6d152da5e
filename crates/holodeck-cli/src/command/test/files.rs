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

    /// Makes sure before a run that its reports have a place: a run costs time and money.
    pub(super) fn prepare(&self) -> Result<(), Problem> {
        for (_, path) in &self.wanted {
            let wrong = |why: &dyn std::fmt::Display| {
                Problem::config(format!("cannot write a report to `{}`: {why}", path.display()))
            };
            if path.is_dir() {
                return Err(wrong(&"it is a directory"));
            }
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(|error| wrong(&error))?;
            }
            attempt(path).map_err(|error| wrong(&error))?;
        }
        Ok(())
    }

    /// Writes all; one that fails keeps no other from being written. Returns those that were written.
    pub(super) fn write(&self, outcome: &RunOutcome) -> (Vec<PathBuf>, Vec<Problem>) {
        let mut written = Vec::new();
        let mut problems = Vec::new();
        for (format, path) in &self.wanted {
            match write(*format, path, outcome) {
                Ok(()) => written.push(path.clone()),
                Err(error) => problems.push(Problem::execution(format!(
                    "cannot write the report `{}`: {error}",
                    path.display()
                ))),
            }
        }
        (written, problems)
    }
}

/// Whether a report is written as it comes: into a pipe or a device.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}

fn partial(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    PathBuf::from(partial)
}

/// Writes nothing, at the place of a report.
fn attempt(path: &Path) -> std::io::Result<()> {
    if is_special(path) {
        // A pipe is opened when there is something for it.
        return Ok(());
    }
    if path.exists() {
        fs::OpenOptions::new().write(true).open(path)?;
    }
    let partial = partial(path);
    fs::File::create(&partial)?;
    fs::remove_file(&partial)
}

/// In one step, so that no one reads half a report; into a pipe or a device as it comes.
fn write(format: Format, path: &Path, outcome: &RunOutcome) -> Result<(), ReportError> {
    if is_special(path) {
        return write_to(format, fs::OpenOptions::new().write(true).open(path)?, outcome);
    }
    let partial = partial(path);
    let written =
        write_to(format, fs::File::create(&partial)?, outcome).and_then(|()| Ok(fs::rename(&partial, path)?));
    if written.is_err() {
        // Half a report is of no use, and a full disk needs the room.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write_to(format: Format, file: fs::File, outcome: &RunOutcome) -> Result<(), ReportError> {
    let mut file = BufWriter::with_capacity(1 << 16, file);
    outcome.with_view(|view| write_report(format, view, &mut file))?;
    Ok(file.flush()?)
}
