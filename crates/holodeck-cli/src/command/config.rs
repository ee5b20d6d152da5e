//! `holodeck config`: writes the settings that agents share.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Subcommand, ValueEnum};
use holodeck::{model::io_reason, runs::ExitCode};

use super::questions::Questions;
use crate::{
    failure::{Failure, Problem},
    render::hint,
    terminal::{Terminal, Verbosity},
};

const SAMPLE: &str = include_str!("../../templates/config.yaml");

/// Flags of `holodeck config`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Write a sample `config.yaml`.
    Init(InitArgs),
}

#[derive(Debug, clap::Args)]
struct InitArgs {
    /// Write `~/.holodeck/config.yaml`, for all agents.
    #[arg(short, long, conflicts_with = "project")]
    global: bool,
    /// Write `config.yaml` in the current folder, for the agents beside it.
    #[arg(short, long)]
    project: bool,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

/// Which agents the settings apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scope {
    /// `~/.holodeck/config.yaml`, for all agents.
    Global,
    /// `config.yaml` in the current folder, for the agents beside it.
    Project,
}

pub(crate) fn run(args: &ConfigArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let ConfigCommand::Init(args) = &args.command;
    let scope = scope(args, terminal)?;
    let dir = match scope {
        Scope::Project => PathBuf::new(),
        Scope::Global => {
            let env = holodeck::environment(Path::new("agent.yaml")).map_err(Problem::from)?;
            env.user_dir()
                .ok_or_else(|| Problem::config("the home folder is not known: `HOME` is not set"))?
        }
    };
    let path = dir.join("config.yaml");
    let other = dir.join("config.yml");
    if other.exists() {
        return Err(
            Problem::config(format!("`{}` exists and would be read instead", other.display())).into(),
        );
    }
    if path.exists() && !args.force {
        return Err(Problem::config(format!("`{}` exists", path.display()))
            .with_hint("overwrite it with `--force`")
            .into());
    }
    let shared_by = match scope {
        Scope::Global => "all your agents",
        Scope::Project => "the agents in this folder",
    };
    write(&dir, &path, &SAMPLE.replace("{{scope}}", shared_by)).map_err(|error| {
        Problem::execution(format!(
            "cannot write `{}`: {}",
            path.display(),
            io_reason(&error)
        ))
    })?;
    terminal.write_data(&format!("{}\n", path.display()))?;
    terminal.flush()?;
    if terminal.verbosity() > Verbosity::Quiet {
        terminal.write_message(&hint("`holodeck validate -v` shows which file set a value"));
    }
    Ok(ExitCode::Passed)
}

fn scope(args: &InitArgs, terminal: &mut Terminal) -> Result<Scope, Failure> {
    if args.global {
        return Ok(Scope::Global);
    }
    if args.project {
        return Ok(Scope::Project);
    }
    if !terminal.is_interactive() {
        return Err(Problem::config("`--global` or `--project` is missing")
            .with_hint("`--global` writes for all agents, `--project` for those in this folder")
            .into());
    }
    let mut questions = Questions {
        input: &mut io::stdin().lock(),
        show: &mut |text| terminal.write_message(text),
    };
    questions.choice("Settings for", &Scope::Global)
}

fn write(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    if dir != Path::new("") {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, text)
}
