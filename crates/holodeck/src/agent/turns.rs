//! The runner of an agent's turns, as its file and the flags configure it.

use std::time::Duration;

use holodeck_model::{Env, Layer, ResolvedAgent};
use holodeck_turn::{FileReader, Prices, TurnRunner};

use crate::{
    OpenError,
    index::conversion::{Caching, converter, fetcher},
};

/// The reader for the files of test cases.
fn file_reader(agent: &ResolvedAgent, env: &Env) -> Result<FileReader, OpenError> {
    let reader = FileReader::new(converter(agent, env), agent.execution.file_timeout.value);
    match (
        fetcher(agent, env, Caching::On),
        fetcher(agent, env, Caching::Off),
    ) {
        (Ok(cached), Ok(uncached)) => Ok(reader.with_fetchers(cached, uncached)),
        (Err(error), _) | (_, Err(error)) => Err(OpenError::Files(error)),
    }
}

/// The runner of turns, as the agent file and the flags configure it.
pub(crate) fn turn_runner(
    agent: &ResolvedAgent,
    env: &Env,
    limit: Option<Duration>,
    prices: Prices,
) -> Result<TurnRunner, OpenError> {
    let mut timeout = agent.execution.llm_timeout.clone();
    timeout.override_with(limit);
    let timeout_source = match timeout.layer {
        Layer::Cli => "`--timeout`",
        Layer::Env => "`HOLODECK_LLM_TIMEOUT`",
        _ => "`execution.llm_timeout`",
    };
    Ok(TurnRunner {
        files: file_reader(agent, env)?,
        prices,
        model: agent.config.answerer(),
        timeout: Some(timeout.value),
        timeout_source: timeout_source.to_owned(),
    })
}
