//! The end of a command: its result, and its last event.

use std::time::{Duration, Instant};

use holodeck_model::{CommandContext, CommandResult, ExecutionAttempt, ExecutorKind, JsonMap};
use serde_json::{Value, json};

use super::{Execution, ExecutionFacade, FALLBACK_BLOCKED, Verdict};
use crate::{
    chain::{ExecutorFailure, ExecutorOutput, FailureClass},
    evidence::check_evidence,
    executor::{AttemptDetails, issues_text},
    hooks::HookReport,
    telemetry::{Completed, ExecutionEvent, Sinks},
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
        let status = if result.success { "ok" } else { "error" };
        status.clone_into(&mut result.status);
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

fn object(value: Value) -> JsonMap {
    match value {
        Value::Object(fields) => fields,
        _ => JsonMap::new(),
    }
}

/// How a command ended, before its result is made.
pub(super) struct Ended {
    pub(super) output: Option<ExecutorOutput>,
    pub(super) mode: Option<ExecutorKind>,
    pub(super) verdict: Verdict,
    pub(super) attempt: Option<AttemptDetails>,
    pub(super) failure: Option<String>,
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
    pub(super) fn of(self, mode: ExecutorKind, result: Result<ExecutorOutput, ExecutorFailure>) -> Self {
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
