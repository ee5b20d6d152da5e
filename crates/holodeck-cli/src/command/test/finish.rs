//! Writes the files of a run that ended, and shows its result.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use holodeck::{
    model::{Partial, ReportHead},
    reports::{CasePlaces, format},
    runner::RunOutcome,
    runs::ExitCode,
};
use serde_json::json;

use super::{
    flags::OutputArgs,
    targets::{Reports, write_baseline},
};
use crate::{
    command::as_argument,
    failure::{Failure, Problem},
    render::{self, FailureList, Highlights, ProgressStyle, Summary, shown_path},
    terminal::{Terminal, Verbosity},
};

/// The end of a run.
pub(super) struct Finished {
    pub(super) exit: ExitCode,
    /// Absent if nothing was run.
    pub(super) head: Option<Arc<ReportHead>>,
}

/// A run that ended, with what is written and shown of it.
pub(super) struct Ended {
    pub(super) outcome: RunOutcome,
    pub(super) highlights: Highlights,
    pub(super) started: Instant,
    pub(super) style: ProgressStyle,
    /// Where the baseline is saved, if it is.
    pub(super) baseline: Option<PathBuf>,
    /// Whether a run that lacks cases gives no baseline.
    pub(super) refuses_partial: bool,
    /// Where the cases are written, if a report shows it.
    pub(super) places: Option<Rc<CasePlaces>>,
    /// The recording, if there is one.
    pub(super) record: Option<PathBuf>,
}

impl Ended {
    /// Writes the files of the run and shows its result. The agent file is `path`.
    pub(super) fn finish(
        self,
        path: &Path,
        flags: &OutputArgs,
        reports: &Reports,
        terminal: &mut Terminal,
    ) -> Result<Finished, Failure> {
        let Self {
            outcome,
            highlights,
            started,
            style,
            baseline,
            refuses_partial,
            places,
            record,
        } = self;
        let (written, problems) = reports.write(&outcome, places.as_ref());
        let run_file_problem = outcome.run_file_error.as_ref().map(|error| {
            let path = shown_path(&outcome.run_file);
            Problem::execution(format!("cannot write the run file `{}`: {error}", path.display()))
        });
        let (saved, baseline_problem) = match (baseline, outcome.head.partial.clone()) {
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
        if exit == ExitCode::Nothing && flags.allow_empty {
            exit = ExitCode::Passed;
        }
        let output = if flags.json {
            terminal.write_json(finished_event(&outcome, exit, &written))
        } else {
            let failures = if style == ProgressStyle::Live && terminal.stdout_is_terminal() {
                FailureList::Omit
            } else {
                FailureList::Show
            };
            let text = render::summary(&summary, failures, terminal.width());
            if reports.use_stdout() {
                terminal.write_message(&text);
                Ok(())
            } else {
                terminal.write_data(&text)
            }
        };
        let output = output.and_then(|()| terminal.flush());
        if terminal.verbosity() > Verbosity::Quiet && !flags.json {
            if let Some(path) = &record {
                let path = path.display();
                terminal.write_message(&format!(
                    "recorded the answers in `{path}`; `--replay {path}` replays them\n"
                ));
            }
            terminal.write_message(&render::hints(
                &summary,
                &as_argument(path),
                terminal.columns_of_messages(),
            ));
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
        let failing: Vec<String> = format::not_passed(&outcome.head.summary).collect();
        if is_saved && !failing.is_empty() {
            terminal.write_message(&format!(
                "warning: the baseline has cases that do not pass ({}); no gate stops them later\n",
                failing.join(", ")
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

/// Ends a command that had nothing to run and is allowed to: a server that collects the reports finds them.
pub(super) fn nothing_to_run(
    agent: &str,
    path: &Path,
    flags: &OutputArgs,
    reports: &Reports,
    terminal: &mut Terminal,
) -> Result<Finished, Failure> {
    terminal.write_message("nothing to run\n");
    let (written, problems) = reports.write_empty(agent, path);
    let mut exit = ExitCode::Passed;
    for problem in problems {
        exit = exit.worse(problem.exit);
        terminal.write_message(&render::problem(&problem));
    }
    if flags.json {
        let reports = written.iter().map(|path| path.display().to_string());
        terminal.write_json(json!({
            "event": "finished",
            "exit_code": exit.code(),
            "report": null,
            "run_file": null,
            "reports": reports.collect::<Vec<_>>(),
        }))?;
        terminal.flush()?;
    }
    Ok(Finished { exit, head: None })
}

/// The last line of `--json` of a command that failed before it had a result.
pub(crate) fn failed_event(problem: &Problem) -> serde_json::Value {
    json!({
        "event": "finished",
        "exit_code": problem.exit.code(),
        "report": null,
        "run_file": null,
        "reports": [],
        "error": {
            // Without one, all is on standard error.
            "message": (!problem.message.is_empty()).then_some(&problem.message),
            "details": problem.details,
            "hint": problem.hint,
        },
    })
}

/// Refuses the baseline of a run that lacks cases: they would have nothing to be compared with.
pub(super) fn partial_baseline(partial: Partial) -> Problem {
    Problem::config(format!(
        "`--save-baseline`: the run is {}, and a baseline of it would lack the others",
        partial.describe()
    ))
    .with_hint("run every case, or add `--force` to save a baseline that is marked as partial")
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
