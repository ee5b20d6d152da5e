//! Arguments that several commands share.

use std::path::PathBuf;

use clap::{ArgAction, ValueEnum};

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

/// The agent file, an argument of several commands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentArg {
    /// The agent file.
    #[arg(value_name = "AGENT", default_value = "agent.yaml")]
    pub(crate) agent: PathBuf,
}
