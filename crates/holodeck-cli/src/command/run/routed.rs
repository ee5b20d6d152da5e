//! Executes a command of an agent with `routing:` or `quality_loop:`.

use std::{env::current_dir, path::Path, sync::Arc, time::Duration};

use holodeck::{
    RoutedAgent, RoutedError, RoutedExecution, RoutedOptions,
    index::IndexSink,
    model::{
        Command, CommandContext, CommandResult, Env, JsonMap, RESERVED_FIELDS, RoutingDecision,
        events::StopReason,
    },
    orchestrator::{
        AttemptDetails, ExecuteOptions, Execution, FacadeError, FailureClass, LoopReport, Verdict,
    },
    reports::format,
    runs::ExitCode,
    yaml::LoadedAgent,
};
use serde_json::{Value, json};

use super::{RunArgs, describe_model, note_truncation, read_question};
use crate::{
    command::{as_argument, build_runtime, load},
    failure::{Failure, Problem},
    interrupt::{Interrupts, StopRequest},
    render::{self, DiagnosticFilter, IndexProgress, ProgressStyle},
    terminal::{Terminal, Verbosity},
};

/// The name of a command without `--command`.
const DEFAULT_COMMAND: &str = "run";

/// Flags about commands.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Commands, routing and quality loop")]
pub(super) struct RoutingArgs {
    /// Execute the command NAME; everything after the agent file is its arguments.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["events", "save"])]
    command: Option<String>,
    /// Pass a named parameter to the command; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_parameter)]
    param: Vec<(String, String)>,
    /// Pass a flag to the command (`NAME` or `NAME=false`); may be repeated.
    #[arg(long, value_name = "NAME", value_parser = parse_flag)]
    flag: Vec<(String, bool)>,
    /// Skip the gates that ask whether the agent's backend should execute the command.
    #[arg(long)]
    force_sdk: bool,
    /// Do not use the agent's backend; takes precedence over `--force-sdk`.
    #[arg(long)]
    disable_sdk: bool,
    /// Fail unless something was changed, run or tested.
    #[arg(long)]
    requires_evidence: bool,
    /// Expect changed files; ask for them in the next iteration if there are none.
    #[arg(long)]
    expects_file_changes: bool,
    /// Expect a test run; ask for one in the next iteration if there is none.
    #[arg(long)]
    expects_tests: bool,
    /// Expect changes, commands or tests; ask for them in the next iteration if there are none.
    #[arg(long)]
    expects_execution_evidence: bool,
    /// Score at most N answers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    max_iterations: Option<u32>,
    /// The score (0-100) that is good enough.
    #[arg(long, value_name = "SCORE", value_parser = parse_score)]
    threshold: Option<f64>,
    /// Explain on stderr how the command was executed.
    #[arg(long)]
    explain: bool,
    /// Show the gates, the selected agent, its tools and the estimated cost; ask nothing.
    #[arg(long)]
    dry_run: bool,
}

fn parse_parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn parse_flag(text: &str) -> Result<(String, bool), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "true"));
    match value {
        _ if name.trim().is_empty() => Err("expected a name".to_owned()),
        "true" => Ok((name.to_owned(), true)),
        "false" => Ok((name.to_owned(), false)),
        _ => Err("expected NAME, NAME=true or NAME=false".to_owned()),
    }
}

fn parse_score(text: &str) -> Result<f64, String> {
    let score: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if (0.0..=100.0).contains(&score) {
        Ok(score)
    } else {
        Err("must be between 0 and 100".to_owned())
    }
}

impl RoutingArgs {
    pub(super) fn names_command(&self) -> bool {
        self.command.is_some()
    }

    /// Refuses flags that need a command, a routed agent or a loop.
    pub(super) fn refuse_without_routing(&self) -> Result<(), Failure> {
        let flags = [
            (!self.param.is_empty(), "--param"),
            (!self.flag.is_empty(), "--flag"),
            (self.force_sdk, "--force-sdk"),
            (self.disable_sdk, "--disable-sdk"),
            (self.requires_evidence, "--requires-evidence"),
            (self.expects_file_changes, "--expects-file-changes"),
            (self.expects_tests, "--expects-tests"),
            (self.expects_execution_evidence, "--expects-execution-evidence"),
            (self.max_iterations.is_some(), "--max-iterations"),
            (self.threshold.is_some(), "--threshold"),
            (self.explain, "--explain"),
            (self.dry_run, "--dry-run"),
        ];
        match flags.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, flag)) => Err(Problem::config(format!(
                "`{flag}` has no effect on a question without routing"
            ))
            .with_hint("give `--command NAME`, or add `routing:` or `quality_loop:` to the agent file")
            .into()),
        }
    }

    fn context(&self, arguments: Vec<String>) -> Result<CommandContext, Failure> {
        let parameters = self.param.iter().map(|(key, _)| key);
        let mut given = parameters.chain(self.flag.iter().map(|(name, _)| name));
        if let Some(name) = given.find(|name| RESERVED_FIELDS.contains(&name.as_str())) {
            return Err(Problem::config(format!("`{name}` is reserved")).into());
        }
        let command = self.command.clone().unwrap_or_else(|| DEFAULT_COMMAND.to_owned());
        if command.trim().is_empty() {
            return Err(Problem::config("the name of the command is empty").into());
        }
        let parameters = self.param.iter().cloned();
        Ok(CommandContext {
            command: Command {
                name: command,
                arguments,
                parameters: parameters
                    .map(|(key, value)| (key, Value::String(value)))
                    .collect(),
                flags: self.flag.iter().cloned().collect(),
            },
            session_id: holodeck::new_session_id(),
            cwd: current_dir().ok(),
            requires_evidence: self.requires_evidence,
            require_tests: false,
            expects_file_changes: self.expects_file_changes,
            expects_tests: self.expects_tests,
            expects_execution_evidence: self.expects_execution_evidence,
        })
    }
}

fn is_agent(path: &Path) -> bool {
    holodeck::environment(path).map_or(true, |env| holodeck::is_agent_file(path, &env))
}

/// Executes the command that `--command` names.
pub(super) fn run_command(args: &RunArgs, terminal: &mut Terminal) -> Result<ExitCode, Failure> {
    // Any other YAML file is an argument of the command. One that does not exist may be a misspelt agent.
    let is_file = |text: &str| {
        let path = Path::new(text);
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_yaml = matches!(extension, Some("yaml" | "yml")) && !text.contains(char::is_whitespace);
        is_yaml && (!path.exists() || is_agent(path))
    };
    let (path, arguments) = match args.agent_and_question.split_first() {
        Some((first, rest)) if is_file(first) => (Path::new(first), rest),
        _ => (Path::new("agent.yaml"), args.agent_and_question.as_slice()),
    };
    let arguments = match arguments {
        [only] if only == "-" => vec![read_question(only)?],
        arguments => arguments.to_vec(),
    };
    let env = holodeck::environment(path).map_err(Problem::from)?;
    let agent = load(path, &env, terminal)?;
    run(args, agent, path, &env, arguments, terminal)
}

/// Executes a command of an agent.
pub(super) fn run(
    args: &RunArgs,
    mut agent: LoadedAgent,
    path: &Path,
    env: &Env,
    arguments: Vec<String>,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let context = args.routing.context(arguments)?;
    let settings = &mut Arc::make_mut(&mut agent.agent).execution;
    settings.llm_timeout.override_with(args.timeout);
    let style = ProgressStyle::fitting(terminal, env.get("TERM"));
    let indexing = Arc::new(IndexProgress::new(style, terminal));
    let listener = Arc::clone(&indexing);
    let options = RoutedOptions {
        names_command: args.routing.names_command(),
        timeout: args.timeout,
        on_index: IndexSink::new(move |event| listener.on(event)),
        threshold: args.routing.threshold,
        max_iterations: args.routing.max_iterations,
        folder: context.cwd.clone(),
        ..RoutedOptions::default()
    };
    let model = describe_model(&agent);
    build_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let agent = RoutedAgent::new(agent, env, &options).map_err(|error| problem(&error, path))?;
        let note = context
            .cwd
            .as_deref()
            .and_then(|folder| agent.note_folder(folder));
        if let Some(note) = note.filter(|_| terminal.verbosity() > Verbosity::Quiet) {
            terminal.write_message(&format!("note: {}\n", format::printable(&note)));
        }
        let mut run = Run {
            args,
            path,
            context: &context,
            agent: &agent,
            terminal,
        };
        let end = if args.routing.dry_run {
            run.plan().await
        } else {
            indexing.wait_for(&model);
            let (outcome, stopped) = run.execute(&mut interrupts).await?;
            indexing.end();
            run.show(outcome, stopped)
        };
        agent.close().await;
        end
    })
}

/// One execution.
struct Run<'a> {
    args: &'a RunArgs,
    path: &'a Path,
    context: &'a CommandContext,
    agent: &'a RoutedAgent,
    terminal: &'a mut Terminal,
}

/// How long a stopped execution may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(3);

impl Run<'_> {
    fn options(&self) -> ExecuteOptions {
        ExecuteOptions {
            force_sdk: self.args.routing.force_sdk,
            disable_sdk: self.args.routing.disable_sdk,
            ..ExecuteOptions::default()
        }
    }

    /// Says what is left out of the file of the specialist that executes, or would.
    fn note_left_out(&mut self, details: Option<&AttemptDetails>) {
        let was_asked = |details: &&AttemptDetails| {
            matches!(
                details.attempt.routing_decision,
                RoutingDecision::SdkExecuted
                    | RoutingDecision::SdkErrorMessage
                    | RoutingDecision::SdkException
            )
        };
        let executed = details.filter(was_asked);
        let specialist = executed.and_then(|details| details.attempt.agent_used.as_deref());
        let left_out = specialist.and_then(|specialist| self.agent.left_out(specialist));
        if let Some(load) = left_out.filter(|_| self.terminal.verbosity() > Verbosity::Quiet) {
            let width = self.terminal.width();
            let text = render::diagnostics(&load, self.path, DiagnosticFilter::Important, width);
            self.terminal.write_message(&text);
        }
    }

    async fn plan(&mut self) -> Result<ExitCode, Failure> {
        let plan = self.agent.plan(self.context, &self.options()).await;
        self.note_left_out(plan.sdk.as_ref());
        if self.args.json {
            let mut value = serde_json::to_value(&plan).map_err(std::io::Error::from)?;
            self.agent.mask(&mut value);
            self.terminal.write_indented_json(value)?;
        } else {
            let text = render::routing_plan(&plan, &self.context.command.name);
            self.terminal.write_data(&text)?;
        }
        Ok(ExitCode::Passed)
    }

    /// Executes the command. A signal stops it and waits for what it has; a second one does not wait.
    async fn execute(
        &mut self,
        interrupts: &mut Interrupts,
    ) -> Result<(Result<RoutedExecution, RoutedError>, Option<StopRequest>), Failure> {
        let options = self.options();
        let executing = self.agent.execute(self.context, &options);
        tokio::pin!(executing);
        let request = tokio::select! {
            outcome = &mut executing => return Ok((outcome, None)),
            request = interrupts.next() => request,
        };
        options.cancel.cancel();
        tokio::select! {
            outcome = &mut executing => Ok((outcome, Some(request))),
            again = interrupts.next() => Err(again.problem().into()),
            () = tokio::time::sleep(STOP_LIMIT) => Err(request.problem().into()),
        }
    }

    fn show(
        &mut self,
        outcome: Result<RoutedExecution, RoutedError>,
        stopped: Option<StopRequest>,
    ) -> Result<ExitCode, Failure> {
        let executed = match outcome {
            Ok(executed) => executed,
            Err(error) => return Err(self.show_error(&error)?),
        };
        let execution = &executed.execution;
        self.note_left_out(execution.attempt.as_ref());
        if self.args.routing.explain {
            self.terminal
                .write_message(&render::execution(execution, &self.context.command.name));
        }
        let problem = match &stopped {
            Some(request) => Some(request.problem()),
            None => problem_of(execution),
        };
        let result = &result_of(execution, problem.as_ref());
        if self.args.json {
            let attempt = execution.attempt.as_ref().filter(|_| self.args.routing.explain);
            let mut more = described(execution);
            more.insert("run_id".to_owned(), json!(executed.run_id));
            self.write_json(result, more, json!(attempt))?;
        } else if let Some(text) = answer(result) {
            let text = if self.terminal.stdout_is_terminal() {
                format::printable(&text).into_owned()
            } else {
                text
            };
            self.terminal.write_data(&format!("{text}\n"))?;
        }
        note_truncation(truncation(result).as_ref(), self.terminal);
        self.note(execution);
        if self.terminal.verbosity() >= Verbosity::Verbose
            && let Some(run_id) = &executed.run_id
        {
            self.terminal.write_message(&format!("run       {run_id}\n"));
        }
        match problem {
            None => Ok(ExitCode::Passed),
            Some(problem) => Err(problem.into()),
        }
    }

    /// Says on stderr what the answer does not show: scores that are none, answers that repeated side effects, executors that
    /// failed before, evidence that was expected. `--explain` shows all of it anyway.
    fn note(&mut self, execution: &Execution) {
        let verbosity = self.terminal.verbosity();
        if self.args.routing.explain || verbosity == Verbosity::Quiet {
            return;
        }
        let attempt = execution.attempt.as_ref().map(|details| &details.attempt);
        let unavailable = attempt.filter(|it| it.routing_decision == RoutingDecision::SdkUnavailable);
        if let Some(reason) = unavailable.and_then(|attempt| attempt.fallback_reason.as_deref()) {
            let note = format!("note: the agent itself cannot be asked: {reason}\n");
            self.terminal.write_message(&format::printable(&note));
        }
        if let Some(report) = loop_report(execution) {
            let is_odd = report.repeated_side_effects > 0
                || report.iterations.iter().any(|record| record.score_invalid);
            if is_odd || verbosity >= Verbosity::Verbose {
                self.terminal.write_message(&render::loop_report(report));
            }
        }
        let selection = execution
            .attempt
            .as_ref()
            .and_then(|details| details.selection.as_ref());
        if let Some(note) = selection.and_then(render::fallback) {
            let note = format!("note: {note}\n");
            self.terminal.write_message(&format::printable(&note));
        }
        self.terminal.write_message(&render::observed(execution));
    }

    fn write_json(&mut self, result: &CommandResult, more: JsonMap, attempt: Value) -> Result<(), Failure> {
        let mut value = serde_json::to_value(result).map_err(std::io::Error::from)?;
        if let Some(fields) = value.as_object_mut() {
            fields.extend(more);
            if self.args.routing.explain {
                fields.insert("attempt".to_owned(), attempt);
            }
        }
        self.agent.mask(&mut value);
        self.terminal.write_indented_json(value)?;
        Ok(())
    }

    /// Shows that nothing executed the command.
    fn show_error(&mut self, error: &RoutedError) -> Result<Failure, Failure> {
        if let RoutedError::NoExecutor(FacadeError::NoExecutor { attempt, .. }) = error {
            if self.args.routing.explain
                && let Some(details) = attempt
            {
                self.terminal
                    .write_message(&render::attempt(details, &self.context.command.name));
            }
            if self.args.json {
                let result = CommandResult {
                    command_name: self.context.command.name.clone(),
                    errors: vec![error.to_string()],
                    status: "error".to_owned(),
                    ..CommandResult::default()
                };
                let more = JsonMap::from_iter([("run_id".to_owned(), Value::Null)]);
                self.write_json(&result, more, json!(attempt))?;
            }
        }
        let is_routed = self.agent.takes_facade(self.context, &self.options());
        let unrouted = if is_routed { None } else { unanswered(error) };
        Ok(unrouted.unwrap_or_else(|| problem(error, self.path)).into())
    }
}

/// Why the agent itself did not answer: nothing else could have.
fn unanswered(error: &RoutedError) -> Option<Problem> {
    let RoutedError::NoExecutor(FacadeError::NoExecutor { attempt, .. }) = error else {
        return None;
    };
    let reason = attempt.as_ref()?.attempt.fallback_reason.as_ref()?;
    let mut lines = reason.lines().map(str::trim);
    let mut problem = Problem::new(exit_of(attempt.as_deref()), lines.next()?);
    problem.details = lines.map(ToOwned::to_owned).collect();
    Some(problem)
}

fn exit_of(attempt: Option<&AttemptDetails>) -> ExitCode {
    match attempt.and_then(|details| details.attempt.error_type.as_deref()) {
        Some("Config") => ExitCode::Config,
        _ => ExitCode::Execution,
    }
}

fn loop_report(execution: &Execution) -> Option<&LoopReport> {
    execution.attempt.as_ref()?.report.as_ref()
}

/// The exit code of a command that ended like this.
fn exit_code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Done => ExitCode::Passed,
        Verdict::BelowThreshold | Verdict::MissingEvidence | Verdict::Failed(FailureClass::Failed) => {
            ExitCode::Failed
        }
        Verdict::Unscored => ExitCode::Metric,
        Verdict::Failed(FailureClass::Broken) | Verdict::Blocked => ExitCode::Execution,
        Verdict::Failed(FailureClass::Cancelled) | Verdict::Cancelled => ExitCode::Interrupted,
    }
}

/// Why the command did not succeed; `None` if it did.
fn problem_of(execution: &Execution) -> Option<Problem> {
    let exit = Some(exit_code(execution.verdict)).filter(|exit| *exit != ExitCode::Passed)?;
    let mut errors = execution.result.errors.iter();
    let mut problem = Problem::new(exit, errors.next().map_or("the command failed", String::as_str));
    problem.details = errors.cloned().collect();
    Some(match execution.verdict {
        Verdict::Blocked => {
            problem.with_hint("`routing.fallback.after_side_effects: allow` lets another executor repeat it")
        }
        _ => problem,
    })
}

/// The result as a script reads it. `success`, `status` and `errors` say what the exit code says.
fn result_of(execution: &Execution, problem: Option<&Problem>) -> CommandResult {
    let mut result = execution.result.clone();
    result.set_success(problem.is_none());
    if let Some(problem) = problem
        && !result.errors.contains(&problem.message)
    {
        result.errors.insert(0, problem.message.clone());
    }
    result
}

/// Further fields of the result, each only where there is something.
fn described(execution: &Execution) -> JsonMap {
    let mut fields = JsonMap::new();
    if let Some(report) = loop_report(execution) {
        let details = execution.attempt.as_ref();
        let assessment = details.and_then(|details| details.assessment.as_ref());
        let invalid = report.iterations.iter().filter(|record| record.score_invalid);
        let invalid: Vec<Value> = invalid
            .map(|record| json!({"iteration": record.iteration, "reason": record.invalid_reason}))
            .collect();
        fields.insert(
            "loop".to_owned(),
            json!({
                "termination_reason": report.termination_reason,
                "iteration_count": report.iteration_count,
                "scores": report.iterations.iter().map(|record| record.output_quality).collect::<Vec<_>>(),
                "score_invalid": invalid,
                "threshold": report.rules.threshold,
                "score": assessment.and_then(|assessment| assessment.score),
                "passed": assessment.is_some_and(|assessment| assessment.passed),
            }),
        );
    }
    if !execution.failed.is_empty() {
        fields.insert("failed_executors".to_owned(), json!(execution.failed));
    }
    if !execution.missing.is_empty() {
        let missing: Vec<String> = execution.missing.iter().map(ToString::to_string).collect();
        fields.insert("missing_evidence".to_owned(), json!(missing));
    }
    fields
}

/// Refuses flags that store or write a conversation, which a command is not.
pub(super) fn refuse_conversation(path: &Path, env: &Env) -> Result<(), Failure> {
    let agent = holodeck::load(path, env).agent;
    if agent.is_some_and(|agent| holodeck::is_routed(&agent.config)) {
        return Err(Problem::config(
            "`--save` and `--events` do not work with `quality_loop` and `routing`, whose runs are stored anyway",
        )
        .with_hint("remove the flag; `--json` writes the result and its run id")
        .into());
    }
    Ok(())
}

/// Why a part of the answer is missing or may be. A program that executed the command can write anything.
fn truncation(result: &CommandResult) -> Option<StopReason> {
    let word = result.output.get("truncated_by")?.as_str()?;
    Some(StopReason::from(word.to_owned()))
}

/// The text of an answer: its `output`, else the whole object. `None`: there is none.
fn answer(result: &CommandResult) -> Option<String> {
    match result.output.get("output") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
        None if result.success => Some(Value::Object(result.output.clone()).to_string()),
        None => None,
    }
}

fn problem(error: &RoutedError, path: &Path) -> Problem {
    let RoutedError::NoExecutor(FacadeError::NoExecutor {
        command,
        reasons,
        missing,
        attempt,
        ..
    }) = error
    else {
        return Problem::config(error.to_string());
    };
    // The reasons have lines of their own.
    let message = format!("nothing executes the command `{command}`");
    let mut problem = Problem::new(exit_of(attempt.as_deref()), message);
    problem.details.clone_from(reasons);
    if !missing.is_empty() {
        problem
            .details
            .push(format!("not configured: {}", missing.join(", ")));
    }
    problem.with_hint(format!(
        "`holodeck run{} --command NAME --dry-run --explain` shows what would execute it",
        as_argument(path)
    ))
}
