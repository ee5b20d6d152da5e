use std::path::Path;

use holodeck_model::{DiskFiles, Env, Load, LoadedAgent};
use holodeck_validators::Check;

/// Loads an agent with its layers; every problem is in the result.
pub fn load(path: &Path, env: &Env) -> Load {
    holodeck_model::load_agent(path, env, &DiskFiles)
}

/// Checks what the agent needs of the world.
pub async fn doctor(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    holodeck_validators::check_agent(agent, env).await
}
