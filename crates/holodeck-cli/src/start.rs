//! From the command line to the exit code.

use std::{
    io::{ErrorKind, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Parser as _;
use holodeck::{model::io_reason, processes};

use crate::{
    command,
    command::Args,
    crash,
    failure::{Failure, Problem},
    logging, render,
    terminal::Terminal,
    usage,
};

/// The arguments with which this program is the watchdog of a child. Not a command of `args`: a watchdog reads nothing
/// else, and starts in the least time.
const WATCH: &[&str] = &["internal", "watch"];

/// How long the program waits at its end for what its children left behind. Each watchdog continues after that.
const CHILDREN_LIMIT: Duration = Duration::from_secs(2);

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    if std::env::args_os().skip(1).eq(WATCH.iter().copied()) {
        return processes::watch();
    }
    let exit = run_command();
    processes::wait_for_watchdogs(CHILDREN_LIMIT);
    exit
}

fn run_command() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(mut error) => {
            let given = std::env::args_os().skip(1);
            let given: Vec<String> = given.map(|arg| arg.to_string_lossy().into_owned()).collect();
            let hint = usage::next_step(&mut error, &given);
            // Requested help goes to stdout and exits 0, a usage error to stderr and exits 2. A closed output is
            // ignored.
            let _ = error.print();
            if let Some(event) = refused_event(&error, &given, hint.as_deref()) {
                let _ = writeln!(std::io::stdout(), "{event}");
            }
            if let Some(hint) = hint {
                let mut stderr = anstream::stderr();
                let _ = write!(stderr, "\n{}", render::hint(&hint));
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut terminal = Terminal::new(&args.global);
    logging::start(terminal.verbosity(), args.command.log_format());
    // This very file, even if another version was installed meanwhile.
    processes::start_children_below("/proc/self/exe", WATCH);
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

/// The last line of `--json` of a `test` whose arguments the parser refused.
fn refused_event(error: &clap::Error, given: &[String], hint: Option<&str>) -> Option<String> {
    let mut flags = given.iter().take_while(|arg| *arg != "--");
    let is_test = given
        .iter()
        .find(|arg| !arg.starts_with('-'))
        .is_some_and(|arg| arg == "test");
    if !error.use_stderr() || !is_test || !flags.any(|arg| arg == "--json") {
        return None;
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let problem = Problem::config(first.strip_prefix("error: ").unwrap_or(first));
    let problem = match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    };
    Some(command::test::failed_event(&problem).to_string())
}

/// Reports output that could not be written, as on a full disk.
fn report_output_error(error: &std::io::Error, terminal: &mut Terminal) -> ExitCode {
    let problem = Problem::execution(format!("cannot write the output: {}", io_reason(error)));
    terminal.write_message(&render::problem(&problem));
    ExitCode::from(problem.exit.code())
}
