//! Whether the programs of command lines exist: those of `routing.legacy` and of `quality_loop.scorer.signals`.
//!
//! Tools, servers and graders have checks of their own, which know more about them. It runs nothing.

use std::{ffi::OsStr, path::PathBuf};

use holodeck_model::{Code, Diagnostic, Env};
use holodeck_process::which;
use holodeck_validators::{Check, CheckState};
use holodeck_yaml::LoadedAgent;

use super::{FileOwner, Named, files};

/// A check for each command line of an agent file, in its order.
pub(crate) fn programs(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let used = files(agent).into_iter();
    let checks = used.filter_map(|used| {
        let (name, folder) = match (&used.named, used.owner) {
            (Named::CommandLine(line, folder), _) => (line.first()?.as_str(), *folder),
            (Named::Program { command, folder, .. }, FileOwner::Hooks) => ((*command)?.as_str(), *folder),
            _ => return None,
        };
        let subject = format!("program of `{}`", used.pointer);
        // As the program is started: a bare name is looked up, a path is relative to the agent file.
        let program = if name.contains('/') {
            folder.join(name)
        } else {
            PathBuf::from(name)
        };
        if let Some(found) = which(program, env.get("PATH").map(OsStr::new)) {
            return Some(Check::ok(subject, format!("runs `{}`", found.display())));
        }
        let problem = format!("`{name}` was not found or is not executable");
        let problem = Diagnostic::error(Code::MissingProgram, problem)
            .at(agent.locate(&used.pointer))
            .about(used.pointer.clone())
            .with_help("install it, or make it executable with `chmod +x`");
        Some(Check::problem(subject, problem))
    });
    checks.collect()
}

/// The command lines whose programs are missing, as warnings before a run.
pub(crate) fn missing_programs(agent: &LoadedAgent, env: &Env) -> impl Iterator<Item = String> {
    let checks = programs(agent, env).into_iter();
    checks
        .filter(|check| check.state != CheckState::Ok)
        .map(|check| format!("{}: {}", check.subject, check.found))
}
