//! `holodeck test list` and `holodeck test show`: the stored runs of an agent, one of them, and one of its cases.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use holodeck::{
    StoredRuns,
    model::closest,
    reports::{PlannedResult, RunChanges, StoredRun, read_compared, test_result},
    runs::{CaseReport, ExitCode, ListedRun, Member, RunStore, RunUse, pass_rate_interval},
    stored_runs,
};
use serde_json::{Value, json};

use super::{compare::problem, is_yaml};
use crate::{
    args::AgentArg,
    command::as_argument,
    failure::{Failure, Problem, Subject},
    render::{self, ListedRow},
    terminal::{Terminal, set_redactor},
};

/// Flags of `holodeck test list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// List at most N runs.
    #[arg(long, value_name = "N", default_value = "20")]
    limit: NonZeroUsize,
    /// Write one JSON object to stdout, instead of text.
    #[arg(long)]
    json: bool,
}

/// Flags of `holodeck test show`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The run: its id, a prefix of the id, `latest` (the default), or the path of its journal. Then the name of a case, or
    /// its number as in `#3`, and the agent file, if it is not `agent.yaml`.
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The case to show with its whole transcript. Default: all that did not pass.
    #[arg(value_name = "CASE")]
    case: Option<String>,
    /// The agent file. Default: `agent.yaml`.
    #[arg(value_name = "AGENT")]
    agent: Option<PathBuf>,
    /// Write one JSON object to stdout, instead of text.
    #[arg(long)]
    json: bool,
}

impl ShowArgs {
    /// The run, the case and the agent file. Without a third argument, the last one with a YAML extension is the agent file.
    fn parts(&self) -> (&str, Option<&str>, &Path) {
        let mut names = vec![self.run.as_deref(), self.case.as_deref()];
        names.retain(Option::is_some);
        let mut agent = self.agent.as_deref();
        if agent.is_none()
            && let Some(Some(last)) = names.last()
            && is_yaml(last)
        {
            agent = Some(Path::new(*last));
            names.pop();
        }
        let mut names = names.into_iter().flatten();
        (
            names.next().unwrap_or("latest"),
            names.next(),
            agent.unwrap_or(Path::new("agent.yaml")),
        )
    }
}

/// The stored runs of an agent, whose secrets are masked from here on.
fn open(agent: &Path) -> Result<StoredRuns, Problem> {
    let stored = stored_runs(agent).map_err(|error| problem(&error, agent))?;
    set_redactor(Arc::clone(&stored.redactor));
    Ok(stored)
}

pub(super) fn list(args: &ListArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let path = &args.agent.agent;
    let subject = Subject {
        argument: as_argument(path),
    };
    let stored = open(path)?;
    let runs = stored.runs.list().map_err(|error| subject.store(&error))?;
    let total = runs.len();
    let mut rows = Vec::new();
    for (place, run) in runs.iter().enumerate().take(args.limit.get()) {
        rows.push(match run {
            Err(error) => ListedRow {
                run_id: None,
                run: Err(error.to_string()),
                is_running: false,
                before: None,
            },
            Ok(run) => {
                let read = StoredRun::open(&run.journal).map_err(|error| error.to_string());
                ListedRow {
                    run_id: Some(run.run_id.clone()),
                    is_running: read.as_ref().is_ok_and(|read| is_running(read, &run.journal)),
                    run: read,
                    before: changes_since(run, runs.iter().skip(place + 1).flatten()),
                }
            }
        });
    }
    if args.json {
        terminal.write_json(json!({
            "runs": rows.iter().map(row_json).collect::<Vec<_>>(),
            "total": total,
        }))?;
    } else {
        terminal.write_data(&render::run_list(&rows, total, terminal.width()))?;
    }
    terminal.flush()?;
    Ok(ExitCode::Passed)
}

/// Whether a command writes the journal of this run now. Several runs of a folder never do.
fn is_running(run: &StoredRun, journal: &Path) -> bool {
    let store = RunStore::of_journal(journal).filter(|_| !run.is_ended());
    store.is_some_and(|store| store.written_now([journal]).is_some())
}

/// The run before in its series, and the differences; unknown if one of both cannot be read.
fn changes_since<'r>(
    run: &ListedRun,
    mut older: impl Iterator<Item = &'r ListedRun>,
) -> Option<(String, Result<RunChanges, String>)> {
    let before = older.find(|older| older.series == run.series)?;
    let changes = read_compared(&before.journal)
        .and_then(|earlier| Ok(RunChanges::between(&earlier, &read_compared(&run.journal)?)))
        .map_err(|error| error.to_string());
    Some((before.run_id.clone(), changes))
}

fn row_json(row: &ListedRow) -> Value {
    let run = match &row.run {
        Ok(run) => run,
        Err(error) => return json!({ "run_id": row.run_id, "error": error }),
    };
    let head = run.head();
    let before = row.before.as_ref().map(|(before, changes)| match changes {
        Ok(changes) => json!({ "run_id": before, "changes": changes, "phrases": changes.describe() }),
        Err(error) => json!({ "run_id": before, "error": error }),
    });
    json!({
        "run_id": head.run_id,
        "started_at": head.timestamp,
        "state": render::run_state(run, row.is_running),
        "ended": head.ended,
        "ended_because": head.ended_because,
        "summary": head.summary,
        "pass_rate_interval": pass_rate_interval(&head.summary),
        "model": run.model(),
        "provenance": head.provenance(),
        "before": before,
    })
}

pub(super) fn show(args: &ShowArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let (name, case, path) = args.parts();
    let subject = Subject {
        argument: as_argument(path),
    };
    let stored = open(path)?;
    let found = stored
        .runs
        .find(name, RunUse::Read, Member::With(&[]))
        .map_err(|error| subject.store(&error))?;
    let run = StoredRun::open(&found.journal).map_err(|error| subject.journal(&error))?;
    let is_running = is_running(&run, &found.journal);
    let mut planned = Vec::new();
    for result in run.planned() {
        let mut result = result.map_err(|error| subject.journal(&error))?;
        if let PlannedResult::Finished(case) = &mut result
            && case.name.is_none()
        {
            case.name = stored.names.get(&case.unit.case.id).cloned();
        }
        planned.push(result);
    }
    match case {
        Some(wanted) => {
            let case = find_case(&planned, wanted)?;
            if args.json {
                terminal.write_json(json!({
                    "run_id": run.head().run_id,
                    "result": test_result(case),
                }))?;
            } else {
                let text = render::stored_case(&run, is_running, case, terminal.width());
                terminal.write_data(&text)?;
            }
        }
        None if args.json => {
            let results = planned.iter().map(|result| match result {
                PlannedResult::Finished(case) => json!(test_result(case)),
                PlannedResult::NotRun(case) => json!({ "not_run": case }),
            });
            terminal.write_json(json!({
                "run": run.head(),
                "model": run.model(),
                "results": results.collect::<Vec<_>>(),
            }))?;
        }
        None => {
            let text = render::stored_run(&run, is_running, &planned, terminal.width());
            terminal.write_data(&text)?;
        }
    }
    terminal.flush()?;
    Ok(ExitCode::Passed)
}

/// The case with this name, or with this number as in `#3`.
fn find_case<'p>(planned: &'p [PlannedResult], wanted: &str) -> Result<&'p CaseReport, Problem> {
    let names: Vec<(usize, String)> = planned
        .iter()
        .map(|planned| match planned {
            PlannedResult::Finished(case) => (case.index, case.label()),
            PlannedResult::NotRun(case) => (case.index, case.label()),
        })
        .collect();
    let number = wanted
        .strip_prefix('#')
        .and_then(|number| number.parse::<usize>().ok());
    let matches = |(index, name): &&(usize, String)| name == wanted || number == Some(index + 1);
    let mut found = names.iter().enumerate().filter(|(_, name)| matches(name));
    let Some((place, _)) = found.next() else {
        let problem = Problem::config(format!("the run has no case `{wanted}`"));
        let names = names.iter().map(|(_, name)| name.as_str());
        return Err(match closest(wanted, names) {
            Some(name) => problem.with_hint(format!("did you mean `{name}`?")),
            None => problem.with_hint("name it as in the list, or by its place in the file, as in `#3`"),
        });
    };
    if let Some((_, (other, _))) = found.next() {
        return Err(
            Problem::config(format!("several cases of the run have the name `{wanted}`")).with_hint(format!(
                "name one by its place in the file, as in `#{}` or `#{}`",
                names.get(place).map_or(place, |(index, _)| *index) + 1,
                other + 1
            )),
        );
    }
    match planned.get(place) {
        Some(PlannedResult::Finished(case)) => Ok(case),
        Some(PlannedResult::NotRun(case)) => Err(Problem::config(format!(
            "case `{wanted}` has no result: {}",
            case.reason
        ))),
        None => Err(Problem::config(format!("the run has no case `{wanted}`"))),
    }
}
