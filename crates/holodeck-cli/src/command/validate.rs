//! `holodeck validate`: checks an agent file and the files it refers to.

use holodeck::runs::ExitCode;

use super::fixes;
use crate::{
    args::AgentArg,
    failure::{Failure, Problem},
    render::{self, DiagnosticFilter},
    terminal::{Terminal, Verbosity, set_redactor},
};

/// Flags of `holodeck validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// First put texts of front matter that need quotes in quotes, in their files.
    #[arg(long)]
    fix: bool,
}

/// Checks the agent file and the files it names; `doctor` checks the environment.
pub(crate) fn run(args: &ValidateArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let mut load = holodeck::load(path, &env);
    if args.fix && fixes::apply(&load.diagnostics, terminal)? {
        load = holodeck::load(path, &env);
    }
    holodeck::check_equal_cases(&mut load);
    holodeck::require_what_runs_need(&mut load);
    if let Some(agent) = &load.agent {
        set_redactor(holodeck::redactor(agent, &env));
    }
    if args.json {
        terminal.write_json(render::diagnostics_json(&load, path))?;
    } else {
        let filter = if terminal.verbosity() == Verbosity::Quiet {
            DiagnosticFilter::Important
        } else {
            DiagnosticFilter::All
        };
        let text = render::diagnostics(&load, path, filter, terminal.width());
        terminal.write_data(&text)?;
        if terminal.verbosity() >= Verbosity::Verbose
            && let Some(agent) = &load.agent
        {
            terminal.write_data(&format!("\n{}", render::settings(&agent.execution)))?;
        }
    }
    Ok(if load.has_errors() {
        ExitCode::Config
    } else {
        ExitCode::Passed
    })
}
