//! Runs every check that an agent needs on this machine. Sends no request.

use holodeck_model::Env;
use holodeck_yaml::LoadedAgent;

use crate::{Check, check_own_key, claude, files, node, programs};

/// Checks everything an agent needs on this machine, credentials first. Sends no request.
pub async fn check_agent(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let mut checks = vec![check_own_key(agent, env)];
    if agent.config.is_claude() {
        let (check, cli) = claude::check(agent, env).await;
        checks.push(check);
        checks.push(node::check(agent, env, cli.as_ref()).await);
    }
    checks.extend(programs::check(agent, env).await);
    checks.extend(files::check(agent));
    checks
}

#[cfg(test)]
mod tests;
