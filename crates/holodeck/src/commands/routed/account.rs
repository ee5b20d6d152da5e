//! The account of an executed command: who answered and why, how it ended, and everything about it as JSON.

use holodeck_model::{CommandContext, Executor, ExecutorKind, ExecutorRecord, RoutingDecision};
use holodeck_orchestrator::{AttemptDetails, Execution, FacadeError, FailureClass, SelectedBy, Verdict};
use serde_json::{Value, json};

use super::{Choice, RoutedAgent, record::Ending, settings::RoutingSettings};

impl RoutedAgent {
    /// The record of a message that the agent itself answers.
    pub(super) fn record_of_itself(&self, choice: Choice, command: &str) -> ExecutorRecord {
        let decision = match choice {
            Choice::Itself(decision) => decision,
            Choice::Facade => None,
        };
        ExecutorRecord {
            command_name: command.to_lowercase(),
            executor: Some(Executor::Agent),
            agent: Some(self.variants.agent.config.name.clone()),
            decision,
            reason: decision.and_then(RoutingSettings::why_itself),
            ..ExecutorRecord::default()
        }
    }

    /// Which executor answered, and why.
    pub(super) fn executor_record(
        &self,
        choice: Choice,
        context: &CommandContext,
        outcome: &Result<Execution, FacadeError>,
    ) -> ExecutorRecord {
        let config = &self.variants.agent.config;
        if let (Choice::Itself(_), Ok(_)) = (choice, outcome) {
            return self.record_of_itself(choice, &context.command.name);
        }
        let (attempt, mode) = match outcome {
            Ok(execution) => (execution.attempt.as_ref(), execution.mode),
            Err(FacadeError::NoExecutor { attempt, .. }) => (attempt.as_deref(), None),
            Err(_) => (None, None),
        };
        let mut record = match attempt {
            Some(details) => record_of_attempt(context, details),
            None => record_of_nothing(context),
        };
        record.executor = mode.map(Into::into);
        record.selected = record.selected.or(record.agent.take());
        match (mode, outcome) {
            (Some(ExecutorKind::Sdk), _) => {
                record.agent = record.selected.take();
                let definition = record
                    .agent
                    .as_deref()
                    .and_then(|name| self.variants.definition(name));
                record.model = definition.and_then(|definition| definition.model);
            }
            (Some(ExecutorKind::Skills), Ok(execution)) => {
                let skill = execution.result.output.get("skill").and_then(Value::as_str);
                record.agent = skill.map(str::to_owned);
            }
            (Some(ExecutorKind::Legacy), Ok(execution)) => {
                record.agent = execution.result.agents_used.first().cloned();
                let legacy = config
                    .routing
                    .as_ref()
                    .and_then(|routing| routing.legacy.as_ref());
                let backend = legacy.and_then(|legacy| legacy.backend.as_ref());
                record.model = backend.map(|model| model.name.clone());
            }
            _ => {}
        }
        record
    }
}

/// The record of an attempt of the agent's backend, as if nothing else could answer.
pub(super) fn record_of_attempt(context: &CommandContext, details: &AttemptDetails) -> ExecutorRecord {
    let AttemptDetails {
        attempt, selection, ..
    } = details;
    let is_routed = attempt.routing_decision == RoutingDecision::SdkExecuted;
    let selected = attempt.agent_used.clone();
    ExecutorRecord {
        executor: is_routed.then_some(Executor::Sdk),
        agent: selected.clone().filter(|_| is_routed),
        selected: selected.filter(|_| !is_routed),
        decision: Some(attempt.routing_decision),
        confidence: attempt.confidence,
        by_default: selection
            .as_ref()
            .is_some_and(|selection| selection.selected_by == SelectedBy::Default),
        reason: attempt.fallback_reason.clone(),
        selection_problem: selection
            .as_ref()
            .and_then(|selection| selection.asked.as_ref()?.problem.clone()),
        ..record_of_nothing(context)
    }
}

/// The record of a command that nothing executes.
pub(super) fn record_of_nothing(context: &CommandContext) -> ExecutorRecord {
    ExecutorRecord {
        command_name: context.command.name.to_lowercase(),
        ..ExecutorRecord::default()
    }
}

/// How an execution ended, for who reads its events.
pub(super) fn ending(choice: Choice, outcome: &Result<Execution, FacadeError>) -> Ending {
    let execution = match outcome {
        Ok(execution) => execution,
        // Nothing but the agent itself could have answered.
        Err(FacadeError::NoExecutor { attempt, .. }) if choice != Choice::Facade => {
            let reason = attempt
                .as_ref()
                .and_then(|details| details.attempt.fallback_reason.clone());
            return Ending::Broken(reason.unwrap_or_default());
        }
        Err(error) => return Ending::Broken(error.to_string()),
    };
    let answer = execution.result.output.get("output").map(output_text);
    let reason = || execution.result.errors.join("; ");
    match execution.verdict {
        Verdict::Done | Verdict::BelowThreshold | Verdict::Unscored => {
            // A program may write an object without a text.
            let whole = || Value::Object(execution.result.output.clone()).to_string();
            Ending::Answered(answer.unwrap_or_else(whole))
        }
        Verdict::MissingEvidence | Verdict::Failed(FailureClass::Failed) => Ending::Failed {
            answer: answer.unwrap_or_default(),
            reason: reason(),
        },
        Verdict::Failed(FailureClass::Broken) | Verdict::Blocked => Ending::Broken(reason()),
        Verdict::Cancelled | Verdict::Failed(FailureClass::Cancelled) => Ending::Cancelled,
    }
}

/// The text of an output.
fn output_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Everything about an execution, as it is stored and explained.
pub fn execution_json(context: &CommandContext, execution: &Execution) -> Value {
    json!({
        "command": context.command,
        "mode": execution.mode.map(ExecutorKind::as_str),
        "result": execution.result,
        "details": execution.attempt,
        "failed_executors": execution.failed,
        "hooks": execution.hooks,
    })
}
