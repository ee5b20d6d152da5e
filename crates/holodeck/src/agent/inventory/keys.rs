//! Whether there is a key for each model of a run. It must not ask a model.

use holodeck_backend_api::BackendError;
use holodeck_backend_openai::Endpoint;
use holodeck_model::{Env, Provider};
use holodeck_validators::{Check, ClaudeEnv, check_key};
use holodeck_yaml::LoadedAgent;

use super::{Inventory, ModelRole, UsedModel, is_same};

/// Checks whether there is a credential for each model that is not the agent's own.
pub(crate) fn checks(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let inventory = Inventory::new(agent, None);
    let groups: [&[ModelRole]; 8] = [
        &[ModelRole::AgentSelector],
        &[ModelRole::Legacy],
        &ModelRole::JUDGES,
        &[ModelRole::SimulatedUser],
        &[ModelRole::Reranker, ModelRole::RerankServer],
        &[ModelRole::PromptTool],
        &[ModelRole::ContextWriter],
        &[ModelRole::AgentEmbedder, ModelRole::Embedder],
    ];
    let models = groups.into_iter().flat_map(|roles| inventory.each(roles));
    models
        .filter(|used| {
            !agent
                .config
                .model
                .as_ref()
                .is_some_and(|own| is_same(own, &used.config))
        })
        .map(|used| Check {
            subject: format!("{} {}", used.role, used.config.name),
            ..check_key(agent, &used.config, &used.pointer, &used.role.variables(env))
        })
        .collect()
}

impl Inventory {
    /// Checks that there is a key for each model of these roles, before indexes and servers cost time and money.
    pub(crate) fn check_keys(
        &self,
        agent: &LoadedAgent,
        env: &Env,
        roles: &[ModelRole],
    ) -> Result<(), BackendError> {
        for used in self.each(roles) {
            used.check_key(agent, env).map_err(|error| {
                let mut explanation = error.explanation();
                if used.role != ModelRole::Own {
                    explanation = explanation.within(format!("the {} `{}`", used.role, used.config.name));
                    explanation.place = explanation.place.or_else(|| agent.locate(&used.pointer));
                }
                BackendError::init(explanation)
            })?;
        }
        Ok(())
    }
}

impl UsedModel {
    fn check_key(&self, agent: &LoadedAgent, env: &Env) -> Result<(), BackendError> {
        let locate = |field: &str| agent.locate(&format!("{}.{field}", self.pointer));
        if self.config.provider == Provider::Anthropic {
            let found = ClaudeEnv::for_model(&self.config, env);
            let place = || locate("auth_provider").or_else(|| locate("provider"));
            return found
                .map(drop)
                .map_err(|error| BackendError::init(&error.at(place())));
        }
        let env = self.role.variables(env);
        let found = Endpoint::resolve(&self.config, &self.pointer, locate("endpoint").as_ref(), &env);
        found.map(drop).map_err(|error| {
            let mut explanation = error.explanation();
            // Further lines say where it is configured.
            if !explanation.message.contains('\n') {
                explanation.place = explanation.place.or_else(|| locate("provider"));
            }
            BackendError::init(explanation)
        })
    }
}
