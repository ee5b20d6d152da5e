//! Decides tool calls by the approval policy of the YAML.
//!
//! The approver here never asks a person; it only leaves calls open for one.

use async_trait::async_trait;
use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, Approver, DecidedBy};
use holodeck_model::{
    Agent, ApprovalContext, ApprovalPolicy, Occasion, PolicyDecision, Presence, SideEffectGate,
};

/// The approval policy of an agent.
pub fn approval_policy(agent: &Agent) -> ApprovalPolicy {
    ApprovalPolicy::new(agent)
}

/// Decides by the policy alone, for runs without a person to ask.
#[derive(Clone, Debug)]
pub struct PolicyApprover {
    policy: ApprovalPolicy,
    context: ApprovalContext,
}

impl PolicyApprover {
    /// An approver for `occasion`. `side_effects` applies only in tests.
    pub fn new(policy: ApprovalPolicy, occasion: Occasion, side_effects: SideEffectGate) -> Self {
        Self {
            policy,
            context: ApprovalContext {
                occasion,
                presence: Presence::None,
                side_effects,
            },
        }
    }

    /// Leaves to a person what the policy does not decide.
    pub fn with_person(mut self) -> Self {
        self.context.presence = Presence::Person;
        self
    }

    /// The policy.
    pub fn policy(&self) -> &ApprovalPolicy {
        &self.policy
    }
}

#[async_trait]
impl Approver for PolicyApprover {
    fn decide(&self, ask: &ApprovalAsk) -> Option<(ApprovalDecision, DecidedBy)> {
        let tool = &ask.tool_name;
        let decision = match self.policy.decide(tool, self.context) {
            PolicyDecision::Approve => ApprovalDecision::approve(),
            PolicyDecision::Reject { reason } => ApprovalDecision::Reject { reason },
            PolicyDecision::AskPerson { .. } => return None,
        };
        let by = if self.policy.needs_person(tool, self.context) {
            DecidedBy::NonInteractive
        } else if self.policy.has_rule_for(tool) {
            DecidedBy::Rule
        } else {
            DecidedBy::Mode
        };
        Some((decision, by))
    }

    fn has_person(&self) -> bool {
        self.context.presence == Presence::Person
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::{Env, MemoryFiles};
    use holodeck_yaml::load_agent;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn decisions(provider: &str, block: &str, tools: &[&str]) -> Vec<Option<(ApprovalDecision, DecidedBy)>> {
        let text = format!(
            "name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\n\
             tools: [{{type: function, name: echo, description: E., command: cat, parameters: {{}}}}]\n{block}\n"
        );
        let files = MemoryFiles::new().with("agent.yaml", text);
        let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
        let policy = approval_policy(&load.agent.unwrap().config);
        let approver = PolicyApprover::new(policy, Occasion::Chat, SideEffectGate::Open);
        let decide = |tool: &&str| {
            approver.decide(&ApprovalAsk {
                tool_name: (*tool).to_owned(),
                arguments: json!({}),
                call_id: "1".to_owned(),
                description: None,
                agent_id: None,
                answer_schema: None,
            })
        };
        tools.iter().map(decide).collect()
    }

    #[test]
    fn a_decision_names_what_made_it() {
        let rejects = "approvals: {rules: [{tools: echo, decision: reject}]}";
        assert_eq!(
            decisions("ollama", rejects, &["echo"]),
            [Some((
                ApprovalDecision::reject("a rule of this agent rejects `echo`"),
                DecidedBy::Rule
            ))]
        );
        let manual = "claude: {permission_mode: manual}";
        assert_eq!(
            decisions("anthropic", manual, &["mcp__holodeck_tools__echo", "Bash"]),
            [
                Some((ApprovalDecision::approve(), DecidedBy::Mode)),
                Some((
                    ApprovalDecision::reject("`Bash` needs approval, and no person is available to give it"),
                    DecidedBy::NonInteractive
                ))
            ]
        );
    }

    #[test]
    fn what_needs_a_person_is_decided_by_the_yaml() {
        for (answer, runs) in [("reject", false), ("approve", true)] {
            let block =
                format!("approvals: {{non_interactive: {answer}, rules: [{{tools: '*', approver: human}}]}}");
            let [Some((decision, DecidedBy::NonInteractive))] = &decisions("openai", &block, &["echo"])[..]
            else {
                panic!("{answer}");
            };
            assert_eq!(decision.is_approved(), runs, "{answer}");
        }
    }
}
