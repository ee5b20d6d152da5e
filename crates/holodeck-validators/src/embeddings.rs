//! Checks that there is a key for embeddings, if the agent needs them.

use holodeck_model::{
    Code, Diagnostic, EmbeddingProvider, Env, Provider, SearchMethod,
    env::{AZURE_OPENAI_API_KEY, OPENAI_API_KEY},
};
use holodeck_yaml::LoadedAgent;

use crate::{Check, check::unless_replayed};

/// The key of the embedding provider, if a tool searches semantically or tools are selected by embeddings.
pub(crate) fn check(agent: &LoadedAgent, env: &Env) -> Option<Check> {
    let subject = "embeddings";
    let mut tools = agent.config.tools.iter();
    let tool = tools.find(|tool| tool.is_indexed() && !tool.is_mocked());
    let settings = match tool {
        Some(tool) => agent.config.embedding_settings(tool)?,
        None if chooses_by_meaning(agent) => agent.config.own_embedding_settings()?,
        None => return None,
    };
    let variable = match settings.provider {
        EmbeddingProvider::Openai => OPENAI_API_KEY,
        EmbeddingProvider::AzureOpenai => AZURE_OPENAI_API_KEY,
        EmbeddingProvider::Ollama => return Some(Check::not_needed(subject, "ollama takes no key")),
        EmbeddingProvider::Hash => {
            return Some(Check::not_needed(
                subject,
                "computed on this machine; `hash` compares words, not meanings",
            ));
        }
    };
    let block = settings.block;
    let place = agent.locate(&format!("{block}.provider"));
    Some(if settings.api_key.is_some() {
        Check::ok(subject, format!("`{block}.api_key` is set"))
    } else if env.non_blank(variable).is_some() {
        Check::ok(subject, format!("`{variable}` is set"))
    } else if settings.provider == EmbeddingProvider::Openai && settings.endpoint.is_some() {
        Check::not_needed(subject, "no key; the endpoint is your own and may need none")
    } else {
        let message = format!("`{variable}` is not set");
        let error = Diagnostic::error(Code::MissingCredential, message)
            .at(place)
            .with_help(format!(
                "put `{variable}=…` into `.env` beside the agent file, or export it"
            ));
        Check::problem(subject, unless_replayed(agent, error))
    })
}

fn chooses_by_meaning(agent: &LoadedAgent) -> bool {
    let filtering = agent.config.tool_filtering.as_ref();
    agent.config.model.provider != Provider::Anthropic
        && filtering.is_some_and(|it| it.enabled && it.search_method != SearchMethod::Bm25)
}
