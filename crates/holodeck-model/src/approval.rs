//! Whether a tool call may run, as far as that can be decided without asking a person.

use std::{collections::HashSet, time::Duration};

use crate::{
    Agent, ApprovalPriority, ApprovalRule, ApprovalsConfig, ClaudeConfig, NonInteractive, OnApprovalTimeout,
    PermissionMode, Provider, RuleDecision, ToolIdentity, ToolNames, ToolOrigin, value::Glob,
};

/// Built-in tools that change files.
const EDITS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// The occasion on which an agent runs. Backends, policies and telemetry all receive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Test cases. A person is never asked.
    Test,
    /// One question.
    Run,
    /// A server.
    Serve,
    /// A conversation.
    Chat,
}

/// Who can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A person.
    Person,
    /// No person.
    None,
}

/// Whether a test may use the built-in tools that change files or run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffectGate {
    /// It may: `--allow-side-effects` was given.
    Open,
    /// It may not.
    #[default]
    Closed,
}

/// The circumstances of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalContext {
    /// The occasion on which the agent runs.
    pub occasion: Occasion,
    /// Who can be asked.
    pub presence: Presence,
    /// Applies only to tests.
    pub side_effects: SideEffectGate,
}

/// The decision of a policy about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// It runs.
    Approve,
    /// It does not run.
    Reject {
        /// The reason that is sent to the model.
        reason: String,
    },
    /// A person decides.
    AskPerson {
        /// How urgent the question is.
        priority: ApprovalPriority,
    },
}

/// Decides about tool calls: first a rule of `approvals:` that names the tool, then where the tool comes from, then
/// `claude.permission_mode`.
#[derive(Clone, Debug)]
pub struct ApprovalPolicy {
    settings: ApprovalsConfig,
    rules: Vec<Rule>,
    /// As written; absent is not the same as `manual`.
    mode: Option<PermissionMode>,
    /// Built-in tools that the YAML switches on.
    enabled: HashSet<String>,
    names: ToolNames,
}

#[derive(Clone, Debug)]
struct Rule {
    tools: Vec<Glob>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Fixed(RuleDecision),
    Person(Option<ApprovalPriority>),
}

impl ApprovalPolicy {
    /// The policy of an agent.
    pub fn new(agent: &Agent) -> Self {
        let settings = agent.approvals.clone().unwrap_or_default();
        let is_claude = agent.model.provider == Provider::Anthropic;
        let claude = agent.claude.as_ref().filter(|_| is_claude);
        Self {
            rules: settings.rules.iter().map(Rule::new).collect(),
            settings,
            mode: claude.and_then(|claude| claude.permission_mode),
            enabled: claude.map(enabled_tools).unwrap_or_default(),
            names: ToolNames::of(agent),
        }
    }

    /// Whether a call of `tool`, as the model or the CLI names it, may run.
    pub fn decide(&self, tool: &str, context: ApprovalContext) -> PolicyDecision {
        let identity = self.identify(tool);
        match self.without_person(tool, &identity, context) {
            Ok(decision) => decision,
            Err(priority) => self.ask(&identity, priority, context),
        }
    }

    /// Whether a person must decide about a call of `tool`. Without a person, `non_interactive` decides.
    pub fn needs_person(&self, tool: &str, context: ApprovalContext) -> bool {
        self.without_person(tool, &self.identify(tool), context).is_err()
    }

    /// The decision about a call, or the priority of the question to a person.
    fn without_person(
        &self,
        tool: &str,
        identity: &ToolIdentity,
        context: ApprovalContext,
    ) -> Result<PolicyDecision, Option<ApprovalPriority>> {
        let is_builtin = identity.origin == ToolOrigin::BuiltIn;
        let is_withheld =
            context.occasion == Occasion::Test && context.side_effects == SideEffectGate::Closed;
        if is_withheld && is_builtin && ClaudeConfig::may_change_something(tool) {
            return Ok(reject(format!(
                "`{tool}` is not allowed in tests without `--allow-side-effects`"
            )));
        }
        if let Some(rule) = self.rule(identity) {
            return match rule.verdict {
                Verdict::Fixed(RuleDecision::Approve) => Ok(PolicyDecision::Approve),
                Verdict::Fixed(RuleDecision::Reject) => Ok(reject(format!(
                    "a rule of this agent rejects `{}`",
                    identity.shown_to_model
                ))),
                Verdict::Person(priority) => Err(priority),
            };
        }
        if identity.origin == ToolOrigin::Declared {
            return Ok(PolicyDecision::Approve);
        }
        match self.mode {
            Some(PermissionMode::AcceptAll) => Ok(PolicyDecision::Approve),
            Some(PermissionMode::AcceptEdits) if is_builtin && EDITS.contains(&tool) => {
                Ok(PolicyDecision::Approve)
            }
            Some(PermissionMode::AcceptEdits | PermissionMode::Manual) => Err(None),
            None if context.is_attended() => Err(None),
            // All servers come from the YAML.
            None if !is_builtin || self.enabled.contains(tool) => Ok(PolicyDecision::Approve),
            None => Ok(reject(format!("this agent's YAML does not enable `{tool}`"))),
        }
    }

    /// Whether a rule names a tool: the CLI must then ask even about calls that it would allow by itself.
    pub fn has_rule_for(&self, tool: &str) -> bool {
        self.rule(&self.identify(tool)).is_some()
    }

    /// How long a person may take; `None`: no limit.
    pub fn timeout(&self) -> Option<Duration> {
        let seconds = self.settings.timeout_seconds?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// How to decide if a person takes longer.
    pub fn on_timeout(&self) -> OnApprovalTimeout {
        self.settings.on_timeout
    }

    /// Asks the person if present, else applies `non_interactive`.
    fn ask(
        &self,
        tool: &ToolIdentity,
        priority: Option<ApprovalPriority>,
        context: ApprovalContext,
    ) -> PolicyDecision {
        if context.is_attended() {
            let priority = priority.unwrap_or_else(|| ApprovalPriority::of_tool(self.names.own_name(tool)));
            return PolicyDecision::AskPerson { priority };
        }
        match self.settings.non_interactive {
            NonInteractive::Approve => PolicyDecision::Approve,
            NonInteractive::Reject => reject(format!(
                "`{}` needs approval, and no person is available to give it",
                tool.shown_to_model
            )),
        }
    }

    fn rule(&self, tool: &ToolIdentity) -> Option<&Rule> {
        let matches = |rule: &&Rule| rule.tools.iter().any(|glob| self.names.matches(glob, tool));
        self.rules.iter().find(matches)
    }

    /// An unknown name is treated like a tool of a server.
    fn identify(&self, tool: &str) -> ToolIdentity {
        let known = self.names.identify(tool);
        known.unwrap_or_else(|| ToolIdentity {
            kind: crate::ToolKind::Mcp,
            origin: ToolOrigin::External,
            declared: tool.to_owned(),
            shown_to_model: tool.to_owned(),
            on_the_wire: tool.to_owned(),
        })
    }
}

impl ApprovalContext {
    fn is_attended(self) -> bool {
        self.presence == Presence::Person && self.occasion != Occasion::Test
    }
}

impl Rule {
    fn new(rule: &ApprovalRule) -> Self {
        let verdict = match rule.decision {
            Some(decision) => Verdict::Fixed(decision),
            None => Verdict::Person(rule.priority),
        };
        Self {
            tools: rule.tools.as_slice().iter().map(|glob| Glob::new(glob)).collect(),
            verdict,
        }
    }
}

/// The built-in tools that a `claude:` block enables, for the agent or its sub-agents, with the tools that belong to
/// them and their former names.
fn enabled_tools(claude: &ClaudeConfig) -> HashSet<String> {
    let with = |tool: &str| -> &[&str] {
        match tool {
            "Bash" => &["BashOutput", "KillShell"],
            "Read" => &["LS"],
            "Edit" => &["MultiEdit", "NotebookEdit"],
            "Agent" => &["Task"],
            _ => &[],
        }
    };
    let own = claude
        .built_in_tools()
        .into_iter()
        .flat_map(|tool| with(tool).iter().copied().chain([tool]))
        .map(str::to_owned);
    let of_subagents = claude
        .agents
        .values()
        .filter(|_| claude.has_subagents())
        .flat_map(|agent| agent.tools.iter().flatten().cloned());
    own.chain(of_subagents).collect()
}

fn reject(reason: String) -> PolicyDecision {
    PolicyDecision::Reject { reason }
}
