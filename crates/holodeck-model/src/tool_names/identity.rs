//! The identity of a tool: where it comes from, and how it is shown to the model and in files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HOLODECK_SERVER, MCP, mcp_tool_name, model_name};
use crate::ClaudeConfig;

/// The kind of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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

/// The names of a tool, computed once when the tools of an agent are assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolIdentity {
    /// Its kind.
    pub kind: ToolKind,
    /// Where it comes from.
    pub origin: ToolOrigin,
    /// The name in the YAML; for a tool of an MCP server that of the server, for a built-in tool its own.
    pub declared: String,
    /// The name in events, results and reports. No two tools of an agent share one.
    pub shown_to_model: String,
    /// The name in messages between the model and the program that runs the loop.
    pub on_the_wire: String,
}

/// The meaning of a name in the YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// Known tools: one, or those of a server.
    Known,
    /// Perhaps a tool of a server that has not listed its tools yet.
    Unlisted,
    /// Tools of several servers, with their full names.
    Ambiguous(Vec<String>),
    /// No tool.
    Unknown,
}

impl ToolIdentity {
    /// A tool that runs in this process.
    pub(super) fn own(kind: ToolKind, declared: &str, has_builtins: bool) -> Self {
        let shown = model_name(kind, declared);
        let qualified = mcp_tool_name(HOLODECK_SERVER, &shown);
        // Names that a built-in tool or a tool of a server may have are reserved for them.
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

    pub(super) fn foreign(kind: ToolKind, origin: ToolOrigin, declared: &str, name: &str) -> Self {
        Self {
            kind,
            origin,
            declared: declared.to_owned(),
            shown_to_model: name.to_owned(),
            on_the_wire: name.to_owned(),
        }
    }

    /// Whether `name` is one of its full names, on any provider.
    pub(super) fn is_named(&self, name: &str) -> bool {
        if name == self.shown_to_model || name == self.on_the_wire {
            return true;
        }
        match self.origin {
            ToolOrigin::Declared => {
                let shown = model_name(self.kind, &self.declared);
                name == self.declared || name == shown || name == mcp_tool_name(HOLODECK_SERVER, &shown)
            }
            // The former name of `Agent`.
            ToolOrigin::BuiltIn => name == "Task" && self.declared == "Agent",
            ToolOrigin::External => false,
        }
    }
}
