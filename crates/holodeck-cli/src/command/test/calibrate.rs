//! `holodeck test calibrate`: compares a judge with people.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use holodeck::{
    AnswerSource, CalibrateError, OpenOptions, RunInputs, TestOptions, prepare_calibration,
    runner::calibration_json, runs::ExitCode,
};

use super::targets::{Overwrite, Target, check, check_recording, read_beginning, replace};
use crate::{
    args::AgentArg,
    command::{as_argument, build_runtime, load},
    failure::{Failure, Problem, Subject},
    interrupt::Interrupts,
    render::{self, DiagnosticFilter, shown_path},
    terminal::{Terminal, Verbosity},
};

/// Flags of `holodeck test calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct CalibrateArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// The answers or conversations that people judged (`.csv`, `.jsonl` or `.xlsx`): for answers with the columns `case`
    /// or `input`, `response` and `passed`, for conversations with `turns` and `passed`.
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
    /// The judged metric, if the agent has several.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Write the result as JSON to this file.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Record the answers of the judge to replay them later.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Replay the answers of a recording; nothing is asked, and the result is not stored in `calibration/`.
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    replay: Option<PathBuf>,
    /// Overwrite the file of `--output` or `--record` even if `holodeck` did not write it.
    #[arg(long)]
    force: bool,
    /// Do not store the result in `calibration/` beside the agent file, where `require_calibrated` looks for it.
    #[arg(long)]
    no_save: bool,
    /// Write the result as one JSON object to stdout, instead of text.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CalibrateArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    let output = args.output()?;
    let path = &args.agent.agent;
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let agent = load(path, &env, terminal)?;
    let subject = Subject {
        argument: as_argument(path),
    };
    let options = args.options();
    args.check_record(&RunInputs::new(&agent, &env, &options))?;
    let prepared = prepare_calibration(agent, &env, &options, &args.labels, args.metric.as_deref());
    let (prepared, labels) = prepared.map_err(|error| match error {
        CalibrateError::Metric { problem, hint } => Problem::config(problem).with_hint(hint),
        CalibrateError::Prepare(error) => subject.prepare(*error),
        other => Problem::config(other.to_string()),
    })?;
    let text = render::diagnostics(
        &labels,
        &args.labels,
        DiagnosticFilter::Important,
        terminal.width(),
    );
    if labels.has_errors() || terminal.verbosity() > Verbosity::Quiet {
        terminal.write_message(&text);
    }
    // The diagnostics have been shown above.
    let prepared = prepared.ok_or_else(|| Problem::config(""))?;
    if let Some(replayed) = prepared.replayed()
        && terminal.verbosity() > Verbosity::Quiet
    {
        terminal.write_message(&format!("{}\n", replayed.describe()));
    }
    if let Some(warning) = prepared.warning()
        && terminal.verbosity() > Verbosity::Quiet
    {
        terminal.write_message(&format!("warning: {warning}\n"));
    }
    let run = build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        tokio::select! {
            run = prepared.run() => Ok::<_, Failure>(run.map_err(|error| subject.test(error))?),
            request = interrupts.next() => {
                let (judged, all) = prepared.progress();
                let mut problem = request.problem();
                problem.message = format!(
                    "{} after {judged} of {all} {} were judged; nothing was stored",
                    problem.message,
                    prepared.subject().as_str()
                );
                prepared.keep_recording().map_err(|error| subject.test(error.into()))?;
                Err(problem.into())
            }
        }
    })?;
    let (stored, not_stored) = if args.no_save {
        (None, None)
    } else {
        match prepared.store(&run) {
            Ok(file) => (file.map(|file| shown_path(&file)), None),
            Err(error) => (None, Some(error)),
        }
    };
    let mut value = calibration_json(&run);
    if let Some(fields) = value.as_object_mut() {
        let stored = stored.as_ref().map(|file| file.display().to_string());
        fields.insert("stored".to_owned(), stored.into());
        fields.insert("replayed".to_owned(), serde_json::json!(prepared.replayed()));
    }
    let mut exit = run.exit();
    let written = match &output {
        None | Some(Target::Null) => Ok(()),
        Some(Target::Stdout) => terminal.write_indented_json(value.clone()),
        Some(Target::File(path)) => replace(path, |mut file| writeln!(file, "{value:#}")),
    };
    if args.json {
        terminal.write_json(value)?;
    } else if !matches!(output, Some(Target::Stdout)) {
        terminal.write_data(&render::calibration(&run, terminal.width()))?;
    }
    terminal.flush()?;
    if let Some(file) = &stored
        && terminal.verbosity() > Verbosity::Quiet
    {
        terminal.write_message(&format!("stored the calibration in `{}`\n", file.display()));
    }
    if let Some(error) = not_stored {
        let problem = Problem::execution(format!("cannot store the calibration: {error}"))
            .with_hint("`--no-save` measures without storing");
        exit = exit.worse(problem.exit);
        terminal.write_message(&render::problem(&problem));
    }
    if let Err(error) = written {
        let problem = Problem::execution(format!("cannot write the calibration: {error}"));
        exit = exit.worse(problem.exit);
        terminal.write_message(&render::problem(&problem));
    }
    Ok(exit)
}

impl CalibrateArgs {
    fn options(&self) -> TestOptions {
        TestOptions {
            agent_path: self.agent.agent.display().to_string(),
            open: OpenOptions {
                // The recording of `execution.replay` has the questions of the test cases, not of these labels.
                answers: self
                    .replay
                    .clone()
                    .map_or(AnswerSource::Live, AnswerSource::Replay),
                record: self.record.clone(),
                ..OpenOptions::default()
            },
            ..TestOptions::default()
        }
    }

    fn overwrite(&self) -> Overwrite {
        if self.force {
            Overwrite::Anything
        } else {
            Overwrite::Known
        }
    }

    /// Whether a path is that of a file that is read.
    fn reads(&self, path: &Path) -> bool {
        let read = [&self.labels, &self.agent.agent].into_iter().chain(&self.replay);
        let real = |path: &Path| path.canonicalize().ok();
        let own = real(path);
        own.is_some() && read.into_iter().any(|input| real(input) == own)
    }

    fn check_record(&self, inputs: &RunInputs) -> Result<(), Problem> {
        let Some(path) = &self.record else {
            return Ok(());
        };
        check_recording(path, inputs, self.overwrite())?;
        if self.reads(path) {
            return Err(would_overwrite("--record", path));
        }
        let is_output = |output: &PathBuf| {
            output == path || (output.exists() && output.canonicalize().ok() == path.canonicalize().ok())
        };
        if self.output.as_ref().is_some_and(is_output) {
            return Err(Problem::config("`--output` and `--record` name the same file"));
        }
        Ok(())
    }

    /// Where the result is written, checked before anything is read.
    fn output(&self) -> Result<Option<Target>, Problem> {
        let Some(path) = &self.output else {
            return Ok(None);
        };
        let target = Target::of(path.clone());
        match &target {
            Target::Stdout if self.json => {
                return Err(Problem::config(
                    "`--json` and `--output` would both be written to the standard output",
                ));
            }
            Target::File(path) => {
                let is_own = |path: &std::path::Path| {
                    read_beginning(path)
                        .is_ok_and(|text| text.starts_with('{') && text.contains("\"calibration\""))
                };
                check(
                    path,
                    "calibration",
                    &RunInputs::default(),
                    self.overwrite(),
                    is_own,
                )?;
                // These are read after this check, and `--force` must not delete the labels.
                if self.reads(path) {
                    return Err(would_overwrite("--output", path));
                }
            }
            Target::Stdout | Target::Null => {}
        }
        Ok(Some(target))
    }
}

fn would_overwrite(flag: &str, path: &Path) -> Problem {
    Problem::config(format!(
        "`{flag} {}` would overwrite what is read",
        path.display()
    ))
}
