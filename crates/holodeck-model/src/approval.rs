//! Whether a tool call may run, as far as that can be told without asking anyone.

use std::{collections::HashSet, time::Duration};

use crate::{
    Agent, ApprovalPriority, ApprovalRule, ApprovalsConfig, ClaudeConfig, NonInteractive, OnApprovalTimeout,
    PermissionMode, Provider, RuleDecision, ToolConfig, value::Glob,
};

/// Built-in tools that change files.
const EDITS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// What an agent runs for. The one place that says so: backends, policies and telemetry all receive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Test cases. No person is ever asked.
    Test,
    /// One question.
    Run,
    /// A server.
    Serve,
    /// A conversation.
    Chat,
}

/// Who is there to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A person.
    Person,
    /// Nobody.
    Nobody,
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
    /// What the agent runs for.
    pub occasion: Occasion,
    /// Who is there to be asked.
    pub presence: Presence,
    /// Counts in tests only.
    pub side_effects: SideEffectGate,
}

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolOrigin {
    /// A `vectorstore`, `hierarchical_document`, `function` or `prompt` tool of the YAML.
    Declared,
    /// A tool of the CLI.
    BuiltIn,
    /// A tool of an MCP server of the YAML.
    External,
}

/// What a policy says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// It runs.
    Approve,
    /// It does not run.
    Reject {
        /// What the model is told.
        reason: String,
    },
    /// A person decides.
    AskPerson {
        /// How much the question matters.
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
    /// Whether names without `mcp__` are tools of the CLI.
    has_built_ins: bool,
    enabled: HashSet<String>,
    declared: HashSet<String>,
    servers: Vec<String>,
    /// What names of tools that run in our own process begin with.
    in_process: String,
}

#[derive(Clone, Debug)]
struct Rule {
    tools: Vec<Glob>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Decided(RuleDecision),
    Person(Option<ApprovalPriority>),
}

impl ApprovalPolicy {
    /// The policy of an agent whose own tools are called `mcp__<in_process_server>__<tool>`, or just `<tool>`.
    pub fn new(agent: &Agent, in_process_server: &str) -> Self {
        let settings = agent.approvals.clone().unwrap_or_default();
        let rules = settings.rules.iter().map(Rule::new).collect();
        let is_claude = agent.model.provider == Provider::Anthropic;
        let claude = agent.claude.as_ref().filter(|_| is_claude);
        let mut declared = HashSet::new();
        let mut servers = Vec::new();
        for tool in &agent.tools {
            match tool {
                ToolConfig::Mcp(server) => servers.push(server.name.clone()),
                ToolConfig::Vectorstore(_)
                | ToolConfig::HierarchicalDocument(_)
                | ToolConfig::Function(_)
                | ToolConfig::Prompt(_) => {
                    declared.insert(tool.name().to_owned());
                }
            }
        }
        // The longest name first: `a` must not take the tools of `a__b`.
        servers.sort_by_key(|server| std::cmp::Reverse(server.len()));
        Self {
            settings,
            rules,
            mode: claude.and_then(|claude| claude.permission_mode),
            has_built_ins: is_claude,
            enabled: claude.map(enabled_tools).unwrap_or_default(),
            declared,
            servers,
            in_process: format!("mcp__{in_process_server}__"),
        }
    }

    /// Whether a call of `tool`, as the model names it, may run.
    pub fn decide(&self, tool: &str, context: ApprovalContext) -> PolicyDecision {
        let name = self.identify(tool);
        let withheld = context.occasion == Occasion::Test && context.side_effects == SideEffectGate::Closed;
        if withheld && name.origin == ToolOrigin::BuiltIn && ClaudeConfig::SIDE_EFFECT_TOOLS.contains(&tool) {
            return reject(format!(
                "tests withhold `{tool}`; `--allow-side-effects` gives it"
            ));
        }
        if let Some(rule) = self.rule(&name) {
            return match rule.verdict {
                Verdict::Decided(RuleDecision::Approve) => PolicyDecision::Approve,
                Verdict::Decided(RuleDecision::Reject) => {
                    reject(format!("a rule of this agent rejects `{tool}`"))
                }
                Verdict::Person(priority) => self.ask(&name, priority, context),
            };
        }
        if name.origin == ToolOrigin::Declared {
            return PolicyDecision::Approve;
        }
        let someone = context.is_attended();
        match self.mode {
            Some(PermissionMode::AcceptAll) => PolicyDecision::Approve,
            Some(PermissionMode::AcceptEdits)
                if name.origin == ToolOrigin::BuiltIn && EDITS.contains(&tool) =>
            {
                PolicyDecision::Approve
            }
            Some(PermissionMode::AcceptEdits | PermissionMode::Manual) => self.ask(&name, None, context),
            None if someone => self.ask(&name, None, context),
            None if self.is_enabled(&name) => PolicyDecision::Approve,
            None => reject(format!("this agent's YAML does not enable `{tool}`")),
        }
    }

    /// Those of the tools that run in our own process that no rule names: they need not be asked about.
    pub fn auto_allowed_tools<'a>(
        &self,
        in_process_tools: impl IntoIterator<Item = &'a str>,
    ) -> Vec<&'a str> {
        in_process_tools
            .into_iter()
            .filter(|tool| self.rule(&self.in_process_name(tool)).is_none())
            .collect()
    }

    /// Whether a rule names a tool: what the CLI allows by itself must then be asked about all the same.
    pub fn has_rule_for(&self, tool: &str) -> bool {
        self.rule(&self.identify(tool)).is_some()
    }

    /// Where a tool comes from, told from how the model names it.
    pub fn origin(&self, tool: &str) -> ToolOrigin {
        self.identify(tool).origin
    }

    /// How long a person may take; `None`: as long as it takes.
    pub fn timeout(&self) -> Option<Duration> {
        let seconds = self.settings.timeout_seconds?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// What happens when a person took longer.
    pub fn on_timeout(&self) -> OnApprovalTimeout {
        self.settings.on_timeout
    }

    /// The person who is there, else what was settled for when there is none.
    fn ask(
        &self,
        name: &Name<'_>,
        priority: Option<ApprovalPriority>,
        context: ApprovalContext,
    ) -> PolicyDecision {
        if context.is_attended() {
            let priority = priority.unwrap_or_else(|| ApprovalPriority::of_tool(name.own));
            return PolicyDecision::AskPerson { priority };
        }
        match self.settings.non_interactive {
            NonInteractive::Approve => PolicyDecision::Approve,
            NonInteractive::Reject => reject(format!(
                "`{}` needs approval, and nobody is there to give it",
                name.full
            )),
        }
    }

    fn rule(&self, name: &Name<'_>) -> Option<&Rule> {
        let names = [
            Some(name.full.as_str()),
            Some(name.own),
            name.server,
            name.written,
        ];
        self.rules.iter().find(|rule| {
            names
                .iter()
                .flatten()
                .any(|name| rule.tools.iter().any(|glob| glob.matches(name)))
        })
    }

    fn is_enabled(&self, name: &Name<'_>) -> bool {
        match name.origin {
            // Only servers of the YAML exist.
            ToolOrigin::External | ToolOrigin::Declared => true,
            ToolOrigin::BuiltIn => self.enabled.contains(name.own),
        }
    }

    fn identify<'n>(&'n self, tool: &'n str) -> Name<'n> {
        if let Some(own) = tool.strip_prefix(&self.in_process) {
            return self.in_process_name(own);
        }
        if let Some(rest) = tool.strip_prefix("mcp__") {
            let known = self.servers.iter().find_map(|server| {
                let own = rest.strip_prefix(server.as_str())?.strip_prefix("__")?;
                Some((server.as_str(), own))
            });
            let (server, own) = known.or_else(|| rest.split_once("__")).unwrap_or((rest, rest));
            return Name {
                origin: ToolOrigin::External,
                full: tool.to_owned(),
                own,
                server: Some(server),
                written: None,
            };
        }
        if self.has_built_ins {
            return Name {
                origin: ToolOrigin::BuiltIn,
                full: tool.to_owned(),
                own: tool,
                server: None,
                written: None,
            };
        }
        if self.written(tool).is_some() {
            return self.in_process_name(tool);
        }
        Name {
            origin: ToolOrigin::External,
            full: tool.to_owned(),
            own: tool,
            server: None,
            written: None,
        }
    }

    fn in_process_name<'n>(&'n self, own: &'n str) -> Name<'n> {
        Name {
            origin: ToolOrigin::Declared,
            full: format!("{}{own}", self.in_process),
            own,
            server: None,
            written: self.written(own),
        }
    }

    /// The name in the YAML: tools that search are offered as `<name>_search`.
    fn written(&self, own: &str) -> Option<&str> {
        let found = |name: &str| self.declared.get(name).map(String::as_str);
        found(own).or_else(|| found(own.strip_suffix("_search")?))
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
            Some(decision) => Verdict::Decided(decision),
            None => Verdict::Person(rule.priority),
        };
        Self {
            tools: rule.tools.as_slice().iter().map(|glob| Glob::new(glob)).collect(),
            verdict,
        }
    }
}

/// All that a rule may call a tool.
struct Name<'n> {
    origin: ToolOrigin,
    /// With its server.
    full: String,
    /// Without it.
    own: &'n str,
    /// Its MCP server.
    server: Option<&'n str>,
    /// In the YAML.
    written: Option<&'n str>,
}

/// The built-in tools that a `claude:` block switches on, for the agent or for one it starts, with what comes with
/// them or was another name of theirs.
fn enabled_tools(claude: &ClaudeConfig) -> HashSet<String> {
    let with = |tool: &str| -> &[&str] {
        match tool {
            "Bash" => &["Bash", "BashOutput", "KillShell"],
            "Read" => &["Read", "LS"],
            "Glob" => &["Glob"],
            "Grep" => &["Grep"],
            "Write" => &["Write"],
            "Edit" => &["Edit", "MultiEdit", "NotebookEdit"],
            "WebSearch" => &["WebSearch"],
            "Agent" => &["Agent", "Task"],
            _ => &[],
        }
    };
    let own = claude
        .built_in_tools()
        .into_iter()
        .flat_map(with)
        .map(|tool| (*tool).to_owned());
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

#[cfg(test)]
mod tests;
