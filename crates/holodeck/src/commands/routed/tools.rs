//! The tools of a variant of an agent: its own, skills, and of them those that a specialist may use. A specialist can only
//! restrict: nothing here enables a tool.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{
    CallRefusal, RequestPlace, SideEffects, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_model::{
    Agent, AgentMode, ClaudeConfig, Glob, NameMatch, ToolConfig, ToolNames, without_pattern,
};
use holodeck_orchestrator::{AgentDefinition, KnownTools};
use holodeck_tools::Toolbox;

/// The tools of an agent, with its skills.
pub(super) struct WithSkills {
    pub(super) host: Arc<dyn ToolHost>,
    pub(super) skills: Toolbox,
    specs: Vec<ToolSpec>,
}

impl WithSkills {
    pub(super) fn new(host: Arc<dyn ToolHost>, skills: Toolbox) -> Self {
        let mut specs = host.specs().to_vec();
        specs.extend(skills.specs().iter().cloned());
        Self { host, skills, specs }
    }

    fn add<'a>(&self, specs: Cow<'a, [ToolSpec]>) -> Cow<'a, [ToolSpec]> {
        let mut specs = specs.into_owned();
        specs.extend(self.skills.specs().iter().cloned());
        Cow::Owned(specs)
    }
}

#[async_trait]
impl ToolHost for WithSkills {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn current(&self) -> Cow<'_, [ToolSpec]> {
        self.add(self.host.current())
    }

    fn specs_for_request(&self, request: RequestPlace<'_>) -> Cow<'_, [ToolSpec]> {
        self.add(self.host.specs_for_request(request))
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        if self.skills.specs().iter().any(|spec| spec.name == call.name) {
            return self.skills.call(call, cx).await;
        }
        self.host.call(call, cx).await
    }
}

/// The tools of its agent that a specialist may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restriction<'a> {
    /// Those that its file names; `None`: all.
    pub(super) named: Option<&'a [String]>,
    /// Those that its file denies.
    pub(super) denied: &'a [String],
    /// Whether it has only tools that change nothing.
    pub(super) plans: bool,
}

impl<'a> Restriction<'a> {
    /// All tools of the agent.
    pub(super) const NONE: Self = Self {
        named: None,
        denied: &[],
        plans: false,
    };

    pub(super) fn of(definition: &'a AgentDefinition) -> Self {
        Self {
            named: definition.tools.as_deref(),
            denied: &definition.denied,
            plans: definition.mode == Some(AgentMode::Plan),
        }
    }

    pub(super) fn is_none(self) -> bool {
        self.named.is_none() && self.denied.is_empty() && !self.plans
    }

    /// Whether a tool of the agent is left. A pattern of a denied tool denies all of it, because only the CLI knows patterns.
    fn allows(self, names: &ToolNames, tool: &str, class: SideEffects) -> bool {
        let identity = names.identify(tool);
        let means = |written: &String| {
            let name = without_pattern(written);
            name == tool
                || identity
                    .as_ref()
                    .is_some_and(|identity| names.refers(name, identity))
        };
        let denies = |written: &String| {
            let matches = |identity| names.matches(&Glob::new(without_pattern(written)), identity);
            means(written) || written == "*" || identity.as_ref().is_some_and(matches)
        };
        self.named.is_none_or(|named| named.iter().any(means))
            && !self.denied.iter().any(denies)
            && !(self.plans && class == SideEffects::Possible)
    }
}

/// Those of a host's tools that a specialist may use.
pub(super) struct NamedTools {
    host: Arc<dyn ToolHost>,
    definition: AgentDefinition,
    names: ToolNames,
    specs: Vec<ToolSpec>,
}

impl NamedTools {
    pub(super) fn new(host: Arc<dyn ToolHost>, definition: AgentDefinition, mut names: ToolNames) -> Self {
        let shown = host.specs().iter().map(|spec| spec.name.as_str());
        let servers: Vec<String> = Vec::new();
        names.list_shown(&servers, &shown);
        let mut tools = Self {
            host,
            definition,
            names,
            specs: Vec::new(),
        };
        tools.specs = tools.only_named(tools.host.specs()).into_owned();
        tools
    }

    fn is_named(&self, spec: &ToolSpec) -> bool {
        Restriction::of(&self.definition).allows(&self.names, &spec.name, spec.side_effects)
    }

    fn only_named(&self, specs: &[ToolSpec]) -> Cow<'static, [ToolSpec]> {
        let named = specs.iter().filter(|spec| self.is_named(spec));
        Cow::Owned(named.cloned().collect())
    }
}

#[async_trait]
impl ToolHost for NamedTools {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn current(&self) -> Cow<'_, [ToolSpec]> {
        self.only_named(&self.host.current())
    }

    fn specs_for_request(&self, request: RequestPlace<'_>) -> Cow<'_, [ToolSpec]> {
        self.only_named(&self.host.specs_for_request(request))
    }

    async fn call(&self, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        // A tool that is not shown any more, or that is not known yet, may change something.
        let class = {
            let shown = self.host.current();
            let spec = shown.iter().find(|spec| spec.name == call.name);
            spec.map_or(SideEffects::Possible, |spec| spec.side_effects)
        };
        if Restriction::of(&self.definition).allows(&self.names, &call.name, class) {
            return self.host.call(call, cx).await;
        }
        let text = format!("there is no tool `{}`", call.name);
        Ok(ToolOutput::refused(CallRefusal::Unknown, text))
    }
}

/// Restricts what Claude Code may use to what a specialist may. Nothing is enabled that the agent has not: its own list, switches and
/// patterns of commands stay. Names of
/// tools that the agent does not have, as skills of other programs may have, are left out.
pub(super) fn restrict_claude(agent: &mut Agent, restriction: Restriction<'_>, skills: &[String]) {
    if let Some(named) = restriction.named {
        allow_only(agent, named, skills);
    }
    let mut denied: Vec<String> = restriction.denied.to_vec();
    let (globs, names): (Vec<String>, Vec<String>) = denied.drain(..).partition(|name| {
        let tool = without_pattern(name);
        tool.contains('*') && !tool.starts_with("mcp__")
    });
    let globs: Vec<Glob> = globs
        .iter()
        .map(|glob| Glob::new(without_pattern(glob)))
        .collect();
    denied.extend(names);
    // Sub-agents have tools of their own.
    let starts_others = |tool: &str| tool == "Agent" || tool == "Task";
    let takes_away = |tool: &str| {
        globs.iter().any(|glob| glob.matches(tool))
            || restriction.plans && (starts_others(tool) || ClaudeConfig::may_change_something(tool))
    };
    let tools = ClaudeConfig::CLI_TOOLS.iter().filter(|tool| takes_away(tool));
    denied.extend(tools.map(|tool| (*tool).to_owned()));
    // The CLI asks servers itself, and what their tools may change is known only when they run.
    let servers = agent.tools.iter().filter_map(|tool| match tool {
        ToolConfig::Mcp(server) => Some(format!("mcp__{}", server.name)),
        _ => None,
    });
    let all = globs.iter().any(|glob| glob.matches(""));
    denied.extend(servers.filter(|_| restriction.plans || all));
    if denied.is_empty() {
        return;
    }
    let mut names = ToolNames::of(agent);
    for skill in skills {
        names.add_host_tool(skill);
    }
    let is_known = |name: &String| {
        let tool = without_pattern(name);
        ClaudeConfig::CLI_TOOLS.contains(&tool) || names.resolve(tool) != NameMatch::Unknown
    };
    let claude = agent.claude.get_or_insert_default();
    let own = claude.disallowed_tools.get_or_insert_default();
    own.extend(denied.into_iter().filter(is_known));
}

fn allow_only(agent: &mut Agent, named: &[String], skills: &[String]) {
    let own = agent.claude.clone().unwrap_or_default();
    let built_in = own.built_in_tools();
    let commands = own.allowed_commands();
    let mut names = ToolNames::of(agent);
    for skill in skills {
        names.add_host_tool(skill);
    }
    let access = holodeck_model::ToolAccess::of(agent);
    let mut allowed = Vec::new();
    for name in named {
        let tool = without_pattern(name);
        if !ClaudeConfig::CLI_TOOLS.contains(&tool) {
            let is_known = names.resolve(tool) != NameMatch::Unknown;
            if is_known && (access.allows_call(&names, tool) || own.allowed_tools.is_none()) {
                allowed.push(name.clone());
            }
        } else if !built_in.contains(&tool) {
            // The agent does not have it.
        } else if let ("Bash", Some(commands)) = (tool, &commands) {
            // Of two lists of patterns, what both have; without one here, the agent's.
            let own = commands.iter().map(|pattern| format!("Bash({pattern})"));
            allowed.extend(own.filter(|own| !name.contains('(') || own == name));
        } else {
            allowed.push(name.clone());
        }
    }
    agent.claude = Some(ClaudeConfig {
        allowed_tools: Some(allowed),
        ..own
    });
}

/// Facts about the tools of an agent that are known before they are called.
pub(super) fn known_tools(agent: &Agent, host: &dyn ToolHost) -> KnownTools {
    let mut known = KnownTools::default();
    if agent.is_claude() {
        for tool in ClaudeConfig::CLI_TOOLS {
            let class = if ClaudeConfig::may_change_something(tool) {
                SideEffects::Possible
            } else {
                SideEffects::None
            };
            known.side_effects.insert((*tool).to_owned(), class);
        }
    }
    for spec in host.specs() {
        known.side_effects.insert(spec.name.clone(), spec.side_effects);
    }
    for tool in &agent.tools {
        let ToolConfig::Function(tool) = tool else {
            continue;
        };
        if let Some(command) = &tool.command {
            let words = std::iter::once(command.as_str().to_owned()).chain(tool.args.iter().cloned());
            let words: Vec<String> = words.collect();
            known.commands.insert(tool.name.clone(), words.join(" "));
        }
    }
    known
}

/// Whether a tool may change something, as far as its YAML says.
fn class_of(tool: &ToolConfig) -> SideEffects {
    match tool {
        ToolConfig::Function(tool) => tool.side_effects.map_or(SideEffects::Possible, Into::into),
        ToolConfig::Mcp(_) => SideEffects::Possible,
        _ => SideEffects::None,
    }
}

/// The tools that an agent has, by name, without starting anything.
pub(super) fn declared_tools(agent: &Agent, restriction: Restriction<'_>, skills: &[String]) -> Vec<String> {
    let mut restricted = agent.clone();
    let mut tools: Vec<String> = Vec::new();
    if agent.is_claude() {
        restrict_claude(&mut restricted, restriction, skills);
        let claude = restricted.claude.clone().unwrap_or_default();
        tools.extend(claude.built_in_tools().iter().map(|tool| (*tool).to_owned()));
    }
    let names = ToolNames::of(agent);
    let own = agent.tools.iter().map(|tool| {
        let name = tool.model_name().unwrap_or_else(|| tool.name().to_owned());
        (name, class_of(tool))
    });
    let skills = skills.iter().map(|skill| (skill.clone(), SideEffects::Possible));
    let left = own
        .chain(skills)
        .filter(|(tool, class)| restriction.allows(&names, tool, *class));
    tools.extend(left.map(|(tool, _)| tool));
    tools
}

#[cfg(test)]
mod tests {
    use holodeck_model::{Env, MemoryFiles};
    use holodeck_yaml::load_agent;
    use pretty_assertions::assert_eq;

    use super::*;

    fn restricted(claude: &str, named: &[&str]) -> Vec<String> {
        let yaml = format!(
            "name: a\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Hi}}\n\
             tools: [{{type: function, name: count, description: C., command: wc, parameters: {{}}}}]\n\
             claude: {claude}\n"
        );
        let files = MemoryFiles::new().with("agent.yaml", yaml);
        let load = load_agent("agent.yaml".as_ref(), &Env::empty(), &files);
        let mut agent = load
            .agent
            .unwrap_or_else(|| panic!("{:?}", load.diagnostics))
            .config
            .clone();
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let restriction = Restriction {
            named: Some(&named),
            denied: &[],
            plans: false,
        };
        restrict_claude(&mut agent, restriction, &["skill__notes".to_owned()]);
        let claude = agent.claude.unwrap();
        let allowed = claude.allowed_tools.clone().unwrap();
        // Naming a built-in tool would enable it.
        for tool in claude.built_in_tools() {
            assert!(allowed.iter().any(|name| without_pattern(name) == tool), "{tool}");
        }
        allowed
    }

    #[test]
    fn a_list_of_tools_never_enables_one() {
        let reads = "{file_system: {read: true}}";
        let named = [
            "Read",
            "Bash",
            "Write",
            "WebFetch",
            "count",
            "skill__notes",
            "other_tool",
            "mcp__gone__x",
        ];
        assert_eq!(restricted(reads, &named), ["Read", "count", "skill__notes"]);
        assert_eq!(restricted(reads, &[]), Vec::<String>::new());
        // Patterns of the agent stay, and those of the list narrow a shell without patterns.
        let git = "{bash: {enabled: true}, allowed_tools: ['Bash(git:*)', count]}";
        assert_eq!(restricted(git, &["Bash", "count"]), ["Bash(git:*)", "count"]);
        assert_eq!(restricted(git, &["Bash(npm:*)"]), Vec::<String>::new());
        let shell = "{bash: {enabled: true}}";
        assert_eq!(restricted(shell, &["Bash(npm:*)"]), ["Bash(npm:*)"]);
        let only = "{file_system: {read: true}, allowed_tools: [Read]}";
        assert_eq!(restricted(only, &["Read", "count"]), ["Read"]);
    }
}
