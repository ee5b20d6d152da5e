//! The prices that apply to an agent.

use std::path::Path;

use holodeck_model::{Env, Provider, ResolvedAgent, ToolConfig};
use holodeck_turn::{PriceError, Prices};

use crate::{
    index::reranking_models,
    judges::{judge_models, user_models},
};

/// The embedded list, overridden by the user's, then the project's, then the flag's list.
pub(crate) fn prices(agent: &ResolvedAgent, env: &Env, flag: Option<&Path>) -> Result<Prices, PriceError> {
    let mut prices = Prices::embedded();
    if let Some(user) = env.user_dir() {
        prices = prices.overlay(&user.join("prices.json"))?;
    }
    prices = prices.overlay(&agent.dir.join("prices.json"))?;
    match flag {
        Some(path) if !path.exists() => Err(PriceError::Io {
            path: path.display().to_string(),
            source: std::io::ErrorKind::NotFound.into(),
        }),
        Some(path) => prices.overlay(path),
        None => Ok(prices),
    }
}

/// The models whose cost comes from the price list, with the judges and simulated users of the `planned` cases and the models that rerank. The Claude Code CLI reports
/// its own costs.
pub(crate) fn priced_by_list<'a>(
    agent: &'a ResolvedAgent,
    planned: Option<&'a [usize]>,
) -> impl Iterator<Item = &'a str> {
    let own = &agent.config.model;
    let tools = agent.config.tools.iter().filter(|tool| !tool.is_mocked());
    let tool_models = tools.filter_map(|tool| match tool {
        ToolConfig::Prompt(tool) => {
            let model = tool.model.as_ref()?;
            Some((model.provider.unwrap_or(own.provider), model.name.as_deref()?))
        }
        _ => None,
    });
    let rerankers = reranking_models(agent).into_iter();
    let judges = judge_models(agent, planned).into_iter();
    let judges = judges.chain(user_models(agent, planned));
    let others = judges
        .chain(rerankers)
        .map(|model| (model.provider, model.name.as_str()));
    std::iter::once((own.provider, own.name.as_str()))
        .chain(tool_models)
        .chain(others)
        .filter(|(provider, _)| *provider != Provider::Anthropic)
        .map(|(_, model)| model)
}
