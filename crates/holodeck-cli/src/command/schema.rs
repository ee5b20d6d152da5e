//! `holodeck schema`: prints the JSON Schemas of the YAML files.

use holodeck::{runs::ExitCode, yaml};

use crate::{failure::Failure, terminal::Terminal};

/// Flags of `holodeck schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Print the schema of `config.yaml` instead.
    #[arg(long)]
    config: bool,
}

pub(crate) fn run(args: &SchemaArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let schema = if args.config {
        yaml::config_json_schema()
    } else {
        yaml::json_schema()
    };
    terminal.write_data(&format!("{schema:#}\n"))?;
    Ok(ExitCode::Passed)
}
