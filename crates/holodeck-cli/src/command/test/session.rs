//! One `holodeck test`: loads the agent, checks what it would overwrite, and runs it until its end or an interrupt.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Instant};

use holodeck::{
    DryRun, PreparedMerge, PreparedRegrade, PreparedTest, RunInputs, TestError, TestOptions,
    index::IndexSink,
    model::{Combination, Env, closest},
    runner::{Renew, RunControl, RunOutcome},
    runs::{AgentRuns, ExitCode, RunOwner},
    yaml::LoadedAgent,
};
use tokio::runtime::Runtime;

use super::{
    finish::{Ended, Finished, nothing_to_run, partial_baseline},
    flags::OutputArgs,
    targets::{Overwrite, Reports, check_baseline, check_recording},
};
use crate::{
    command::{as_argument, build_runtime, load, load_combination, places::user_variable},
    failure::{Failure, Problem, Subject},
    interrupt::{CLOSE_LIMIT, Interrupts, StopRequest},
    render::{self, Highlights, IndexProgress, Progress, ProgressStyle},
    terminal::{Outputs, Terminal},
};

/// The kind of run that a session starts.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    Run,
    Regrade(&'a str, &'a Renew),
    Merge(&'a [String]),
}

/// The state of one `holodeck test`.
pub(super) struct Session<'a> {
    pub(super) path: &'a Path,
    pub(super) env: Env,
    pub(super) agent: LoadedAgent,
    pub(super) subject: Subject,
    pub(super) options: TestOptions,
    pub(super) output: &'a OutputArgs,
    pub(super) reports: Reports,
}

impl<'a> Session<'a> {
    pub(super) fn open(
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
    pub(super) fn with_combination(
        self,
        combination: &Combination,
        terminal: &mut Terminal,
    ) -> Result<Self, Failure> {
        let agent = load_combination(self.path, &self.env, combination, true, terminal)?;
        Ok(Self { agent, ..self })
    }

    /// The runs of the agent.
    pub(super) fn runs(&self) -> AgentRuns {
        AgentRuns::of(&self.agent)
    }

    /// Refuses targets that must not be overwritten, before anything runs.
    pub(super) fn check_targets(&self) -> Result<(), Failure> {
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

    pub(super) fn plan(self) -> Result<DryRun, Failure> {
        self.plan_for(&self.options)
    }

    /// The plan of a run with these options.
    pub(super) fn plan_for(&self, options: &TestOptions) -> Result<DryRun, Failure> {
        let mut options = options.clone();
        options.open.preparing = holodeck::Preparing::Plan;
        let prepare = holodeck::prepare_test(self.agent.clone(), &self.env, &options);
        let prepared = build_runtime()?.block_on(prepare);
        Ok(prepared.map_err(|error| self.subject.prepare(error))?.dry_run())
    }

    pub(super) fn dry_run(self, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
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

    pub(super) fn execute(self, kind: Kind<'_>, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        let runtime = build_runtime()?;
        self.execute_in(kind, &runtime, None, terminal)
            .map(|finished| finished.exit)
    }

    /// Runs the tests. The command of several runs passes the `interrupts` of all of them.
    pub(super) fn execute_in(
        mut self,
        kind: Kind<'_>,
        runtime: &Runtime,
        interrupts: Option<&mut Interrupts>,
        terminal: &mut Terminal,
    ) -> Result<Finished, Failure> {
        self.check_targets()?;
        self.reports.add_step_summary(&self.env);
        let places = self.reports.case_places(&self.agent, self.path, &self.env);
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
        let tags: BTreeSet<String> = if options.tags.is_empty() {
            BTreeSet::new()
        } else {
            let cases = agent.config.test_cases.detailed();
            cases.flat_map(|(_, case)| case.tags.iter().cloned()).collect()
        };
        // The names of thousands of cases are copied only where the hint needs them.
        let names: Vec<String> = if options.filter.is_some() {
            agent.config.test_cases.names().map(str::to_owned).collect()
        } else {
            Vec::new()
        };
        let cases_file = agent.config.test_cases_file.as_ref();
        let cases_file = cases_file.map(|file| file.as_str().to_owned());
        let agent_name = agent.config.name.clone();
        let mut own = None;
        let outcome = runtime.block_on(async {
            let interrupts = match interrupts {
                Some(interrupts) => interrupts,
                None => own.insert(Interrupts::listen()?),
            };
            // From here on Ctrl-C ends the run in order, so nothing is shown before.
            indexing.wait_for("tools, servers and indexes");
            let prepared = match kind {
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
                    prepared.and_then(|prepared| match prepared.partial().filter(|_| refuses_partial) {
                        Some(partial) => Err(partial_baseline(partial).into()),
                        None => Ok(Prepared::Test(Box::new(prepared))),
                    })
                }
                Kind::Regrade(run, renew) => {
                    let prepared = holodeck::prepare_regrade(agent, &env, &options, run, renew.clone());
                    let prepared = prepared.map(|prepared| Prepared::Regrade(Box::new(prepared)));
                    prepared.map_err(|error| subject.prepare(error).into())
                }
                Kind::Merge(runs) => {
                    let prepared = holodeck::prepare_merge(agent, &env, &options, runs);
                    let prepared = prepared.map(|prepared| Prepared::Merge(Box::new(prepared)));
                    prepared.map_err(|error| subject.merge(error).into())
                }
            };
            // A terminal has only one status line.
            indexing.end();
            let prepared = prepared?;
            let outputs = Outputs::of_process(user_variable(&env, "CI"));
            let mut progress = Progress::new(style, terminal, outputs);
            let control = RunControl::new();
            let run = Box::pin(prepared.run(&control, &mut progress));
            let outcome = drive(run, &control, interrupts, &subject).await;
            highlights = progress.into_highlights();
            outcome
        });
        let outcome = match outcome {
            Err(Failure::Problem(problem)) if problem.exit == ExitCode::Nothing => {
                if self.output.allow_empty {
                    return nothing_to_run(&agent_name, self.path, self.output, &self.reports, terminal);
                }
                let hint = match kind {
                    Kind::Run | Kind::Merge(_) => {
                        hint_for_empty_run(&options, &names, &tags, cases_file.as_deref())
                    }
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
        let ended = Ended {
            outcome,
            highlights,
            started,
            style,
            baseline,
            refuses_partial,
            places,
            record: options.open.record,
        };
        ended.finish(self.path, self.output, &self.reports, terminal)
    }
}

/// A run that is ready to start.
enum Prepared {
    Test(Box<PreparedTest>),
    Regrade(Box<PreparedRegrade>),
    Merge(Box<PreparedMerge>),
}

impl Prepared {
    async fn run(self, control: &RunControl, progress: &mut Progress) -> Result<RunOutcome, TestError> {
        match self {
            Self::Test(prepared) => prepared.run(control, progress).await,
            Self::Regrade(prepared) => prepared.run(control, progress).await,
            Self::Merge(prepared) => prepared.run(control, progress).await,
        }
    }
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

/// Explains why there is no case to run; `file` holds the cases, if they are not in the agent file.
fn hint_for_empty_run(
    options: &TestOptions,
    names: &[String],
    tags: &BTreeSet<String>,
    file: Option<&str>,
) -> String {
    let known = |tag: &&String| tags.contains(*tag);
    if let Some(tag) = options
        .tags
        .first()
        .filter(|_| !options.tags.iter().any(|tag| known(&tag)))
    {
        return describe_unknown_tag(tag, tags);
    }
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
        (None, false) => match file {
            Some(file) => format!("`{file}` has no test case: add some to it, or use `--allow-empty`"),
            None => "add `test_cases` to the agent file, or use `--allow-empty`".to_owned(),
        },
    }
}

fn describe_unknown_tag(tag: &str, tags: &BTreeSet<String>) -> String {
    if let Some(meant) = closest(tag, tags.iter().map(String::as_str)) {
        return format!("no case has the tag `{tag}`; did you mean `{meant}`?");
    }
    if tags.is_empty() {
        return format!("no case has the tag `{tag}`: add `tags: [{tag}]` to the cases that it means");
    }
    let names: Vec<String> = tags.iter().take(8).map(|tag| format!("`{tag}`")).collect();
    let more = if tags.len() > names.len() { " …" } else { "" };
    format!(
        "no case has the tag `{tag}`; the tags are {}{more}",
        names.join(", ")
    )
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
