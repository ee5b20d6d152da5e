use std::path::Path;

use holodeck_model::{Code, Diagnostic, LoadedAgent, Provider};

use crate::{Check, check::unless_replayed};

/// The recording that answers by default, the folder a Claude agent works in, and the one that runs are kept in.
pub(crate) fn check(agent: &LoadedAgent) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(recording) = &agent.execution.replay.value {
        let subject = "recording";
        checks.push(if recording.is_file() {
            Check::ok(subject, format!("`{}`", recording.display()))
        } else {
            let error = Diagnostic::error(
                Code::FileNotFound,
                format!("`{}` does not exist", recording.display()),
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
    let is_claude = agent.config.model.provider == Provider::Anthropic;
    let claude = agent.config.claude.as_ref().filter(|_| is_claude)?;
    let dir = claude.working_directory.as_ref()?.path();
    Some(if dir.is_dir() {
        Check::ok(subject, format!("`{}`", dir.display()))
    } else {
        let message = format!("`{}` is not a directory", dir.display());
        let error =
            Diagnostic::error(Code::UnusableDirectory, message).at(agent.locate("claude.working_directory"));
        Check::problem(subject, unless_replayed(agent, error))
    })
}

fn writable(agent: &LoadedAgent) -> Check {
    let subject = "results";
    // An agent file named without a folder lies in the current one.
    let dir = if agent.dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        &agent.dir
    };
    let folder = agent.dir.join(".holodeck");
    let place = if folder.exists() { &folder } else { dir };
    match std::fs::metadata(place) {
        Ok(metadata) if !metadata.permissions().readonly() => {
            Check::ok(subject, format!("kept in `{}`", folder.display()))
        }
        _ => {
            let error = Diagnostic::error(
                Code::UnusableDirectory,
                format!("`{}` can't be written to", place.display()),
            )
            .with_help("runs are kept beside the agent file; give yourself write access");
            Check::problem(subject, error)
        }
    }
}
