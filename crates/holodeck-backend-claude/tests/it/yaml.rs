//! Agents of YAML files on the real CLI, put together as the facade does it.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{
    ApprovalAsk, ApprovalDecision, Approver, BackendError, DecidedBy, NoTools, ToolHost,
};
use holodeck_backend_claude::{AgentSetup, ClaudeCli, ClaudeOptions, CliVersion, Reuse, SideEffects};
use holodeck_mcp_bridge::HOLODECK_SERVER;
use holodeck_model::{
    ApprovalContext, ApprovalPolicy, Env, LoadedAgent, MemoryFiles, Occasion, PolicyDecision, Presence,
    SideEffectGate, load_agent,
};
use holodeck_validators::{ClaudeCliKind, ClaudeEnv};

use crate::setup::{PATH, cli, limits, no};

/// An agent file and its surroundings.
pub(crate) struct Yaml {
    pub(crate) agent: LoadedAgent,
    pub(crate) env: Env,
    pub(crate) tools: Arc<dyn ToolHost>,
    pub(crate) side_effects: SideEffects,
    pub(crate) variables: Vec<(String, String)>,
}

/// An agent in `folder` with further lines of `model:` (indented by two) and further blocks.
pub(crate) fn agent(folder: &Path, model: &str, rest: &str, env: &[(&str, &str)]) -> Yaml {
    let path = folder.join("agent.yaml");
    let text = format!(
        "name: test\nmodel:\n  provider: anthropic\n{model}\ninstructions:\n  inline: be brief\n{rest}"
    );
    let env: Env = env.iter().copied().chain([("PATH", PATH)]).collect();
    let load = load_agent(&path, &env, &MemoryFiles::new().with(&path, text));
    Yaml {
        agent: load.agent.unwrap_or_else(|| panic!("{:#?}", load.diagnostics)),
        env,
        tools: Arc::new(NoTools),
        side_effects: SideEffects::AsConfigured,
        variables: Vec::new(),
    }
}

/// The same, signed in with a key at `url`.
pub(crate) fn agent_at(url: &str, folder: &Path, rest: &str) -> Yaml {
    let model = format!("  name: claude-sonnet-4-5\n  endpoint: {url}");
    agent(folder, &model, rest, &[("ANTHROPIC_API_KEY", "sk-ant-yaml-key")])
}

impl Yaml {
    pub(crate) fn options(&self) -> Result<ClaudeOptions, BackendError> {
        let cli = ClaudeCli {
            path: cli(),
            version: CliVersion::new(2, 1, 330),
            kind: ClaudeCliKind::Native,
        };
        let policy = ApprovalPolicy::new(&self.agent.config, HOLODECK_SERVER);
        let options = ClaudeOptions::of_agent(&AgentSetup {
            agent: &self.agent,
            cli: &cli,
            credentials: &ClaudeEnv::for_agent(&self.agent, &self.env).unwrap(),
            env: &self.env,
            tools: Arc::clone(&self.tools),
            approver: Arc::new(Nobody(policy.clone())),
            policy: &policy,
            side_effects: self.side_effects,
            reuse: Reuse::Never,
            variables: self.variables.clone(),
        })?;
        Ok(options.limits(limits()))
    }
}

/// The policy of a test with `--allow-side-effects`: what it can't decide is refused.
struct Nobody(ApprovalPolicy);

#[async_trait]
impl Approver for Nobody {
    fn decide(&self, ask: &ApprovalAsk) -> Option<(ApprovalDecision, DecidedBy)> {
        let context = ApprovalContext {
            occasion: Occasion::Test,
            presence: Presence::Nobody,
            side_effects: SideEffectGate::Open,
        };
        let decision = match self.0.decide(&ask.tool_name, context) {
            PolicyDecision::Approve => ApprovalDecision::approve(),
            PolicyDecision::Reject { reason } => no(&reason),
            PolicyDecision::AskPerson { .. } => return None,
        };
        Some((decision, DecidedBy::Mode))
    }
}
