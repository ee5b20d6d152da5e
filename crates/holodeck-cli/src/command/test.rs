//! `holodeck test`: runs, resumes and regrades tests.

mod calibrate;
mod compare;
mod finish;
mod flags;
mod history;
mod matrix;
mod matrix_page;
mod session;
mod targets;
mod watch;
mod watched_files;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Subcommand;
use holodeck::{
    JUDGE_STEPS, OpenOptions, TestOptions,
    model::Spent,
    reports::format,
    runner::Renew,
    runs::{ExitCode, Member, RunUse},
};
use serde_json::json;

pub(crate) use self::finish::failed_event;
use self::{
    calibrate::CalibrateArgs,
    compare::CompareArgs,
    flags::{HowArgs, OutputArgs, WhatArgs, parse_axis},
    history::{ListArgs, ShowArgs},
    session::{Kind, Session},
};
use super::{as_argument, build_runtime, load, load_combination, parse_seconds};
use crate::{
    args::AgentArg,
    failure::{Failure, Problem, Subject},
    interrupt::Interrupts,
    terminal::Terminal,
};

/// How often a merge that waits looks for the ends of shards.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

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
    /// List the stored runs of an agent, newest first, and what changed since the run before.
    List(ListArgs),
    /// Show the cases of a stored run that did not pass, or one case with its transcript.
    Show(ShowArgs),
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
    /// Wait this many seconds, if it has to, until all shards have ended.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    wait: Option<Duration>,
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
        Some(TestCommand::List(args)) => return history::list(args, terminal),
        Some(TestCommand::Show(args)) => return history::show(args, terminal),
        Some(TestCommand::Compare(args)) => {
            let outcome = compare::run(args, terminal);
            write_failure(&outcome, args.json, terminal)?;
            return outcome;
        }
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
    write_failure(&outcome, output.json, terminal)?;
    outcome
}

/// Ends the lines of `--json` of a command that failed.
fn write_failure(
    outcome: &Result<ExitCode, Failure>,
    json: bool,
    terminal: &mut Terminal,
) -> std::io::Result<()> {
    if let (Err(Failure::Problem(problem)), true) = (outcome, json) {
        terminal.set_combination(None);
        terminal.write_json(failed_event(problem))?;
        terminal.flush()?;
    }
    Ok(())
}

fn new_run(args: &NewRunArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    if args.what.watch {
        return watch::run(args, terminal);
    }
    let mut session = Session::open(args.agent_file(), &args.output, args.options(), terminal)?;
    session.options.shard = args.what.shard(&session.env)?;
    if let Some(combinations) = matrix::select(&session.agent, &args.what.matrix)? {
        return matrix::run(&session, &combinations, args.what.dry_run, terminal);
    }
    if args.what.dry_run {
        return session.dry_run(terminal);
    }
    session.execute(Kind::Run, terminal)
}

impl NewRunArgs {
    /// The options of the run.
    fn options(&self) -> TestOptions {
        let mut options = self.how.options();
        options.open.answers = self.what.answers();
        options.filter.clone_from(&self.what.filter);
        options.tags.clone_from(&self.what.tags);
        options.sample = self.what.sample();
        options.limit = self.what.limit.map(std::num::NonZeroUsize::get);
        options.failed = self.what.failed;
        options.trials = self.what.trials;
        options.min_passes = self.what.min_passes;
        options
    }
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
    if let Some(limit) = args.wait {
        wait_for_shards(&session, &runs, limit)?;
    }
    if let Some(exit) = matrix::merge(&session, &runs, terminal)? {
        return Ok(exit);
    }
    session.execute(Kind::Merge(&runs), terminal)
}

/// Waits until all shards have ended, or the time is up. The merge then says what is missing.
fn wait_for_shards(session: &Session<'_>, runs: &[String], limit: Duration) -> Result<(), Failure> {
    build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let deadline = Instant::now() + limit;
        while !session.runs().have_shards_ended(runs) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN.min(left)) => {}
                request = interrupts.next() => return Err(request.problem().into()),
            }
        }
        Ok(())
    })
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
