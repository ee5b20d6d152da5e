//! The commands, one file each: what was typed becomes what it means, and is done.

pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod index;
pub(crate) mod init;
pub(crate) mod internal;
pub(crate) mod mcp;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod test;
pub(crate) mod validate;

use std::{path::Path, time::Duration};

use holodeck::{
    model::{Env, LoadedAgent},
    runner::ExitCode,
};

use crate::{
    args::{Args, Command},
    failure::{Failure, Problem},
    render::{self, Shown},
    terminal::{Terminal, Verbosity, mask_secrets},
};

pub(crate) fn run(args: Args, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Init(args) => init::run(&args, terminal),
        Command::Validate(args) => validate::run(&args, terminal),
        Command::Schema(args) => schema::run(&args, terminal),
        Command::Run(args) => run::run(&args, terminal),
        Command::Test(args) => test::run(*args, terminal),
        Command::Doctor(args) => doctor::run(&args, terminal),
        Command::Index(args) => index::run(&args, terminal),
        Command::Mcp(args) => mcp::run(&args, terminal),
        Command::Completions(args) => completions::run(&args, terminal),
        Command::Internal(args) => internal::run(&args, terminal),
    }
}

/// Loads an agent for a command that needs a sound one; what is wrong or doubtful is shown.
fn load(path: &Path, env: &Env, terminal: &mut Terminal) -> Result<LoadedAgent, Failure> {
    let mut load = holodeck::load(path, env);
    if let Some(agent) = &load.agent {
        terminal.adopt(&agent.execution);
    }
    let text = render::diagnostics(&load, path, Shown::WhatMatters, terminal.width());
    if load.has_errors() || terminal.verbosity() > Verbosity::Quiet {
        terminal.talk(&text);
    }
    let sound = load.agent.take().filter(|_| !load.has_errors());
    // The diagnostics are shown already.
    let agent = sound.ok_or_else(|| Problem::config(""))?;
    mask_secrets(holodeck::redactor(&agent, env));
    Ok(agent)
}

/// The agent as one types it after a command; nothing where it goes without saying.
fn as_argument(path: &Path) -> String {
    if path == Path::new("agent.yaml") {
        String::new()
    } else {
        let shown = path.display().to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
        if shown.chars().all(plain) {
            format!(" {shown}")
        } else {
            format!(" '{}'", shown.replace('\'', "'\\''"))
        }
    }
}

/// A time as typed: seconds, whole or not.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if duration.is_zero() {
        return Err("must be more than 0".to_owned());
    }
    Ok(duration)
}

/// Money as typed.
fn dollars(text: &str) -> Result<f64, String> {
    let dollars: f64 = text
        .parse()
        .map_err(|_| "expected an amount in US dollars".to_owned())?;
    if dollars.is_finite() && dollars > 0.0 {
        Ok(dollars)
    } else {
        Err("must be more than 0".to_owned())
    }
}

/// A runtime for commands that wait for something. One thread: they wait for models, and what computes for long gets
/// a thread of its own; handing every answer to another thread costs more than reading it.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| Problem::execution(format!("starting: {error}")))?)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn paths_can_be_pasted() {
        assert_eq!(as_argument(Path::new("agent.yaml")), "");
        assert_eq!(as_argument(Path::new("a/b-1.yaml")), " a/b-1.yaml");
        assert_eq!(as_argument(Path::new("it's mine.yaml")), " 'it'\\''s mine.yaml'");
    }
}
