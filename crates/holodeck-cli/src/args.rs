//! What was typed. What it means is decided in `command`.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

use crate::command::{
    completions::CompletionsArgs, doctor::DoctorArgs, index::IndexArgs, init::InitArgs,
    internal::InternalArgs, mcp::McpArgs, run::RunArgs, schema::SchemaArgs, test::TestArgs,
    validate::ValidateArgs,
};

/// Define an AI agent in YAML, test it, learn whether it is good.
#[derive(Debug, Parser)]
#[command(
    name = "holodeck",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GlobalArgs {
    /// Tell more; twice, also what happens inside.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet", help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// Tell only the outcome.
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
    /// Even into a file.
    Always,
    /// Not at all.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a project: an agent with two tests.
    Init(InitArgs),
    /// Look at an agent file and tell everything that is wrong with it.
    Validate(ValidateArgs),
    /// Print the JSON Schema of agent files, for editors.
    Schema(SchemaArgs),
    /// Ask the agent one question.
    Run(RunArgs),
    /// Test an agent: ask, check every answer, report.
    Test(Box<TestArgs>),
    /// Look at what the agent needs of this machine: credentials, endpoint, programs, indexes.
    Doctor(DoctorArgs),
    /// Build, look at and search what the agent's tools search in.
    Index(IndexArgs),
    /// Find MCP servers, and write them into the agent file.
    Mcp(McpArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// For the project's own tooling.
    #[command(hide = true)]
    Internal(InternalArgs),
}

/// The agent file, the same for every command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentArg {
    /// The agent file.
    #[arg(value_name = "AGENT", default_value = "agent.yaml")]
    pub(crate) agent: PathBuf,
}
