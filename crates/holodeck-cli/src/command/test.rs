//! `holodeck test`: flags, and what they mean.

mod flags;
mod targets;

use std::{path::Path, time::Instant};

use clap::Subcommand;
use holodeck::{
    PreparedTest, RunInputs, TestOptions,
    index::IndexSink,
    model::{Env, LoadedAgent},
    runner::{ExitCode, RunControl, RunOutcome},
};
use serde_json::json;

use self::{
    flags::{HowArgs, OutputArgs, WhatArgs},
    targets::{Reports, check_recording},
};
use super::{as_argument, load, runtime};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem, Subject},
    interrupt::{Ask, CLOSING, Interrupts},
    render::{self, Failures, IndexProgress, Kept, Progress, ProgressStyle, Summary},
    terminal::{Terminal, Verbosity},
};

/// Flags of `holodeck test`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TestArgs {
    #[command(subcommand)]
    command: Option<TestCommand>,
    #[command(flatten)]
    run: NewRunArgs,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Test an agent; the same as `holodeck test`.
    Run(Box<NewRunArgs>),
    /// Go on with a run that was broken off: what is finished is not asked again.
    Resume(Box<ResumeArgs>),
    /// Grade the answers of an earlier run with what the agent file expects now, without asking the model.
    Regrade(Box<RegradeArgs>),
}

#[derive(Debug, clap::Args)]
struct NewRunArgs {
    #[command(flatten)]
    agent: AgentArg,
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct ResumeArgs {
    /// The run: its id, the beginning of it, `latest`, or the path of its journal.
    run: String,
    #[command(flatten)]
    agent: AgentArg,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct RegradeArgs {
    /// The run: its id, the beginning of it, `latest`, or the path of its journal.
    run: String,
    #[command(flatten)]
    agent: AgentArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: TestArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    match args.command {
        None => new_run(&args.run, terminal),
        Some(TestCommand::Run(args)) => new_run(&args, terminal),
        Some(TestCommand::Resume(args)) => resume(&args, terminal),
        Some(TestCommand::Regrade(args)) => regrade(&args, terminal),
    }
}

fn new_run(args: &NewRunArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let mut options = args.how.options();
    options.answers = args.what.answers();
    options.filter.clone_from(&args.what.filter);
    options.limit = args.what.limit.map(std::num::NonZeroUsize::get);
    options.failed = args.what.failed;
    let session = Session::open(&args.agent.agent, &args.output, options, terminal)?;
    if args.what.dry_run {
        return session.dry_run(terminal);
    }
    session.go(Kind::Run, terminal)
}

fn resume(args: &ResumeArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let mut options = args.how.options();
    options.resume = Some(args.run.clone());
    Session::open(&args.agent.agent, &args.output, options, terminal)?.go(Kind::Run, terminal)
}

fn regrade(args: &RegradeArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let options = TestOptions::default();
    let session = Session::open(&args.agent.agent, &args.output, options, terminal)?;
    session.go(Kind::Regrade(&args.run), terminal)
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Run,
    Regrade(&'a str),
}

/// Everything one `holodeck test` needs.
struct Session<'a> {
    path: &'a Path,
    env: Env,
    agent: LoadedAgent,
    subject: Subject,
    options: TestOptions,
    output: &'a OutputArgs,
    reports: Reports,
}

impl<'a> Session<'a> {
    fn open(
        path: &'a Path,
        output: &'a OutputArgs,
        mut options: TestOptions,
        terminal: &mut Terminal,
    ) -> Result<Self, Failure> {
        let reports = output.reports()?;
        let env = holodeck::environment(path).map_err(Problem::from)?;
        let agent = load(path, &env, terminal)?;
        options.agent_path = path.display().to_string();
        options.cli_args = std::env::args_os()
            .skip(1)
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        Ok(Self {
            path,
            subject: Subject {
                argument: as_argument(path),
            },
            env,
            agent,
            options,
            output,
            reports,
        })
    }

    /// Refuses what must not be written over, before anything runs.
    fn check_targets(&self) -> Result<(), Failure> {
        let inputs = RunInputs::new(&self.agent, &self.env, &self.options);
        let overwrite = self.output.overwrite();
        self.reports.check(&inputs, overwrite)?;
        if let Some(path) = &self.options.record {
            check_recording(path, &inputs, overwrite)?;
        }
        Ok(())
    }

    fn dry_run(mut self, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        self.options.preparing = holodeck::Preparing::Plan;
        let prepare = holodeck::prepare_test(self.agent, &self.env, &self.options);
        let prepared = runtime()?
            .block_on(prepare)
            .map_err(|error| self.subject.prepare(error))?;
        let dry = prepared.dry_run();
        if self.output.json {
            terminal.json(render::dry_run_json(&dry))?;
        } else {
            terminal.data(&render::dry_run(&dry))?;
        }
        Ok(if dry.plan.cases.is_empty() && !self.output.allow_empty {
            ExitCode::Nothing
        } else {
            ExitCode::Passed
        })
    }

    fn go(self, kind: Kind<'_>, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        self.check_targets()?;
        let started = Instant::now();
        let style = if self.output.json {
            ProgressStyle::Json
        } else {
            ProgressStyle::fitting(terminal, self.env.get("TERM"))
        };
        let indexing = std::sync::Arc::new(IndexProgress::new(style, terminal));
        let Self {
            agent,
            env,
            mut options,
            subject,
            ..
        } = self;
        let shown = std::sync::Arc::clone(&indexing);
        options.on_index = IndexSink::new(move |event| shown.on(event));
        let mut kept = Kept::default();
        let outcome = runtime()?.block_on(async {
            let mut interrupts = Interrupts::listen()?;
            match kind {
                Kind::Run => {
                    let prepare = holodeck::prepare_test(agent, &env, &options);
                    let prepared = tokio::select! {
                        prepared = prepare => match interrupts.arrived() {
                            // While this thread was blocked.
                            Some(ask) => Err(ask.problem().into()),
                            None => prepared.map_err(|error| Failure::from(subject.prepare(error))),
                        },
                        ask = interrupts.next() => Err(ask.problem().into()),
                    };
                    // One thing at a time moves on a terminal.
                    indexing.end();
                    let mut progress = Progress::new(style, terminal);
                    let outcome = drive(prepared?, &mut interrupts, &mut progress, &subject).await;
                    kept = progress.into_kept();
                    outcome
                }
                Kind::Regrade(run) => {
                    let (prepared, old) = holodeck::prepare_regrade(agent, &env, &options, run)
                        .await
                        .map_err(|error| subject.prepare(error))?;
                    let mut progress = Progress::new(style, terminal);
                    let outcome = prepared.regrade(&old, &mut progress);
                    kept = progress.into_kept();
                    Ok(outcome.map_err(|error| subject.run(&error))?)
                }
            }
        });
        let outcome = match outcome {
            Err(Failure::Problem(problem)) if problem.exit == ExitCode::Nothing => {
                if self.output.allow_empty {
                    terminal.talk("nothing to run\n");
                    return Ok(ExitCode::Passed);
                }
                return Err(problem.with_hint(why_nothing(&options)).into());
            }
            other => other?,
        };
        let written = self.reports.write(&outcome);
        let mut files = vec![shorten(&outcome.run_file)];
        files.extend(self.reports.paths());
        let summary = Summary {
            head: &outcome.head,
            kept: &kept,
            took: started.elapsed(),
            files: &files,
        };
        let mut exit = outcome.exit;
        if exit == ExitCode::Nothing && self.output.allow_empty {
            exit = ExitCode::Passed;
        }
        let told = if self.output.json {
            terminal.json(finished(&outcome, exit, &self.reports))
        } else {
            let failures = if style == ProgressStyle::Live && terminal.stdout_is_terminal() {
                Failures::Seen
            } else {
                Failures::ToTell
            };
            let text = render::summary(&summary, failures, terminal.width());
            if self.reports.use_stdout() {
                terminal.talk(&text);
                Ok(())
            } else {
                terminal.data(&text)
            }
        };
        let told = told.and_then(|()| terminal.flush());
        if terminal.verbosity() > Verbosity::Quiet && !self.output.json {
            terminal.talk(&render::hints(&summary, &as_argument(self.path)));
        }
        for problem in written {
            exit = exit.worse(problem.exit);
            terminal.talk(&render::problem(&problem));
        }
        match told {
            // The verdict stands, whoever stopped reading.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(exit),
            told => {
                told?;
                Ok(exit)
            }
        }
    }
}

/// What left no case to run.
fn why_nothing(options: &TestOptions) -> String {
    match (&options.filter, options.failed) {
        (_, true) => "no chosen case failed in the newest run".to_owned(),
        (Some(filter), false) => format!("`--filter {filter}` fits the name of no case"),
        (None, false) => {
            "add `test_cases` to the agent file; or, if that is fine, use `--allow-empty`".to_owned()
        }
    }
}

/// Runs to the end, or as far as it is let.
async fn drive(
    prepared: PreparedTest,
    interrupts: &mut Interrupts,
    progress: &mut Progress,
    subject: &Subject,
) -> Result<RunOutcome, Failure> {
    let control = RunControl::new();
    let run = prepared.run(&control, progress);
    let mut run = std::pin::pin!(run);
    // The first Ctrl-C asks running cases to finish, the second stops them; the third does not wait for anyone.
    let mut interrupts_left = 2;
    loop {
        tokio::select! {
            ended = &mut run => return Ok(ended.map_err(|error| subject.test(error))?),
            ask = interrupts.next() => match ask {
                Ask::Terminate => control.terminate(CLOSING),
                Ask::Interrupt if interrupts_left == 0 => return Err(ask.problem().into()),
                Ask::Interrupt => {
                    interrupts_left -= 1;
                    control.interrupt();
                }
            },
        }
    }
}

/// The last line of `--json`.
fn finished(outcome: &RunOutcome, exit: ExitCode, reports: &Reports) -> serde_json::Value {
    json!({
        "event": "finished",
        "exit_code": exit.code(),
        "report": &*outcome.head,
        "run_file": shorten(&outcome.run_file).display().to_string(),
        "reports": reports.paths().map(|path| path.display().to_string()).collect::<Vec<_>>(),
    })
}

/// As one would type it from here.
fn shorten(path: &Path) -> std::path::PathBuf {
    path.strip_prefix("./").unwrap_or(path).to_owned()
}
