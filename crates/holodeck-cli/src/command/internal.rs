use std::io;

use clap::{CommandFactory as _, Subcommand};
use holodeck::{documents, runner::ExitCode};

use crate::{args::Args, failure::Failure, render, terminal::Terminal};

/// Commands for the project's own tooling, and for the program itself.
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
    /// Convert the document on stdin, within limits, as the request before it says.
    Convert,
}

pub(crate) fn run(args: &InternalArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let page = match args.command {
        Internal::CliReference => render::command_reference(&Args::command()),
        Internal::DiagnosticsReference => render::diagnostic_reference(),
        Internal::Convert => {
            documents::answer_conversion(io::stdin().lock(), io::stdout().lock()).map_err(Failure::Output)?;
            return Ok(ExitCode::Passed);
        }
    };
    terminal.data(&page)?;
    Ok(ExitCode::Passed)
}
