//! The `matrix` of an agent: one run for each combination of its values, one after the other.

use std::{path::PathBuf, time::Instant};

use holodeck::{
    DryRun, MatrixGroup, RunInputs, TestOptions,
    model::{Combination, Matrix, ReportHead, TokenUsage, axis_value, closest},
    reports::format,
    runner::{Budget, OnFailure},
    runs::{ExitCode, FoundRun, RunEndKind, Sibling, SiblingState, new_group, siblings},
    shards_by_combination,
    yaml::LoadedAgent,
};
use serde_json::json;

use super::{
    finish::{Finished, failed_event},
    matrix_page::write_page,
    session::{Kind, Session},
};
use crate::{
    command::{build_runtime, load_combination},
    failure::{Failure, Problem},
    interrupt::{Interrupts, StopRequest},
    render::{self, MatrixRow},
    terminal::{Terminal, Verbosity},
};

/// The combinations to run: all, or those that the values of `--matrix` select. `None` for an agent without a matrix.
pub(super) fn select(
    agent: &LoadedAgent,
    wanted: &[(String, String)],
) -> Result<Option<Vec<Combination>>, Problem> {
    let Some(matrix) = &agent.config.matrix else {
        return match wanted.first() {
            None => Ok(None),
            Some((path, value)) => Err(Problem::config(format!(
                "`--matrix {path}={value}`: the agent file has no `matrix`"
            ))
            .with_hint(format!("add `matrix:` with `{path}: [{value}]`"))),
        };
    };
    for (path, value) in wanted {
        check_wanted(matrix, path, value)?;
    }
    let mut combinations = matrix.combinations();
    combinations.retain(|combination| combination.has(wanted));
    Ok(Some(combinations))
}

fn check_wanted(matrix: &Matrix, path: &str, value: &str) -> Result<(), Problem> {
    let refuse = |message: String, typed: &str, known: Vec<String>| {
        let problem = Problem::config(format!("`--matrix {path}={value}`: {message}"));
        match closest(typed, known.iter().map(String::as_str)) {
            Some(meant) => problem.with_hint(format!("did you mean `{meant}`?")),
            None => problem.with_hint(format!("it has {}", known.join(", "))),
        }
    };
    let Some((_, values)) = matrix.axes().find(|(axis, _)| *axis == path) else {
        let known = matrix.axes().map(|(axis, _)| axis.to_owned()).collect();
        return Err(refuse("the `matrix` has no such path".to_owned(), path, known));
    };
    let values: Vec<String> = values.iter().map(axis_value).collect();
    if values.iter().any(|known| known == value) {
        return Ok(());
    }
    Err(refuse(
        format!("`{path}` has no such value in the `matrix`"),
        value,
        values,
    ))
}

/// One run of the matrix.
struct Job {
    combination: Combination,
    /// The name of the combination in the names of files.
    name: String,
    work: Work,
}

/// The work for a combination.
#[derive(Clone)]
enum Work {
    /// The tests are run.
    Run,
    /// The run with this name is resumed.
    Resume(String),
    /// These shards are merged.
    Merge(Vec<String>),
}

/// Checks every combination, then runs all of them, or shows what would run.
pub(super) fn run(
    base: &Session<'_>,
    combinations: &[Combination],
    dry_run: bool,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let mut options = base.options.clone();
    options.matrix = Some(MatrixGroup {
        group: new_group(),
        planned: combinations.to_vec(),
    });
    let jobs = jobs(
        combinations
            .iter()
            .map(|combination| (combination.clone(), Work::Run)),
    );
    if jobs.len() > 1 {
        base.output.check_several(&options, combinations.iter())?;
        let inputs = RunInputs::new(&base.agent, &base.env, &options);
        base.reports.of_matrix().check(&inputs, base.output.overwrite())?;
    }
    // A run costs money, so everything that can be known to be missing is found before the first.
    let mut plans = Vec::new();
    for job in &jobs {
        let plan = |terminal: &mut Terminal| {
            let session = base.of_job(job, jobs.len(), options.clone(), terminal)?;
            session.check_targets()?;
            session.plan()
        };
        let plan = plan(terminal).map_err(|failure| about(&job.combination, failure))?;
        // The names of all cases, once for each combination, are kept only to be shown.
        if dry_run {
            plans.push(plan);
        }
    }
    if dry_run {
        return show_plans(base, &jobs, &plans, terminal);
    }
    let ran = run_jobs(base, &options, &jobs, &[], terminal)?;
    ran.show(base, terminal)
}

/// Names the combination that an error is about.
fn about(combination: &Combination, failure: Failure) -> Failure {
    match failure {
        Failure::Problem(mut problem) => {
            problem.message = format!("combination {combination}: {}", problem.message);
            Failure::Problem(problem)
        }
        output @ Failure::Output(_) => output,
    }
}

fn show_plans(
    base: &Session<'_>,
    jobs: &[Job],
    plans: &[DryRun],
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let plans: Vec<(&Combination, &DryRun)> = jobs.iter().map(|job| &job.combination).zip(plans).collect();
    terminal.set_combination(None);
    if base.output.json {
        terminal.write_json(render::matrix_plan_json(&plans))?;
    } else {
        terminal.write_data(&render::matrix_plan(&plans))?;
    }
    let is_empty = plans.iter().all(|(_, dry)| dry.plan.cases.is_empty());
    Ok(if is_empty && !base.output.allow_empty {
        ExitCode::Nothing
    } else {
        ExitCode::Passed
    })
}

impl<'a> Session<'a> {
    /// The session of one run of the matrix.
    fn of_job(
        &self,
        job: &Job,
        jobs: usize,
        mut options: TestOptions,
        terminal: &mut Terminal,
    ) -> Result<Session<'a>, Failure> {
        let reports = if jobs > 1 {
            self.output.reports_named(&job.name)?
        } else {
            self.output.reports()?
        };
        options.open.reports = reports.paths().collect();
        Ok(Session {
            path: self.path,
            env: self.env.clone(),
            agent: load_combination(self.path, &self.env, &job.combination, false, terminal)?,
            subject: self.subject.clone(),
            options,
            output: self.output,
            reports,
        })
    }
}

/// The runs of a command, one for each combination, and what they mean together.
struct Ran {
    rows: Vec<MatrixRow>,
    /// The names of the first rows in the names of files.
    names: Vec<String>,
    exit: ExitCode,
}

/// Runs all jobs. `missing` are combinations that should have been among them.
fn run_jobs(
    base: &Session<'_>,
    options: &TestOptions,
    jobs: &[Job],
    missing: &[Combination],
    terminal: &mut Terminal,
) -> Result<Ran, Failure> {
    let runtime = build_runtime()?;
    let mut interrupts = Interrupts::listen()?;
    let mut rows = Vec::new();
    let mut exit = ExitCode::Passed;
    let mut left = Left::of(options.budget);
    // Why the remaining combinations are not run.
    let mut stopped: Option<String> = None;
    let mut has_run = false;
    for (place, job) in jobs.iter().enumerate() {
        let mut row = MatrixRow::new(job.combination.clone());
        if stopped.is_none()
            && let Some(request) = interrupts.try_next()
        {
            exit = exit.worse(exit_of(request));
            stopped = Some("interrupted".to_owned());
        }
        if let Some(reason) = &stopped {
            row.note = Some(format!("not run: {reason}"));
            rows.push(row);
            continue;
        }
        if jobs.len() > 1 && !base.output.json && terminal.verbosity() > Verbosity::Quiet {
            terminal.write_message(&render::combination(&job.combination, place + 1, jobs.len()));
        }
        let started = Instant::now();
        let mut options = options.clone();
        options.budget = left.budget;
        if let Work::Resume(run) = &job.work {
            options.resume = Some(run.clone());
        }
        let session = base.of_job(job, jobs.len(), options, terminal);
        let finished = session.and_then(|session| {
            let kind = match &job.work {
                Work::Run | Work::Resume(_) => Kind::Run,
                Work::Merge(shards) => Kind::Merge(shards),
            };
            session.execute_in(kind, &runtime, Some(&mut interrupts), terminal)
        });
        row.took = started.elapsed();
        match finished {
            Ok(Finished { exit: own, head }) => {
                has_run = true;
                exit = exit.worse(own);
                row.exit = Some(own);
                if let Some(head) = &head {
                    stopped = left.stop_after(head, own, base.options.on_failure);
                    if left.is_used_up && stopped.is_some() && place + 1 < jobs.len() {
                        exit = exit.worse(ExitCode::Budget);
                    }
                } else {
                    row.note = Some("nothing to run".to_owned());
                }
                row.head = head;
            }
            // Every case of the combination passed last time, which is known only if that is all that selects cases.
            Err(Failure::Problem(problem))
                if jobs.len() > 1
                    && problem.exit == ExitCode::Nothing
                    && options_select_failed_only(&base.options) =>
            {
                row.note = Some("nothing to run: every case passed last time".to_owned());
                row.is_idle = true;
            }
            Err(Failure::Problem(problem)) => {
                exit = exit.worse(problem.exit);
                row.exit = Some(problem.exit);
                row.note = Some(match problem.message.lines().next() {
                    Some(line) => format!("not run: {line}"),
                    None => "not run".to_owned(),
                });
                if matches!(problem.exit, ExitCode::Interrupted | ExitCode::Terminated) {
                    stopped = Some("interrupted".to_owned());
                } else if base.options.on_failure == OnFailure::Stop {
                    stopped = Some("an earlier combination did not pass (`--fail-fast`)".to_owned());
                }
                terminal.write_message(&render::problem(&problem));
                if base.output.json {
                    terminal.set_combination(Some(&job.combination));
                    let written = terminal.write_json(failed_event(&problem));
                    unless_closed(written.and_then(|()| terminal.flush()))?;
                }
            }
            // A reader that closes the pipe does not change the verdict.
            Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                exit = exit.worse(ExitCode::Execution);
                row.note = Some("its output could not be written".to_owned());
            }
            Err(output) => return Err(output),
        }
        rows.push(row);
    }
    for combination in missing {
        let mut row = MatrixRow::new(combination.clone());
        row.note = Some("not run: no shard of this combination was given".to_owned());
        exit = exit.worse(ExitCode::Execution);
        rows.push(row);
    }
    if !has_run {
        exit = exit.worse(ExitCode::Nothing);
    }
    // Whatever stopped the others, a matrix that was not run completely has not passed.
    if stopped.is_some() && rows.iter().any(|row| row.head.is_none()) {
        exit = exit.worse(ExitCode::Execution);
    }
    Ok(Ran {
        rows,
        names: jobs.iter().map(|job| job.name.clone()).collect(),
        exit,
    })
}

/// A reader that closes the pipe does not change the verdict.
fn unless_closed(written: std::io::Result<()>) -> std::io::Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn options_select_failed_only(options: &TestOptions) -> bool {
    options.failed && options.filter.is_none() && options.shard.is_none()
}

fn exit_of(request: StopRequest) -> ExitCode {
    request.problem().exit
}

impl Ran {
    /// Shows the runs side by side, and returns the exit code of the command.
    fn show(&self, base: &Session<'_>, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
        terminal.set_combination(None);
        let (pages, problems) = if self.rows.len() > 1 {
            let reports = base.reports.of_matrix();
            reports.write_pages(|path, out| write_page(&self.rows, &self.names, &base.runs(), path, out))
        } else {
            (Vec::new(), Vec::new())
        };
        let exit = problems
            .iter()
            .fold(self.exit, |exit, problem| exit.worse(problem.exit));
        unless_closed(self.write(base, &pages, exit, terminal))?;
        for problem in problems {
            terminal.write_message(&render::problem(&problem));
        }
        Ok(exit)
    }

    /// Whether the last line of the only run has the exit code of the command. Another run of the matrix may decide it.
    fn is_said_by_its_run(&self) -> bool {
        matches!(self.rows.as_slice(), [only] if only.exit == Some(self.exit))
    }

    fn write(
        &self,
        base: &Session<'_>,
        pages: &[PathBuf],
        exit: ExitCode,
        terminal: &mut Terminal,
    ) -> std::io::Result<()> {
        let rows = &self.rows;
        if base.output.json {
            if !self.is_said_by_its_run() {
                terminal.write_json(json!({
                    "event": "matrix_finished",
                    "exit_code": exit.code(),
                    "combinations": rows.iter().map(MatrixRow::json).collect::<Vec<_>>(),
                    "reports": pages.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
                }))?;
            }
        } else if rows.len() > 1 {
            let mut text = render::matrix(rows, terminal.columns_of_data());
            for page in pages {
                text.extend(["report   ", &page.display().to_string(), "\n"]);
            }
            terminal.write_data(&text)?;
        }
        terminal.flush()?;
        if rows.len() > 1 && terminal.verbosity() > Verbosity::Quiet && !base.output.json {
            let mut runs = rows.iter().filter_map(|row| row.head.as_ref());
            if let (Some(one), Some(other)) = (runs.next(), runs.next()) {
                terminal.write_message(&render::hint(&format!(
                    "`holodeck test compare {} {}{}` compares two of them case by case",
                    one.run_id, other.run_id, base.subject.argument
                )));
            }
            let mut not_run = rows.iter().filter(|row| row.head.is_none() && !row.is_idle);
            if let Some(first) = not_run.next().filter(|_| exit != ExitCode::Passed) {
                terminal.write_message(&render::hint(&format!(
                    "`holodeck test{}{}` runs a combination that was not run",
                    base.subject.argument,
                    selecting(&first.combination)
                )));
            }
        }
        Ok(())
    }
}

/// The flags that select a combination, with a leading space.
fn selecting(combination: &Combination) -> String {
    let flags = combination.values().map(|(path, value)| {
        let argument = format!("{path}={}", axis_value(value));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=:".contains(c);
        if argument.chars().all(plain) {
            format!(" --matrix {argument}")
        } else {
            format!(" --matrix '{}'", argument.replace('\'', "'\\''"))
        }
    });
    flags.collect()
}

/// The rest of the budget for the following runs: it holds for the whole matrix.
struct Left {
    budget: Budget,
    is_used_up: bool,
}

impl Left {
    fn of(budget: Budget) -> Self {
        Self {
            budget,
            is_used_up: false,
        }
    }

    /// Takes away what a run used. Returns why no further run may start, if so.
    fn stop_after(&mut self, head: &ReportHead, exit: ExitCode, on_failure: OnFailure) -> Option<String> {
        if matches!(exit, ExitCode::Interrupted | ExitCode::Terminated) {
            return Some("interrupted".to_owned());
        }
        let summary = &head.summary;
        let of_budget = [RunEndKind::Budget, RunEndKind::Unenforceable].map(RunEndKind::as_str);
        let mut used_up = of_budget.contains(&head.ended.as_str());
        if head.replayed.is_none() {
            let tokens = |usage: Option<TokenUsage>| usage.map_or(0, |usage| usage.total_tokens);
            let used = tokens(summary.token_usage) + tokens(summary.judge_usage) + tokens(summary.user_usage);
            if let Some(limit) = &mut self.budget.max_tokens_total {
                *limit = limit.saturating_sub(used);
                used_up |= *limit == 0;
            }
            let costs = [summary.cost_usd, summary.judge_cost_usd, summary.user_cost_usd];
            if let Some(limit) = &mut self.budget.max_cost_usd {
                *limit -= costs.into_iter().flatten().sum::<f64>();
                used_up |= *limit <= 0.0;
            }
        }
        if used_up {
            self.is_used_up = true;
            return Some("the budget of the matrix is used up or cannot be enforced".to_owned());
        }
        let has_stopped = on_failure == OnFailure::Stop && exit != ExitCode::Passed;
        has_stopped.then(|| "an earlier combination did not pass (`--fail-fast`)".to_owned())
    }
}

/// Jobs with names for their files: their values, and a number where two would have the same name.
fn jobs(combinations: impl Iterator<Item = (Combination, Work)>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for (combination, work) in combinations {
        let plain = file_name(&combination);
        let mut name = plain.clone();
        let mut number = 1;
        while jobs.iter().any(|job| job.name == name) {
            number += 1;
            name = format!("{plain}-{number}");
        }
        jobs.push(Job {
            combination,
            name,
            work,
        });
    }
    jobs
}

/// The values in letters, digits, dots and `-`, short enough for the name of a file.
fn file_name(combination: &Combination) -> String {
    let values: Vec<String> = combination.values().map(|(_, value)| axis_value(value)).collect();
    let mut name = String::new();
    for character in values.join("-").chars() {
        if character.is_ascii_alphanumeric() || (character == '.' && !name.is_empty()) {
            name.push(character);
        } else if !name.ends_with('-') && !name.is_empty() {
            name.push('-');
        }
    }
    name.truncate(80);
    let name = name.trim_end_matches(['-', '.']);
    if name.is_empty() { "combination" } else { name }.to_owned()
}

/// Resumes runs of a matrix. They pass only if the other runs of the same command passed as well.
pub(super) fn resume(
    base: &Session<'_>,
    runs: &[FoundRun],
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let of_matrix = runs
        .iter()
        .filter_map(|run| Some((run, run.combination.as_ref()?)));
    let jobs = jobs(of_matrix.map(|(run, stored)| (stored.values.clone(), Work::Resume(run.name.clone()))));
    if jobs.len() > 1 {
        let combinations = jobs.iter().map(|job| &job.combination);
        base.output.check_several(&base.options, combinations)?;
    }
    if terminal.verbosity() > Verbosity::Quiet {
        for job in &jobs {
            terminal.write_message(&format!("resuming combination {}\n", job.combination));
        }
    }
    let mut ran = run_jobs(base, &base.options, &jobs, &[], terminal)?;
    let Some(stored) = runs.iter().find_map(|run| run.combination.as_ref()) else {
        return ran.show(base, terminal);
    };
    let siblings = siblings(&base.runs(), stored)
        .map_err(|error| Problem::execution(format!("cannot read the other runs of the matrix: {error}")))?;
    let argument = &base.subject.argument;
    let is_resumed = |sibling: &Sibling| jobs.iter().any(|job| job.combination == sibling.values);
    let siblings = siblings.into_iter().filter(|sibling| !is_resumed(sibling));
    for sibling in siblings {
        let (own, what, hint) = match &sibling.state {
            SiblingState::Passed => continue,
            SiblingState::NotRun => (
                ExitCode::Execution,
                "was not run".to_owned(),
                format!("`holodeck test{argument}{}` runs it", selecting(&sibling.values)),
            ),
            SiblingState::Unfinished { run_id } => (
                ExitCode::Execution,
                "is not finished".to_owned(),
                format!("`holodeck test resume {run_id}{argument}` resumes it"),
            ),
            SiblingState::NotPassed { run_id, cases } => (
                ExitCode::Failed,
                format!("has {} that did not pass", format::count(*cases, "case")),
                format!("`holodeck test regrade {run_id}{argument}` grades its answers again"),
            ),
        };
        ran.exit = ran.exit.worse(own);
        let problem = Problem::new(own, format!("combination {} {what}", sibling.values)).with_hint(hint);
        terminal.write_message(&render::problem(&problem));
    }
    ran.show(base, terminal)
}

/// Merges shards of a matrix, each combination by itself. `None` if they are not of a matrix.
pub(super) fn merge(
    base: &Session<'_>,
    runs: &[String],
    terminal: &mut Terminal,
) -> Result<Option<ExitCode>, Failure> {
    let Ok((groups, missing)) = shards_by_combination(&base.runs(), runs) else {
        // The merge reports the error.
        return Ok(None);
    };
    let groups: Option<Vec<(Combination, Vec<PathBuf>)>> = groups
        .into_iter()
        .map(|(combination, journals)| Some((combination?, journals)))
        .collect();
    let Some(groups) = groups.filter(|groups| !groups.is_empty()) else {
        return Ok(None);
    };
    let names = |journals: Vec<PathBuf>| journals.iter().map(|path| path.display().to_string()).collect();
    let jobs = jobs(
        groups
            .into_iter()
            .map(|(combination, journals)| (combination, Work::Merge(names(journals)))),
    );
    if jobs.len() > 1 {
        let combinations = jobs.iter().map(|job| &job.combination);
        base.output.check_several(&base.options, combinations)?;
    }
    let ran = run_jobs(base, &base.options, &jobs, &missing, terminal)?;
    ran.show(base, terminal).map(Some)
}
