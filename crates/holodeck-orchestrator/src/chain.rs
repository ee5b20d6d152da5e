//! The executors of a command when the agent's backend does not execute it.

use std::sync::Arc;

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, BackendEvent, ExecutionResult, TurnRequest};
use holodeck_model::{CommandContext, JsonMap, events::StopReason};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    evidence::Evidence,
    verdict::{FailureClass, Verdict},
    watch::{ReadyAgent, TurnObserver, TurnResult, Watch},
};

/// Executes commands with skills.
#[async_trait]
pub trait SkillsRuntime: Send + Sync {
    /// The skill for a command, if there is one.
    fn find(&self, command: &str) -> Option<String>;

    /// Executes a command with a skill.
    async fn execute(&self, skill: &str, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure>;
}

/// Executes commands that nothing else does. A closure that takes an [`ExecutorCall`] and returns a future is one.
#[async_trait]
pub trait LegacyExecutor: Send + Sync {
    /// Executes a command.
    async fn execute(&self, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure>;
}

#[async_trait]
impl<F, R> LegacyExecutor for F
where
    F: Fn(ExecutorCall) -> R + Send + Sync,
    R: Future<Output = Result<ExecutorOutput, ExecutorFailure>> + Send,
{
    async fn execute(&self, call: &ExecutorCall) -> Result<ExecutorOutput, ExecutorFailure> {
        self(call.clone()).await
    }
}

/// A command for an executor. Clones are the same call.
#[derive(Clone)]
pub struct ExecutorCall {
    /// The command.
    pub context: CommandContext,
    /// Stops it.
    pub cancel: CancellationToken,
    pub(crate) watch: Arc<Watch>,
}

impl ExecutorCall {
    /// Runs one turn of an agent; hooks and evidence observe it.
    pub async fn ask(&self, agent: &ReadyAgent, prompt: &str) -> Result<ExecutionResult, ExecutorFailure> {
        let before = self.watch.calls_with_side_effects();
        match self.watch.run(agent, prompt, &self.cancel).await {
            TurnResult::Stopped => Err(ExecutorFailure::cancelled()),
            TurnResult::Ended { record, error } => {
                let has_side_effects = self.watch.calls_with_side_effects() > before;
                let failure = match (error, record.result.error_reason()) {
                    (Some(error), _) => ExecutorFailure::from(&error),
                    (None, Some(reason)) => ExecutorFailure::failed(reason),
                    (None, None) => return Ok(record.result),
                };
                Err(ExecutorFailure {
                    has_side_effects,
                    ..failure
                })
            }
        }
    }

    /// Passes an event of an executor that is not a backend on to hooks and evidence.
    pub fn observe(&self, event: &BackendEvent) {
        self.watch.record(event);
    }

    /// Receives every event of every turn; an executor with executions of its own passes theirs on to it.
    pub fn observer(&self) -> Option<Arc<dyn TurnObserver>> {
        self.watch.observer()
    }

    /// The message that is executed, if it is one of a conversation or a test.
    pub fn message(&self) -> Option<TurnRequest> {
        self.watch.message().cloned()
    }

    /// The evidence that was observed so far.
    pub fn evidence(&self) -> Evidence {
        self.watch.evidence()
    }
}

/// The answer of an executor.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "callers fill it in as a literal with `..Default::default()`"
)]
pub struct ExecutorOutput {
    /// The output; `output` is the answer.
    pub output: JsonMap,
    /// The agents that took part.
    pub agents: Vec<String>,
    /// The evidence that was observed; `None` if nothing could be.
    pub evidence: Option<Evidence>,
    /// How it ended, if that is known: another agent answers although the answer is not good enough.
    pub verdict: Verdict,
    /// Why it is not good enough.
    pub errors: Vec<String>,
}

impl ExecutorOutput {
    /// An answer that is a text.
    pub fn text(text: impl Into<String>) -> Self {
        let mut output = JsonMap::new();
        output.insert("status".to_owned(), json!("ok"));
        output.insert("output".to_owned(), Value::String(text.into()));
        Self {
            output,
            ..Self::default()
        }
    }

    /// The answer of an agent, with a mark if a part of it is missing or may be.
    pub(crate) fn of_agent(result: ExecutionResult) -> Self {
        let mut answer = Self::text(result.response);
        mark_truncation(&mut answer.output, result.truncated_by.as_ref());
        answer
    }
}

/// Marks an output of which a part is missing or may be, as the result of a question does.
pub(crate) fn mark_truncation(output: &mut JsonMap, reason: Option<&StopReason>) {
    if let Some(reason) = reason {
        output.insert("truncated".to_owned(), Value::Bool(true));
        output.insert("truncated_by".to_owned(), json!(reason));
    }
}

/// Why an executor did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ExecutorFailure {
    /// The reason.
    pub message: String,
    /// The class of the failure.
    pub kind: FailureClass,
    /// Whether something may have been changed before.
    pub has_side_effects: bool,
}

impl ExecutorFailure {
    /// The command ran and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: FailureClass::Failed,
            has_side_effects: false,
        }
    }

    /// The command could not be run.
    pub fn broken(message: impl Into<String>) -> Self {
        Self {
            kind: FailureClass::Broken,
            ..Self::failed(message)
        }
    }

    /// The caller stopped it.
    pub fn cancelled() -> Self {
        Self {
            kind: FailureClass::Cancelled,
            ..Self::failed("cancelled")
        }
    }
}

impl From<&BackendError> for ExecutorFailure {
    fn from(error: &BackendError) -> Self {
        match error {
            BackendError::Provider {
                status: Some(status), ..
            } if !matches!(status, 401 | 403) => Self::failed(error.to_string()),
            BackendError::Cancelled => Self::cancelled(),
            _ => Self::broken(error.to_string()),
        }
    }
}
