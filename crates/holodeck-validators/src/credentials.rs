//! Checks that there is a key for the agent's model.

use holodeck_model::{
    Code, Diagnostic, Env, Provider,
    env::{AZURE_OPENAI_API_KEY, OPENAI_API_KEY, OPENAI_BASE_URL},
};
use holodeck_yaml::LoadedAgent;

use crate::{Check, ClaudeEnv, check::unless_replayed};

const SUBJECT: &str = "credentials";

/// The key of the model's endpoint: in the YAML, else in the provider's variable. Claude has further ways to
/// authenticate.
pub fn check(agent: &LoadedAgent, env: &Env) -> Check {
    let model = &agent.config.model;
    let variable = match model.provider {
        Provider::Openai => OPENAI_API_KEY,
        Provider::AzureOpenai => AZURE_OPENAI_API_KEY,
        Provider::Anthropic => {
            return match ClaudeEnv::for_agent(agent, env) {
                Ok(found) => Check::ok(SUBJECT, found.found),
                Err(error) => Check::problem(SUBJECT, unless_replayed(agent, *error)),
            };
        }
        Provider::Ollama => return Check::not_needed(SUBJECT, "ollama takes no key"),
    };
    if model.api_key.is_some() {
        return Check::ok(SUBJECT, "`model.api_key` is set");
    }
    if env.non_blank(variable).is_some() {
        return Check::ok(SUBJECT, format!("`{variable}` is set"));
    }
    let own_server = model.endpoint.is_some() || env.non_blank(OPENAI_BASE_URL).is_some();
    if model.provider == Provider::Openai && own_server {
        return Check::not_needed(SUBJECT, "no key; the endpoint is your own and may need none");
    }
    let error = Diagnostic::error(Code::MissingCredential, format!("`{variable}` is not set"))
        .at(agent.locate("model.provider"))
        .with_help(format!(
            "put `{variable}=…` into `.env` beside the agent file, or export it"
        ));
    Check::problem(SUBJECT, unless_replayed(agent, error))
}
