//! The end of a command: its result, and its last event. The verdict alone decides whether it succeeded.

use std::time::{Duration, Instant};

use holodeck_model::{CommandContext, CommandResult, ExecutionAttempt, ExecutorKind, JsonMap};
use serde_json::{Value, json};

use super::{Execution, ExecutionFacade, FALLBACK_BLOCKED, FailedExecutor};
use crate::{
    chain::{ExecutorFailure, ExecutorOutput},
    evidence::check_evidence,
    executor::{AttemptDetails, issues_text},
    hooks::HookReport,
    quality::shown_points,
    telemetry::{Completed, ExecutionEvent, Sinks},
    verdict::{FailureClass, Verdict},
    watch::Watch,
};

impl ExecutionFacade {
    /// Makes the result of a command that ended.
    pub(super) fn finish(
        &self,
        context: &CommandContext,
        ended: Ended,
        watch: &Watch,
        hooks: HookReport,
        time: Duration,
    ) -> Execution {
        let mut result = CommandResult {
            command_name: context.command.name.clone(),
            execution_time: time.as_secs_f64(),
            ..CommandResult::default()
        };
        let observed = watch.evidence();
        let evidence = match &ended.output {
            Some(output) => output.evidence.clone(),
            None => Some(observed.clone()),
        };
        // That of another agent is its own; executors before it were observed here.
        let was_observed = |call| observed.tool_invocations.contains(call);
        let others = evidence
            .as_ref()
            .filter(|evidence| !evidence.tool_invocations.iter().all(was_observed));
        for evidence in [Some(&observed), others].into_iter().flatten() {
            let calls = evidence.tool_invocations.iter();
            let ran = calls.filter(|call| call.success.is_some() && call.refused.is_none());
            result
                .executed_operations
                .extend(ran.map(|call| call.name.clone()));
            result.applied_changes.extend(evidence.changed_files());
            result.artifacts.extend(evidence.files_written.iter().cloned());
        }
        let mut missing = Vec::new();
        let mut verdict = ended.verdict;
        let mut errors = ended.reasons();
        if matches!(verdict, Verdict::Done | Verdict::BelowThreshold) {
            let found = check_evidence(evidence.as_ref(), context, self.evidence);
            if !found.required.is_empty() {
                verdict = Verdict::MissingEvidence;
                errors.splice(0..0, issues_text(&found.required));
            }
            missing = found.expected;
            missing.retain(|issue| !found.required.contains(issue));
        }
        let Ended {
            output,
            mode,
            attempt,
            failed,
            ..
        } = ended;
        if let Some(output) = output {
            result.agents_used = output.agents;
            result.output = output.output;
            if let Some(mode) = mode {
                stamp(&mut result.output, mode);
            }
        }
        match verdict {
            Verdict::Blocked => {
                result.output = object(json!({
                    "status": "error",
                    "error": FALLBACK_BLOCKED,
                    "evidence": observed.to_json(&[]),
                }));
            }
            Verdict::Failed(_) | Verdict::Cancelled if result.output.is_empty() => {
                result.output = object(json!({"status": "error", "error": errors.first()}));
                if let Some(mode) = mode {
                    stamp(&mut result.output, mode);
                }
            }
            _ => {}
        }
        result.set_success(verdict.is_success());
        result.errors = errors;
        Execution {
            result,
            mode,
            verdict,
            attempt,
            evidence: observed,
            failed,
            missing,
            hooks,
        }
    }
}

/// Writes which executor answered.
fn stamp(output: &mut JsonMap, mode: ExecutorKind) {
    let name = Value::String(mode.as_str().to_owned());
    let slot = output.entry("execution_mode");
    match mode {
        // What another program writes about itself stays.
        ExecutorKind::Legacy => {
            slot.or_insert(name);
        }
        ExecutorKind::Sdk | ExecutorKind::Skills => *slot.or_insert(Value::Null) = name,
    }
}

fn object(value: Value) -> JsonMap {
    match value {
        Value::Object(fields) => fields,
        _ => JsonMap::new(),
    }
}

/// How a command ended, before its result is made.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) output: Option<ExecutorOutput>,
    pub(super) mode: Option<ExecutorKind>,
    pub(super) verdict: Verdict,
    pub(super) attempt: Option<AttemptDetails>,
    pub(super) failed: Vec<FailedExecutor>,
    pub(super) failure: Option<String>,
}

impl Ended {
    /// The end of a command whose failed executors may have changed something, which no other one may repeat.
    pub(super) fn blocked(self) -> Self {
        Self {
            verdict: Verdict::Blocked,
            ..self
        }
    }

    /// Why the command did not succeed; nothing if it did.
    fn reasons(&self) -> Vec<String> {
        let mut reasons = match self.verdict {
            Verdict::Done | Verdict::MissingEvidence => Vec::new(),
            Verdict::BelowThreshold => self.loop_reasons(),
            Verdict::Unscored => vec![self.why_unscored()],
            Verdict::Failed(_) => vec!["the command failed".to_owned()],
            Verdict::Cancelled => vec!["cancelled".to_owned()],
            Verdict::Blocked => self.why_blocked(),
        };
        if let Some(failure) = &self.failure {
            reasons.clear();
            reasons.push(failure.clone());
        }
        if let Some(output) = self.output.as_ref().filter(|output| !output.errors.is_empty()) {
            // Another agent says itself why its answer is not good enough.
            reasons.clone_from(&output.errors);
        }
        reasons
    }

    fn why_blocked(&self) -> Vec<String> {
        let attempts = self.attempt.iter().map(|details| &details.side_effects);
        let others = self.failed.iter().map(|failed| &failed.side_effects);
        let mut tools: Vec<&str> = Vec::new();
        for tool in attempts.chain(others).flatten() {
            if !tools.contains(&tool.as_str()) {
                tools.push(tool);
            }
        }
        let first = format!(
            "{FALLBACK_BLOCKED}: the failed attempt may have changed something (`{}`)",
            tools.join("`, `")
        );
        let failed = self.failed.iter().map(|failed| failed.reason.clone());
        [first].into_iter().chain(failed).collect()
    }

    fn why_unscored(&self) -> String {
        let report = self.attempt.as_ref().and_then(|details| details.report.as_ref());
        let reason = report.map(|report| match &report.scorer_error {
            Some(reason) => reason.clone(),
            None => report.termination_reason.as_str().to_owned(),
        });
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("the answer could not be scored{reason}")
    }

    fn loop_reasons(&self) -> Vec<String> {
        let details = self.attempt.as_ref();
        let assessment = details.and_then(|details| details.assessment.as_ref());
        let Some((report, assessment)) = details
            .and_then(|details| details.report.as_ref())
            .zip(assessment)
        else {
            return vec!["the answer is below the threshold".to_owned()];
        };
        let end = format!(
            "({} after {} of {})",
            report.termination_reason.as_str(),
            report.iterations.len(),
            report.rules.max_iterations,
        );
        let threshold = report.rules.threshold;
        let first = if let Some(problem) = &assessment.invalid {
            format!("the answer has no valid score, which meets no threshold {end}: {problem}")
        } else {
            let score = shown_points(assessment.score.unwrap_or_default());
            format!("the answer scored {score}, below the threshold of {threshold} {end}")
        };
        let others = report.scorer_error.iter().chain(&report.execution_error);
        [first].into_iter().chain(others.cloned()).collect()
    }

    /// The end by another executor.
    pub(super) fn of(self, mode: ExecutorKind, result: Result<ExecutorOutput, ExecutorFailure>) -> Self {
        match result {
            Ok(output) => Self {
                verdict: output.verdict,
                output: Some(output),
                mode: Some(mode),
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
pub(super) struct Completion {
    pub(super) sinks: Sinks,
    pub(super) command: String,
    pub(super) session_id: String,
    pub(super) started: Instant,
    pub(super) is_recorded: bool,
}

impl Completion {
    pub(super) fn record(
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
