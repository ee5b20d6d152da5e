use std::path::Path;

use holodeck_model::{DiskFiles, Env, Load, LoadedAgent};
use holodeck_validators::Check;

use crate::{index, prompts, telemetry};

/// Loads an agent with its layers; every problem is in the result.
///
/// In a thread of its own: allocators keep memory by thread, and what loading many cases needed for a while is then used
/// again by the threads that run them.
pub fn load(path: &Path, env: &Env) -> Load {
    let mut load = std::thread::scope(|threads| {
        let loading = threads.spawn(|| holodeck_model::load_agent(path, env, &DiskFiles));
        loading
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    telemetry::check(&mut load);
    check_schemas(&mut load);
    prompts::check(&mut load);
    index::check_patterns(&mut load, env);
    load
}

fn check_schemas(load: &mut Load) {
    let found = load.agent.as_ref().map(holodeck_validators::check_schemas);
    load.diagnostics.extend(found.unwrap_or_default());
    if load.has_errors() {
        load.agent = None;
    }
}

/// Checks what the agent needs of the world.
pub async fn doctor(agent: &LoadedAgent, env: &Env) -> Vec<Check> {
    let mut checks = holodeck_validators::check_agent(agent, env).await;
    checks.extend(index::checks(agent, env).await);
    checks
}
