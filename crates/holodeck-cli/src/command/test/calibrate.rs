//! `holodeck test calibrate`: compares a judge with people.

use std::{io::Write as _, path::PathBuf};

use holodeck::{
    CalibrateError, RunInputs, TestOptions, prepare_calibration,
    runner::{ExitCode, calibration_json},
};

use super::{
    shorten,
    targets::{Overwrite, Target, check, read_beginning, replace},
};
use crate::{
    args::AgentArg,
    command::{as_argument, build_runtime, load},
    failure::{Failure, Problem, Subject},
    interrupt::Interrupts,
    render::{self, DiagnosticFilter},
    terminal::{Terminal, Verbosity},
};

/// Flags of `holodeck test calibrate`.
#[derive(Debug, clap::Args)]
pub(super) struct CalibrateArgs {
    #[command(flatten)]
    agent: AgentArg,
    /// The answers that people judged (`.csv`, `.jsonl` or `.xlsx`), with the columns `case` or `input`, `response` and
    /// `passed`, and if needed `ground_truth` and `retrieval_context`.
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
    /// The judged metric, if the agent has several.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Write the result as JSON to this file.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Overwrite the file of `--output` even if `holodeck` did not write it.
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
    let options = TestOptions {
        agent_path: path.display().to_string(),
        ..TestOptions::default()
    };
    let prepared = prepare_calibration(agent, &env, &options, &args.labels, args.metric.as_deref());
    let (prepared, labels) = prepared.map_err(|error| match error {
        CalibrateError::Metric { problem, hint } => Problem::config(problem).with_hint(hint),
        CalibrateError::Prepare(error) => subject.prepare(error),
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
    if let Some(warning) = prepared.warning()
        && terminal.verbosity() > Verbosity::Quiet
    {
        terminal.write_message(&format!("warning: {warning}\n"));
    }
    let run = build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        tokio::select! {
            run = prepared.run() => Ok::<_, Failure>(run.map_err(|error| subject.prepare(error.into()))?),
            request = interrupts.next() => {
                let (judged, all) = prepared.progress();
                let mut problem = request.problem();
                problem.message =
                    format!("{} after {judged} of {all} answers were judged; nothing was stored", problem.message);
                Err(problem.into())
            }
        }
    })?;
    let (stored, not_stored) = if args.no_save {
        (None, None)
    } else {
        match prepared.store(&run) {
            Ok(file) => (file.map(|file| shorten(&file)), None),
            Err(error) => (None, Some(error)),
        }
    };
    let mut value = calibration_json(&run);
    if let Some(fields) = value.as_object_mut() {
        let stored = stored.as_ref().map(|file| file.display().to_string());
        fields.insert("stored".to_owned(), stored.into());
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
                let overwrite = if self.force {
                    Overwrite::Anything
                } else {
                    Overwrite::Known
                };
                let is_own = |path: &std::path::Path| {
                    read_beginning(path)
                        .is_ok_and(|text| text.starts_with('{') && text.contains("\"calibration\""))
                };
                check(path, "calibration", &RunInputs::default(), overwrite, is_own)?;
                // These are read after this check, and `--force` must not delete the labels.
                if [&self.labels, &self.agent.agent].into_iter().any(|input| {
                    input
                        .canonicalize()
                        .is_ok_and(|input| path.canonicalize().is_ok_and(|path| path == input))
                }) {
                    return Err(Problem::config(format!(
                        "`--output {}` would overwrite what is read",
                        path.display()
                    )));
                }
            }
            Target::Stdout | Target::Null => {}
        }
        Ok(Some(target))
    }
}
