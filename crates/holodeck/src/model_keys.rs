//! Whether there is a key for each model other than the agent's own. Checked before anything is asked.

use std::sync::Arc;

use holodeck_backend_api::BackendError;
use holodeck_model::{Env, ResolvedAgent};
use holodeck_validators::{Check, check_credentials};
use holodeck_yaml::{LoadedAgent, Places};

use crate::{
    backends::BackendSelector,
    inventory::{Inventory, ModelRole, is_same},
    model_pool::specialist,
};

/// Checks whether there is a credential for each model that is not the agent's own.
pub(crate) fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let inventory = Inventory::new(agent, None);
    let groups: [&[ModelRole]; 5] = [
        &ModelRole::JUDGES,
        &[ModelRole::SimulatedUser],
        &[ModelRole::Reranker],
        &[ModelRole::PromptTool],
        &[ModelRole::ContextWriter],
    ];
    let models = groups.into_iter().flat_map(|roles| inventory.each(roles));
    models
        .filter(|used| !is_same(&agent.config.model, &used.config))
        .map(|used| {
            let other = LoadedAgent {
                agent: Arc::new(specialist(&used.config, None).of(agent)),
                places: Places::default(),
            };
            let check = check_credentials(&other, env);
            Check {
                subject: format!("{} {}", used.role, used.config.name),
                ..check
            }
        })
        .collect()
}

/// Checks that there is a key for each model of these roles.
pub(crate) fn check(
    agent: &ResolvedAgent,
    inventory: &Inventory,
    roles: &[ModelRole],
    backends: &BackendSelector,
) -> Result<(), BackendError> {
    for used in inventory.each(roles) {
        backends
            .check_specialist_key(agent, specialist(&used.config, None))
            .map_err(|error| {
                let within = format!("the {} `{}`", used.role, used.config.name);
                BackendError::init(error.explanation().within(within))
            })?;
    }
    Ok(())
}
