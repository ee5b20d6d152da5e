use clap::{CommandFactory as _, Subcommand};
use holodeck::runner::ExitCode;

use crate::{args::Args, failure::Failure, render, terminal::Terminal};

/// Commands for the project's own tooling.
#[derive(Debug, clap::Args)]
pub(crate) struct InternalArgs {
    #[command(subcommand)]
    command: Internal,
}

#[derive(Debug, Subcommand)]
enum Internal {
    /// Every command and flag, in Markdown.
    CliReference,
    /// Every diagnostic code, in Markdown.
    DiagnosticsReference,
}

pub(crate) fn run(args: &InternalArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let page = match args.command {
        Internal::CliReference => render::command_reference(&Args::command()),
        Internal::DiagnosticsReference => render::diagnostic_reference(),
    };
    terminal.data(&page)?;
    Ok(ExitCode::Passed)
}
