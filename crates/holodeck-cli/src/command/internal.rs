//! `holodeck internal`: generates documentation, converts documents in a child process, and helps in containers.

#[cfg(debug_assertions)]
mod of_types;

use std::{io, path::PathBuf};

use clap::{CommandFactory as _, Subcommand};
use holodeck::{deploy, documents, runs::ExitCode};

use super::Args;
use crate::{
    failure::{Failure, Problem},
    render,
    terminal::Terminal,
};

/// Commands for the project's own tooling, and for the program itself.
#[derive(Debug, clap::Args)]
pub(crate) struct InternalArgs {
    #[command(subcommand)]
    command: Internal,
}

#[derive(Debug, Subcommand)]
enum Internal {
    /// Print every command and flag in Markdown.
    CliReference,
    #[cfg(debug_assertions)]
    #[command(flatten)]
    OfTypes(of_types::OfTypes),
    /// Print every diagnostic code in Markdown.
    DiagnosticsReference,
    /// Write a man page for each command into a folder.
    ManPages { folder: PathBuf },
    /// Ask a URL once; exit 0 if its answer is a success. For the health checks of containers.
    Probe { url: String },
    /// Copy the files of a folder to another one. For containers without other programs.
    Copy { from: PathBuf, to: PathBuf },
    /// Convert the document on stdin as the preceding request specifies, within limits.
    Convert,
}

pub(crate) fn run(args: &InternalArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let page = match &args.command {
        Internal::CliReference => render::command_reference(&Args::command()),
        #[cfg(debug_assertions)]
        Internal::OfTypes(of_types) => of_types.print(),
        Internal::DiagnosticsReference => render::diagnostic_reference(),
        Internal::ManPages { folder } => {
            clap_mangen::generate_to(Args::command(), folder).map_err(Failure::Output)?;
            return Ok(ExitCode::Passed);
        }
        Internal::Probe { url } => {
            let answer = super::build_runtime()?.block_on(deploy::probe(url));
            answer.map_err(Problem::execution)?;
            return Ok(ExitCode::Passed);
        }
        Internal::Copy { from, to } => {
            let copied = deploy::copy_folder(from, to);
            copied.map_err(|error| {
                let (from, to) = (from.display(), to.display());
                Problem::execution(format!("cannot copy `{from}` to `{to}`: {error}"))
            })?;
            return Ok(ExitCode::Passed);
        }
        Internal::Convert => {
            documents::answer_conversion(io::stdin().lock(), io::stdout().lock()).map_err(Failure::Output)?;
            return Ok(ExitCode::Passed);
        }
    };
    terminal.write_data(&page)?;
    Ok(ExitCode::Passed)
}
