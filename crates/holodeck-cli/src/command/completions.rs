//! Generates shell completions, without the hidden subcommands.

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use holodeck::runs::ExitCode;

use super::Args;
use crate::{failure::Failure, terminal::Terminal};

/// Flags of `holodeck completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    // Generated into memory, as the generator panics if its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut visible(&Args::command()),
        "holodeck",
        &mut script,
    );
    terminal.write_data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Passed)
}

/// The command without its hidden subcommands, which the generators would include.
fn visible(root: &Command) -> Command {
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
    Command::default()
        .name("holodeck")
        .args(root.get_arguments())
        .subcommands(shown)
}
