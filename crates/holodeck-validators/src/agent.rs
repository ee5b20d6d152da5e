use holodeck_model::{Env, LoadedAgent, Provider};

use crate::{Check, claude, credentials, embeddings, endpoint, files, node, programs};

/// Everything an agent needs of the world, checked.
pub async fn check_agent(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let mut checks = vec![credentials::check(agent, env)];
    checks.extend(embeddings::check(agent, env));
    checks.push(endpoint::check(agent, env).await);
    if agent.config.model.provider == Provider::Anthropic {
        let (check, cli) = claude::check(agent, env).await;
        checks.push(check);
        checks.push(node::check(agent, env, cli.as_ref()).await);
    }
    checks.extend(programs::check(agent, env));
    checks.extend(files::check(agent));
    checks
}

#[cfg(test)]
mod tests;
