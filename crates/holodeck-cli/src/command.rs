//! The commands, one file each: interprets the arguments and executes the command. All output goes through `render`
//! and `terminal`.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod deploy;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod explain;
mod fixes;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod init;
pub(crate) mod internal;
pub(crate) mod mcp;
mod places;
pub(crate) mod quality;
mod questions;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod test;
pub(crate) mod validate;
pub(crate) mod view;

use std::{path::Path, time::Duration};

use holodeck::{
    model::{Combination, Env, shell_word},
    runs::ExitCode,
    yaml::{Load, LoadedAgent},
};

use clap::{Parser, Subcommand};

use crate::{
    args::GlobalArgs,
    failure::{Failure, Problem},
    logging::LogFormat,
    render::{self, DiagnosticFilter},
    terminal::{Terminal, Verbosity, set_redactor},
};

/// Define AI agents in YAML, test them and evaluate their answers.
#[derive(Debug, Parser)]
#[command(
    name = "holodeck",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a project: an agent with test cases that are ready to run.
    Init(init::InitArgs),
    /// Convert the test files of other tools: promptfoo, DeepEval, tables.
    Import(import::ImportArgs),
    /// Check an agent file and report every problem.
    Validate(validate::ValidateArgs),
    /// Print the reference of a diagnostic code, a metric or a field.
    Explain(explain::ExplainArgs),
    /// Print the JSON Schema of agent files, for editors.
    Schema(schema::SchemaArgs),
    /// Ask the agent one question, or execute a command.
    Run(run::RunArgs),
    /// Hold a conversation with the agent.
    Chat(Box<chat::ChatArgs>),
    /// Serve agents over HTTP.
    Serve(serve::ServeArgs),
    /// Run an agent's test cases, check every answer and report the results.
    Test(Box<test::TestArgs>),
    /// Show the stored runs below a folder in the browser.
    View(view::ViewArgs),
    /// List, select and check specialist agents.
    Agents(agents::AgentsArgs),
    /// List, show and delete conversations.
    Sessions(sessions::SessionsArgs),
    /// Examine stored quality loops.
    Quality(quality::QualityArgs),
    /// Answer questions about tool calls from another terminal.
    Approvals(approvals::ApprovalsArgs),
    /// Export and check the events of conversations.
    Events(events::EventsArgs),
    /// Check what the agent needs: credentials, the model's endpoint, programs, folders, indexes.
    Doctor(doctor::DoctorArgs),
    /// Build, inspect and search the agent's indexes.
    Index(index::IndexArgs),
    /// Find MCP servers and add them to the agent file.
    Mcp(mcp::McpArgs),
    /// Write the settings that agents share.
    Config(config::ConfigArgs),
    /// Make an image of the agent, and the manifests that run it.
    Deploy(deploy::DeployArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Commands for the project's own tooling.
    #[command(hide = true)]
    Internal(internal::InternalArgs),
}

impl Command {
    /// The form of the log of a server; `None` for a command that ends by itself.
    pub(crate) fn log_format(&self) -> Option<LogFormat> {
        match self {
            Self::Serve(args) => Some(args.log_format),
            _ => None,
        }
    }
}

pub(crate) fn run(args: Args, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Init(args) => init::run(&args, terminal),
        Command::Import(args) => import::run(&args, terminal),
        Command::Validate(args) => validate::run(&args, terminal),
        Command::Explain(args) => explain::run(&args, terminal),
        Command::Schema(args) => schema::run(&args, terminal),
        Command::Run(args) => run::run(&args, terminal),
        Command::Chat(args) => chat::run(&args, terminal),
        Command::Serve(args) => serve::run(&args, terminal),
        Command::Test(args) => test::run(&args, terminal),
        Command::View(args) => view::run(&args, terminal),
        Command::Agents(args) => agents::run(&args, terminal),
        Command::Sessions(args) => sessions::run(&args, terminal),
        Command::Quality(args) => quality::run(&args, terminal),
        Command::Approvals(args) => approvals::run(&args, terminal),
        Command::Events(args) => events::run(&args, terminal),
        Command::Doctor(args) => doctor::run(&args, terminal),
        Command::Index(args) => index::run(&args, terminal),
        Command::Mcp(args) => mcp::run(&args, terminal),
        Command::Config(args) => config::run(&args, terminal),
        Command::Deploy(args) => deploy::run(&args, terminal),
        Command::Completions(args) => completions::run(&args, terminal),
        Command::Internal(args) => internal::run(&args, terminal),
    }
}

/// Loads an agent for a command that needs a valid one; shows errors and warnings.
fn load(path: &Path, env: &Env, terminal: &mut Terminal) -> Result<LoadedAgent, Failure> {
    accept(holodeck::load(path, env), path, env, true, terminal)
}

/// As [`load`], with a combination of the agent's `matrix`. Loading the agent itself has shown the warnings of all
/// combinations.
fn load_combination(
    path: &Path,
    env: &Env,
    combination: &Combination,
    shows_warnings: bool,
    terminal: &mut Terminal,
) -> Result<LoadedAgent, Failure> {
    let load = holodeck::load_combination(path, env, combination);
    accept(load, path, env, shows_warnings, terminal)
}

fn accept(
    mut load: Load,
    path: &Path,
    env: &Env,
    shows_warnings: bool,
    terminal: &mut Terminal,
) -> Result<LoadedAgent, Failure> {
    if let Some(agent) = &load.agent {
        terminal.apply_settings(&agent.execution);
    }
    let filter = if load.has_errors() || terminal.verbosity() > Verbosity::Quiet {
        DiagnosticFilter::Important
    } else {
        DiagnosticFilter::Essential
    };
    if load.has_errors() || shows_warnings {
        terminal.write_message(&render::diagnostics(&load, path, filter, terminal.width()));
    }
    let agent = load.agent.take().filter(|_| !load.has_errors());
    // The diagnostics have been shown above.
    let agent = agent.ok_or_else(|| Problem::config(""))?;
    set_redactor(holodeck::redactor(&agent, env));
    Ok(agent)
}

/// The agent file as a shell argument with a leading space; empty for the default `agent.yaml`.
pub(crate) fn as_argument(path: &Path) -> String {
    if path == Path::new("agent.yaml") {
        String::new()
    } else {
        format!(" {}", shell_word(&path.display().to_string()))
    }
}

/// Parses a time in seconds, with or without a fraction.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if duration.is_zero() {
        return Err("must be more than 0".to_owned());
    }
    Ok(duration)
}

/// Parses an amount of money.
fn parse_dollars(text: &str) -> Result<f64, String> {
    let dollars: f64 = text
        .parse()
        .map_err(|_| "expected an amount in US dollars".to_owned())?;
    if dollars.is_finite() && dollars > 0.0 {
        Ok(dollars)
    } else {
        Err("must be more than 0".to_owned())
    }
}

/// Builds the async runtime. It has one thread: commands mostly wait for models, long computations get their own
/// thread, and passing every answer to another thread costs more than reading it.
fn build_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| Problem::execution(format!("cannot start: {error}")))?)
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
