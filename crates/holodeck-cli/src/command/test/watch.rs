//! `holodeck test --watch`: runs again what a change of files concerns, until Ctrl-C. What that is, the plan of a run decides by
//! the identities of agent, cases and checks, as for `--failed`.

use std::path::Path;

use holodeck::{
    MatrixGroup, Preparing, RunInputs, TestOptions,
    model::Env,
    reports::format,
    runs::{ExitCode, new_group},
    yaml::LoadedAgent,
};
use tokio::runtime::Runtime;

use super::{
    NewRunArgs, failed_event, matrix,
    session::{Kind, Session},
    watched_files::WatchedFiles,
};
use crate::{
    command::build_runtime,
    failure::{Failure, Problem},
    interrupt::{Interrupts, StopRequest},
    render,
    terminal::{Terminal, Verbosity},
};

/// Runs the cases, then those that a change concerns. Ctrl-C during a run ends that run; while nothing runs, the exit code is
/// that of the last run.
pub(super) fn run(args: &NewRunArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = args.agent_file();
    if !path.exists() {
        // The error of the load names it.
        Session::open(path, &args.output, TestOptions::default(), terminal)?;
    }
    let mut watch = Watch {
        args,
        runtime: build_runtime()?,
        interrupts: Interrupts::listen()?,
        files: WatchedFiles::new(path)?,
    };
    let mut last = ExitCode::Passed;
    let mut is_first = true;
    loop {
        match watch.round(is_first, terminal) {
            Ok(Some(exit)) => last = exit,
            Ok(None) => show(terminal, "no case depends on what changed\n"),
            Err(Failure::Problem(problem)) => {
                last = problem.exit;
                if args.output.json {
                    terminal.write_json(failed_event(&problem))?;
                }
                terminal.write_message(&render::problem(&problem));
            }
            Err(output) => return Err(output),
        }
        terminal.flush()?;
        if matches!(last, ExitCode::Interrupted | ExitCode::Terminated) {
            return Ok(last);
        }
        is_first = false;
        show(terminal, &format!("\n{}; Ctrl-C ends\n", watch.files.describe()));
        match watch.until_changed()? {
            Ok(changed) => show(terminal, &format!("changed: {}\n\n", changed.join(", "))),
            Err(StopRequest::Interrupt) => return Ok(last),
            Err(request) => return Err(request.problem().into()),
        }
    }
}

fn show(terminal: &mut Terminal, text: &str) {
    if terminal.verbosity() > Verbosity::Quiet {
        terminal.write_message(text);
    }
}

/// A command that watches.
struct Watch<'a> {
    args: &'a NewRunArgs,
    runtime: Runtime,
    interrupts: Interrupts,
    files: WatchedFiles,
}

impl Watch<'_> {
    /// Loads the agent and runs its cases; later than the first time, those that a change concerns. `None` if there are none.
    fn round(&mut self, is_first: bool, terminal: &mut Terminal) -> Result<Option<ExitCode>, Failure> {
        let args = self.args;
        let mut options = args.options();
        options.failed &= is_first;
        options.changed = !is_first;
        let mut session = Session::open(args.agent_file(), &args.output, options, terminal)?;
        if let Some(combinations) = matrix::select(&session.agent, &args.what.matrix)? {
            let [combination] = combinations.as_slice() else {
                return Err(Problem::config("`--watch` runs one combination of the `matrix`")
                    .with_hint("select it with `--matrix PATH=VALUE`")
                    .into());
            };
            session.options.matrix = Some(MatrixGroup {
                group: new_group(),
                planned: vec![combination.clone()],
            });
            session = session.with_combination(combination, terminal)?;
        }
        let inputs = RunInputs::new(&session.agent, &session.env, &session.options);
        self.files.follow(&inputs, session.options.open.reports.iter())?;
        if !is_first {
            let again = session.plan_for(&session.options)?;
            if again.plan.cases.is_empty() {
                return Ok(None);
            }
            // Only what decides changed: the stored answers are graded again.
            if let Some(journal) = again.plan.earlier.answers_in {
                let mut options = args.how.options();
                options.open.reports = session.options.open.reports;
                session.options = TestOptions {
                    resume: Some(journal.display().to_string()),
                    agent_path: session.options.agent_path,
                    cli_args: session.options.cli_args,
                    ..options
                };
            }
        }
        let (agent, env) = (session.agent.clone(), session.env.clone());
        let finished = session.execute_in(Kind::Run, &self.runtime, Some(&mut self.interrupts), terminal)?;
        if finished.exit != ExitCode::Passed || is_first {
            return Ok(Some(finished.exit));
        }
        Ok(Some(self.with_others(agent, &env, terminal)))
    }

    /// The exit code after a run of some cases that passed: the others passed as well when they ran last, or not.
    fn with_others(&self, agent: LoadedAgent, env: &Env, terminal: &mut Terminal) -> ExitCode {
        let mut options = self.args.options();
        options.failed = true;
        options.open.preparing = Preparing::Plan;
        let plan = holodeck::prepare_test(agent, env, &options);
        let Ok(plan) = self.runtime.block_on(plan) else {
            // What the run itself needs was there a moment ago; the verdicts of the others are not known.
            return ExitCode::Failed;
        };
        let others = plan.dry_run().plan.cases.len();
        if others == 0 {
            return ExitCode::Passed;
        }
        let others = format::count(others, "other case");
        show(terminal, &format!("{others} did not pass in an earlier run\n"));
        ExitCode::Failed
    }

    /// Waits for a change, and returns the names of the files, or the request to stop.
    fn until_changed(&mut self) -> Result<Result<Vec<String>, StopRequest>, Problem> {
        let Self {
            runtime,
            interrupts,
            files,
            ..
        } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                request = interrupts.next() => Ok(Err(request)),
                changed = files.changed() => Ok(Ok(changed?)),
            }
        })
    }
}

impl NewRunArgs {
    /// The agent file.
    pub(super) fn agent_file(&self) -> &Path {
        self.output.agent_after_flag().unwrap_or(&self.agent.agent)
    }
}
