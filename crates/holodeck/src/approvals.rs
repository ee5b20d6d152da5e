use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{
    ApprovalAsk, ApprovalDecision, Approver, CallRefusal, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_model::{
    Agent, ApprovalContext, ApprovalPolicy, Occasion, PolicyDecision, Presence, Provider, SideEffectGate,
};
use tokio_util::sync::CancellationToken;

/// The policy of an agent whose tools are offered by this facade.
pub fn approval_policy(agent: &Agent) -> ApprovalPolicy {
    ApprovalPolicy::new(agent)
}

/// Answers by the policy alone: nobody is there to be asked, and nothing waits.
#[derive(Clone, Debug)]
pub struct PolicyApprover {
    policy: ApprovalPolicy,
    context: ApprovalContext,
}

impl PolicyApprover {
    /// An approver for `occasion`. `side_effects` counts in tests only.
    pub fn new(policy: ApprovalPolicy, occasion: Occasion, side_effects: SideEffectGate) -> Self {
        Self {
            policy,
            context: ApprovalContext {
                occasion,
                presence: Presence::Nobody,
                side_effects,
            },
        }
    }

    /// The policy.
    pub fn policy(&self) -> &ApprovalPolicy {
        &self.policy
    }
}

#[async_trait]
impl Approver for PolicyApprover {
    async fn decide(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        match self.policy.decide(&ask.tool_name, self.context) {
            PolicyDecision::Approve => ApprovalDecision::approve(),
            PolicyDecision::Reject { reason } => ApprovalDecision::Reject { reason },
            PolicyDecision::AskPerson { .. } => ApprovalDecision::Reject {
                reason: "nobody is there to approve it".to_owned(),
            },
        }
    }
}

/// Tools that run only if `approvals:` lets them. The Claude CLI asks by itself; other backends get their tools
/// through this.
pub(crate) fn under_approvals(agent: &Agent, tools: Arc<dyn ToolHost>) -> Arc<dyn ToolHost> {
    let ruled = agent
        .approvals
        .as_ref()
        .is_some_and(|approvals| !approvals.rules.is_empty());
    if agent.model.provider == Provider::Anthropic || !ruled {
        return tools;
    }
    let approver = PolicyApprover::new(approval_policy(agent), Occasion::Run, SideEffectGate::Closed);
    Arc::new(ApprovedTools { tools, approver })
}

struct ApprovedTools<A> {
    tools: Arc<dyn ToolHost>,
    approver: A,
}

#[async_trait]
impl<A: Approver> ToolHost for ApprovedTools<A> {
    fn specs(&self) -> &[ToolSpec] {
        self.tools.specs()
    }

    fn current(&self) -> Cow<'_, [ToolSpec]> {
        self.tools.current()
    }

    fn shown(&self, unit: Option<&str>, message: u32) -> Cow<'_, [ToolSpec]> {
        self.tools.shown(unit, message)
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let ask = ApprovalAsk {
            tool_name: call.name.clone(),
            arguments: call.arguments.clone(),
            call_id: call.call_id.clone(),
            description: None,
            agent_id: None,
        };
        match self.approver.decide(&ask, &cx.cancel).await {
            ApprovalDecision::Approve { arguments: None } => self.tools.call(call, cx).await,
            ApprovalDecision::Approve {
                arguments: Some(arguments),
            } => {
                let call = ToolCall {
                    arguments,
                    ..call.clone()
                };
                self.tools.call(&call, cx).await
            }
            ApprovalDecision::Reject { reason } => Ok(ToolOutput::refused(CallRefusal::Rejected, reason)),
            ApprovalDecision::Terminate { .. } | ApprovalDecision::Withdrawn => Err(ToolError::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests {
    use holodeck_model::{Env, MemoryFiles, load_agent};
    use holodeck_testkit::ScriptedTools;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn agent(provider: &str, approvals: &str) -> Agent {
        let text = format!(
            "name: a\nmodel: {{provider: {provider}, name: m}}\ninstructions: {{inline: Hi}}\n\
             tools: [{{type: function, name: echo, description: E., command: cat, parameters: {{}}}}]\n{approvals}\n"
        );
        let files = MemoryFiles::new().with("agent.yaml", text);
        let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
        load.agent.unwrap().config
    }

    fn call(arguments: Value) -> ToolCall {
        ToolCall {
            name: "echo".to_owned(),
            arguments,
            call_id: "1".to_owned(),
        }
    }

    struct Says(ApprovalDecision);

    #[async_trait]
    impl Approver for Says {
        async fn decide(&self, _: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn what_a_rule_rejects_does_not_run_and_the_model_is_told() {
        let tools = Arc::new(ScriptedTools::default());
        let rejecting = agent("ollama", "approvals: {rules: [{tools: echo, decision: reject}]}");
        let ruled = under_approvals(&rejecting, tools.clone());
        assert_eq!(ruled.specs().len(), tools.specs().len());
        let output = ruled.call(&call(json!({})), ToolCx::default()).await.unwrap();
        let rejected = ToolOutput::refused(CallRefusal::Rejected, "a rule of this agent rejects `echo`");
        assert_eq!(output, rejected);
        assert_eq!(tools.called(), []);
    }

    #[tokio::test]
    async fn what_needs_a_person_is_answered_as_the_yaml_says() {
        for (answer, runs) in [("reject", false), ("approve", true)] {
            let tools = Arc::new(ScriptedTools::default());
            let block =
                format!("approvals: {{non_interactive: {answer}, rules: [{{tools: '*', approver: human}}]}}");
            let ruled = under_approvals(&agent("openai", &block), tools.clone());
            ruled
                .call(&call(json!({"text": "x"})), ToolCx::default())
                .await
                .unwrap();
            assert_eq!(!tools.called().is_empty(), runs, "{answer}");
        }
    }

    #[tokio::test]
    async fn an_approver_may_change_arguments_or_end_the_turn() {
        let tools = Arc::new(ScriptedTools::default());
        let says = |decision| ApprovedTools {
            tools: tools.clone(),
            approver: Says(decision),
        };
        let changed = says(ApprovalDecision::Approve {
            arguments: Some(json!({"text": "changed"})),
        });
        let output = changed
            .call(&call(json!({"text": "x"})), ToolCx::default())
            .await
            .unwrap();
        assert!(output.text.contains("changed"), "{output:?}");
        let ended = says(ApprovalDecision::Terminate {
            reason: "no".to_owned(),
        });
        let error = ended.call(&call(json!({})), ToolCx::default()).await.unwrap_err();
        assert!(matches!(error, ToolError::Cancelled));
    }

    #[tokio::test]
    async fn the_policy_answers_when_nobody_is_there() {
        let agent = agent("anthropic", "claude: {permission_mode: manual}");
        let approver = PolicyApprover::new(approval_policy(&agent), Occasion::Chat, SideEffectGate::Open);
        let mut answers = Vec::new();
        for tool in ["mcp__holodeck_tools__echo", "Bash"] {
            let ask = ApprovalAsk {
                tool_name: tool.to_owned(),
                arguments: json!({}),
                call_id: "1".to_owned(),
                description: None,
                agent_id: None,
            };
            answers.push(
                approver
                    .decide(&ask, &CancellationToken::new())
                    .await
                    .is_approved(),
            );
        }
        assert_eq!(answers, [true, false]);
    }
}
