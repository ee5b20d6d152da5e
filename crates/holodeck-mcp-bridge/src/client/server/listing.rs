//! The tools and prompts of a server as tools.

use std::collections::HashSet;
use std::sync::Weak;

use holodeck_backend_api::{SideEffects, ToolKind, ToolSpec};
use holodeck_model::{McpTool, complete_tool_schema, mcp_tool_name, mcp_tool_names, shorten_tool_name};
use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, Prompt, Tool};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Value, json};

use super::Server;
use super::ask::{Ask, Repeat};
use super::tools::ServerTool;
use crate::launch;

/// Maximum pages of one list.
const MAX_PAGES: usize = 100;
/// Maximum tools and prompts of one server.
const MAX_ENTRIES: usize = 2_000;
/// Maximum bytes of JSON of all tools and prompts of one server.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Why listing failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("the list has more than {MAX_PAGES} pages")]
    Pages,
    #[error("more than {MAX_ENTRIES} tools and prompts")]
    Entries,
    #[error("tools and prompts of more than {} MiB", MAX_BYTES / (1024 * 1024))]
    Bytes,
}

/// Which tools of a server are offered, and under which names.
pub(crate) struct Offer {
    /// The server's part of its tools' names.
    name: String,
    tools: Offered,
    prompts: Offered,
    only: Option<Vec<String>>,
    kind: ToolKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Offered {
    Yes,
    No,
}

impl Offer {
    pub(crate) fn of(tool: &McpTool, name: String) -> Self {
        let offered = |asked: bool| if asked { Offered::Yes } else { Offered::No };
        Self {
            name,
            tools: offered(tool.load_tools),
            prompts: offered(tool.load_prompts == Some(true)),
            only: launch::allowed_tools(tool),
            kind: tool.tools_kind(),
        }
    }

    /// Lists the server's current tools and prompts.
    pub(crate) async fn list(
        &self,
        peer: &Peer<RoleClient>,
        server: &Weak<Server>,
    ) -> Result<Vec<ServerTool>, ListError> {
        let info = peer.peer_info();
        let capabilities = info.as_deref().map(|info| &info.capabilities);
        let mut read = Read::default();
        let mut tools = Vec::new();
        if self.tools == Offered::Yes {
            match self.list_tools(peer, &mut read).await {
                Ok(listed) => tools = listed,
                // It has not said that it offers any.
                Err(ListError::Service(ServiceError::McpError(error)))
                    if capabilities.is_some_and(|has| has.tools.is_none()) =>
                {
                    tracing::warn!(server = self.name, reason = %error.message, "an MCP server offers no tools");
                }
                Err(error) => return Err(error),
            }
        }
        let mut prompts = Vec::new();
        if self.prompts == Offered::Yes && capabilities.is_some_and(|has| has.prompts.is_some()) {
            prompts = self.list_prompts(peer, &mut read).await?;
        }
        let names: Vec<&str> = tools.iter().map(|tool: &Tool| &*tool.name).collect();
        let names = mcp_tool_names(&self.name, &names);
        let mut list = List {
            offer: self,
            server,
            taken: HashSet::new(),
            tools: Vec::new(),
        };
        for (tool, name) in tools.into_iter().zip(names) {
            list.tool(tool, name);
        }
        for prompt in prompts {
            list.prompt(prompt);
        }
        Ok(list.tools)
    }

    /// The tools of all pages that are offered, each once.
    async fn list_tools(&self, peer: &Peer<RoleClient>, read: &mut Read) -> Result<Vec<Tool>, ListError> {
        let (mut tools, mut seen) = (Vec::new(), HashSet::new());
        let mut pages = Pages::default();
        loop {
            let asked = PaginatedRequestParams::default().with_cursor(pages.cursor());
            let answer = peer.list_tools(Some(asked)).await?;
            let json = serde_json::to_vec(&answer.tools).unwrap_or_default();
            read.page(pages.count, answer.tools.len(), json.len())?;
            let new = answer.tools.into_iter();
            tools.extend(new.filter(|tool| self.allows(&tool.name) && seen.insert(tool.name.clone())));
            if !pages.turn(answer.next_cursor, &self.name) {
                return Ok(tools);
            }
        }
    }

    async fn list_prompts(&self, peer: &Peer<RoleClient>, read: &mut Read) -> Result<Vec<Prompt>, ListError> {
        let (mut prompts, mut seen) = (Vec::new(), HashSet::new());
        let mut pages = Pages::default();
        loop {
            let asked = PaginatedRequestParams::default().with_cursor(pages.cursor());
            let answer = peer.list_prompts(Some(asked)).await?;
            let json = serde_json::to_vec(&answer.prompts).unwrap_or_default();
            read.page(pages.count, answer.prompts.len(), json.len())?;
            let new = answer.prompts.into_iter();
            prompts
                .extend(new.filter(|prompt| self.allows(&prompt.name) && seen.insert(prompt.name.clone())));
            if !pages.turn(answer.next_cursor, &self.name) {
                return Ok(prompts);
            }
        }
    }

    fn allows(&self, name: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.iter().any(|allowed| allowed == name))
    }
}

struct List<'a> {
    offer: &'a Offer,
    server: &'a Weak<Server>,
    taken: HashSet<String>,
    tools: Vec<ServerTool>,
}

/// The pages of a list.
#[derive(Default)]
struct Pages {
    cursors: HashSet<String>,
    next: Option<String>,
    count: usize,
}

impl Pages {
    fn cursor(&self) -> Option<String> {
        self.next.clone()
    }

    /// Turns to the next page; `false` if there is none. A cursor that comes again would lead to pages that are read.
    fn turn(&mut self, cursor: Option<String>, server: &str) -> bool {
        self.count += 1;
        let is_new = match &cursor {
            Some(cursor) => self.cursors.insert(cursor.clone()),
            None => return false,
        };
        if !is_new {
            tracing::warn!(
                server,
                "an MCP server names a page of its list again; the list ends there"
            );
        }
        self.next = cursor;
        is_new
    }
}

/// The size of a server's lists so far.
#[derive(Default)]
struct Read {
    entries: usize,
    bytes: usize,
}

impl Read {
    fn page(&mut self, number: usize, entries: usize, bytes: usize) -> Result<(), ListError> {
        if number >= MAX_PAGES {
            return Err(ListError::Pages);
        }
        self.entries += entries;
        if self.entries > MAX_ENTRIES {
            return Err(ListError::Entries);
        }
        self.bytes += bytes;
        if self.bytes > MAX_BYTES {
            return Err(ListError::Bytes);
        }
        Ok(())
    }
}

impl List<'_> {
    fn tool(&mut self, tool: Tool, shown: String) {
        let plain = mcp_tool_name(&self.offer.name, &tool.name);
        if shown != plain {
            tracing::warn!(
                "the name `{}` of a tool is too long, in another script, or that of another tool in other signs; it is offered as \
                 `{shown}`",
                tool.name
            );
        }
        let hints = tool.annotations.as_ref();
        let hint =
            |read: fn(&rmcp::model::ToolAnnotations) -> Option<bool>| hints.and_then(read) == Some(true);
        let reads = hint(|hints| hints.read_only_hint);
        let repeat = if reads || hint(|hints| hints.idempotent_hint) {
            Repeat::Harmless
        } else {
            Repeat::Unknown
        };
        let name = tool.name.into_owned();
        let title = tool.title.unwrap_or_default();
        let spec = ToolSpec {
            name: shown,
            description: tool.description.map_or(title, std::borrow::Cow::into_owned),
            parameters: complete_tool_schema(Value::Object((*tool.input_schema).clone())),
            side_effects: if reads {
                SideEffects::None
            } else {
                SideEffects::Possible
            },
        };
        self.add(spec, Ask::Tool { name, repeat });
    }

    fn prompt(&mut self, prompt: Prompt) {
        let mut properties = serde_json::Map::new();
        let mut required = Vec::new();
        for argument in prompt.arguments.unwrap_or_default() {
            let mut schema = json!({ "type": "string" });
            if let (Some(schema), Some(description)) = (schema.as_object_mut(), argument.description) {
                schema.insert("description".to_owned(), description.into());
            }
            if argument.required == Some(true) {
                required.push(Value::from(argument.name.clone()));
            }
            properties.insert(argument.name, schema);
        }
        let title = prompt.title.unwrap_or_default();
        // A tool precedes a prompt of the same name.
        let mut name = self.name_of(&prompt.name);
        if self.taken.contains(&name) {
            name = self.name_of(&format!("{}_prompt", prompt.name));
        }
        let spec = ToolSpec {
            name,
            description: prompt.description.unwrap_or(title),
            parameters: json!({ "type": "object", "properties": properties, "required": required }),
            side_effects: SideEffects::None,
        };
        self.add(spec, Ask::Prompt { name: prompt.name });
    }

    fn name_of(&self, name: &str) -> String {
        let name = mcp_tool_name(&self.offer.name, name);
        let shown = shorten_tool_name(name.clone());
        if shown != name {
            tracing::warn!("the name `{name}` is too long for a tool; it is offered as `{shown}`");
        }
        shown
    }

    fn add(&mut self, spec: ToolSpec, ask: Ask) {
        if self.taken.insert(spec.name.clone()) {
            let kind = self.offer.kind;
            self.tools
                .push(ServerTool::new(spec, kind, ask, self.server.clone()));
        } else {
            tracing::warn!(
                tool = spec.name,
                "two tools of an MCP server have this name; the second is left out"
            );
        }
    }
}
