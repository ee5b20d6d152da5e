//! The names of tools: each tool has one identity, and every name that a file may use is resolved through it.
//!
//! Start with [`ToolNames::of`]. No other module parses the name of a tool.

use std::collections::HashMap;

use crate::{Agent, ClaudeConfig, McpTool, SkillDoc, ToolConfig, closest, value::Glob};

mod access;
mod identity;

pub use access::{ServerAccess, ToolAccess, UnresolvedName, without_pattern};
pub use identity::{NameMatch, ToolIdentity, ToolKind, ToolOrigin};

/// The MCP server inside this process: the Claude CLI sees the tools of the YAML as `mcp__holodeck_tools__<tool>`.
pub const HOLODECK_SERVER: &str = "holodeck_tools";

/// The prefix of the names of all tools of MCP servers.
const MCP: &str = "mcp__";

/// OpenAI and compatible servers reject longer names.
const LONGEST: usize = 64;

/// Names that the CLI mistakes for parts of a JavaScript object.
const RESERVED: [&str; 5] = [
    "constructor",
    "prototype",
    "toString",
    "valueOf",
    "hasOwnProperty",
];

/// The tools of an agent by all their names.
#[derive(Clone, Debug, Default)]
pub struct ToolNames {
    has_builtins: bool,
    /// Whether there are skills whose names are not known.
    has_skills: bool,
    declared: Vec<ToolIdentity>,
    /// Longest key first: `a` must not match the tools of `a__b`.
    servers: Vec<Server>,
}

#[derive(Clone, Debug)]
struct Server {
    declared: String,
    /// Its part of the names of its tools.
    key: String,
    kind: ToolKind,
    /// The names of its tools as the model sees them, once they are known.
    listed: Option<Vec<String>>,
}

impl ToolConfig {
    /// The name of a tool of the YAML for the model; `None` for an MCP server, whose tools have their own names.
    pub fn model_name(&self) -> Option<String> {
        let kind = self.tool_kind();
        (kind != ToolKind::Mcp).then(|| model_name(kind, self.name()))
    }

    /// Its kind. A server is always [`ToolKind::Mcp`].
    pub fn tool_kind(&self) -> ToolKind {
        match self {
            Self::Vectorstore(_) | Self::HierarchicalDocument(_) => ToolKind::Retrieval,
            Self::Function(_) => ToolKind::Function,
            Self::Prompt(_) => ToolKind::Prompt,
            Self::Mcp(_) => ToolKind::Mcp,
        }
    }
}

impl McpTool {
    /// The kind of its tools.
    pub fn tools_kind(&self) -> ToolKind {
        if self.is_retrieval {
            ToolKind::Retrieval
        } else {
            ToolKind::Mcp
        }
    }
}

fn model_name(kind: ToolKind, declared: &str) -> String {
    match kind {
        ToolKind::Retrieval => format!("{declared}_search"),
        _ => declared.to_owned(),
    }
}

impl Server {
    fn tool(&self, shown: &str) -> ToolIdentity {
        ToolIdentity::foreign(self.kind, ToolOrigin::External, &self.declared, shown)
    }

    fn is_named(&self, name: &str) -> bool {
        let own = name.strip_prefix(MCP).unwrap_or(name);
        let own = own.strip_suffix("__*").unwrap_or(own);
        own == self.declared || own == self.key
    }

    /// The tool's name within the server, if `written` has the form `<server>__<tool>` or `mcp__<server>__<tool>`.
    fn own_part<'n>(&self, written: &'n str) -> Option<&'n str> {
        let rest = written.strip_prefix(MCP).unwrap_or(written);
        [&self.declared, &self.key]
            .into_iter()
            .find_map(|server| rest.strip_prefix(server.as_str())?.strip_prefix("__"))
            .filter(|own| !own.is_empty())
    }

    /// Whether `shown` is the name for the model of the tool that the server calls `own`.
    fn shows(&self, own: &str, shown: &str) -> bool {
        let full = mcp_tool_name(&self.key, own);
        full == shown || shorten_tool_name(full) == shown
    }

    fn lists(&self, own: &str) -> bool {
        self.listed.iter().flatten().any(|shown| self.shows(own, shown))
    }
}

impl ToolNames {
    /// The tools of an agent. Those of its servers are added by [`list`](Self::list), unless a mock names them.
    pub fn of(agent: &Agent) -> Self {
        let tools = agent.tools.iter().map(|tool| match tool {
            ToolConfig::Mcp(server) => DeclaredTool::Server(&server.name, server.tools_kind()),
            tool => DeclaredTool::Tool(tool.name(), tool.tool_kind()),
        });
        let mut names = Self::from_declared(agent.is_claude(), tools);
        for tool in &agent.tools {
            if let ToolConfig::Mcp(server) = tool
                && let Some(mock) = &server.mock
            {
                names.list(&server.name, mock.tools.keys().map(String::as_str));
            }
        }
        names
    }

    /// The tools that a file declares, and those of the Claude CLI if it `has_builtins`.
    pub fn from_declared<'a>(has_builtins: bool, tools: impl IntoIterator<Item = DeclaredTool<'a>>) -> Self {
        let mut names = Self {
            has_builtins,
            ..Self::default()
        };
        let mut taken = reserved_server_keys();
        for tool in tools {
            match tool {
                DeclaredTool::Tool(name, kind) => {
                    names.declared.push(ToolIdentity::own(kind, name, has_builtins));
                }
                DeclaredTool::Server(name, kind) => names.servers.push(Server {
                    declared: name.to_owned(),
                    key: server_key(name, &mut taken),
                    kind,
                    listed: None,
                }),
            }
        }
        names
            .servers
            .sort_by_key(|server| std::cmp::Reverse(server.key.len()));
        names
    }

    /// Only the tools of the Claude CLI.
    pub fn with_builtins() -> Self {
        Self {
            has_builtins: true,
            ..Self::default()
        }
    }

    /// The same names, and those of skills whose folder was not read.
    pub fn with_unlisted_skills(self) -> Self {
        Self {
            has_skills: true,
            ..self
        }
    }

    /// Adds a tool of this process, unless it is known.
    pub fn add_host_tool(&mut self, shown: &str) {
        let known = |tool: &ToolIdentity| {
            let own = model_name(tool.kind, &tool.declared);
            tool.shown_to_model == shown || own == shown
        };
        if !self.declared.iter().any(known) && self.server_of(shown).is_none() {
            let tool = ToolIdentity::own(ToolKind::Function, shown, self.has_builtins);
            self.declared.push(tool);
        }
    }

    /// Sets the tools of a server of the YAML, with the names of the server or those for the model.
    pub fn list<'a>(&mut self, server: &str, tools: impl IntoIterator<Item = &'a str>) {
        let Some(server) = self.servers.iter_mut().find(|known| known.is_named(server)) else {
            return;
        };
        let prefix = mcp_tool_name(&server.key, "");
        let shown = tools.into_iter().map(|tool| {
            if tool.starts_with(&prefix) {
                tool.to_owned()
            } else {
                mcp_tool_name(&server.key, tool)
            }
        });
        server.listed = Some(shown.collect());
    }

    /// Sets the tools of each server in `connected` from the names for the model in `shown`.
    pub fn list_shown<'a>(&mut self, connected: &[String], shown: &(impl Iterator<Item = &'a str> + Clone)) {
        for server in connected {
            let of_server = shown
                .clone()
                .filter(|tool| self.server_of(tool).is_some_and(|own| own.is_named(server)));
            let of_server: Vec<&str> = of_server.collect();
            self.list(server, of_server);
        }
    }

    /// The tool that a call names, by the name shown to the model or the one on the wire; `None` if there is none.
    pub fn identify(&self, called: &str) -> Option<ToolIdentity> {
        let is_called = |tool: &&ToolIdentity| tool.shown_to_model == called || tool.on_the_wire == called;
        if let Some(tool) = self.declared.iter().find(is_called) {
            return Some(tool.clone());
        }
        if let Some(own) = called.strip_prefix(&mcp_tool_name(HOLODECK_SERVER, "")) {
            return Some(ToolIdentity::own(ToolKind::Function, own, self.has_builtins));
        }
        if let Some(server) = self.server_of(called) {
            return Some(server.tool(called));
        }
        if let Some(rest) = called.strip_prefix(MCP) {
            let server = rest.split_once("__").map_or(rest, |(server, _)| server);
            let (kind, origin) = (ToolKind::Mcp, ToolOrigin::External);
            return Some(ToolIdentity::foreign(kind, origin, server, called));
        }
        let (kind, origin) = (ToolKind::Builtin, ToolOrigin::BuiltIn);
        self.has_builtins
            .then(|| ToolIdentity::foreign(kind, origin, called, called))
    }

    /// The tools of the YAML that run in this process.
    pub fn declared(&self) -> &[ToolIdentity] {
        &self.declared
    }

    /// The key of a server in the names of its tools.
    pub fn server_key(&self, declared: &str) -> Option<&str> {
        let mut servers = self.servers.iter();
        servers
            .find(|server| server.declared == declared)
            .map(|server| server.key.as_str())
    }

    /// Whether the name of a tool does not show whether it is one of this server or of another: the key of one begins with
    /// that of the other, as in `shop` and `shop__eu`.
    pub fn shares_names(&self, declared: &str) -> bool {
        let find = |server: &&Server| server.declared == declared;
        self.servers
            .iter()
            .find(find)
            .is_some_and(|server| self.is_nested(server))
    }

    fn is_nested(&self, server: &Server) -> bool {
        let begins =
            |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with("__"));
        let keys = self.servers.iter().map(|other| other.key.as_str());
        let mut keys = keys.chain([HOLODECK_SERVER]);
        keys.any(|key| begins(&server.key, key) || begins(key, &server.key))
    }

    /// The name for the model of a tool of a server.
    pub fn tool_of_server(&self, declared: &str, own: &str) -> String {
        mcp_tool_name(self.server_key(declared).unwrap_or(declared), own)
    }

    /// The name without that of its server.
    pub fn own_name<'t>(&self, tool: &'t ToolIdentity) -> &'t str {
        let key = match tool.origin {
            ToolOrigin::Declared => HOLODECK_SERVER,
            ToolOrigin::BuiltIn => return &tool.shown_to_model,
            ToolOrigin::External => self
                .server_of(&tool.shown_to_model)
                .map_or(tool.declared.as_str(), |server| &server.key),
        };
        let own = tool.shown_to_model.strip_prefix(&mcp_tool_name(key, ""));
        own.unwrap_or(&tool.shown_to_model)
    }

    /// The names in `others`, as shown to the model, of tools of other servers that have the same name within their
    /// server as `tool`.
    pub fn namesakes<'a>(&self, tool: &ToolIdentity, others: impl Iterator<Item = &'a str>) -> Vec<String> {
        let Some(server) = self.server_of(&tool.shown_to_model) else {
            return Vec::new();
        };
        let own = self.own_name(tool);
        let of_another = |shown: &&str| {
            let other = self.server_of(shown).filter(|other| other.key != server.key);
            other.is_some_and(|other| other.shows(own, shown))
        };
        others.filter(of_another).map(ToOwned::to_owned).collect()
    }

    fn server_of(&self, shown: &str) -> Option<&Server> {
        let mut servers = self.servers.iter();
        servers.find(|server| shown.starts_with(&mcp_tool_name(&server.key, "")))
    }

    /// Whether `written`, a name of the YAML, refers to `tool`: by one of its names, by that of its server, or, if
    /// nothing else has that name, by its name within the server.
    pub fn refers(&self, written: &str, tool: &ToolIdentity) -> bool {
        match tool.origin {
            ToolOrigin::Declared => tool.is_named(written),
            _ if self.declared.iter().any(|own| own.is_named(written)) => false,
            ToolOrigin::BuiltIn => tool.is_named(written),
            ToolOrigin::External => {
                let shown = &tool.shown_to_model;
                tool.is_named(written)
                    || self.server_of(shown).is_some_and(|server| {
                        server.is_named(written)
                            || server
                                .own_part(written)
                                .is_some_and(|own| server.shows(own, shown))
                            || (self.is_bare(written) && server.shows(written, shown))
                    })
            }
        }
    }

    /// Whether `glob` matches one of the names that [`refers`](Self::refers) accepts.
    pub fn matches(&self, glob: &Glob, tool: &ToolIdentity) -> bool {
        if let Some(literal) = glob.as_literal() {
            return self.refers(&literal, tool);
        }
        let mut names = vec![
            tool.shown_to_model.clone(),
            tool.on_the_wire.clone(),
            tool.declared.clone(),
        ];
        match tool.origin {
            ToolOrigin::Declared => {
                let shown = model_name(tool.kind, &tool.declared);
                names.extend([mcp_tool_name(HOLODECK_SERVER, &shown), shown]);
            }
            ToolOrigin::BuiltIn => {}
            ToolOrigin::External => {
                let own = self.own_name(tool);
                names.extend([own.to_owned(), format!("{}__{own}", tool.declared)]);
            }
        }
        names.iter().any(|name| glob.matches(name))
    }

    /// Whether `written` can only be the name of a tool within a server.
    fn is_bare(&self, written: &str) -> bool {
        let mut servers = self.servers.iter();
        let of_server = servers.any(|server| server.is_named(written) || server.own_part(written).is_some());
        // A rule such as `Bash(git *)` names the tool before the parenthesis.
        let tool = written.split_once('(').map_or(written, |(tool, _)| tool);
        let built_in = self.has_builtins && ClaudeConfig::CLI_TOOLS.contains(&tool);
        !(written.starts_with(MCP) || of_server || built_in)
    }

    /// The full names of all tools that the bare name `written` may mean, if there are several; `called` are names of
    /// tools that exist, listed or not.
    pub fn ambiguous<'a>(
        &self,
        written: &str,
        called: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Vec<String> {
        if !self.is_bare(written) || self.declared.iter().any(|own| own.is_named(written)) {
            return Vec::new();
        }
        let mut meant = Vec::new();
        for server in &self.servers {
            let was_called = called.clone().any(|name| {
                server.shows(written, name) && self.server_of(name).is_some_and(|own| own.key == server.key)
            });
            if was_called || server.lists(written) {
                meant.push(mcp_tool_name(&server.key, written));
            }
        }
        if meant.len() < 2 {
            meant.clear();
        }
        meant.sort();
        meant
    }

    /// The names that the Claude CLI uses for a name of the YAML or a rule such as `Bash(rm *)`: several if several
    /// servers may have the tool.
    pub fn for_cli(&self, written: &str) -> Vec<String> {
        let written = written.trim();
        if let Some(tool) = self.declared.iter().find(|tool| tool.is_named(written)) {
            return vec![tool.on_the_wire.clone()];
        }
        if let Some(server) = self.servers.iter().find(|server| server.is_named(written)) {
            // For the CLI, the name of a server means every tool that begins with it.
            return match &server.listed {
                Some(tools) if self.is_nested(server) => tools.clone(),
                _ => vec![format!("{MCP}{}", server.key)],
            };
        }
        let is_builtin = written.contains('(') || ClaudeConfig::CLI_TOOLS.contains(&written);
        let servers = self.servers.iter().filter(|_| !is_builtin);
        let external = servers.filter_map(|server| {
            let bare = || self.is_bare(written).then_some(written);
            Some(mcp_tool_name(
                &server.key,
                server.own_part(written).or_else(bare)?,
            ))
        });
        let external: Vec<String> = external.collect();
        if external.is_empty() {
            vec![written.to_owned()]
        } else {
            external
        }
    }

    /// Resolves a name of the YAML.
    pub fn resolve(&self, written: &str) -> NameMatch {
        let declared = self.declared.iter().any(|tool| tool.is_named(written));
        let builtin = self.has_builtins && ClaudeConfig::CLI_TOOLS.contains(&written);
        if declared || builtin || self.servers.iter().any(|server| server.is_named(written)) {
            return NameMatch::Known;
        }
        let meant = self.ambiguous(written, &std::iter::empty());
        if !meant.is_empty() {
            return NameMatch::Ambiguous(meant);
        }
        let mut could_have = self
            .servers
            .iter()
            .filter_map(|server| match server.own_part(written) {
                Some(own) => Some((server, own)),
                None => self.is_bare(written).then_some((server, written)),
            });
        if could_have.clone().any(|(server, own)| server.lists(own)) {
            NameMatch::Known
        } else if could_have.any(|(server, _)| server.listed.is_none())
            || (self.has_skills && written.starts_with(SkillDoc::TOOL_PREFIX))
        {
            NameMatch::Unlisted
        } else {
            NameMatch::Unknown
        }
    }

    /// The known name that is most similar to `written`.
    pub fn suggest(&self, written: &str) -> Option<String> {
        let mut known: Vec<String> = Vec::new();
        if self.has_builtins {
            known.extend(ClaudeConfig::CLI_TOOLS.iter().map(|&name| name.to_owned()));
        }
        for server in &self.servers {
            known.push(server.declared.clone());
            let prefix = mcp_tool_name(&server.key, "");
            let listed = server.listed.iter().flatten();
            let own = listed.filter_map(|shown| shown.strip_prefix(&prefix));
            known.extend(own.flat_map(|own| [own.to_owned(), format!("{}__{own}", server.declared)]));
        }
        // Of equally similar names, the last one is chosen.
        known.extend(self.declared.iter().map(|tool| tool.declared.clone()));
        closest(written, known.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// The properties of a tool of the YAML that determine its names.
#[derive(Clone, Copy, Debug)]
pub enum DeclaredTool<'a> {
    /// A single tool.
    Tool(&'a str, ToolKind),
    /// An MCP server, with the kind of its tools.
    Server(&'a str, ToolKind),
}

/// The name for the model of a tool of an MCP server.
pub fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("{MCP}{}__{}", sanitise(server), sanitise(tool))
}

/// Shortens a name that is too long: its end is replaced by a hash of the whole name.
pub fn shorten_tool_name(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let mark = mark(&name);
    marked(&name, &mark)
}

/// The names under which the tools of an MCP server are offered, each different from the others, in the order of `tools`, whose
/// names are different. A name that loses letters of another script, or that others would have too, gets a hash of the original
/// one, so that it does not depend on the order of the list.
pub fn mcp_tool_names(server: &str, tools: &[&str]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|tool| mcp_tool_name(server, tool)).collect();
    let mut counts = HashMap::<&str, usize>::new();
    for name in &plain {
        *counts.entry(name).or_default() += 1;
    }
    let names = tools.iter().zip(&plain);
    names
        .map(|(tool, name)| {
            let is_unchanged = sanitise(tool) == **tool;
            let is_shared = counts.get(name.as_str()).is_some_and(|count| *count > 1);
            if !is_unchanged && (is_shared || !tool.is_ascii()) {
                marked(name, &mark(tool))
            } else {
                shorten_tool_name(name.clone())
            }
        })
        .collect()
}

/// A name with a mark at its end, not too long.
fn marked(name: &str, mark: &str) -> String {
    let end = name.floor_char_boundary(LONGEST - mark.len());
    format!("{}{mark}", name.get(..end).unwrap_or(name))
}

/// A hash of a name.
fn mark(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("_{:08x}", hash >> 32)
}

/// The keys that no server of the YAML may have.
pub fn reserved_server_keys() -> Vec<String> {
    vec![HOLODECK_SERVER.to_owned()]
}

/// The key of a server in the names of its tools: accepted by the CLI and different from those of other servers.
pub fn server_key(name: &str, taken: &mut Vec<String>) -> String {
    let mut plain = sanitise(name);
    if RESERVED.contains(&plain.as_str()) || plain.starts_with("__") {
        plain = format!("mcp_{}", plain.trim_start_matches('_'));
    }
    let mut free = plain.clone();
    let mut number = 2;
    while taken.contains(&free) {
        free = format!("{plain}_{number}");
        number += 1;
    }
    taken.push(free.clone());
    free
}

/// Replaces everything except ASCII letters, digits, `_` and `-` by `_`, as the CLI does.
fn sanitise(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect()
}

#[cfg(test)]
mod tests;
