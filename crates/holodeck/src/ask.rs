use std::sync::Arc;

use holodeck_backend_api::{
    BackendError, BackendEvent, BackendFactory as _, ExecutionResult, Occasion, TurnRequest, total_usage,
};
use holodeck_model::{Env, LoadedAgent};
use holodeck_turn::{Driven, drive};

use crate::{
    AnswerError, AnswerSource, Answers, BackendSelector, Preparing, ToolSetupError, Unbuilt,
    backends::{ReadyTools, ToolSetup, tools},
    index::{IndexSink, Rebuild},
    unsupported::refuse_unbuilt,
};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The YAML asks for something that this version can't run.
    #[error(transparent)]
    Unbuilt(#[from] Unbuilt),
    /// The tools.
    #[error(transparent)]
    Tools(#[from] ToolSetupError),
    /// Where answers come from.
    #[error(transparent)]
    Answers(#[from] AnswerError),
    /// The backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The turn could not be ended.
    #[error("{error}")]
    Turn {
        /// Why.
        error: BackendError,
        /// What had arrived.
        partial: Box<ExecutionResult>,
    },
}

/// Asks an agent one question, live, and shows every event of the answer on the way.
pub async fn ask(
    agent: LoadedAgent,
    env: &Env,
    question: &str,
    on_event: impl FnMut(&BackendEvent),
) -> Result<ExecutionResult, AskError> {
    ask_showing(agent, env, question, &IndexSink::default(), on_event).await
}

/// The same, and shows how building the agent's indexes goes.
pub async fn ask_showing(
    agent: LoadedAgent,
    env: &Env,
    question: &str,
    on_index: &IndexSink,
    on_event: impl FnMut(&BackendEvent),
) -> Result<ExecutionResult, AskError> {
    refuse_unbuilt(&agent, None)?;
    let answers = Answers::open(&AnswerSource::Live, None, &agent, env)?;
    let factory = BackendSelector::new(env.clone(), answers.clone());
    factory.check_key(&agent)?;
    let limit = agent.execution.llm_timeout.value;
    let agent = Arc::new(agent);
    let setup = ToolSetup {
        agent: &agent,
        env,
        answers: &answers,
        preparing: Preparing::Run,
        rebuild: Rebuild::Changed,
        on_index,
    };
    // Whoever listens has been told of what could not be read.
    let ReadyTools { tools, servers, .. } = tools(&setup).await?;
    let backend = factory.create(agent, Occasion::Run, tools).await?;
    backend.initialize().await?;
    let request = TurnRequest::new(question);
    let spending = request.spending.clone();
    let Driven {
        mut result, error, ..
    } = drive(backend.start(request), Some(limit), on_event).await;
    result.token_usage = total_usage(result.token_usage, result.num_turns, &spending.take());
    let ended = backend.teardown().await;
    servers.close().await;
    ended?;
    match error {
        Some(error) => Err(AskError::Turn {
            error,
            partial: Box::new(result),
        }),
        None => Ok(result),
    }
}
