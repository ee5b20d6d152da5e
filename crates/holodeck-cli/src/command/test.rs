//! `holodeck test`: runs, resumes and regrades tests.

mod calibrate;
mod compare;
mod flags;
mod matrix;
mod targets;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use clap::Subcommand;
use holodeck::{
    DryRun, JUDGE_STEPS, OpenOptions, RunInputs, TestError, TestOptions,
    index::IndexSink,
    model::{Combination, Env, Partial, ReportHead, Spent, closest},
    reports::format,
    runner::{Renew, RunControl, RunOutcome},
    runs::{AgentRuns, ExitCode, Member, RunOwner, RunUse},
    yaml::LoadedAgent,
};
use serde_json::json;
use tokio::runtime::Runtime;

use self::{
    calibrate::CalibrateArgs,
    compare::CompareArgs,
    flags::{HowArgs, OutputArgs, WhatArgs, parse_axis},
    targets::{Overwrite, Reports, check_baseline, check_recording, write_baseline},
};
use super::{as_argument, build_runtime, load, load_combination};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem, Subject},
    interrupt::{CLOSE_LIMIT, Interrupts, StopRequest},
    render::{self, FailureList, Highlights, IndexProgress, Progress, ProgressStyle, Summary, shown_path},
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
    /// Run an agent's test cases; same as `holodeck test`.
    Run(Box<NewRunArgs>),
    /// Resume an interrupted run; finished cases are not repeated.
    Resume(Box<ResumeArgs>),
    /// Grade the answers of an earlier run against the current expectations without calling the model.
    Regrade(Box<RegradeArgs>),
    /// Merge the shards of a run to one run, with its verdict and its reports.
    Merge(Box<MergeArgs>),
    /// Derive the steps of judges that have only criteria, and write them to `judge-steps.json`; no agent is asked.
    Steps(Box<StepsArgs>),
    /// Compare two runs, or a run with a baseline: which cases changed, and whether that is more than chance.
    Compare(Box<CompareArgs>),
    /// Compare a judge with people: ask it about answers that people judged, and measure how far both agree.
    Calibrate(Box<CalibrateArgs>),
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

/// An earlier run of an agent.
#[derive(Debug, clap::Args)]
struct EarlierRun {
    /// The run: its id, a prefix of the id, `latest` (the default), or the path of its journal.
    run: Option<String>,
    /// The agent file. Default: `agent.yaml`.
    agent: Option<PathBuf>,
}

impl EarlierRun {
    /// The run and the agent file. A single argument with a YAML extension is the agent file.
    fn parts(&self) -> (&str, &Path) {
        let default = Path::new("agent.yaml");
        match (&self.run, &self.agent) {
            (Some(run), Some(agent)) => (run, agent),
            (Some(agent), None) if is_yaml(agent) => ("latest", Path::new(agent)),
            (Some(run), None) => (run, default),
            (None, _) => ("latest", default),
        }
    }
}

fn is_yaml(name: &str) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|extension| extension == "yaml" || extension == "yml")
}

#[derive(Debug, clap::Args)]
struct ResumeArgs {
    #[command(flatten)]
    run: EarlierRun,
    #[command(flatten)]
    how: HowArgs,
    /// Resume even if the agent has changed since the run began; every report states it.
    #[arg(long)]
    accept_changes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct RegradeArgs {
    #[command(flatten)]
    run: EarlierRun,
    /// Renew only the verdicts of this metric and keep those of other judges and graders. May be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "errors")]
    metric: Vec<String>,
    /// Renew only the verdicts of judges and graders that are errors.
    #[arg(long)]
    errors: bool,
    /// Of the runs of a `matrix`, grade the one with this value, as in `model.name=gpt-4o`. May be repeated.
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_axis)]
    matrix: Vec<(String, String)>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct MergeArgs {
    /// The shards, in any order: run ids, their beginnings, paths of journals, or folders with journals; and the agent
    /// file, if it is not `agent.yaml`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl MergeArgs {
    /// The agent file and the shards: an argument with a YAML extension is the agent file.
    fn parts(&self) -> Result<(&Path, Vec<String>), Problem> {
        let mut agents = self.runs.iter().filter(|run| is_yaml(run));
        let agent = agents.next().map_or(Path::new("agent.yaml"), Path::new);
        if agents.next().is_some() {
            return Err(Problem::config("only one agent file can be given"));
        }
        let runs: Vec<String> = self.runs.iter().filter(|run| !is_yaml(run)).cloned().collect();
        if runs.is_empty() {
            return Err(Problem::config("no shard is given")
                .with_hint("give the runs, or a folder with their journals"));
        }
        Ok((agent, runs))
    }
}

#[derive(Debug, clap::Args)]
struct StepsArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// Write one JSON object to stdout, instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &TestArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let (outcome, output) = match &args.command {
        None => (new_run(&args.run, terminal), &args.run.output),
        Some(TestCommand::Run(args)) => (new_run(args, terminal), &args.output),
        Some(TestCommand::Resume(args)) => (resume(args, terminal), &args.output),
        Some(TestCommand::Regrade(args)) => (regrade(args, terminal), &args.output),
        Some(TestCommand::Merge(args)) => (merge(args, terminal), &args.output),
        Some(TestCommand::Steps(args)) => return steps(args, terminal),
        Some(TestCommand::Compare(args)) => return compare::run(args, terminal),
        Some(TestCommand::Calibrate(args)) => return calibrate::run(args, terminal),
    };
    if let (Err(Failure::Problem(_)), Ok(reports)) = (&outcome, output.reports()) {
        // A CI server would show it as the result of this run.
        for path in reports.older() {
            let path = path.display();
            terminal.write_message(&format!(
                "warning: `{path}` is the report of an earlier run; it stays\n"
            ));
        }
    }
    outcome
}

fn new_run(args: &NewRunArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let agent = args.output.agent_after_flag().unwrap_or(&args.agent.agent);
    let mut options = args.how.options();
    options.open.answers = args.what.answers();
    options.filter.clone_from(&args.what.filter);
    options.limit = args.what.limit.map(std::num::NonZeroUsize::get);
    options.failed = args.what.failed;
    options.trials = args.what.trials;
    options.min_passes = args.what.min_passes;
    let mut session = Session::open(agent, &args.output, options, terminal)?;
    session.options.shard = args.what.shard(&session.env)?;
    if let Some(combinations) = matrix::select(&session.agent, &args.what.matrix)? {
        return matrix::run(&session, &combinations, args.what.dry_run, terminal);
    }
    if args.what.dry_run {
        return session.dry_run(terminal);
    }
    session.execute(Kind::Run, terminal)
}

fn resume(args: &ResumeArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let mut options = args.how.options();
    let (run, agent) = args.run.parts();
    options.resume = Some(run.to_owned());
    options.accept_changes = args.accept_changes;
    let session = Session::open(agent, &args.output, options, terminal)?;
    let found = session.runs().find_resumable(run);
    let found = found.map_err(|error| session.subject.store(&error))?;
    if found.iter().any(|run| run.combination.is_some()) {
        return matrix::resume(&session, &found, terminal);
    }
    session.execute(Kind::Run, terminal)
}

fn regrade(args: &RegradeArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let (run, agent) = args.run.parts();
    let session = Session::open(agent, &args.output, TestOptions::default(), terminal)?;
    let found = session
        .runs()
        .find(run, RunUse::Regrade, Member::With(&args.matrix))
        .map_err(|error| session.subject.store(&error))?;
    let session = match &found.combination {
        Some(stored) => session.with_combination(&stored.values, terminal)?,
        None => session,
    };
    let renew = match (args.errors, args.metric.as_slice()) {
        (true, _) => Renew::Errors,
        (false, []) => Renew::All,
        (false, names) => Renew::Metrics(names.to_vec()),
    };
    session.execute(Kind::Regrade(&found.name, &renew), terminal)
}

fn merge(args: &MergeArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let (agent, runs) = args.parts()?;
    let session = Session::open(agent, &args.output, TestOptions::default(), terminal)?;
    if let Some(exit) = matrix::merge(&session, &runs, terminal)? {
        return Ok(exit);
    }
    session.execute(Kind::Merge(&runs), terminal)
}

fn steps(args: &StepsArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let agent = load(path, &env, terminal)?;
    let subject = Subject {
        argument: as_argument(path),
    };
    let file = agent.dir.join(JUDGE_STEPS);
    // Each combination may have judges of its own.
    let agents = match matrix::select(&agent, &[])? {
        None => vec![agent],
        Some(combinations) => {
            let load = |values| load_combination(path, &env, values, false, terminal);
            combinations.iter().map(load).collect::<Result<_, _>>()?
        }
    };
    let runtime = build_runtime()?;
    let mut derived: Vec<String> = Vec::new();
    let mut spent = Spent::default();
    let options = OpenOptions::default();
    for agent in agents {
        let steps = holodeck::derive_judge_steps(agent, &env, &options);
        let (names, used) = runtime
            .block_on(steps)
            .map_err(|error| subject.judge_steps(error))?;
        derived.extend(names);
        spent += used;
    }
    let file = file.display();
    if args.json {
        let cost = spent.cost_usd.filter(|_| !derived.is_empty());
        terminal.write_json(json!({
            "derived": derived,
            "file": file.to_string(),
            "calls": spent.calls,
            "cost_usd": cost,
        }))?;
    } else if derived.is_empty() {
        terminal.write_data("no steps are missing\n")?;
    } else {
        let names: Vec<String> = derived.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        let cost = spent
            .cost_usd
            .map_or_else(|| "unknown cost".to_owned(), format::cost);
        terminal.write_data(&format!(
            "derived the steps of {names} ({cost}); commit `{file}`\n"
        ))?;
    }
    terminal.flush()?;
    Ok(ExitCode::Passed)
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Run,
    Regrade(&'a str, &'a Renew),
    Merge(&'a [String]),
}

/// The end of a run.
struct Finished {
    exit: ExitCode,
    /// Absent if nothing was run.
    head: Option<Arc<ReportHead>>,
}

/// The state of one `holodeck test`.
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
        options.open.reports = reports.paths().collect();
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

    /// The same session with a combination of the agent's matrix.
    fn with_combination(self, combination: &Combination, terminal: &mut Terminal) -> Result<Self, Failure> {
        let agent = load_combination(self.path, &self.env, combination, true, terminal)?;
        Ok(Self { agent, ..self })
    }

    /// The runs of the agent.
    fn runs(&self) -> AgentRuns {
        AgentRuns::of(&self.agent)
    }

    /// Refuses targets that must not be overwritten, before anything runs.
    fn check_targets(&self) -> Result<(), Failure> {
        let inputs = RunInputs::new(&self.agent, &self.env, &self.options);
        let overwrite = self.output.overwrite();
        self.reports.check(&inputs, overwrite)?;
        if let Some(path) = &self.options.open.record {
            check_recording(path, &inputs, overwrite)?;
        }
        if let Some(path) = self.output.baseline(&self.agent.dir)? {
            let owner = RunOwner::of(&self.agent);
            let redactor = holodeck::redactor(&self.agent, &self.env);
            check_baseline(&path, &owner, &redactor, &inputs, overwrite)?;
        }
        Ok(())
    }

    fn plan(mut self) -> Result<DryRun, Failure> {
        self.options.open.preparing = holodeck::Preparing::Plan;
        let prepare = holodeck::prepare_test(self.agent, &self.env, &self.options);
        let prepared = build_runtime()?.block_on(prepare);
        Ok(prepared.map_err(|error| self.subject.prepare(error))?.dry_run())
    }

    fn dry_run(self, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        let output = self.output;
        let dry = self.plan()?;
        if output.json {
            terminal.write_json(render::dry_run_json(&dry))?;
        } else {
            terminal.write_data(&render::dry_run(&dry))?;
        }
        Ok(if dry.plan.cases.is_empty() && !output.allow_empty {
            ExitCode::Nothing
        } else {
            ExitCode::Passed
        })
    }

    fn execute(self, kind: Kind<'_>, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        let runtime = build_runtime()?;
        self.execute_in(kind, &runtime, None, terminal)
            .map(|finished| finished.exit)
    }

    /// Runs the tests. The command of several runs passes the `interrupts` of all of them.
    fn execute_in(
        self,
        kind: Kind<'_>,
        runtime: &Runtime,
        interrupts: Option<&mut Interrupts>,
        terminal: &mut Terminal,
    ) -> Result<Finished, Failure> {
        self.check_targets()?;
        terminal.set_combination(self.agent.combination.as_ref());
        let baseline = self.output.baseline(&self.agent.dir)?;
        let refuses_partial = baseline.is_some() && self.output.overwrite() != Overwrite::Anything;
        let started = Instant::now();
        let style = if self.output.json {
            ProgressStyle::Json
        } else {
            ProgressStyle::fitting(terminal, self.env.get("TERM"))
        };
        let indexing = Arc::new(IndexProgress::new(style, terminal));
        let Self {
            agent,
            env,
            mut options,
            subject,
            ..
        } = self;
        let index_listener = Arc::clone(&indexing);
        options.open.on_index = IndexSink::new(move |event| index_listener.on(event));
        let mut highlights = Highlights::default();
        // The names of thousands of cases are copied only where the hint needs them.
        let names: Vec<String> = if options.filter.is_some() {
            agent.config.test_cases.names().map(str::to_owned).collect()
        } else {
            Vec::new()
        };
        let mut own = None;
        let outcome = runtime.block_on(async {
            let interrupts = match interrupts {
                Some(interrupts) => interrupts,
                None => own.insert(Interrupts::listen()?),
            };
            // From here on Ctrl-C ends the run in order, so nothing is shown before.
            indexing.wait_for("tools, servers and indexes");
            match kind {
                Kind::Run => {
                    let prepare = holodeck::prepare_test(agent, &env, &options);
                    let prepared = tokio::select! {
                        prepared = prepare => match interrupts.try_next() {
                            // The signal arrived while this thread was blocked.
                            Some(request) => Err(request.problem().into()),
                            None => prepared.map_err(|error| Failure::from(subject.prepare(error))),
                        },
                        request = interrupts.next() => Err(request.problem().into()),
                    };
                    let prepared =
                        prepared.and_then(|prepared| match prepared.partial().filter(|_| refuses_partial) {
                            Some(partial) => Err(partial_baseline(partial).into()),
                            None => Ok(prepared),
                        });
                    // A terminal has only one status line.
                    indexing.end();
                    let mut progress = Progress::new(style, terminal);
                    let control = RunControl::new();
                    let run = Box::pin(prepared?.run(&control, &mut progress));
                    let outcome = drive(run, &control, interrupts, &subject).await;
                    highlights = progress.into_highlights();
                    outcome
                }
                Kind::Regrade(run, renew) => {
                    let prepared = holodeck::prepare_regrade(agent, &env, &options, run, renew.clone());
                    indexing.end();
                    let prepared = prepared.map_err(|error| subject.prepare(error))?;
                    let mut progress = Progress::new(style, terminal);
                    let control = RunControl::new();
                    let run = Box::pin(prepared.run(&control, &mut progress));
                    let outcome = drive(run, &control, interrupts, &subject).await;
                    highlights = progress.into_highlights();
                    outcome
                }
                Kind::Merge(runs) => {
                    let prepared = holodeck::prepare_merge(agent, &env, &options, runs);
                    indexing.end();
                    let prepared = prepared.map_err(|error| subject.merge(error))?;
                    let mut progress = Progress::new(style, terminal);
                    let control = RunControl::new();
                    let run = Box::pin(prepared.run(&control, &mut progress));
                    let outcome = drive(run, &control, interrupts, &subject).await;
                    highlights = progress.into_highlights();
                    outcome
                }
            }
        });
        let outcome = match outcome {
            Err(Failure::Problem(problem)) if problem.exit == ExitCode::Nothing => {
                if self.output.allow_empty {
                    terminal.write_message("nothing to run\n");
                    return Ok(Finished {
                        exit: ExitCode::Passed,
                        head: None,
                    });
                }
                let hint = match kind {
                    Kind::Run | Kind::Merge(_) => hint_for_empty_run(&options, &names),
                    Kind::Regrade(run, _) => {
                        format!(
                            "run `{run}` has no answer to grade; `holodeck test resume {run}` requests the answers"
                        )
                    }
                };
                return Err(problem.with_hint(hint).into());
            }
            other => other?,
        };
        let (written, problems) = self.reports.write(&outcome);
        let run_file_problem = outcome.run_file_error.as_ref().map(|error| {
            let path = shown_path(&outcome.run_file);
            Problem::execution(format!("cannot write the run file `{}`: {error}", path.display()))
        });
        let (saved, baseline_problem) = match (baseline, outcome.head.partial) {
            (Some(_), Some(partial)) if refuses_partial => (None, Some(partial_baseline(partial))),
            (Some(path), _) => write_baseline(&path, &outcome),
            (None, _) => (None, None),
        };
        let is_saved = saved.is_some();
        let own = run_file_problem.is_none().then(|| shown_path(&outcome.run_file));
        let files: Vec<_> = own
            .into_iter()
            .chain(written.iter().cloned())
            .chain(saved)
            .collect();
        let missing = outcome
            .not_run()
            .map_err(|error| Problem::execution(error.to_string()))?;
        let summary = Summary {
            head: &outcome.head,
            highlights: &highlights,
            took: started.elapsed(),
            files: &files,
            not_run: &missing,
        };
        let mut exit = outcome.exit;
        if exit == ExitCode::Nothing && self.output.allow_empty {
            exit = ExitCode::Passed;
        }
        let output = if self.output.json {
            terminal.write_json(finished_event(&outcome, exit, &written))
        } else {
            let failures = if style == ProgressStyle::Live && terminal.stdout_is_terminal() {
                FailureList::Omit
            } else {
                FailureList::Show
            };
            let text = render::summary(&summary, failures, terminal.width());
            if self.reports.use_stdout() {
                terminal.write_message(&text);
                Ok(())
            } else {
                terminal.write_data(&text)
            }
        };
        let output = output.and_then(|()| terminal.flush());
        if terminal.verbosity() > Verbosity::Quiet && !self.output.json {
            if let Some(path) = &options.open.record {
                let path = path.display();
                terminal.write_message(&format!(
                    "recorded the answers in `{path}`; `--replay {path}` replays them\n"
                ));
            }
            terminal.write_message(&render::hints(&summary, &as_argument(self.path)));
        }
        if let Some(shard) = outcome
            .head
            .shard
            .filter(|shard| shard.index as usize > shard.cases)
        {
            terminal.write_message(&format!(
                "shard {} of {} has no case, because the run has only {}; `--allow-empty` exits 0\n",
                shard.index,
                shard.count,
                format::count(shard.cases, "case")
            ));
        }
        let (selected, all) = outcome.selection();
        if is_saved && selected < all {
            terminal.write_message(&format!(
                "warning: the baseline has {selected} of {all} cases; the others have nothing to be compared with\n"
            ));
        }
        for problem in run_file_problem
            .into_iter()
            .chain(problems)
            .chain(baseline_problem)
        {
            exit = exit.worse(problem.exit);
            terminal.write_message(&render::problem(&problem));
        }
        match output {
            // A reader that closes the pipe does not change the verdict.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            output => output?,
        }
        Ok(Finished {
            exit,
            head: Some(outcome.head),
        })
    }
}

/// Refuses the baseline of a run that lacks cases: they would have nothing to be compared with.
fn partial_baseline(partial: Partial) -> Problem {
    Problem::config(format!(
        "`--save-baseline`: the run is {}, and a baseline of it would lack the others",
        partial.describe()
    ))
    .with_hint("run every case, or add `--force` to save a baseline that is marked as partial")
}

/// Explains why there is no case to run.
fn hint_for_empty_run(options: &TestOptions, names: &[String]) -> String {
    match (&options.filter, options.failed) {
        (_, true) => "every selected case passed last time".to_owned(),
        (Some(filter), false) => {
            let names = names.iter().map(String::as_str);
            if let Some(name) = closest_name(filter, names.clone()) {
                format!("`--filter {filter}` does not match any case name; did you mean `{name}`?")
            } else {
                let examples: Vec<_> = names.clone().take(3).map(|name| format!("`{name}`")).collect();
                let more = if names.count() > examples.len() {
                    " …"
                } else {
                    ""
                };
                format!(
                    "`--filter {filter}` does not match any case name; names are {}{more}",
                    examples.join(", ")
                )
            }
        }
        (None, false) => "add `test_cases` to the agent file, or use `--allow-empty`".to_owned(),
    }
}

/// The closest pattern: a name or the beginning of one.
fn closest_name<'a>(filter: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let Some(beginning) = filter.strip_suffix('*') else {
        return closest(filter, names).map(str::to_owned);
    };
    let beginnings: Vec<&str> = names
        .flat_map(|name| [name.split([' ', '-', '_', ':', '.']).next().unwrap_or(name), name])
        .collect();
    closest(beginning, beginnings).map(|name| format!("{name}*"))
}

/// Drives a run to its end and applies interrupts to it.
async fn drive(
    mut run: impl Future<Output = Result<RunOutcome, TestError>> + Unpin,
    control: &RunControl,
    interrupts: &mut Interrupts,
    subject: &Subject,
) -> Result<RunOutcome, Failure> {
    // The first Ctrl-C lets running cases finish, the second cancels them, the third exits without waiting.
    let mut interrupts_left = 2;
    loop {
        tokio::select! {
            result = &mut run => return Ok(result.map_err(|error| subject.test(error))?),
            request = interrupts.next() => match request {
                StopRequest::Terminate => control.terminate(CLOSE_LIMIT),
                StopRequest::Interrupt if interrupts_left == 0 => return Err(request.problem().into()),
                StopRequest::Interrupt => {
                    interrupts_left -= 1;
                    control.interrupt();
                }
            },
        }
    }
}

/// The last line of `--json`.
fn finished_event(outcome: &RunOutcome, exit: ExitCode, reports: &[std::path::PathBuf]) -> serde_json::Value {
    let run_file = outcome
        .run_file_error
        .is_none()
        .then(|| shown_path(&outcome.run_file));
    json!({
        "event": "finished",
        "exit_code": exit.code(),
        "report": &*outcome.head,
        "run_file": run_file.map(|path| path.display().to_string()),
        "reports": reports.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
    })
}
