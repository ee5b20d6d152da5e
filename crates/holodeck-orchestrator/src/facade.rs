//! Executes a command: by the agent's backend, else by a skill, else by the legacy executor.

mod finish;

use std::{sync::Arc, time::Instant};

use holodeck_model::{
    AfterSideEffects, CommandContext, CommandResult, EvidenceConfig, ExecutionAttempt, ExecutorKind,
    RoutingDecision, TerminationReason,
};

use serde::Serialize;

use self::finish::{Completion, Ended};
use crate::{
    caught::caught,
    chain::{ExecutorCall, ExecutorFailure, ExecutorOutput, LegacyExecutor, SkillsRuntime},
    evidence::{Evidence, EvidenceIssue},
    executor::{AttemptDetails, ExecuteOptions, REPLAY_MISS, SdkExecutor},
    hooks::{Hook, HookReport},
    telemetry::{ExecutionEvent, Routed, SdkRouted, Sinks, TelemetrySink},
    verdict::{FailureClass, Verdict},
    watch::{Observers, TurnObserver, Watch},
};

/// The reason in the output of a command whose fallback is blocked.
pub const FALLBACK_BLOCKED: &str = "fallback_blocked_side_effects";

/// The executors of commands, and the hooks that observe them.
#[derive(Clone)]
#[non_exhaustive]
pub struct FacadeSettings {
    /// The agent's backend.
    pub sdk: Option<SdkExecutor>,
    /// Skills.
    pub skills: Option<Arc<dyn SkillsRuntime>>,
    /// The executor of commands that no other executor runs.
    pub legacy: Option<Arc<dyn LegacyExecutor>>,
    /// Executes in place of a legacy executor, if there is none, what no specialist takes: the agent itself. It is never
    /// asked after its own backend was disabled, missing or failed.
    pub itself: Option<Arc<dyn LegacyExecutor>>,
    /// Which of them may execute commands; the order is always the same.
    pub chain: Vec<ExecutorKind>,
    /// How to proceed if a failed attempt may have changed something.
    pub after_side_effects: AfterSideEffects,
    /// Whether the legacy executor takes over if a skill fails.
    pub fallback_on_error: bool,
    /// The evidence that commands must produce.
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
            itself: None,
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
    itself: Option<Arc<dyn LegacyExecutor>>,
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
    #[error("nothing executes the command `{command}`: {}", why(reasons, missing))]
    NoExecutor {
        /// The command.
        command: String,
        /// Why each executor did not.
        reasons: Vec<String>,
        /// Entries of the YAML that would give it one.
        missing: Vec<&'static str>,
        /// The attempt of the backend.
        attempt: Option<Box<AttemptDetails>>,
    },
}

/// Why no executor is left, in one line.
fn why(reasons: &[String], missing: &[&'static str]) -> String {
    let mut parts = reasons.to_vec();
    if !missing.is_empty() {
        parts.push(format!("not configured: {}", missing.join(", ")));
    }
    parts.join("; ")
}

/// A command that was executed, with everything about how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// The result for the caller of the command.
    pub result: CommandResult,
    /// The executor that answered.
    pub mode: Option<ExecutorKind>,
    /// How it ended.
    pub verdict: Verdict,
    /// The attempt of the backend.
    pub attempt: Option<AttemptDetails>,
    /// The observed evidence.
    pub evidence: Evidence,
    /// The executors between the backend and the one that answered, which failed.
    pub failed: Vec<FailedExecutor>,
    /// The evidence that the command was expected to leave behind, and did not; that does not make it fail.
    pub missing: Vec<EvidenceIssue>,
    /// The delivery of events to hooks.
    pub hooks: HookReport,
}

/// An executor that failed before another one was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedExecutor {
    /// Its kind.
    pub mode: ExecutorKind,
    /// Its name: that of the skill.
    pub name: String,
    /// Why.
    pub reason: String,
    /// The tools that may have changed something while it ran.
    pub side_effects: Vec<String>,
}

impl ExecutionFacade {
    /// A facade with these executors.
    pub fn new(settings: FacadeSettings) -> Self {
        let has = |kind| settings.chain.contains(&kind);
        Self {
            sdk: settings.sdk.filter(|_| has(ExecutorKind::Sdk)),
            skills: settings.skills.filter(|_| has(ExecutorKind::Skills)),
            legacy: settings.legacy.filter(|_| has(ExecutorKind::Legacy)),
            itself: settings.itself,
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
        let watch = Watch::start(&self.observers, &context.session_id, options.message.clone());
        let watch = Arc::new(watch);
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
                let reason = attempt.and_then(|details| details.attempt.fallback_reason.as_deref());
                tracing::error!(target: "holodeck::routing::result", command = completion.command, reason, "{error}");
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
            let attempt = &details.attempt;
            self.record_attempt(command, &context.session_id, attempt);
            let is_unscored = attempt.should_fallback && !attempt.output.is_empty();
            ended.verdict = sdk_verdict(&details, is_unscored);
            if !attempt.output.is_empty() {
                ended.output = Some(ExecutorOutput {
                    output: attempt.output.clone(),
                    agents: attempt.agent_used.clone().into_iter().collect(),
                    evidence: Some(watch.evidence()),
                    ..ExecutorOutput::default()
                });
                ended.mode = Some(ExecutorKind::Sdk);
            }
            let would_repeat =
                !details.side_effects.is_empty() && self.after_side_effects == AfterSideEffects::Block;
            let falls_back = attempt.should_fallback;
            // If nothing else executes the command, the reason is part of the error.
            let is_last = skill.is_none() && self.legacy.is_none() && !would_repeat;
            if attempt.termination_reason == Some(TerminationReason::ExecutionError) && !is_last {
                tracing::warn!(
                    target: "holodeck::routing",
                    reason = attempt.fallback_reason,
                    "the agent did not execute the command `{command}`"
                );
            }
            // A recording that has no answer is not made up for by an executor that is not in it.
            let is_miss = attempt.error_type.as_deref() == Some(REPLAY_MISS);
            let missing = attempt.fallback_reason.clone().filter(|_| is_miss);
            ended.attempt = Some(details);
            if let Some(reason) = missing {
                return Ok(ended.of(ExecutorKind::Sdk, Err(ExecutorFailure::broken(reason))));
            }
            if !falls_back {
                return Ok(ended);
            }
            if would_repeat && is_unscored {
                return Ok(ended);
            }
            if would_repeat {
                return Ok(ended.blocked());
            }
        }
        let call = ExecutorCall {
            context: context.clone(),
            cancel: options.cancel.clone(),
            watch: Arc::clone(watch),
        };
        if let (Some(skills), Some(skill)) = (&self.skills, skill) {
            let calls = watch.calls();
            let result = guarded(skills.execute(skill, &call)).await;
            let failure = match &result {
                Err(failure) if failure.kind != FailureClass::Cancelled => failure,
                _ => return Ok(ended.of(ExecutorKind::Skills, result)),
            };
            let mut side_effects = watch.side_effects_since(calls);
            if failure.has_side_effects && side_effects.is_empty() {
                side_effects.push(skill.to_owned());
            }
            let would_repeat = !side_effects.is_empty() && self.after_side_effects == AfterSideEffects::Block;
            ended.failed.push(FailedExecutor {
                mode: ExecutorKind::Skills,
                name: skill.to_owned(),
                reason: failure.message.clone(),
                side_effects,
            });
            if !self.fallback_on_error || self.legacy.is_none() {
                return Ok(ended.of(ExecutorKind::Skills, result));
            }
            tracing::warn!(
                target: "holodeck::routing",
                reason = failure.message,
                "the skill `{skill}` did not execute the command `{command}`"
            );
            if would_repeat && ended.output.is_some() {
                return Ok(ended);
            }
            if would_repeat {
                return Ok(ended.blocked());
            }
        }
        let decision = ended
            .attempt
            .as_ref()
            .map(|details| details.attempt.routing_decision);
        let is_left = decision.is_some_and(RoutingDecision::leaves_agent_itself);
        let itself = self.itself.as_ref().filter(|_| is_left);
        if let Some(legacy) = self.legacy.as_ref().or(itself) {
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

/// Runs an executor; a panic is a failure.
async fn guarded(
    run: impl Future<Output = Result<ExecutorOutput, ExecutorFailure>>,
) -> Result<ExecutorOutput, ExecutorFailure> {
    caught(run)
        .await
        .unwrap_or_else(|panic| Err(ExecutorFailure::broken(format!("the executor panicked: {panic}"))))
}
