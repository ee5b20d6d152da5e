//! The names of tools: each tool has one identity, and every name that a file may use is resolved through it.
//!
//! Start with [`ToolNames::of`]. No other place takes a tool's name apart.

use serde::{Deserialize, Serialize};

use crate::{Agent, ClaudeConfig, McpTool, Provider, ToolConfig, check::closest, value::Glob};

mod access;

pub(crate) use access::without_pattern;
pub use access::{ServerAccess, ToolAccess, UnresolvedName};

/// The MCP server inside our process: the Claude CLI gets the tools of the YAML as `mcp__holodeck_tools__<tool>`.
pub const HOLODECK_SERVER: &str = "holodeck_tools";

/// How the name of every tool of an MCP server begins.
const MCP: &str = "mcp__";

/// Longer names are refused by OpenAI and compatible servers.
const LONGEST: usize = 64;

/// Names that the CLI mistakes for parts of a JavaScript object.
const RESERVED: [&str; 5] = [
    "constructor",
    "prototype",
    "toString",
    "valueOf",
    "hasOwnProperty",
];

/// What a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// It searches: a `vectorstore`, a `hierarchical_document`, or a tool of an MCP server with `is_retrieval`.
    Retrieval,
    /// A `function`.
    Function,
    /// A `prompt`.
    Prompt,
    /// A tool of an MCP server.
    Mcp,
    /// A tool of the Claude CLI.
    Builtin,
}

/// Whether a tool changes the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffects {
    /// It only reads.
    None,
    /// It may change something, or nothing is known about it.
    Possible,
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

/// The names of one tool, made once where the tools of an agent are assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolIdentity {
    /// What it is.
    pub kind: ToolKind,
    /// Where it comes from.
    pub origin: ToolOrigin,
    /// The name in the YAML; of a tool of an MCP server that of the server, of a built-in tool its own.
    pub declared: String,
    /// The name in events, results and reports. No two tools of an agent share one.
    pub shown_to_model: String,
    /// The name that travels between the model and the program that runs the loop.
    pub on_the_wire: String,
}

/// What a name of the YAML refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Tools that are known: one, or those of a server.
    Known,
    /// Perhaps a tool of a server that has not listed its tools yet.
    Unlisted,
    /// Tools of several servers have this name; these are their full names.
    Ambiguous(Vec<String>),
    /// Nothing.
    Unknown,
}

/// The tools of an agent by all their names.
#[derive(Clone, Debug, Default)]
pub struct ToolNames {
    has_builtins: bool,
    declared: Vec<ToolIdentity>,
    /// The longest key first: `a` must not take the tools of `a__b`.
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
    /// The name of a tool of the YAML for the model. An MCP server has tools of its own and no such name.
    pub fn model_name(&self) -> Option<String> {
        let kind = self.tool_kind();
        (kind != ToolKind::Mcp).then(|| model_name(kind, self.name()))
    }

    /// What it is. A server is [`ToolKind::Mcp`] whatever its tools do.
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
    /// What its tools are.
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

impl ToolIdentity {
    /// A tool that runs in our own process.
    fn own(kind: ToolKind, declared: &str, has_builtins: bool) -> Self {
        let shown = model_name(kind, declared);
        let qualified = mcp_tool_name(HOLODECK_SERVER, &shown);
        // A name that a built-in tool or a tool of a server may have stays theirs.
        let is_free =
            !has_builtins || !(shown.starts_with(MCP) || ClaudeConfig::CLI_TOOLS.contains(&shown.as_str()));
        Self {
            kind,
            origin: ToolOrigin::Declared,
            declared: declared.to_owned(),
            on_the_wire: if has_builtins {
                qualified.clone()
            } else {
                shown.clone()
            },
            shown_to_model: if is_free { shown } else { qualified },
        }
    }

    fn foreign(kind: ToolKind, origin: ToolOrigin, declared: &str, name: &str) -> Self {
        Self {
            kind,
            origin,
            declared: declared.to_owned(),
            shown_to_model: name.to_owned(),
            on_the_wire: name.to_owned(),
        }
    }

    /// Whether `name` is one of its full names, on any provider.
    fn is_named(&self, name: &str) -> bool {
        if name == self.shown_to_model || name == self.on_the_wire {
            return true;
        }
        match self.origin {
            ToolOrigin::Declared => {
                let shown = model_name(self.kind, &self.declared);
                name == self.declared || name == shown || name == mcp_tool_name(HOLODECK_SERVER, &shown)
            }
            // What `Agent` was called before.
            ToolOrigin::BuiltIn => name == "Task" && self.declared == "Agent",
            ToolOrigin::External => false,
        }
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

    /// Its own name of the tool that `written` calls `<server>__<tool>` or `mcp__<server>__<tool>`.
    fn own_part<'n>(&self, written: &'n str) -> Option<&'n str> {
        let rest = written.strip_prefix(MCP).unwrap_or(written);
        [&self.declared, &self.key]
            .into_iter()
            .find_map(|server| rest.strip_prefix(server.as_str())?.strip_prefix("__"))
            .filter(|own| !own.is_empty())
    }

    /// Whether the model sees the tool that the server calls `own` as `shown`.
    fn shows(&self, own: &str, shown: &str) -> bool {
        let full = mcp_tool_name(&self.key, own);
        full == shown || bounded(full) == shown
    }

    fn lists(&self, own: &str) -> bool {
        self.listed.iter().flatten().any(|shown| self.shows(own, shown))
    }
}

impl ToolNames {
    /// The tools of an agent. Those of its servers follow with [`list`](Self::list), unless a mock names them.
    pub fn of(agent: &Agent) -> Self {
        let tools = agent.tools.iter().map(|tool| match tool {
            ToolConfig::Mcp(server) => Declared::Server(&server.name, server.tools_kind()),
            tool => Declared::Tool(tool.name(), tool.tool_kind()),
        });
        let mut names = Self::declaring(agent.model.provider == Provider::Anthropic, tools);
        for tool in &agent.tools {
            if let ToolConfig::Mcp(server) = tool
                && let Some(mock) = &server.mock
            {
                names.list(&server.name, mock.tools.keys().map(String::as_str));
            }
        }
        names
    }

    pub(crate) fn declaring<'a>(has_builtins: bool, tools: impl IntoIterator<Item = Declared<'a>>) -> Self {
        let mut names = Self {
            has_builtins,
            ..Self::default()
        };
        let mut taken = taken_server_keys();
        for tool in tools {
            match tool {
                Declared::Tool(name, kind) => {
                    names.declared.push(ToolIdentity::own(kind, name, has_builtins));
                }
                Declared::Server(name, kind) => names.servers.push(Server {
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

    /// No tools but those of the Claude CLI.
    pub fn with_builtins() -> Self {
        Self {
            has_builtins: true,
            ..Self::default()
        }
    }

    /// Takes in a tool of our own process, unless it is known.
    pub fn host(&mut self, shown: &str) {
        let known = |tool: &ToolIdentity| {
            let own = model_name(tool.kind, &tool.declared);
            tool.shown_to_model == shown || own == shown
        };
        if !self.declared.iter().any(known) && self.server_of(shown).is_none() {
            let tool = ToolIdentity::own(ToolKind::Function, shown, self.has_builtins);
            self.declared.push(tool);
        }
    }

    /// Takes in the tools of a server of the YAML, named as the server or as the model names them.
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

    /// Takes in tools by the names the model sees: those of each server in `connected` are then known.
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

    /// The tools of the YAML that run in our own process.
    pub fn declared(&self) -> &[ToolIdentity] {
        &self.declared
    }

    /// The part of a server's name in those of its tools.
    pub fn server_key(&self, declared: &str) -> Option<&str> {
        let mut servers = self.servers.iter();
        servers
            .find(|server| server.declared == declared)
            .map(|server| server.key.as_str())
    }

    /// The name that the model sees of a tool of a server.
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

    fn server_of(&self, shown: &str) -> Option<&Server> {
        let mut servers = self.servers.iter();
        servers.find(|server| shown.starts_with(&mcp_tool_name(&server.key, "")))
    }

    /// Whether `written`, a name of the YAML, refers to `tool`: by one of its names, by that of its server, or, where
    /// nothing else has that name, by the one its server gives it.
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

    /// Whether `written` can only be the name that a server gives one of its tools.
    fn is_bare(&self, written: &str) -> bool {
        let mut servers = self.servers.iter();
        let of_server = servers.any(|server| server.is_named(written) || server.own_part(written).is_some());
        // A rule such as `Bash(git *)` names the tool before the parenthesis.
        let tool = written.split_once('(').map_or(written, |(tool, _)| tool);
        let built_in = self.has_builtins && ClaudeConfig::CLI_TOOLS.contains(&tool);
        !(written.starts_with(MCP) || of_server || built_in)
    }

    /// The full names of all tools that the bare name `written` may mean, if it is the name of more than one; `called`
    /// are names of tools that exist whether listed or not.
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

    /// A name of the YAML, or a rule such as `Bash(rm *)`, in the words of the Claude CLI: several where several servers
    /// may have the tool.
    pub fn for_cli(&self, written: &str) -> Vec<String> {
        let written = written.trim();
        if let Some(tool) = self.declared.iter().find(|tool| tool.is_named(written)) {
            return vec![tool.on_the_wire.clone()];
        }
        if let Some(server) = self.servers.iter().find(|server| server.is_named(written)) {
            return vec![format!("{MCP}{}", server.key)];
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

    /// What a name of the YAML refers to.
    pub fn resolve(&self, written: &str) -> Resolved {
        let declared = self.declared.iter().any(|tool| tool.is_named(written));
        let builtin = self.has_builtins && ClaudeConfig::CLI_TOOLS.contains(&written);
        if declared || builtin || self.servers.iter().any(|server| server.is_named(written)) {
            return Resolved::Known;
        }
        let meant = self.ambiguous(written, &std::iter::empty());
        if !meant.is_empty() {
            return Resolved::Ambiguous(meant);
        }
        let mut could_have = self
            .servers
            .iter()
            .filter_map(|server| match server.own_part(written) {
                Some(own) => Some((server, own)),
                None => self.is_bare(written).then_some((server, written)),
            });
        if could_have.clone().any(|(server, own)| server.lists(own)) {
            Resolved::Known
        } else if could_have.any(|(server, _)| server.listed.is_none()) {
            Resolved::Unlisted
        } else {
            Resolved::Unknown
        }
    }

    /// The known name that is most like `written`.
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
        // Of equally near names the last counts.
        known.extend(self.declared.iter().map(|tool| tool.declared.clone()));
        closest(written, known.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// A tool of the YAML, as far as its names depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Declared<'a> {
    Tool(&'a str, ToolKind),
    /// An MCP server, with the kind of its tools.
    Server(&'a str, ToolKind),
}

/// The name that a model sees of a tool of an MCP server.
pub fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("{MCP}{}__{}", plain(server), plain(tool))
}

/// A name that is not too long: the end of one that is gives way to a number that no other name has.
pub fn bounded(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mark = format!("_{:08x}", hash >> 32);
    let kept = name.floor_char_boundary(LONGEST - mark.len());
    format!("{}{mark}", name.get(..kept).unwrap_or_default())
}

/// The names that no server of the YAML gets.
pub fn taken_server_keys() -> Vec<String> {
    vec![HOLODECK_SERVER.to_owned()]
}

/// The name of a server in those of its tools: one that the CLI accepts and no other server has.
pub fn server_key(name: &str, taken: &mut Vec<String>) -> String {
    let mut plain = plain(name);
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

/// As the CLI does it: all but ASCII letters, digits, `_` and `-` become `_`.
fn plain(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect()
}

#[cfg(test)]
mod tests;
