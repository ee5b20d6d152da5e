//! A question to an agent with a `quality_loop:`: its answer is improved, and printed when it is chosen.

use std::{io, path::Path, sync::Arc, time::Duration};

use holodeck::{
    RoutedAgent, RoutedError, RoutedExecution, RoutedOptions,
    events::Ids as _,
    index::IndexSink,
    model::{Command, CommandContext, Env},
    orchestrator::{ExecuteOptions, FacadeError, FailureClass, Verdict},
    runner::{ExitCode, words},
    yaml::LoadedAgent,
};
use serde_json::Value;

use super::{super::build_runtime, describe_model};
use crate::{
    failure::{Failure, Problem},
    interrupt::Interrupts,
    render::{self, IndexProgress, ProgressStyle},
    terminal::{Terminal, Verbosity},
};

/// Flags about the quality loop.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LoopArgs {
    /// Improve the answer until it scores this many points, 0–100.
    #[arg(long, value_name = "POINTS", value_parser = parse_points, help_heading = "Quality loop")]
    pub(crate) threshold: Option<f64>,
    /// Score at most N answers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50), help_heading = "Quality loop")]
    pub(crate) max_iterations: Option<u32>,
    /// Explain on stderr how the answer was reached.
    #[arg(long, help_heading = "Quality loop")]
    pub(crate) explain: bool,
}

impl LoopArgs {
    /// The first flag that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let flags = [
            (self.threshold.is_some(), "--threshold"),
            (self.max_iterations.is_some(), "--max-iterations"),
            (self.explain, "--explain"),
        ];
        flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }
}

fn parse_points(text: &str) -> Result<f64, String> {
    let points: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (0.0..=100.0).contains(&points) {
        Ok(points)
    } else {
        Err("must be between 0 and 100".to_owned())
    }
}

/// How the answer is asked for and printed.
pub(crate) struct Asking<'a> {
    pub(crate) quality: &'a LoopArgs,
    pub(crate) json: bool,
    pub(crate) timeout: Option<Duration>,
}

/// Asks one question and prints the answer that the loop returns.
pub(crate) fn run(
    agent: LoadedAgent,
    env: &Env,
    question: &str,
    asking: &Asking<'_>,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let style = ProgressStyle::fitting(terminal, env.get("TERM"));
    let indexing = Arc::new(IndexProgress::new(style, terminal));
    let listener = Arc::clone(&indexing);
    let options = RoutedOptions {
        timeout: asking.timeout,
        on_index: IndexSink::new(move |event| listener.on(event)),
        threshold: asking.quality.threshold,
        max_iterations: asking.quality.max_iterations,
        ..RoutedOptions::default()
    };
    let context = CommandContext {
        command: Command {
            name: "run".to_owned(),
            arguments: vec![question.to_owned()],
            ..Command::default()
        },
        session_id: holodeck::events::RandomIds.next().to_string(),
        cwd: std::env::current_dir().ok(),
        ..CommandContext::default()
    };
    let description = describe_model(&agent);
    let (ended, interrupt) = build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        indexing.wait_for(&description);
        let routed = RoutedAgent::new(agent, env, options).map_err(routed_problem)?;
        let execute = ExecuteOptions::default();
        let cancel = execute.cancel.clone();
        let mut interrupt = None;
        let ended = {
            let mut ended = std::pin::pin!(routed.execute(&context, &execute));
            loop {
                tokio::select! {
                    ended = &mut ended => break Ok(ended),
                    // The first one returns the best answer so far, the second one ends at once.
                    request = interrupts.next() => match interrupt.replace(request) {
                        None => cancel.cancel(),
                        Some(_) => break Err(request.problem()),
                    },
                }
            }
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(problem) => return Err(Failure::from(problem)),
        };
        routed.close().await;
        Ok((ended, interrupt))
    })?;
    indexing.end();
    let ended = match (ended, interrupt) {
        (Ok(ended), _) => ended,
        (Err(_), Some(request)) => return Err(request.problem().into()),
        (Err(error), None) => return Err(routed_problem(error).into()),
    };
    print(&ended, asking, terminal)?;
    match interrupt {
        Some(request) => Err(request.problem().into()),
        None => exit(&ended),
    }
}

fn print(ended: &RoutedExecution, asking: &Asking<'_>, terminal: &mut Terminal) -> Result<(), Failure> {
    let execution = &ended.execution;
    let details = execution.attempt.as_ref();
    let report = details.and_then(|details| details.report.as_ref());
    if asking.json {
        let mut value = serde_json::to_value(&execution.result).map_err(io::Error::from)?;
        if let Some(fields) = value.as_object_mut() {
            fields.insert(
                "run_id".to_owned(),
                serde_json::to_value(&ended.run_id).map_err(io::Error::from)?,
            );
            if asking.quality.explain {
                fields.insert(
                    "attempt".to_owned(),
                    serde_json::to_value(details).map_err(io::Error::from)?,
                );
            }
        }
        terminal.write_indented_json(value)?;
    } else if let Some(answer) = execution.result.output.get("output") {
        let answer = match answer {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // A terminal would interpret control characters.
        let answer = match terminal.stdout_is_terminal() {
            true => words::printable(&answer).into_owned(),
            false => answer,
        };
        if !answer.is_empty() {
            terminal.write_data(&format!("{answer}\n"))?;
        }
    }
    if let Some(report) = report {
        if asking.quality.explain || terminal.verbosity() >= Verbosity::Verbose {
            terminal.write_message(&render::loop_report(report));
        } else if report.repeated_side_effects > 0 && terminal.verbosity() > Verbosity::Quiet {
            terminal.write_message(&render::loop_report(report));
        }
    }
    match &ended.run_id {
        Some(run_id) if terminal.verbosity() >= Verbosity::Verbose => {
            terminal.write_message(&format!("run       {run_id}\n"));
        }
        None if terminal.verbosity() > Verbosity::Quiet => {
            terminal.write_message("warning: the run could not be stored\n");
        }
        _ => {}
    }
    Ok(())
}

/// The exit code: 0 if the threshold was met, 1 below it, 4 if nothing could be scored.
fn exit(ended: &RoutedExecution) -> Result<ExitCode, Failure> {
    let execution = &ended.execution;
    let details = execution.attempt.as_ref();
    let report = details.and_then(|details| details.report.as_ref());
    let errors = || {
        let mut errors = execution.result.errors.iter();
        let first = errors
            .next()
            .cloned()
            .unwrap_or_else(|| "the command failed".to_owned());
        (first, errors.cloned().collect::<Vec<_>>())
    };
    let failed = |code| {
        let (first, others) = errors();
        let mut problem = Problem::new(code, first);
        problem.details = others;
        Err(problem.into())
    };
    match execution.verdict {
        Verdict::Done => Ok(ExitCode::Passed),
        Verdict::BelowThreshold => {
            let assessment = details.and_then(|details| details.assessment.as_ref());
            let score = assessment
                .and_then(|assessment| assessment.score)
                .unwrap_or_default();
            let Some(report) = report else {
                return failed(ExitCode::Failed);
            };
            let message = format!(
                "the answer scored {score:.1}, below the threshold of {} ({} after {} of {})",
                report.rules.threshold,
                report.termination_reason.as_str(),
                report.iterations.len(),
                report.rules.max_iterations,
            );
            let mut problem = Problem::new(ExitCode::Failed, message);
            problem.details.extend(report.scorer_error.clone());
            problem.details.extend(report.execution_error.clone());
            Err(problem.into())
        }
        Verdict::Unscored => {
            let mut problem = Problem::new(ExitCode::Metric, "the answer could not be scored");
            let reason = report.and_then(|report| report.scorer_error.clone());
            let ended = report.map(|report| report.termination_reason.as_str().to_owned());
            problem.details.extend(reason.or(ended));
            Err(problem.into())
        }
        Verdict::MissingEvidence | Verdict::Failed(FailureClass::Failed) => failed(ExitCode::Failed),
        Verdict::Failed(FailureClass::Broken) | Verdict::Blocked => failed(ExitCode::Execution),
        Verdict::Failed(FailureClass::Cancelled) | Verdict::Cancelled => failed(ExitCode::Interrupted),
    }
}

fn routed_problem(error: RoutedError) -> Problem {
    match error {
        RoutedError::NoExecutor(FacadeError::NoExecutor { reasons, .. }) => {
            let mut reasons = reasons.into_iter();
            let mut problem =
                Problem::execution(reasons.next().unwrap_or_else(|| "nothing answers".to_owned()));
            problem.details = reasons.collect();
            problem
        }
        RoutedError::QualityLoop(_) | RoutedError::Rule(_) => Problem::config(error.to_string()),
        other => Problem::execution(other.to_string()),
    }
}

/// The agent file of a question that is stored as a conversation or written as events, which a loop can't be.
pub(crate) fn refuse_conversation(path: &Path, env: &Env) -> Result<(), Failure> {
    let routed = holodeck::load(path, env).agent;
    if routed.is_some_and(|agent| holodeck::is_routed(&agent.config)) {
        return Err(Problem::config(
            "`--save` and `--events` do not work with `quality_loop` and `routing`, whose runs are stored anyway",
        )
        .with_hint("remove the flag; `--json` writes the result and its run id")
        .into());
    }
    Ok(())
}
