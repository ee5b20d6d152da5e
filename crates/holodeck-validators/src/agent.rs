use holodeck_model::{Env, LoadedAgent};

use crate::{Check, credentials, endpoint, files, programs};

/// Everything an agent needs of the world, checked.
pub async fn check_agent(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let mut checks = vec![credentials::check(agent, env)];
    checks.push(endpoint::check(agent, env).await);
    checks.extend(programs::check(agent, env));
    checks.extend(files::check(agent));
    checks
}
