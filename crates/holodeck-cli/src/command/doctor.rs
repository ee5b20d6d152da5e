use holodeck::{CheckState, runner::ExitCode};

use super::{load, runtime};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem},
    render,
    terminal::Terminal,
};

/// Flags of `holodeck doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Write one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// What the agent needs of this machine. Exit code 1: something is missing.
pub(crate) fn run(args: &DoctorArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let agent = load(path, &env, terminal)?;
    let checks = runtime()?.block_on(holodeck::doctor(&agent, &env));
    if args.json {
        terminal.json(render::doctor_json(&checks))?;
    } else {
        terminal.data(&render::doctor(&checks, terminal.width()))?;
    }
    let missing = checks.iter().any(|check| check.state == CheckState::Missing);
    Ok(if missing {
        ExitCode::Failed
    } else {
        ExitCode::Passed
    })
}
