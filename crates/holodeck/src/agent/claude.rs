//! An agent of a YAML file on Claude Code.

pub(crate) mod machine;
mod options;
#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use holodeck_backend_api::{AgentBackend, BackendError, ToolHost};
use holodeck_backend_claude::{ClaudeBackend, Reuse};
use holodeck_model::{ApprovalPolicy, Env, Occasion, SideEffectGate};
use holodeck_otel_bridge::{CLAUDE_SECRET_VARIABLES, ClaudeTelemetry, claude_env, with_variables};
use holodeck_validators::{ClaudeCliSearch, ClaudeEnv};
use holodeck_yaml::LoadedAgent;

use self::options::{AgentSetup, BuiltinChanges, options};
pub(crate) use self::options::{MACHINE, has_own_client};
use crate::PolicyApprover;

/// Finds the CLI and its credentials, and creates the backend. Nothing is started yet.
pub(crate) async fn backend(
    agent: &LoadedAgent,
    env: &Env,
    policy: ApprovalPolicy,
    (occasion, side_effects): (Occasion, SideEffectGate),
    tools: Arc<dyn ToolHost>,
    traceparent: Option<&str>,
) -> Result<Arc<dyn AgentBackend>, BackendError> {
    let mut credentials = credentials(agent, env)?;
    let cli = ClaudeCliSearch::for_agent(agent, env).find().await;
    let cli = cli.map_err(|error| BackendError::init(&*error))?;
    // Its warnings were already reported when the agent was loaded.
    let telemetry = match &agent.config.observability {
        Some(observability) => claude_env(
            &with_variables(observability, env),
            &agent.config.name,
            traceparent,
        ),
        None => ClaudeTelemetry::default(),
    };
    credentials.secret_names.extend(CLAUDE_SECRET_VARIABLES);
    let options = options(&AgentSetup {
        agent,
        occasion,
        cli: &cli,
        managed: Path::new(machine::MANAGED),
        credentials: &credentials,
        env,
        tools,
        approver: Arc::new(PolicyApprover::new(policy.clone(), occasion, side_effects)),
        policy: &policy,
        side_effects: match (occasion, side_effects) {
            (Occasion::Test, SideEffectGate::Closed) => BuiltinChanges::Withheld,
            (Occasion::Test, SideEffectGate::Open) => BuiltinChanges::Allowed,
            _ => BuiltinChanges::AsConfigured,
        },
        reuse: match occasion {
            Occasion::Test => Reuse::WhereSafe,
            Occasion::Run | Occasion::Chat | Occasion::Serve => Reuse::Never,
        },
        variables: telemetry.vars,
    })?;
    Ok(Arc::new(ClaudeBackend::new(options)?))
}

/// Why there is no CLI to ask.
pub(crate) async fn missing_cli(agent: &LoadedAgent, env: &Env) -> Option<BackendError> {
    let found = ClaudeCliSearch::for_agent(agent, env).find().await;
    found.err().map(|error| BackendError::init(&*error))
}

/// The credentials of the CLI.
pub(crate) fn credentials(agent: &LoadedAgent, env: &Env) -> Result<ClaudeEnv, BackendError> {
    ClaudeEnv::for_agent(agent, env).map_err(|error| BackendError::init(&*error))
}
