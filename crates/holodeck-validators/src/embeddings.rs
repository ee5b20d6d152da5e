use holodeck_model::{
    Code, Diagnostic, Env, LoadedAgent, Provider, ToolConfig,
    env::{AZURE_OPENAI_API_KEY, OPENAI_API_KEY},
};

use crate::Check;

/// The key of the provider that makes embeddings, if a tool searches by meaning.
pub(crate) fn check(agent: &LoadedAgent, env: &Env) -> Option<Check> {
    let subject = "embeddings";
    let searches = agent.config.tools.iter().any(|tool| {
        matches!(
            tool,
            ToolConfig::Vectorstore(_) | ToolConfig::HierarchicalDocument(_)
        )
    });
    let model = agent.config.embedding_provider.as_ref().filter(|_| searches)?;
    let variable = match model.provider {
        Provider::Openai => OPENAI_API_KEY,
        Provider::AzureOpenai => AZURE_OPENAI_API_KEY,
        Provider::Ollama | Provider::Anthropic => {
            return Some(Check::ok(subject, format!("{} takes no key", model.provider)));
        }
    };
    let place = agent.locate("embedding_provider.provider");
    Some(if model.api_key.is_some() {
        Check::ok(subject, "`embedding_provider.api_key` is set")
    } else if env.non_blank(variable).is_some() {
        Check::ok(subject, format!("`{variable}` is set"))
    } else if model.provider == Provider::Openai && model.endpoint.is_some() {
        Check::ok(subject, "no key; the endpoint is your own and may need none")
    } else {
        let message = format!("`{variable}` is not set");
        let error = Diagnostic::error(Code::MissingCredential, message)
            .at(place)
            .with_help(format!(
                "put `{variable}=…` into `.env` beside the agent file, or export it"
            ));
        Check::problem(subject, error)
    })
}
