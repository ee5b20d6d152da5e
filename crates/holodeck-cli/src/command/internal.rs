//! `holodeck internal`: generates documentation, converts documents in a child process, and helps in containers.

use std::{io, path::PathBuf};

use clap::{CommandFactory as _, Subcommand};
use holodeck::{deploy, documents, model, runs::ExitCode, yaml};

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
    /// Print every field of the YAML files in Markdown.
    FieldReference,
    /// Print an example of every metric in Markdown.
    MetricReference,
    /// Print the shapes of the language, which are kept in a file: of `agent`, `config` or `front_matter`.
    Shapes { of: String },
    /// Print every type of event with its fields in Markdown.
    EventReference,
    /// Print every field of the file of a run in Markdown.
    RunFileReference,
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
        Internal::FieldReference => render::field_page(&yaml::json_schema(), &yaml::config_json_schema()),
        Internal::MetricReference => render::metric_page(&yaml::json_schema()),
        Internal::Shapes { of } => yaml::kept_shapes(of).unwrap_or_default(),
        Internal::EventReference => render::event_page(&model::events::event_schema()),
        Internal::RunFileReference => render::run_file_page(&model::run_file_schema()),
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
