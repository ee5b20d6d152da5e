//! Whether a tool call may run, as far as that can be decided without asking a person.

mod rule;
mod ruling;

use std::{collections::HashSet, time::Duration};

use serde_json::Value;

use crate::{
    Agent, AgentFolders, ApprovalPriority, ApprovalsConfig, CallPath, CallPattern, ClaudeConfig,
    NonInteractive, Occasion, OnApprovalTimeout, PathAccess, PermissionMode, RuleDecision, ToolIdentity,
    ToolKind, ToolNames, ToolOrigin, ToolPattern, Zone, path_access,
    tool_pattern::{matches_any, matches_real},
    value::{CliText, PathGlob, is_within},
};

use rule::{Entry, Rule, Verdict};
pub use ruling::{
    ApprovalContext, PolicyCall, PolicyDecision, PolicyRuling, Presence, RulingBasis, SideEffectGate,
};

/// Built-in tools that change files.
const EDITS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// Decides about tool calls: first lists and rules that name the tool, then where the files of the call are, then where
/// the tool comes from and `claude.permission_mode`.
#[derive(Clone, Debug)]
pub struct ApprovalPolicy {
    settings: ApprovalsConfig,
    rules: Vec<Rule>,
    /// As written; absent is not the same as `manual`.
    mode: Option<PermissionMode>,
    /// Built-in tools that the YAML switches on.
    enabled: HashSet<String>,
    names: ToolNames,
    has_builtins: bool,
    folders: AgentFolders,
    /// The entries of `claude.disallowed_tools` and `claude.allowed_tools`.
    denied: Vec<Entry>,
    allowed: Vec<Entry>,
}

impl ApprovalPolicy {
    /// The policy of an agent, without folders: every file is outside.
    pub fn new(agent: &Agent) -> Self {
        let is_claude = agent.is_claude();
        let claude = agent.claude.as_ref().filter(|_| is_claude);
        let mut policy = Self {
            rules: Vec::new(),
            settings: agent.approvals.clone().unwrap_or_default(),
            mode: claude.and_then(|claude| claude.permission_mode),
            enabled: claude.map(enabled_tools).unwrap_or_default(),
            names: ToolNames::of(agent),
            has_builtins: is_claude,
            folders: AgentFolders::default(),
            denied: Vec::new(),
            allowed: Vec::new(),
        };
        policy.resolve(|glob| glob);
        let entries = |list: Option<&Vec<String>>| {
            let entries = list.into_iter().flatten();
            entries.map(|written| Entry::new(written)).collect()
        };
        policy.denied = entries(claude.and_then(|claude| claude.disallowed_tools.as_ref()));
        policy.allowed = entries(claude.and_then(|claude| claude.allowed_tools.as_ref()));
        policy
    }

    /// The policy with the agent's folders. `resolve` adds to a pattern the place that its beginning really names.
    #[must_use]
    pub fn with_folders(mut self, folders: AgentFolders, resolve: impl Fn(PathGlob) -> PathGlob) -> Self {
        self.folders = folders;
        self.resolve(&resolve);
        for entry in self.denied.iter_mut().chain(&mut self.allowed) {
            entry.pattern = ToolPattern::parse(&entry.written, &self.folders.bases)
                .ok()
                .map(|pattern| pattern.map_paths(&resolve));
        }
        self
    }

    fn resolve(&mut self, resolve: impl Fn(PathGlob) -> PathGlob) {
        let rules = self.settings.rules.iter();
        self.rules = rules
            .map(|rule| Rule::new(rule, &self.folders.bases, &resolve))
            .collect();
    }

    /// Whether a call of `tool` that names no path, or only some in the agent's folders, may run.
    pub fn decide(&self, tool: &str, context: ApprovalContext) -> PolicyDecision {
        let call = PolicyCall {
            tool,
            arguments: &Value::Null,
            paths: &[],
            reason: None,
        };
        self.rule_on(&call, Zone::Inside, context).decision
    }

    /// Whether a call may run, and the rule that decided.
    pub fn decide_call(&self, call: &PolicyCall<'_>, context: ApprovalContext) -> PolicyRuling {
        let identity = self.identify(call.tool);
        let zones = call.paths.iter().map(|path| {
            let zone = self.folders.zone(path, call.reason);
            if self.searches_protected(path, &identity) {
                zone.max(Zone::Protected)
            } else {
                zone
            }
        });
        let zone = if self.has_builtins && path_access(call.tool).is_some() && call.paths.is_empty() {
            Zone::Unresolved
        } else {
            zones.max().unwrap_or(Zone::Inside)
        };
        self.rule_on(call, zone, context)
    }

    fn rule_on(&self, call: &PolicyCall<'_>, zone: Zone, context: ApprovalContext) -> PolicyRuling {
        let identity = self.identify(call.tool);
        if let Some((basis, rule, reason)) = self.refusal(call, &identity, zone, context) {
            return PolicyRuling {
                decision: PolicyDecision::Reject { reason },
                basis,
                rule,
                zone,
            };
        }
        let (decision, basis, rule) = match self.matching_rule(call, &identity, zone) {
            Some((index, verdict)) => self.apply(verdict, index, &identity, zone, context),
            None if zone > Zone::Inside => self.decide_place(&identity, zone, context),
            None => self.decide_by_mode(call.tool, &identity, context),
        };
        PolicyRuling {
            decision,
            basis,
            rule,
            zone,
        }
    }

    /// Why a call cannot run under any rule of `approvals:`.
    fn refusal(
        &self,
        call: &PolicyCall<'_>,
        identity: &ToolIdentity,
        zone: Zone,
        context: ApprovalContext,
    ) -> Option<(RulingBasis, String, String)> {
        let tool = call.tool;
        let is_builtin = identity.origin == ToolOrigin::BuiltIn;
        let is_withheld =
            context.occasion == Occasion::Test && context.side_effects == SideEffectGate::Closed;
        if is_withheld && is_builtin && ClaudeConfig::may_change_something(tool) {
            let reason = format!("`{tool}` is not allowed in tests without `--allow-side-effects`");
            return Some((RulingBasis::Mode, "tests change nothing".to_owned(), reason));
        }
        // Tools of this process that are not in the file have names in lower case.
        let is_of_cli = is_builtin && tool.starts_with(|first: char| first.is_ascii_uppercase());
        if is_of_cli && !ClaudeConfig::CLI_TOOLS.contains(&tool) {
            let reason = format!("`{tool}` is a tool of the Claude Code CLI that this version does not know");
            return Some((
                RulingBasis::Mode,
                "unknown built-in tools are rejected".to_owned(),
                reason,
            ));
        }
        if let Some((rule, reason)) = self.list_refusal(call) {
            return Some((RulingBasis::Rule, rule, reason));
        }
        if zone >= Zone::Temporary {
            let reason = format!(
                "this agent may not use `{tool}` here: the path is {}",
                zone.describe()
            );
            return Some((RulingBasis::Folders, zone.rule().to_owned(), reason));
        }
        None
    }

    /// The entry of an allow or deny list that rejects a call by its paths.
    fn list_refusal(&self, call: &PolicyCall<'_>) -> Option<(String, String)> {
        let access = path_access(call.tool)?;
        let reason = |field: &str| {
            format!(
                "`{field}` of this agent does not allow `{}` for this path",
                call.tool
            )
        };
        for entry in self.denied.iter().filter(|entry| entry.has_pattern()) {
            let is_denied = match &entry.pattern {
                Some(pattern) => {
                    let matches = |path: &CallPath| pattern.matches_any(path);
                    pattern.denies(access) && call.paths.iter().any(matches)
                }
                None => path_access(&entry.tool)
                    .is_none_or(|denied| (denied == PathAccess::Write) == (access == PathAccess::Write)),
            };
            if is_denied {
                let field = "claude.disallowed_tools";
                return Some((format!("`{}` in {field}", entry.written), reason(field)));
            }
        }
        let own: Vec<&Entry> = self
            .allowed
            .iter()
            .filter(|entry| entry.tool == call.tool)
            .collect();
        if own.is_empty() || own.iter().any(|entry| !entry.has_pattern()) {
            return None;
        }
        let patterns: Vec<&ToolPattern> = own.iter().filter_map(|entry| entry.pattern.as_ref()).collect();
        let is_allowed = |path: &CallPath| patterns.iter().any(|pattern| pattern.matches_real(path));
        if call.paths.iter().all(is_allowed) {
            return None;
        }
        let field = "claude.allowed_tools";
        Some((format!("no pattern of {field} matches"), reason(field)))
    }

    /// The first rule that names the tool and holds for the call. A rule without `paths` approves only in the agent's
    /// folders, and asks a person there only.
    fn matching_rule(
        &self,
        call: &PolicyCall<'_>,
        identity: &ToolIdentity,
        zone: Zone,
    ) -> Option<(usize, Verdict)> {
        let holds = |rule: &Rule| {
            self.names_tool(rule, identity)
                && rule.fits_arguments(call.arguments)
                && match (&rule.paths, rule.verdict) {
                    (None, Verdict::Fixed(RuleDecision::Reject)) => true,
                    (None, _) => zone == Zone::Inside,
                    (Some(globs), Verdict::Fixed(RuleDecision::Approve)) => {
                        // What is protected is given back by name only, and never by a wildcard.
                        let gives = |glob: &PathGlob, path: &CallPath| {
                            let is_protected = self.folders.zone(path, None) == Zone::Protected;
                            matches_real(glob, path) && (!is_protected || self.folders.is_named(path, glob))
                        };
                        let matches = |path: &CallPath| globs.iter().any(|glob| gives(glob, path));
                        !call.paths.is_empty() && call.paths.iter().all(matches)
                    }
                    (Some(globs), _) => {
                        let matches = |path: &CallPath| globs.iter().any(|glob| matches_any(glob, path));
                        call.paths.iter().any(matches)
                    }
                }
        };
        let mut rules = self.rules.iter().enumerate();
        rules
            .find(|(_, rule)| holds(rule))
            .map(|(index, rule)| (index, rule.verdict))
    }

    /// Whether a search would read a protected file that the CLI does not hide, because a rule gives back a part of it or
    /// gives it to another tool.
    fn searches_protected(&self, path: &CallPath, identity: &ToolIdentity) -> bool {
        let Some(real) = path.path.as_ref().filter(|_| path.access == PathAccess::Search) else {
            return false;
        };
        let gives_all = |own: &str| {
            self.approvals().any(|(rule, globs)| {
                self.names_tool(rule, identity)
                    && globs
                        .iter()
                        .any(|glob| glob.names_in(own) && glob.matches_below(own))
            })
        };
        let mut own = self.folders.protected.iter();
        own.any(|own| is_within(own, real) && self.gives_back(own) && !gives_all(own))
    }

    /// The rules with `paths` that approve.
    fn approvals(&self) -> impl Iterator<Item = (&Rule, &[PathGlob])> {
        self.rules.iter().filter_map(|rule| {
            let is_approval = matches!(rule.verdict, Verdict::Fixed(RuleDecision::Approve));
            let globs = rule.paths.as_deref().filter(|_| is_approval)?;
            Some((rule, globs))
        })
    }

    /// The decision of a rule that holds.
    fn apply(
        &self,
        verdict: Verdict,
        index: usize,
        identity: &ToolIdentity,
        zone: Zone,
        context: ApprovalContext,
    ) -> (PolicyDecision, RulingBasis, String) {
        let rule = format!("approvals.rules[{index}]");
        match verdict {
            Verdict::Fixed(RuleDecision::Approve) => (PolicyDecision::Approve, RulingBasis::Rule, rule),
            Verdict::Fixed(RuleDecision::Reject) => {
                let reason = format!("a rule of this agent rejects `{}`", identity.shown_to_model);
                (PolicyDecision::Reject { reason }, RulingBasis::Rule, rule)
            }
            Verdict::Person(_) if zone > Zone::Inside => self.decide_place(identity, zone, context),
            Verdict::Person(priority) => self.ask(identity, priority, context, rule),
        }
    }

    /// The decision about a call whose files are not simply inside, and that no rule approves.
    fn decide_place(
        &self,
        identity: &ToolIdentity,
        zone: Zone,
        context: ApprovalContext,
    ) -> (PolicyDecision, RulingBasis, String) {
        let tool = &identity.shown_to_model;
        let may_ask =
            zone < Zone::Protected && context.is_local() && self.mode != Some(PermissionMode::AcceptAll);
        let decision = if may_ask {
            PolicyDecision::AskPerson {
                priority: ApprovalPriority::High,
            }
        } else {
            let hint = if zone < Zone::Protected {
                "; a rule of `approvals` with `paths` can allow it"
            } else {
                ""
            };
            reject(format!(
                "this agent may not use `{tool}` here: the path is {}{hint}",
                zone.describe()
            ))
        };
        (decision, RulingBasis::Folders, zone.rule().to_owned())
    }

    /// The decision by the origin of the tool and the permission mode.
    fn decide_by_mode(
        &self,
        tool: &str,
        identity: &ToolIdentity,
        context: ApprovalContext,
    ) -> (PolicyDecision, RulingBasis, String) {
        let is_builtin = identity.origin == ToolOrigin::BuiltIn;
        let approve = |rule: &str| (PolicyDecision::Approve, RulingBasis::Mode, rule.to_owned());
        if identity.origin == ToolOrigin::Declared {
            return approve("the tool is declared in the YAML");
        }
        match self.mode {
            Some(PermissionMode::AcceptAll) => approve("claude.permission_mode: acceptAll"),
            Some(PermissionMode::AcceptEdits) if is_builtin && EDITS.contains(&tool) => {
                approve("claude.permission_mode: acceptEdits")
            }
            Some(PermissionMode::AcceptEdits | PermissionMode::Manual) => {
                self.ask(identity, None, context, "claude.permission_mode".to_owned())
            }
            None if context.is_attended() => {
                self.ask(identity, None, context, "no claude.permission_mode".to_owned())
            }
            // All servers come from the YAML.
            None if !is_builtin || self.enabled.contains(tool) => approve("the YAML enables the tool"),
            None => (
                reject(format!("this agent's YAML does not enable `{tool}`")),
                RulingBasis::Mode,
                "the YAML does not enable the tool".to_owned(),
            ),
        }
    }

    /// Whether a person must decide about a call of `tool` in the agent's folders. Without a person, `non_interactive`
    /// decides.
    pub fn needs_person(&self, tool: &str, context: ApprovalContext) -> bool {
        let call = PolicyCall {
            tool,
            arguments: &Value::Null,
            paths: &[],
            reason: None,
        };
        let ruling = self.rule_on(&call, Zone::Inside, context);
        ruling.basis == RulingBasis::NonInteractive
            || matches!(ruling.decision, PolicyDecision::AskPerson { .. })
    }

    /// Whether a rule names a tool: the CLI must then ask even about calls that it would allow by itself.
    pub fn has_rule_for(&self, tool: &str) -> bool {
        let identity = self.identify(tool);
        self.rules.iter().any(|rule| self.names_tool(rule, &identity))
    }

    /// The folders.
    pub fn folders(&self) -> &AgentFolders {
        &self.folders
    }

    /// Whether a rule with `paths` names a protected file or folder, or something in it, and gives it to the agent.
    pub fn gives_back(&self, protected: &str) -> bool {
        self.approvals()
            .any(|(_, globs)| globs.iter().any(|glob| glob.names_in(protected)))
    }

    /// The entries and patterns of the file that cannot be applied, with the reason. They reject calls until they can.
    pub fn problems(&self) -> Vec<String> {
        let bases = &self.folders.bases;
        let lists = [
            ("claude.disallowed_tools", &self.denied),
            ("claude.allowed_tools", &self.allowed),
        ];
        let entries = lists.into_iter().flat_map(|(field, list)| {
            list.iter().filter_map(move |entry| {
                let reason = ToolPattern::parse(&entry.written, bases).err()?;
                Some(format!(
                    "`{}` in `{field}` cannot be applied: {reason}",
                    entry.written
                ))
            })
        });
        let rules = self.settings.rules.iter();
        let paths = rules.filter_map(|rule| rule.paths.as_ref()).flat_map(|paths| {
            paths.as_slice().iter().filter_map(|path| {
                let reason = PathGlob::parse(path, bases).err()?;
                Some(format!(
                    "`{path}` in `paths` of a rule of `approvals` cannot be applied: {reason}"
                ))
            })
        });
        entries.chain(paths).collect()
    }

    /// The protected files and folders of which a rule gives the agent something.
    pub fn given_back(&self) -> impl Iterator<Item = &str> {
        let protected = self.folders.protected.iter().map(String::as_str);
        protected.filter(|place| self.gives_back(place))
    }

    /// The rules by which the CLI itself denies, in its syntax: for protected files that are not given back, and the
    /// entries of the deny list with a pattern for paths.
    pub fn cli_denials(&self) -> Vec<CliText> {
        let own = self.folders.own_folders().filter(|_| {
            let mut globs = self.approvals().flat_map(|(_, globs)| globs);
            !globs.any(PathGlob::has_own_folder)
        });
        let named = self.folders.protected.iter();
        let named = named.filter(|place| !self.gives_back(place));
        let protected = own
            .chain(named.map(|place| PathGlob::literal(place)))
            .flat_map(|glob| glob.to_cli())
            .flat_map(|place| [place.between("Read(", ")"), place.between("Edit(", ")")]);
        let listed = self.denied.iter().filter_map(|entry| entry.pattern.as_ref());
        let listed = listed.filter(|pattern| matches!(pattern.calls, Some(CallPattern::Paths(_))));
        protected.chain(listed.flat_map(ToolPattern::to_cli)).collect()
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
        rule: String,
    ) -> (PolicyDecision, RulingBasis, String) {
        if context.is_attended() {
            let priority = priority.unwrap_or_else(|| ApprovalPriority::of_tool(self.names.own_name(tool)));
            return (PolicyDecision::AskPerson { priority }, RulingBasis::Mode, rule);
        }
        let decision = match self.settings.non_interactive {
            NonInteractive::Approve => PolicyDecision::Approve,
            NonInteractive::Reject => reject(format!(
                "`{}` needs approval, and no person is available to give it",
                tool.shown_to_model
            )),
        };
        (
            decision,
            RulingBasis::NonInteractive,
            "approvals.non_interactive".to_owned(),
        )
    }

    fn names_tool(&self, rule: &Rule, tool: &ToolIdentity) -> bool {
        rule.tools.iter().any(|glob| self.names.matches(glob, tool))
    }

    /// An unknown name is treated like a tool of a server, or of the CLI if it cannot be one of a server.
    fn identify(&self, tool: &str) -> ToolIdentity {
        let known = self.names.identify(tool);
        let is_of_cli = self.has_builtins && tool.starts_with(|first: char| first.is_ascii_uppercase());
        known.unwrap_or_else(|| ToolIdentity {
            kind: if is_of_cli {
                ToolKind::Builtin
            } else {
                ToolKind::Mcp
            },
            origin: if is_of_cli {
                ToolOrigin::BuiltIn
            } else {
                ToolOrigin::External
            },
            declared: tool.to_owned(),
            shown_to_model: tool.to_owned(),
            on_the_wire: tool.to_owned(),
        })
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
    let tools = claude.all_built_in_tools().into_iter();
    tools
        .flat_map(|tool| with(tool).iter().copied().chain([tool]))
        .map(str::to_owned)
        .collect()
}

fn reject(reason: String) -> PolicyDecision {
    PolicyDecision::Reject { reason }
}
