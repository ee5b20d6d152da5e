//! What an agent can call.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{HierarchicalDocumentTool, McpMockConfig, MockConfig, ModelOverrides, VectorstoreTool};
use crate::value::{JsonMap, PathRef, SecretMap, nullable, read_secrets, tagged_enum, write_secrets};

/// A tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(tag = "type")]
#[expect(
    clippy::large_enum_variant,
    reason = "a handful per agent; a box would burden every reader"
)]
pub enum ToolConfig {
    /// Searches files or records by meaning.
    Vectorstore(VectorstoreTool),
    /// Searches structured documents by meaning and by words.
    HierarchicalDocument(HierarchicalDocumentTool),
    /// Runs a Python function or a program.
    Function(FunctionTool),
    /// Uses the tools of an MCP server.
    Mcp(McpTool),
    /// Asks a model with a prompt of its own.
    Prompt(PromptTool),
}

tagged_enum!(ToolConfig {
    Vectorstore => "vectorstore",
    HierarchicalDocument => "hierarchical_document",
    Function => "function",
    Mcp => "mcp",
    Prompt => "prompt",
});

impl ToolConfig {
    /// The tool's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Vectorstore(tool) => &tool.name,
            Self::HierarchicalDocument(tool) => &tool.name,
            Self::Function(tool) => &tool.name,
            Self::Mcp(tool) => &tool.name,
            Self::Prompt(tool) => &tool.name,
        }
    }

    /// What the tool does, in the author's words.
    pub fn description(&self) -> &str {
        match self {
            Self::Vectorstore(tool) => &tool.description,
            Self::HierarchicalDocument(tool) => &tool.description,
            Self::Function(tool) => &tool.description,
            Self::Mcp(tool) => &tool.description,
            Self::Prompt(tool) => &tool.description,
        }
    }

    /// Whether it answers from its `mock` and does not run.
    pub fn is_mocked(&self) -> bool {
        match self {
            Self::Vectorstore(tool) => tool.mock.is_some(),
            Self::HierarchicalDocument(tool) => tool.mock.is_some(),
            Self::Function(tool) => tool.mock.is_some(),
            Self::Mcp(tool) => tool.mock.is_some(),
            Self::Prompt(tool) => tool.mock.is_some(),
        }
    }
}

/// Runs a Python function (`file` and `function`) or any program (`command`), without a shell.
///
/// The arguments arrive as JSON on standard input, the result is what is printed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// The Python file.
    pub file: Option<PathRef>,
    /// The function in that file.
    #[schemars(regex(pattern = r"\S"))]
    pub function: Option<String>,
    /// The program, instead of `file` and `function`: a name to be found on the path, or a path.
    pub command: Option<PathRef>,
    /// Arguments of the program.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub args: Vec<String>,
    /// Environment variables given to it; of the others it sees only harmless ones.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub env: SecretMap,
    /// What it takes: a JSON Schema for each argument. For Python it can be told from type hints.
    pub parameters: Option<IndexMap<String, JsonMap>>,
    /// Milliseconds a call may take; 30,000 if absent.
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Answers in place of the tool, which then does not run.
    pub mock: Option<MockConfig>,
}

impl PromptTool {
    /// The schema of the arguments.
    pub fn parameters_schema(&self) -> Value {
        parameters_schema(&self.parameters)
    }
}

impl FunctionTool {
    /// How long a call may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(30_000))
    }

    /// The schema of the arguments, if the YAML says what they are.
    pub fn parameters_schema(&self) -> Option<Value> {
        self.parameters.as_ref().map(parameters_schema)
    }
}

/// The schema of arguments. All are required but those with a `default`, `required: false` or `optional: true`; the
/// latter two are ours and no JSON Schema, so they are taken out.
pub fn parameters_schema(parameters: &IndexMap<String, JsonMap>) -> Value {
    let mut properties = parameters.clone();
    let mut required = Vec::new();
    for (name, schema) in &mut properties {
        let said = |schema: &mut JsonMap, key| match schema.get(key).and_then(Value::as_bool) {
            Some(said) => {
                schema.shift_remove(key);
                Some(said)
            }
            None => None,
        };
        let (needed, optional) = (said(schema, "required"), said(schema, "optional"));
        if needed.unwrap_or(!optional.unwrap_or(schema.contains_key("default"))) {
            required.push(name.clone());
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Uses the tools of an MCP server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// Name of the server.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// How it is reached.
    #[serde(default)]
    pub transport: McpTransport,
    /// Program that starts it, without a shell: a name to be found on the path, or a path. Required for `stdio`.
    pub command: Option<PathRef>,
    /// Arguments of the program; one that begins with `./` or `../` is a path relative to this file.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub args: Vec<String>,
    /// Environment variables given to it.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub env: SecretMap,
    /// File with further environment variables.
    pub env_file: Option<PathRef>,
    /// Encoding of its output.
    pub encoding: Option<String>,
    /// URL; required unless the transport is `stdio`.
    pub url: Option<String>,
    /// HTTP headers sent to it.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub headers: SecretMap,
    /// Seconds a request may take; goes before `request_timeout`.
    pub timeout: Option<f64>,
    /// Seconds an event stream may be silent.
    pub sse_read_timeout: Option<f64>,
    /// Whether the session is ended on the server too.
    pub terminate_on_close: Option<bool>,
    /// Handed to the server as `MCP_CONFIG`; its `allowed_tools` is a filter.
    pub config: Option<JsonMap>,
    /// Whether its tools are offered to the model.
    #[serde(default = "yes")]
    pub load_tools: bool,
    /// Whether its prompts are offered to the model as tools; not if absent.
    pub load_prompts: Option<bool>,
    /// Seconds a request may take; 60 if absent.
    #[schemars(range(min = 1))]
    pub request_timeout: Option<u32>,
    /// Whether its results are retrieval context.
    #[serde(default)]
    pub is_retrieval: bool,
    /// Whether a run stops when it does not start; otherwise that is a warning.
    #[serde(default = "yes")]
    pub required: bool,
    /// Whether it may put questions to the agent's model while one of its tools is called (sampling). They count as the
    /// agent's own.
    #[serde(default, skip_serializing_if = "McpSampling::is_denied")]
    pub sampling: McpSampling,
    /// Its name in the MCP registry.
    pub registry_name: Option<String>,
    /// Answers in place of the server, which is then not started.
    pub mock: Option<McpMockConfig>,
}

impl McpTool {
    /// How long a request may take.
    pub fn time_limit(&self) -> Duration {
        self.written_time_limit().unwrap_or(Duration::from_mins(1))
    }

    /// Whether HoloDeck speaks to it whatever the provider: the Claude Code CLI answers no questions of servers.
    pub fn needs_our_client(&self) -> bool {
        self.sampling == McpSampling::Allow
    }

    /// How long a request may take, if that is written.
    pub fn written_time_limit(&self) -> Option<Duration> {
        let seconds = self.timeout.or_else(|| self.request_timeout.map(f64::from))?;
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|limit| !limit.is_zero())
    }
}

/// Whether an MCP server may ask the agent's model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpSampling {
    /// It is refused.
    #[default]
    Deny,
    /// It gets the model's answers.
    Allow,
}

impl McpSampling {
    /// Whether it is refused, which recordings of earlier versions don't mention.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_denied(&self) -> bool {
        *self == Self::Deny
    }
}

/// How an MCP server is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpTransport {
    /// As a child process.
    #[default]
    Stdio,
    /// By server-sent events.
    Sse,
    /// By WebSocket.
    Websocket,
    /// By streamable HTTP.
    Http,
}

/// Asks a model with a prompt of its own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// The prompt; `{{ name }}` stands for the argument of that name.
    #[schemars(regex(pattern = r"\S"))]
    pub template: Option<String>,
    /// A file with the prompt.
    pub file: Option<PathRef>,
    /// What it takes: a JSON Schema for each argument.
    #[schemars(extend("minProperties" = 1))]
    pub parameters: IndexMap<String, JsonMap>,
    /// What of the agent's model is different for this tool; the agent's own if absent.
    pub model: Option<ModelOverrides>,
    /// Answers in place of the tool, which then does not run.
    pub mock: Option<MockConfig>,
}

fn yes() -> bool {
    true
}
