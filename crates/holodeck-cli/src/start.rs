//! From the command line to the exit code.

use std::{io::ErrorKind, process::ExitCode};

use clap::Parser as _;

use crate::{
    args::Args,
    command, crash,
    failure::{Failure, Problem},
    logging, render,
    terminal::Terminal,
};

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Requested help goes to stdout and exits 0, a usage error to stderr and exits 2. A closed output is
            // ignored.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut terminal = Terminal::new(&args.global);
    logging::start(terminal.verbosity());
    if let Ok(command) = std::env::current_exe() {
        holodeck::convert_documents_with(command);
    }
    let result = crash::contain(|| command::run(args, &mut terminal));
    // Buffered output comes before the error message.
    let flush_result = terminal.flush();
    match result.unwrap_or_else(|crash| Err(Failure::Problem(crash))) {
        Err(Failure::Problem(problem)) => {
            terminal.write_message(&render::problem(&problem));
            ExitCode::from(problem.exit.code())
        }
        Ok(exit) => match flush_result {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => report_output_error(&error, &mut terminal),
            // A reader that closes the pipe does not change the exit code.
            _ => ExitCode::from(exit.code()),
        },
        // The reader closed the pipe.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => report_output_error(&error, &mut terminal),
    }
}

/// Reports output that could not be written, as on a full disk.
fn report_output_error(error: &std::io::Error, terminal: &mut Terminal) -> ExitCode {
    let problem = Problem::execution(format!("cannot write the output: {error}"));
    terminal.write_message(&render::problem(&problem));
    ExitCode::from(problem.exit.code())
}
