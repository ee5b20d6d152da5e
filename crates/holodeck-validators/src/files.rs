//! Checks the recording, the working folder and the permission to write runs.

use std::{
    fs::{self, File},
    io,
    path::Path,
    process,
};

use holodeck_model::{Code, Diagnostic, io_reason, shown_path};
use holodeck_yaml::LoadedAgent;

use crate::{Check, check::unless_replayed};

/// The default recording, the working folder of a Claude agent, and the folder of runs.
pub(crate) fn check(agent: &LoadedAgent) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(recording) = &agent.execution.replay.value {
        let subject = "recording";
        checks.push(if recording.is_file() {
            Check::ok(subject, format!("`{}`", shown_path(recording).display()))
        } else {
            let error = Diagnostic::error(
                Code::FileNotFound,
                format!("`{}` does not exist", shown_path(recording).display()),
            )
            .at(agent.locate("execution.replay"))
            .with_help("record it with `holodeck test --live --record FILE`");
            Check::problem(subject, error)
        });
    }
    checks.extend(working_directory(agent));
    checks.push(writable(agent));
    checks
}

fn working_directory(agent: &LoadedAgent) -> Option<Check> {
    let subject = "working directory";
    let is_claude = agent.config.is_claude();
    let claude = agent.config.claude.as_ref().filter(|_| is_claude)?;
    let dir = claude.working_directory.as_ref()?.path();
    Some(if dir.is_dir() {
        Check::ok(subject, format!("`{}`", shown_path(&dir).display()))
    } else {
        let message = format!("`{}` is not a directory", shown_path(&dir).display());
        let error =
            Diagnostic::error(Code::UnusableDirectory, message).at(agent.locate("claude.working_directory"));
        Check::problem(subject, unless_replayed(agent, error))
    })
}

/// Whether the journals and run files of tests can be written. Creates and removes a file, since permissions alone are
/// not sufficient (read-only and full file systems, access lists).
fn writable(agent: &LoadedAgent) -> Check {
    let subject = "results";
    let folders = [".holodeck/runs", "results"].map(|name| agent.dir.join(name));
    for folder in &folders {
        if let Err((place, error)) = try_out(folder) {
            let error = Diagnostic::error(
                Code::UnusableDirectory,
                format!(
                    "`{}` can't be written to: {}",
                    shown_path(place).display(),
                    io_reason(&error)
                ),
            )
            .with_help("runs are kept beside the agent file; give yourself write access");
            return Check::problem(subject, error);
        }
    }
    let [runs, results] = folders;
    let found = format!(
        "kept in `{}` and `{}`",
        shown_path(&runs).display(),
        shown_path(&results).display()
    );
    Check::ok(subject, found)
}

/// Creates and removes a file in `folder`, or in its nearest existing ancestor. An error names the path.
fn try_out(folder: &Path) -> Result<(), (&Path, io::Error)> {
    let mut existing = folder
        .ancestors()
        .filter(|place| place.symlink_metadata().is_ok());
    // An agent file without a folder in its path is in the current one.
    let place = existing.next().unwrap_or(Path::new("."));
    let trial = place.join(format!(".holodeck-doctor-{}", process::id()));
    let tried = File::create_new(&trial).and_then(|_file| fs::remove_file(&trial));
    tried.map_err(|error| (place, error))
}
