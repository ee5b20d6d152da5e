//! Whether there is a key for each model other than the agent's own: judges, simulated users and chat models that
//! rerank. Checked before anything is asked.

use std::sync::Arc;

use holodeck_backend_api::BackendError;
use holodeck_model::{Env, ModelConfig, ResolvedAgent};
use holodeck_validators::{Check, check_credentials};
use holodeck_yaml::{LoadedAgent, Places};

use crate::{
    backends::BackendSelector,
    index::reranking_models,
    judges::{judge_models, loop_judge_models, specialist, user_models},
    model_places::is_same,
};

/// Checks whether there is a credential for each model that is not the agent's own.
pub(crate) fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let judges = judge_models(agent, None).into_iter();
    let judges = judges.map(|model| ("judge", model));
    let users = user_models(agent, None).into_iter();
    let users = users.map(|model| ("simulated user", model));
    let rerankers = reranking_models(agent).into_iter();
    let rerankers = rerankers.map(|model| ("reranker", model));
    judges
        .chain(users)
        .chain(rerankers)
        .filter(|(_, model)| !is_same(&agent.config.model, model))
        .map(|(who, model)| {
            let judge = LoadedAgent {
                agent: Arc::new(specialist(model, None).of(agent)),
                places: Places::default(),
            };
            let check = check_credentials(&judge, env);
            Check {
                subject: format!("{who} {}", model.name),
                ..check
            }
        })
        .collect()
}

/// Checks that there is a key for each judge.
pub(crate) fn check_judges(
    agent: &ResolvedAgent,
    planned: Option<&[usize]>,
    backends: &BackendSelector,
) -> Result<(), BackendError> {
    check_all("judge", judge_models(agent, planned), agent, backends)
}

/// Checks that there is a key for each judge of the quality loop.
pub(crate) fn check_loop_judges(
    agent: &ResolvedAgent,
    backends: &BackendSelector,
) -> Result<(), BackendError> {
    check_all("judge", loop_judge_models(agent), agent, backends)
}

/// Checks that there is a key for each simulated user.
pub(crate) fn check_users(
    agent: &ResolvedAgent,
    planned: Option<&[usize]>,
    backends: &BackendSelector,
) -> Result<(), BackendError> {
    check_all("simulated user", user_models(agent, planned), agent, backends)
}

/// Checks that there is a key for each chat model that reranks.
pub(crate) fn check_rerankers(agent: &ResolvedAgent, backends: &BackendSelector) -> Result<(), BackendError> {
    check_all("reranker", reranking_models(agent), agent, backends)
}

fn check_all(
    who: &str,
    models: Vec<&ModelConfig>,
    agent: &ResolvedAgent,
    backends: &BackendSelector,
) -> Result<(), BackendError> {
    for model in models {
        backends
            .check_specialist_key(agent, specialist(model, None))
            .map_err(|error| {
                BackendError::init(error.explanation().within(format!("the {who} `{}`", model.name)))
            })?;
    }
    Ok(())
}
