//! Checks that there is a key for a model.

use holodeck_model::{
    Code, Diagnostic, EndpointConfig, EndpointError, Env, ModelConfig, ModelEndpoint, Provider,
};
use holodeck_yaml::LoadedAgent;
use secrecy::ExposeSecret as _;

use crate::{Check, ClaudeEnv, check::unless_replayed};

/// The block of the agent's own model.
const OWN: &str = "model";

/// The key of the agent's own model.
pub fn check_own_key(agent: &LoadedAgent, env: &Env) -> Check {
    match &agent.config.model {
        Some(model) => check_key(agent, model, OWN, env),
        None => Check::not_needed("credentials", "the target has those that its block names"),
    }
}

/// The key of a model's endpoint: in the YAML, else in the provider's variable. Claude has further ways to
/// authenticate. `block` is where the YAML has the model, as in `evaluations.model`.
pub fn check_key(agent: &LoadedAgent, model: &ModelConfig, block: &str, env: &Env) -> Check {
    let subject = "credentials";
    let locate = |field: &str| agent.locate(&format!("{block}.{field}"));
    if model.provider == Provider::Anthropic {
        return match ClaudeEnv::for_model(model, env) {
            Ok(found) => Check::ok(subject, found.found),
            Err(error) => {
                let place = locate("auth_provider").or_else(|| locate("provider"));
                Check::problem(subject, unless_replayed(agent, error.at(place)))
            }
        };
    }
    if model.provider == Provider::Ollama {
        return Check::not_needed(subject, "ollama takes no key");
    }
    let written = model.api_key.as_ref();
    if written.is_some_and(|key| !key.expose_secret().trim().is_empty()) {
        return Check::ok(subject, format!("`{block}.api_key` is set"));
    }
    let endpoint = EndpointConfig {
        provider: model.provider,
        name: model.name.clone(),
        endpoint: model.endpoint.clone(),
        api_key: None,
        api_version: model.api_version.clone(),
        block: block.to_owned(),
        at: None,
    };
    let problem: EndpointError = match ModelEndpoint::resolve(endpoint, env) {
        Ok(found) => {
            return match ModelEndpoint::key_variable(model.provider).filter(|_| found.key().is_some()) {
                Some(variable) => Check::ok(subject, format!("`{variable}` is set")),
                None => Check::not_needed(subject, "no key; the endpoint is your own and may need none"),
            };
        }
        Err(problem) => problem,
    };
    let mut error = Diagnostic::error(Code::MissingCredential, problem.to_string()).at(locate("provider"));
    error.help = problem.hint();
    Check::problem(subject, unless_replayed(agent, error))
}
