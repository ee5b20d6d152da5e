//! Asks an agent a single question and returns the answer, for programs that embed HoloDeck and for `holodeck run`.
//!
//! Always live: it uses no recording. Conversations are in `chat`.

use holodeck_backend_api::{BackendError, BackendEvent, ExecutionResult, Occasion, TurnRequest, total_usage};
use holodeck_model::Env;
use holodeck_turn::{FinishedTurn, drive};
use holodeck_yaml::LoadedAgent;

use crate::{AnswerSource, OpenAgent, OpenError, OpenOptions, index::IndexSink};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The agent cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The turn failed.
    #[error("{error}")]
    Turn {
        /// Why.
        error: BackendError,
        /// The part of the answer that arrived before.
        partial: Box<ExecutionResult>,
    },
}

/// Asks an agent one question, live, and passes every event of the answer to `on_event`.
pub async fn ask(
    agent: LoadedAgent,
    env: &Env,
    question: &str,
    on_event: impl FnMut(&BackendEvent),
) -> Result<ExecutionResult, AskError> {
    ask_with_index_progress(agent, env, question, &IndexSink::default(), on_event).await
}

/// The same, and reports the progress of building the agent's indexes to `on_index`.
pub async fn ask_with_index_progress(
    agent: LoadedAgent,
    env: &Env,
    question: &str,
    on_index: &IndexSink,
    on_event: impl FnMut(&BackendEvent),
) -> Result<ExecutionResult, AskError> {
    let options = OpenOptions {
        answers: AnswerSource::Live,
        on_index: on_index.clone(),
        ..OpenOptions::default()
    };
    let open = OpenAgent::open(agent, env, Occasion::Run, options).await?;
    let answer = ask_open(&open, question, on_event).await;
    let closing = open.close().await;
    let answer = answer?;
    closing?;
    Ok(answer)
}

async fn ask_open(
    open: &OpenAgent,
    question: &str,
    on_event: impl FnMut(&BackendEvent),
) -> Result<ExecutionResult, AskError> {
    let backend = open.backend()?;
    backend.initialize().await?;
    let request = TurnRequest::new(question);
    let spending = request.spending.clone();
    let limit = open.agent().execution.llm_timeout.value;
    let FinishedTurn {
        mut result, error, ..
    } = drive(backend.start(request), Some(limit), on_event).await;
    result.token_usage = total_usage(result.token_usage, result.num_turns, &spending.take());
    match error {
        Some(error) => Err(AskError::Turn {
            error,
            partial: Box::new(result),
        }),
        None => Ok(result),
    }
}
