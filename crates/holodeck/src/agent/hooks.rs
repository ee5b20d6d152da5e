//! The programs of `claude.hooks`: when they run, and the note about it before a test.

use std::sync::Arc;

use holodeck_backend_api::{AgentBackend, Occasion};
use holodeck_model::{Agent, Env, HooksConfig, PathRef, Redactor, ResolvedAgent, SideEffectGate, ToolNames};
use holodeck_tools::Hooks;

use crate::agent::inventory::{self, FileOwner, Named};

/// The hooks that run; none in a test that may change nothing.
fn running(agent: &Agent, occasion: Occasion, gate: SideEffectGate) -> Option<&HooksConfig> {
    let is_withheld = occasion == Occasion::Test && gate == SideEffectGate::Closed;
    agent.claude.as_ref()?.hooks.as_ref().filter(|_| !is_withheld)
}

/// `backend`, whose turns the hooks of the agent observe.
pub(crate) fn observe(
    backend: Arc<dyn AgentBackend>,
    agent: &ResolvedAgent,
    (occasion, gate): (Occasion, SideEffectGate),
    env: &Env,
    redactor: Arc<Redactor>,
) -> Arc<dyn AgentBackend> {
    let Some(hooks) = running(&agent.config, occasion, gate) else {
        return backend;
    };
    let folder = agent.config.claude.as_ref();
    let folder = folder.and_then(|claude| claude.working_directory.as_ref());
    let folder = folder.map_or_else(|| agent.dir.clone(), PathRef::path);
    Hooks::new(hooks, ToolNames::of(&agent.config), env, redactor, &folder).observe(backend)
}

/// Says before a test which programs it runs or leaves out; `None` without hooks.
pub(crate) fn note(agent: &ResolvedAgent, gate: SideEffectGate) -> Option<String> {
    let used = inventory::files(agent).into_iter();
    let used = used.filter(|used| matches!(used.owner, FileOwner::Hooks));
    let mut programs: Vec<String> = used
        .filter_map(|used| match used.named {
            Named::Program { command, .. } => Some(format!("`{}`", command?.as_str())),
            _ => None,
        })
        .collect();
    programs.sort();
    programs.dedup();
    if programs.is_empty() {
        return None;
    }
    let programs = programs.join(", ");
    Some(match running(&agent.config, Occasion::Test, gate) {
        Some(_) => {
            format!(
                "this test runs the programs of `claude.hooks` ({programs}), because of `--allow-side-effects`"
            )
        }
        None => format!(
            "this test does not run the programs of `claude.hooks` ({programs}); `--allow-side-effects` runs them"
        ),
    })
}
