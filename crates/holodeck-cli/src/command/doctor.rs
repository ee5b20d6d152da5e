//! `holodeck doctor`: checks the environment of an agent.

use std::{sync::Arc, time::Duration};

use holodeck::{
    Check, CheckState,
    model::{Code, Diagnostic, Env},
    runs::ExitCode,
    yaml::LoadedAgent,
};

use super::{as_argument, build_runtime, load, parse_seconds};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem, Subject},
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
    /// Also make one short request to the model, which spends a few tokens; exit 3 if it fails.
    #[arg(long)]
    live: bool,
    /// Wait at most this many seconds for the model's server; more than 10 applies only to `--live`. Default:
    /// `execution.llm_timeout`.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
}

/// Checks what the agent needs of this machine and of its model's server. Exit code 1: something is missing.
pub(crate) fn run(args: &DoctorArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let mut agent = load(path, &env, terminal)?;
    Arc::make_mut(&mut agent.agent)
        .execution
        .llm_timeout
        .override_with(args.timeout);
    let subject = Subject {
        argument: as_argument(path),
    };
    let (checks, exit) = build_runtime()?.block_on(async {
        let mut checks = holodeck::doctor(&agent, &env).await;
        let is_missing = |check: &Check| check.state == CheckState::Missing;
        let mut exit = if checks.iter().any(is_missing) {
            ExitCode::Failed
        } else {
            ExitCode::Passed
        };
        if args.live {
            let live = Box::pin(check_live(agent, &env, &subject)).await;
            if is_missing(&live) {
                exit = ExitCode::Execution;
            }
            checks.push(live);
        }
        (checks, exit)
    });
    if args.json {
        terminal.write_json(render::doctor_json(&checks))?;
    } else {
        terminal.write_data(&render::doctor(&checks, terminal.width()))?;
    }
    Ok(exit)
}

/// Makes one real request.
async fn check_live(agent: LoadedAgent, env: &Env, subject: &Subject) -> Check {
    let name = agent.config.answerer();
    let place = agent.locate("model");
    let problem = match Box::pin(holodeck::ask_briefly(agent, env)).await {
        Ok(result) => match result.error_reason() {
            None => return Check::ok("live request", format!("`{name}` answered")),
            Some(reason) => Problem::execution(reason),
        },
        Err(error) => subject.ask(error),
    };
    let mut lines = vec![problem.message];
    lines.extend(problem.details);
    let mut diagnostic = Diagnostic::error(Code::FailedRequest, lines.join("; ")).at(place);
    diagnostic.help = problem.hint;
    Check::problem("live request", diagnostic)
}
