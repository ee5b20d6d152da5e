use holodeck::{model, runner::ExitCode};

use crate::{failure::Failure, terminal::Terminal};

/// Flags of `holodeck schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// The schema of `config.yaml` instead.
    #[arg(long)]
    config: bool,
}

pub(crate) fn run(args: &SchemaArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let schema = if args.config {
        model::config_json_schema()
    } else {
        model::json_schema()
    };
    terminal.data(&format!("{schema:#}\n"))?;
    Ok(ExitCode::Passed)
}
