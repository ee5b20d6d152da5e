//! An agent of a YAML file on Claude Code.

use std::{fmt::Write as _, sync::Arc};

use holodeck_backend_api::{AgentBackend, BackendError, ToolHost};
use holodeck_backend_claude::{AgentSetup, ClaudeBackend, ClaudeOptions, Reuse, SideEffects};
use holodeck_model::{Diagnostic, Env, LoadedAgent, Occasion, SideEffectGate};
use holodeck_otel_bridge::{CLAUDE_SECRET_VARIABLES, ClaudeTelemetry, claude_env};
use holodeck_validators::{ClaudeCliSearch, ClaudeEnv};

use crate::{PolicyApprover, approval_policy};

/// Finds the CLI and what it needs, and makes the backend. Nothing is started yet.
pub(crate) async fn backend(
    agent: &LoadedAgent,
    env: &Env,
    occasion: Occasion,
    side_effects: SideEffectGate,
    tools: Arc<dyn ToolHost>,
    traceparent: Option<&str>,
) -> Result<Arc<dyn AgentBackend>, BackendError> {
    let mut credentials = credentials(agent, env)?;
    let cli = ClaudeCliSearch::for_agent(agent, env).find().await;
    let cli = cli.map_err(|error| refusal(&error))?;
    // What it warns of was said when the agent was loaded.
    let telemetry = match &agent.config.observability {
        Some(observability) => claude_env(observability, traceparent),
        None => ClaudeTelemetry::default(),
    };
    credentials.secret_names.extend(CLAUDE_SECRET_VARIABLES);
    let policy = approval_policy(&agent.config);
    let options = ClaudeOptions::of_agent(&AgentSetup {
        agent,
        cli: &cli,
        credentials: &credentials,
        env,
        tools,
        approver: Arc::new(PolicyApprover::new(policy.clone(), occasion, side_effects)),
        policy: &policy,
        side_effects: match (occasion, side_effects) {
            (Occasion::Test, SideEffectGate::Closed) => SideEffects::Withheld,
            (Occasion::Test, SideEffectGate::Open) => SideEffects::Allowed,
            _ => SideEffects::AsConfigured,
        },
        reuse: match occasion {
            Occasion::Test => Reuse::WhereSafe,
            Occasion::Run | Occasion::Chat | Occasion::Serve => Reuse::Never,
        },
        variables: telemetry.vars,
    })?;
    Ok(Arc::new(ClaudeBackend::new(options)?))
}

/// What the CLI signs in with.
pub(crate) fn credentials(agent: &LoadedAgent, env: &Env) -> Result<ClaudeEnv, BackendError> {
    ClaudeEnv::for_agent(agent, env).map_err(|error| refusal(&error))
}

/// A problem of the machine as what keeps a backend from starting.
fn refusal(problem: &Diagnostic) -> BackendError {
    let mut message = problem.message.clone();
    if let Some(place) = &problem.primary {
        let _ = write!(message, " ({place})");
    }
    if let Some(help) = &problem.help {
        let _ = write!(message, "\n\nhint: {help}");
    }
    BackendError::Init { message }
}
