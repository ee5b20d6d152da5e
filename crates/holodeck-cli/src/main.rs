//! The `holodeck` command.

mod args;
mod command;
mod crash;
mod failure;
mod interrupt;
mod logging;
mod render;
mod terminal;

use std::{io::ErrorKind, process::ExitCode};

use clap::Parser as _;

use crate::{
    args::Args,
    failure::{Failure, Problem},
    terminal::Terminal,
};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help asked for goes to stdout and is a success, a wrong flag to stderr and is not. If nobody reads
            // either, there is nobody to tell.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut terminal = Terminal::new(&args.global);
    logging::start(terminal.verbosity());
    if let Ok(command) = std::env::current_exe() {
        holodeck::convert_documents_with(command);
    }
    let ended = crash::contain(|| command::run(args, &mut terminal));
    // What was said so far comes before what is said about the end.
    let flushed = terminal.flush();
    match ended.unwrap_or_else(|crash| Err(Failure::Problem(crash))) {
        Err(Failure::Problem(problem)) => {
            terminal.talk(&render::problem(&problem));
            ExitCode::from(problem.exit.code())
        }
        Ok(exit) => match flushed {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => lost(&error, &mut terminal),
            // The outcome stands, whether anyone read all of it or not.
            _ => ExitCode::from(exit.code()),
        },
        // Whoever read our output has seen enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => lost(&error, &mut terminal),
    }
}

/// Output that did not arrive: a full disk, say.
fn lost(error: &std::io::Error, terminal: &mut Terminal) -> ExitCode {
    let problem = Problem::execution(format!("writing the output: {error}"));
    terminal.talk(&render::problem(&problem));
    ExitCode::from(problem.exit.code())
}
