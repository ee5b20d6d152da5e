//! Executes a command: by the agent's backend, else by a skill, else by the legacy executor.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use holodeck_model::{
    AfterSideEffects, CommandContext, CommandResult, EvidenceConfig, ExecutionAttempt, ExecutorKind, JsonMap,
    TerminationReason,
};
use serde_json::{Value, json};

use crate::{
    chain::{ExecutorCall, ExecutorFailure, ExecutorOutput, FailureClass, LegacyExecutor, SkillsRuntime},
    evidence::{Evidence, check_evidence},
    executor::{AttemptDetails, ExecuteOptions, SdkExecutor, issues_text},
    hooks::{Hook, HookReport},
    telemetry::{Completed, ExecutionEvent, Routed, SdkRouted, Sinks, TelemetrySink},
    turn::{Observers, TurnObserver, Watch},
};

/// The reason in the output of a command whose fallback is blocked.
pub const FALLBACK_BLOCKED: &str = "fallback_blocked_side_effects";

/// What executes commands, and what observes them.
#[derive(Clone)]
#[non_exhaustive]
pub struct FacadeSettings {
    /// The agent's backend.
    pub sdk: Option<SdkExecutor>,
    /// Skills.
    pub skills: Option<Arc<dyn SkillsRuntime>>,
    /// What executes commands that nothing else does.
    pub legacy: Option<Arc<dyn LegacyExecutor>>,
    /// Which of them may execute commands; the order is always the same.
    pub chain: Vec<ExecutorKind>,
    /// What happens if a failed attempt may have changed something.
    pub after_side_effects: AfterSideEffects,
    /// Whether the legacy executor takes over if a skill fails.
    pub fallback_on_error: bool,
    /// What commands must leave behind.
    pub evidence: EvidenceConfig,
    /// Receive events about commands.
    pub telemetry: Vec<Arc<dyn TelemetrySink>>,
    /// Observe executions.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Receives every event of every turn.
    pub turns: Option<Arc<dyn TurnObserver>>,
}

impl Default for FacadeSettings {
    fn default() -> Self {
        Self {
            sdk: None,
            skills: None,
            legacy: None,
            chain: vec![ExecutorKind::Sdk, ExecutorKind::Skills, ExecutorKind::Legacy],
            after_side_effects: AfterSideEffects::Block,
            fallback_on_error: false,
            evidence: EvidenceConfig::default(),
            telemetry: Vec::new(),
            hooks: Vec::new(),
            turns: None,
        }
    }
}

/// Executes commands.
pub struct ExecutionFacade {
    sdk: Option<SdkExecutor>,
    skills: Option<Arc<dyn SkillsRuntime>>,
    legacy: Option<Arc<dyn LegacyExecutor>>,
    after_side_effects: AfterSideEffects,
    fallback_on_error: bool,
    evidence: EvidenceConfig,
    chain: Vec<ExecutorKind>,
    sinks: Sinks,
    observers: Observers,
}

/// No executor is left for a command.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FacadeError {
    /// Neither the backend nor a skill nor the legacy executor can execute it.
    #[error("nothing executes the command `{command}`")]
    NoExecutor {
        /// The command.
        command: String,
        /// Why each executor did not.
        reasons: Vec<String>,
        /// Entries of the YAML that would give it one.
        missing: Vec<&'static str>,
        /// What the backend did.
        attempt: Option<Box<AttemptDetails>>,
    },
}

/// A command that was executed, with everything about how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// What the caller of the command gets.
    pub result: CommandResult,
    /// What answered.
    pub mode: Option<ExecutorKind>,
    /// How it ended.
    pub verdict: Verdict,
    /// What the backend did.
    pub attempt: Option<AttemptDetails>,
    /// What was observed.
    pub evidence: Evidence,
    /// What became of the events for hooks.
    pub hooks: HookReport,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "callers map each to an exit code")]
pub enum Verdict {
    /// It was executed; its loop, if there was one, met the threshold.
    Done,
    /// Its loop ended below the threshold.
    BelowThreshold,
    /// Its answer could not be scored, and nothing else answered.
    Unscored,
    /// It was executed and did not leave behind what it must.
    MissingEvidence,
    /// It failed.
    Failed(FailureClass),
    /// Another executor would have repeated side effects.
    Blocked,
    /// The caller stopped it.
    Cancelled,
}

impl ExecutionFacade {
    /// A facade with these executors.
    pub fn new(settings: FacadeSettings) -> Self {
        let has = |kind| settings.chain.contains(&kind);
        Self {
            sdk: settings.sdk.filter(|_| has(ExecutorKind::Sdk)),
            skills: settings.skills.filter(|_| has(ExecutorKind::Skills)),
            legacy: settings.legacy.filter(|_| has(ExecutorKind::Legacy)),
            after_side_effects: settings.after_side_effects,
            fallback_on_error: settings.fallback_on_error,
            evidence: settings.evidence,
            chain: settings.chain,
            sinks: Sinks::new(settings.telemetry),
            observers: Observers {
                hooks: settings.hooks,
                turns: settings.turns,
            },
        }
    }

    /// Executes a command. The only error is that nothing executes it.
    pub async fn execute(
        &self,
        context: &CommandContext,
        options: &ExecuteOptions,
    ) -> Result<CommandResult, FacadeError> {
        let execution = self.execute_explained(context, options).await?;
        Ok(execution.result)
    }

    /// The same, with everything about how it was executed.
    pub async fn execute_explained(
        &self,
        context: &CommandContext,
        options: &ExecuteOptions,
    ) -> Result<Execution, FacadeError> {
        let watch = Arc::new(Watch::start(&self.observers, &context.session_id));
        let mut completion = Completion {
            sinks: self.sinks.clone(),
            command: context.command.name.to_lowercase(),
            session_id: context.session_id.clone(),
            started: Instant::now(),
            is_recorded: false,
        };
        let skill = self
            .skills
            .as_ref()
            .and_then(|skills| skills.find(&completion.command));
        let outcome = self
            .run(context, options, &watch, &completion, skill.as_deref())
            .await;
        let hooks = watch.finish().await;
        let time = completion.started.elapsed();
        let end = match outcome {
            Ok(end) => end,
            Err(no_executor) => {
                let attempt = match &no_executor {
                    FacadeError::NoExecutor { attempt, .. } => attempt.as_deref(),
                };
                let error = no_executor.to_string();
                completion.record(attempt.map(|details| &details.attempt), None, Some(&error));
                tracing::error!(target: "holodeck::routing::result", command = completion.command, "{error}");
                return Err(no_executor);
            }
        };
        let execution = self.finish(context, end, &watch, hooks, time);
        let error = execution.result.errors.first().map(String::as_str);
        let attempt = execution.attempt.as_ref().map(|details| &details.attempt);
        let error = error.filter(|_| !execution.result.success);
        completion.record(attempt, execution.mode, error);
        if let Some(error) = error {
            tracing::warn!(target: "holodeck::routing::result", command = completion.command, reason = error, "a command failed");
        }
        Ok(execution)
    }

    async fn run(
        &self,
        context: &CommandContext,
        options: &ExecuteOptions,
        watch: &Arc<Watch>,
        completion: &Completion,
        skill: Option<&str>,
    ) -> Result<Ended, FacadeError> {
        let command = completion.command.as_str();
        let runtime_mode = match skill {
            Some(_) => ExecutorKind::Skills,
            None => ExecutorKind::Legacy,
        };
        self.sinks.record(
            &context.session_id,
            ExecutionEvent::Routed,
            &Routed {
                command,
                runtime_mode: runtime_mode.as_str(),
                skill_id: skill,
                session_id: &context.session_id,
                requires_worktree: false,
                requires_consensus: false,
            },
        );
        let mut ended = Ended::default();
        if let Some(sdk) = &self.sdk {
            let details = sdk.attempt(context, options, watch).await;
            self.record_attempt(command, &context.session_id, &details.attempt);
            let attempt = &details.attempt;
            let is_unscored = attempt.should_fallback && !attempt.output.is_empty();
            ended.verdict = sdk_verdict(&details, is_unscored);
            if !attempt.output.is_empty() {
                ended.output = Some(ExecutorOutput {
                    output: attempt.output.clone(),
                    agents: attempt.agent_used.clone().into_iter().collect(),
                    evidence: Some(watch.evidence()),
                });
                ended.mode = Some(ExecutorKind::Sdk);
            }
            let would_repeat =
                !details.side_effects.is_empty() && self.after_side_effects == AfterSideEffects::Block;
            let falls_back = attempt.should_fallback;
            ended.attempt = Some(details);
            if !falls_back {
                return Ok(ended);
            }
            if would_repeat && is_unscored {
                return Ok(ended);
            }
            if would_repeat {
                ended.verdict = Verdict::Blocked;
                return Ok(ended);
            }
        }
        let call = ExecutorCall {
            context: context.clone(),
            cancel: options.cancel.clone(),
            watch: Arc::clone(watch),
        };
        if let (Some(skills), Some(skill)) = (&self.skills, skill) {
            let result = guarded(skills.execute(skill, &call)).await;
            let goes_on = match &result {
                Err(failure) => {
                    let repeats =
                        failure.has_side_effects && self.after_side_effects == AfterSideEffects::Block;
                    self.fallback_on_error
                        && self.legacy.is_some()
                        && failure.kind != FailureClass::Cancelled
                        && !repeats
                }
                Ok(_) => false,
            };
            if !goes_on {
                return Ok(ended.of(ExecutorKind::Skills, result));
            }
        }
        if let Some(legacy) = &self.legacy {
            let result = guarded(legacy.execute(&call)).await;
            return Ok(ended.of(ExecutorKind::Legacy, result));
        }
        if ended.output.is_some() {
            // The answer that could not be scored.
            return Ok(ended);
        }
        Err(self.no_executor(command, ended.attempt, skill))
    }

    fn record_attempt(&self, command: &str, session_id: &str, attempt: &ExecutionAttempt) {
        tracing::debug!(
            target: "holodeck::routing",
            command,
            decision = attempt.routing_decision.as_str(),
            agent = attempt.agent_used,
            confidence = attempt.confidence,
            should_fallback = attempt.should_fallback,
            reason = attempt.fallback_reason,
            "routed a command"
        );
        if attempt.termination_reason == Some(TerminationReason::ExecutionError) {
            tracing::warn!(
                target: "holodeck::routing",
                reason = attempt.fallback_reason,
                "the agent did not execute the command `{command}`"
            );
        }
        self.sinks.record(
            session_id,
            ExecutionEvent::SdkRouted,
            &SdkRouted {
                command,
                runtime_mode: ExecutorKind::Sdk.as_str(),
                session_id,
                routing_decision: attempt.routing_decision,
                should_fallback: attempt.should_fallback,
                agent_used: attempt.agent_used.as_deref(),
                confidence: attempt.confidence,
                fallback_reason: attempt.fallback_reason.as_deref(),
            },
        );
    }

    fn no_executor(
        &self,
        command: &str,
        attempt: Option<AttemptDetails>,
        skill: Option<&str>,
    ) -> FacadeError {
        let has = |kind: ExecutorKind| self.chain.contains(&kind);
        let (mut reasons, mut missing) = (Vec::new(), Vec::new());
        match &attempt {
            Some(details) => {
                let decision = details.attempt.routing_decision.as_str();
                let reason = details.attempt.fallback_reason.as_deref().unwrap_or_default();
                reasons.push(format!("sdk: {decision}: {reason}"));
            }
            None if has(ExecutorKind::Sdk) => missing.push("routing"),
            None => missing.push("`sdk` in `routing.chain`"),
        }
        if skill.is_none() {
            if !has(ExecutorKind::Skills) {
                missing.push("`skills` in `routing.chain`");
            } else if self.skills.is_none() {
                missing.push("`routing.skills`");
            } else {
                reasons.push(format!("skills: there is no skill `{command}`"));
            }
        }
        if !has(ExecutorKind::Legacy) {
            missing.push("`legacy` in `routing.chain`");
        } else if self.legacy.is_none() {
            missing.push("`routing.legacy`");
        }
        FacadeError::NoExecutor {
            command: command.to_owned(),
            reasons,
            missing,
            attempt: attempt.map(Box::new),
        }
    }

    /// Makes the result of a command that ended.
    fn finish(
        &self,
        context: &CommandContext,
        ended: Ended,
        watch: &Watch,
        hooks: HookReport,
        time: Duration,
    ) -> Execution {
        let Ended {
            output,
            mode,
            mut verdict,
            attempt,
            failure,
        } = ended;
        let mut result = CommandResult {
            command_name: context.command.name.clone(),
            execution_time: time.as_secs_f64(),
            ..CommandResult::default()
        };
        let evidence = match &output {
            Some(output) => output.evidence.clone(),
            None => Some(watch.evidence()),
        };
        if let Some(evidence) = &evidence {
            let calls = evidence.tool_invocations.iter();
            let ran = calls.filter(|call| call.success.is_some() && call.refused.is_none());
            result.executed_operations = ran.map(|call| call.name.clone()).collect();
            result.applied_changes = evidence.changed_files();
            result.artifacts.clone_from(&evidence.files_written);
        }
        if let Some(output) = output {
            result.agents_used = output.agents;
            result.output = output.output;
            if let Some(mode) = mode {
                let name = Value::String(mode.as_str().to_owned());
                let slot = result.output.entry("execution_mode");
                match mode {
                    // What another program writes about itself stays.
                    ExecutorKind::Legacy => {
                        slot.or_insert(name);
                    }
                    ExecutorKind::Sdk | ExecutorKind::Skills => *slot.or_insert(Value::Null) = name,
                }
            }
        }
        match verdict {
            Verdict::Blocked => {
                let tools = attempt.as_ref().map(|details| details.side_effects.join("`, `"));
                result.errors.push(format!(
                    "{FALLBACK_BLOCKED}: the failed attempt may have changed something (`{}`)",
                    tools.unwrap_or_default()
                ));
                let evidence = watch.evidence().to_json(&[]);
                result.output = object(json!({
                    "status": "error",
                    "error": FALLBACK_BLOCKED,
                    "evidence": evidence,
                }));
            }
            Verdict::Failed(_) | Verdict::Cancelled if result.output.is_empty() => {
                let message = failure.clone().unwrap_or_else(|| "cancelled".to_owned());
                result.output = object(json!({"status": "error", "error": message}));
                if let Some(mode) = mode {
                    result
                        .output
                        .insert("execution_mode".to_owned(), json!(mode.as_str()));
                }
            }
            _ => {}
        }
        result.errors.extend(failure);
        if verdict == Verdict::Unscored {
            let report = attempt.as_ref().and_then(|details| details.report.as_ref());
            let reason = report.and_then(|report| report.scorer_error.as_deref());
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            result
                .errors
                .push(format!("the answer could not be scored{reason}"));
        }
        if matches!(verdict, Verdict::Done | Verdict::BelowThreshold) {
            let missing = check_evidence(evidence.as_ref(), context, self.evidence);
            result.errors.extend(issues_text(&missing.required));
            if !missing.required.is_empty() {
                verdict = Verdict::MissingEvidence;
            }
        }
        result.success = matches!(verdict, Verdict::Done | Verdict::BelowThreshold);
        result.status = if result.success { "ok" } else { "error" }.to_owned();
        Execution {
            result,
            mode,
            verdict,
            attempt,
            evidence: watch.evidence(),
            hooks,
        }
    }
}

fn sdk_verdict(details: &AttemptDetails, is_unscored: bool) -> Verdict {
    if details.attempt.termination_reason == Some(TerminationReason::Cancelled) {
        return Verdict::Cancelled;
    }
    if is_unscored {
        return Verdict::Unscored;
    }
    match &details.assessment {
        Some(assessment) if assessment.score.is_none() => Verdict::Unscored,
        Some(assessment) if !assessment.passed => Verdict::BelowThreshold,
        _ => Verdict::Done,
    }
}

fn object(value: Value) -> JsonMap {
    match value {
        Value::Object(fields) => fields,
        _ => JsonMap::new(),
    }
}

/// Runs an executor; a panic is a failure.
async fn guarded(
    run: impl Future<Output = Result<ExecutorOutput, ExecutorFailure>>,
) -> Result<ExecutorOutput, ExecutorFailure> {
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(result) => result,
        Err(_) => Err(ExecutorFailure::broken("the executor panicked")),
    }
}

/// How a command ended, before its result is made.
struct Ended {
    output: Option<ExecutorOutput>,
    mode: Option<ExecutorKind>,
    verdict: Verdict,
    attempt: Option<AttemptDetails>,
    failure: Option<String>,
}

impl Default for Ended {
    fn default() -> Self {
        Self {
            output: None,
            mode: None,
            verdict: Verdict::Done,
            attempt: None,
            failure: None,
        }
    }
}

impl Ended {
    /// The end by another executor.
    fn of(self, mode: ExecutorKind, result: Result<ExecutorOutput, ExecutorFailure>) -> Self {
        match result {
            Ok(output) => Self {
                output: Some(output),
                mode: Some(mode),
                verdict: Verdict::Done,
                failure: None,
                ..self
            },
            // The answer that could not be scored is better than none.
            Err(_) if self.output.is_some() => self,
            Err(failure) => Self {
                output: None,
                mode: Some(mode),
                verdict: match failure.kind {
                    FailureClass::Cancelled => Verdict::Cancelled,
                    kind => Verdict::Failed(kind),
                },
                failure: Some(failure.message),
                ..self
            },
        }
    }
}

/// Records `execution.completed` exactly once, also if the execution is dropped.
struct Completion {
    sinks: Sinks,
    command: String,
    session_id: String,
    started: Instant,
    is_recorded: bool,
}

impl Completion {
    fn record(
        &mut self,
        attempt: Option<&ExecutionAttempt>,
        mode: Option<ExecutorKind>,
        error: Option<&str>,
    ) {
        if std::mem::replace(&mut self.is_recorded, true) {
            return;
        }
        let payload = Completed {
            command: &self.command,
            runtime_mode: mode.map(ExecutorKind::as_str),
            session_id: &self.session_id,
            success: error.is_none(),
            error,
            iteration_count: attempt.map_or(1, |attempt| attempt.iteration_count),
            termination_reason: attempt.and_then(|attempt| attempt.termination_reason),
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        self.sinks
            .record(&self.session_id, ExecutionEvent::Completed, &payload);
        self.sinks.flush();
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.record(None, None, Some("cancelled"));
    }
}
