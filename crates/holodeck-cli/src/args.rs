//! The command line as parsed; `command` interprets it.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

use crate::command::{
    agents::AgentsArgs, approvals::ApprovalsArgs, chat::ChatArgs, completions::CompletionsArgs,
    config::ConfigArgs, doctor::DoctorArgs, events::EventsArgs, index::IndexArgs, init::InitArgs,
    internal::InternalArgs, mcp::McpArgs, quality::QualityArgs, run::RunArgs, schema::SchemaArgs,
    serve::ServeArgs, sessions::SessionsArgs, test::TestArgs, validate::ValidateArgs,
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

/// Flags that every command accepts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GlobalArgs {
    /// Increase verbosity (`-vv` also shows internal logs).
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet", help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// Print only the result.
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// When to use colour.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub(crate) color: ColorWhen,
}

/// `--color`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Also when writing to a file.
    Always,
    /// Not at all.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a project: an agent with test cases that are ready to run.
    Init(InitArgs),
    /// Check an agent file and report every problem.
    Validate(ValidateArgs),
    /// Print the JSON Schema of agent files, for editors.
    Schema(SchemaArgs),
    /// Ask the agent one question, or execute a command.
    Run(RunArgs),
    /// Hold a conversation with the agent.
    Chat(Box<ChatArgs>),
    /// Serve agents over HTTP.
    Serve(ServeArgs),
    /// Run an agent's test cases, check every answer and report the results.
    Test(Box<TestArgs>),
    /// List, select and check specialist agents.
    Agents(AgentsArgs),
    /// List, show and delete conversations.
    Sessions(SessionsArgs),
    /// Examine stored quality loops.
    Quality(QualityArgs),
    /// Answer questions about tool calls from another terminal.
    Approvals(ApprovalsArgs),
    /// Export and check the events of conversations.
    Events(EventsArgs),
    /// Check what the agent needs: credentials, the model's endpoint, programs, folders, indexes.
    Doctor(DoctorArgs),
    /// Build, inspect and search the agent's indexes.
    Index(IndexArgs),
    /// Find MCP servers and add them to the agent file.
    Mcp(McpArgs),
    /// Write the settings that agents share.
    Config(ConfigArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Commands for the project's own tooling.
    #[command(hide = true)]
    Internal(InternalArgs),
}

/// The agent file, an argument of several commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentArg {
    /// The agent file.
    #[arg(value_name = "AGENT", default_value = "agent.yaml")]
    pub(crate) agent: PathBuf,
}
