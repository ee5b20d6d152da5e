use holodeck::runner::ExitCode;

use crate::{
    args::AgentArg,
    failure::{Failure, Problem},
    render::{self, Shown},
    terminal::{Terminal, Verbosity, mask_secrets},
};

/// Flags of `holodeck validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The agent file and the files it names; the rest of the world is `doctor`'s.
pub(crate) fn run(args: &ValidateArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let load = holodeck::load(path, &env);
    if let Some(agent) = &load.agent {
        mask_secrets(holodeck::redactor(agent, &env));
    }
    if args.json {
        terminal.json(render::diagnostics_json(&load, path))?;
    } else {
        let shown = if terminal.verbosity() == Verbosity::Quiet {
            Shown::WhatMatters
        } else {
            Shown::Everything
        };
        let text = render::diagnostics(&load, path, shown, terminal.width());
        terminal.data(&text)?;
        if terminal.verbosity() >= Verbosity::Verbose
            && let Some(agent) = &load.agent
        {
            terminal.data(&format!("\n{}", render::settings(&agent.execution)))?;
        }
    }
    Ok(if load.has_errors() {
        ExitCode::Config
    } else {
        ExitCode::Passed
    })
}
