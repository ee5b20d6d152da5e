//! Which tools the allow and deny lists of a file leave to the agent.

use std::fmt;

use super::{NameMatch, ToolIdentity, ToolNames};
use crate::{Agent, Location, path_access};

/// The allow and deny lists of an agent.
#[derive(Clone, Debug, Default)]
pub struct ToolAccess {
    allowed: Option<NameList>,
    denied: Vec<NameList>,
    /// The `tools` of sub-agents.
    subagents: Vec<NameList>,
}

/// The names in a field of the YAML.
#[derive(Clone, Debug)]
struct NameList {
    field: String,
    names: Vec<String>,
    /// Where each is written.
    places: Vec<Option<Location>>,
}

/// Which of a server's tools the lists leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAccess {
    /// All.
    All,
    /// It depends on the tool.
    Some,
    /// None: the server need not be started.
    None,
}

/// A name in a list that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnresolvedName {
    /// The list, as in `claude.allowed_tools`.
    pub field: String,
    /// Where it is written.
    pub place: Option<Location>,
    /// The name as written.
    pub name: String,
    /// The meaning of the name.
    pub name_match: NameMatch,
    /// A similar known name.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnresolvedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, name, .. } = self;
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        match &self.name_match {
            NameMatch::Ambiguous(names) => {
                write!(
                    f,
                    "`{name}` in `{field}` is the name of several tools: {}",
                    names.join(", ")
                )
            }
            NameMatch::Known if field.starts_with("claude.agents.") => write!(
                f,
                "`{name}` in `{field}` cannot be enforced: a pattern belongs in `claude.allowed_tools` or \
                 `claude.disallowed_tools`"
            ),
            NameMatch::Known => write!(
                f,
                "`{name}` in `{field}` cannot be enforced: only `Bash` and tools that use files support a pattern there; \
                 remove the pattern"
            ),
            _ => {
                write!(f, "`{name}` in `{field}` is not a tool of this agent")?;
                match &self.suggestion {
                    Some(suggestion) => write!(f, "; did you mean `{suggestion}`?"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The tool of a rule such as `Bash(git *)`.
pub fn without_pattern(name: &str) -> &str {
    match name.split_once('(') {
        Some((tool, _)) => tool.trim(),
        None => name.trim(),
    }
}

impl ToolAccess {
    /// The lists of the block that applies to the agent's provider.
    pub fn of(agent: &Agent) -> Self {
        let list = |field: &str, names: Option<&Vec<String>>| {
            names.map(|names| NameList {
                field: field.to_owned(),
                names: names.clone(),
                places: Vec::new(),
            })
        };
        if agent.is_claude() {
            let claude = agent.claude.clone().unwrap_or_default();
            let subagents = claude.agents.iter();
            return Self {
                allowed: list("claude.allowed_tools", claude.allowed_tools.as_ref()),
                denied: list("claude.disallowed_tools", claude.disallowed_tools.as_ref())
                    .into_iter()
                    .collect(),
                subagents: subagents
                    .filter_map(|(name, agent)| {
                        list(&format!("claude.agents.{name}.tools"), agent.tools.as_ref())
                    })
                    .collect(),
            };
        }
        let openai = agent.openai.clone().unwrap_or_default();
        let permissions = openai.permissions.unwrap_or_default();
        let denied = [
            list("openai.disallowed_tools", openai.disallowed_tools.as_ref()),
            list(
                "openai.permissions.disallowed_tools",
                permissions.disallowed_tools.as_ref(),
            ),
        ];
        Self {
            allowed: list(
                "openai.permissions.allowed_tools",
                permissions.allowed_tools.as_ref(),
            ),
            denied: denied.into_iter().flatten().collect(),
            subagents: Vec::new(),
        }
    }

    /// The same, with the place that `locate` returns for each name, as in `claude.allowed_tools.0`.
    pub fn with_places(mut self, locate: impl Fn(&str) -> Option<Location>) -> Self {
        let lists = self
            .allowed
            .iter_mut()
            .chain(&mut self.denied)
            .chain(&mut self.subagents);
        for list in lists {
            let locate = |index| locate(&format!("{}.{index}", list.field));
            list.places = (0..list.names.len()).map(locate).collect();
        }
        self
    }

    /// The access of an allowlist alone.
    pub fn from_allowlist(field: String, names: Vec<String>) -> Self {
        Self {
            allowed: Some(NameList {
                field,
                names,
                places: Vec::new(),
            }),
            ..Self::default()
        }
    }

    /// Whether the lists leave anything of a tool or server of the YAML.
    pub fn uses(&self, names: &ToolNames, declared: &str) -> bool {
        match names.declared.iter().find(|tool| tool.declared == declared) {
            Some(tool) => self.allows(names, tool),
            None => self.of_server(names, declared) != ServerAccess::None,
        }
    }

    /// Whether the agent may use a tool. A pattern as in `Bash(rm *)` denies calls, not the tool.
    pub fn allows(&self, names: &ToolNames, tool: &ToolIdentity) -> bool {
        let is_allowed = |list: &NameList| {
            let mut written = list.names.iter();
            written.any(|name| names.refers(without_pattern(name), tool))
        };
        self.allowed.as_ref().is_none_or(is_allowed)
            && !self.denied().any(|name| names.refers(name.trim(), tool))
    }

    /// The same for the name of a call.
    pub fn allows_call(&self, names: &ToolNames, called: &str) -> bool {
        match names.identify(called) {
            Some(tool) => self.allows(names, &tool),
            // Not a tool of this agent, which the call itself reports.
            None => self.allowed.is_none() && !self.denied().any(|name| name.trim() == called),
        }
    }

    /// Which tools of a server are left.
    pub fn of_server(&self, names: &ToolNames, server: &str) -> ServerAccess {
        let Some(server) = names.servers.iter().find(|known| known.declared == server) else {
            return ServerAccess::All;
        };
        let could_be_part = |name: &str| {
            let is_other = names.declared.iter().any(|tool| tool.is_named(name)) || !names.is_bare(name);
            server.own_part(name).is_some() || !is_other
        };
        if self.denied().any(|name| server.is_named(name.trim())) {
            return ServerAccess::None;
        }
        if let Some(allowed) = &self.allowed
            && !allowed.names.iter().any(|name| server.is_named(name.trim()))
        {
            let any = allowed
                .names
                .iter()
                .any(|name| could_be_part(without_pattern(name)));
            return if any {
                ServerAccess::Some
            } else {
                ServerAccess::None
            };
        }
        if self.denied().any(|name| could_be_part(without_pattern(name))) {
            ServerAccess::Some
        } else {
            ServerAccess::All
        }
    }

    /// Names without a known tool or server. A name is not included if it may be a tool of a server that has not listed
    /// its tools yet.
    pub fn unresolved(&self, names: &ToolNames) -> Vec<UnresolvedName> {
        let lists = self.allowed.iter().chain(&self.denied).chain(&self.subagents);
        let mut unresolved = Vec::new();
        for list in lists {
            for (index, name) in list.names.iter().enumerate() {
                let tool = without_pattern(name);
                let name_match = names.resolve(tool);
                let is_denied = self.denied.iter().any(|denied| denied.field == list.field);
                let is_allowlist = self
                    .allowed
                    .as_ref()
                    .is_some_and(|allowed| allowed.field == list.field);
                let is_subagents = self.subagents.iter().any(|subagent| subagent.field == list.field);
                let is_problem = match &name_match {
                    // There only those of the shell are applied.
                    _ if is_subagents && name.contains('(') => tool != "Bash",
                    NameMatch::Known => {
                        is_allowlist && name.contains('(') && tool != "Bash" && path_access(tool).is_none()
                    }
                    NameMatch::Unknown => true,
                    // All of them are denied.
                    NameMatch::Ambiguous(_) => !is_denied,
                    NameMatch::Unlisted => false,
                };
                if is_problem {
                    unresolved.push(UnresolvedName {
                        field: list.field.clone(),
                        place: list.places.get(index).cloned().flatten(),
                        name: name.clone(),
                        suggestion: names.suggest(tool),
                        name_match,
                    });
                }
            }
        }
        unresolved
    }

    /// Whether a name cannot be resolved before every server has listed its tools.
    pub fn needs_lists(&self, names: &ToolNames) -> bool {
        let lists = self.allowed.iter().chain(&self.denied).chain(&self.subagents);
        let mut written = lists.flat_map(|list| &list.names);
        written.any(|name| names.resolve(without_pattern(name)) == NameMatch::Unlisted)
    }

    /// The denied names, as written.
    pub fn denied(&self) -> impl Iterator<Item = &str> {
        self.denied
            .iter()
            .flat_map(|list| &list.names)
            .map(String::as_str)
    }
}
