//! Where the YAML has the model of a task.

use holodeck_model::{ModelConfig, ResolvedAgent, ToolConfig};
use secrecy::{ExposeSecret as _, SecretString};

use crate::judges::metrics;

/// The block of the agent's own model.
pub(crate) const OWN_MODEL: &str = "model";

/// Where the YAML has this model, as in `evaluations.model`; the agent's own model if nothing else has it.
pub(crate) fn find_model(agent: &ResolvedAgent, model: &ModelConfig) -> String {
    let own = || OWN_MODEL.to_owned();
    if is_same(&agent.config.model, model) {
        return own();
    }
    let evaluations = agent.config.evaluations.as_ref();
    let shared = evaluations.and_then(|evaluations| evaluations.model.as_ref());
    if shared.is_some_and(|shared| is_same(shared, model)) {
        return "evaluations.model".to_owned();
    }
    of_metrics(agent, model)
        .or_else(|| of_tools(agent, model))
        .or_else(|| of_users(agent, model))
        .unwrap_or_else(own)
}

fn of_metrics(agent: &ResolvedAgent, model: &ModelConfig) -> Option<String> {
    metrics(agent, None).find_map(|(place, metric)| {
        let judges = metric.judging()?.judges;
        let index = judges.iter().position(|judge| is_same(judge, model))?;
        let place = place.pointer();
        Some(match metric.model() {
            Some(own) if is_same(own, model) => format!("{place}.model"),
            _ => format!("{place}.judges.{index}"),
        })
    })
}

fn of_tools(agent: &ResolvedAgent, model: &ModelConfig) -> Option<String> {
    let mut tools = agent.config.tools.iter().enumerate();
    tools.find_map(|(index, tool)| {
        let field = match tool {
            ToolConfig::Prompt(tool) => {
                let overrides = tool.model.as_ref()?;
                let merged = agent.config.model.with_overrides(overrides);
                // Without an endpoint of its own, it has that of the agent's model.
                (overrides.endpoint.is_some() && is_same(&merged, model)).then_some("model")?
            }
            ToolConfig::HierarchicalDocument(tool) => {
                let context = tool.context_model.as_ref();
                let is_context = context.is_some_and(|context| is_same(context, model));
                let reranker = tool.reranker_model.as_ref();
                let is_reranker = reranker.is_some_and(|reranker| is_same(reranker, model));
                match (is_context, is_reranker) {
                    (true, _) => "context_model",
                    (false, true) => "reranker_model",
                    (false, false) => return None,
                }
            }
            _ => return None,
        };
        Some(format!("tools.{index}.{field}"))
    })
}

fn of_users(agent: &ResolvedAgent, model: &ModelConfig) -> Option<String> {
    let is_wanted = |own: &ModelConfig| is_same(own, model);
    let mut cases = agent.config.test_cases.detailed();
    let (case, _) = cases.find(|(_, case)| {
        let own = case.user.as_ref().and_then(|user| user.model.as_ref());
        own.is_some_and(is_wanted)
    })?;
    Some(format!("test_cases.{case}.user.model"))
}

/// Whether two models are equal, with their endpoints and keys.
pub(crate) fn is_same(one: &ModelConfig, other: &ModelConfig) -> bool {
    let ModelConfig {
        provider,
        name,
        temperature,
        max_tokens,
        top_p,
        endpoint,
        api_key,
        api_version,
        auth_provider,
        rpm,
        reasoning,
        reasoning_in_content,
    } = one;
    let key = |key: &Option<SecretString>| key.as_ref().map(|key| key.expose_secret().to_owned());
    *name == other.name
        && *provider == other.provider
        && (temperature, max_tokens, top_p) == (&other.temperature, &other.max_tokens, &other.top_p)
        && (endpoint, api_version, auth_provider)
            == (&other.endpoint, &other.api_version, &other.auth_provider)
        && (rpm, reasoning, reasoning_in_content)
            == (&other.rpm, &other.reasoning, &other.reasoning_in_content)
        && key(api_key) == key(&other.api_key)
}
