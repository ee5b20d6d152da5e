//! The `tools` block: the functions, searches, prompts and MCP servers that an agent can call.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{HierarchicalDocumentTool, McpMockConfig, MockConfig, ModelOverrides, VectorstoreTool};
use crate::Occasion;
use crate::value::{
    JsonMap, PathRef, SecretMap, nullable, read_secret, read_secrets, tagged_enum, write_secret,
    write_secrets,
};

/// A tool.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(tag = "type")]
pub enum ToolConfig {
    /// Searches files or records by meaning.
    Vectorstore(VectorstoreTool),
    /// Searches structured documents by meaning and by words.
    HierarchicalDocument(HierarchicalDocumentTool),
    /// Runs a Python function or a program.
    Function(FunctionTool),
    /// Uses the tools of an MCP server.
    Mcp(McpTool),
    /// Calls a model with its own prompt.
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

    /// The purpose of the tool, in the author's words.
    pub fn description(&self) -> &str {
        match self {
            Self::Vectorstore(tool) => &tool.description,
            Self::HierarchicalDocument(tool) => &tool.description,
            Self::Function(tool) => &tool.description,
            Self::Mcp(tool) => &tool.description,
            Self::Prompt(tool) => &tool.description,
        }
    }

    /// Whether it answers from its `mock` instead of running.
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
/// The arguments are passed as JSON on standard input; the result is read from standard output.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// The purpose of the tool.
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
    /// Environment variables passed to it; of all others, only harmless ones are passed.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub env: SecretMap,
    /// A JSON Schema for each argument. For Python, they can be derived from type hints.
    pub parameters: Option<IndexMap<String, JsonMap>>,
    /// Milliseconds a call may take; 30,000 if absent.
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Whether a call may change something outside; `none`: it only reads. A command whose failed attempt called such a
    /// tool is not repeated by another executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Answers instead of the tool, which then does not run.
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

    /// The schema of the arguments, if the YAML defines them.
    pub fn parameters_schema(&self) -> Option<Value> {
        self.parameters.as_ref().map(parameters_schema)
    }
}

/// The schema of arguments. All are required except those with a `default`, `required: false` or `optional: true`; the
/// latter two are not JSON Schema and are removed.
pub fn parameters_schema(parameters: &IndexMap<String, JsonMap>) -> Value {
    let mut properties = parameters.clone();
    let mut required = Vec::new();
    for (name, schema) in &mut properties {
        let take_flag = |schema: &mut JsonMap, key| match schema.get(key).and_then(Value::as_bool) {
            Some(flag) => {
                schema.shift_remove(key);
                Some(flag)
            }
            None => None,
        };
        let (needed, optional) = (take_flag(schema, "required"), take_flag(schema, "optional"));
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
    /// The purpose of the tool.
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
    /// Environment variables passed to it.
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
    /// How `holodeck mcp login` asks for access to it; needed only for what the server does not announce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpOauth>,
    /// Seconds a request may take; takes precedence over `request_timeout`.
    pub timeout: Option<f64>,
    /// Seconds an event stream may be silent.
    pub sse_read_timeout: Option<f64>,
    /// Whether the session is ended on the server too.
    pub terminate_on_close: Option<bool>,
    /// Passed to the server as `MCP_CONFIG`; its `allowed_tools` is a filter.
    pub config: Option<JsonMap>,
    /// Whether its tools are offered to the model.
    #[serde(default = "yes")]
    pub load_tools: bool,
    /// Whether its prompts are offered to the model as tools; false if absent.
    pub load_prompts: Option<bool>,
    /// Seconds a request may take; 60 if absent.
    #[schemars(range(min = 1))]
    pub request_timeout: Option<u32>,
    /// Whether its results are retrieval context.
    #[serde(default)]
    pub is_retrieval: bool,
    /// Whether a run stops if the server does not start; otherwise a warning is reported.
    #[serde(default = "yes")]
    pub required: bool,
    /// Whether it may call the agent's model while one of its tools runs (sampling); calls count as the agent's own.
    #[serde(default, skip_serializing_if = "McpSampling::is_denied")]
    pub sampling: McpSampling,
    /// Which trials of a test use the same server: `trials` means all of them; if absent, each trial has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<McpShare>,
    /// Its name in the MCP registry.
    pub registry_name: Option<String>,
    /// Answers instead of the server, which is then not started.
    pub mock: Option<McpMockConfig>,
}

/// Whether the agent can run if an MCP server does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerNeed {
    /// An error.
    Required,
    /// A warning: the tool has `required: false`.
    Optional,
}

impl McpTool {
    /// Whether the agent can run if it does not start.
    pub fn need(&self) -> ServerNeed {
        if self.required {
            ServerNeed::Required
        } else {
            ServerNeed::Optional
        }
    }

    /// How long a request may take.
    pub fn time_limit(&self) -> Duration {
        self.configured_time_limit().unwrap_or(Duration::from_mins(1))
    }

    /// Whether HoloDeck connects to it with every provider: the Claude Code CLI does not support sampling and WebSockets,
    /// starts servers again for each case of a test, and must not get the token of a login.
    pub fn needs_own_client(&self, occasion: Occasion) -> bool {
        self.sampling == McpSampling::Allow
            || self.transport == McpTransport::Websocket
            || self.oauth.is_some()
            || self.share.is_some() && occasion == Occasion::Test
    }

    /// Whether the YAML gives it a token, so that it needs no login.
    pub fn has_own_token(&self) -> bool {
        let mut names = self.headers.keys();
        names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// How long a request may take, if that is configured.
    pub fn configured_time_limit(&self) -> Option<Duration> {
        let seconds = self.timeout.or_else(|| self.request_timeout.map(f64::from))?;
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|limit| !limit.is_zero())
    }
}

/// How access to an MCP server is asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpOauth {
    /// The application's id at the authorization server; if absent, HoloDeck registers itself.
    pub client_id: Option<String>,
    /// The application's secret, if it has one; better as `${VARIABLE}`.
    #[serde(default, deserialize_with = "read_secret", serialize_with = "write_secret")]
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<SecretString>,
    /// The scopes to ask for; if absent, those that the server announces.
    #[serde(default, deserialize_with = "nullable")]
    #[schemars(with = "Option<Vec<String>>")]
    pub scopes: Vec<String>,
    /// The port of `http://127.0.0.1:PORT/callback`, if the authorization server accepts only one; any free port if absent.
    #[schemars(range(min = 1, max = 65535))]
    pub redirect_port: Option<u16>,
}

/// Whether an MCP server may call the agent's model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpSampling {
    /// Its requests are rejected.
    #[default]
    Deny,
    /// Its requests are sent to the model.
    Allow,
}

impl McpSampling {
    /// Whether it is denied, which recordings of earlier versions do not contain.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    fn is_denied(&self) -> bool {
        *self == Self::Deny
    }
}

/// Which trials of a test use the same MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpShare {
    /// All trials.
    Trials,
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

/// Calls a model with its own prompt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// The purpose of the tool.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// The prompt; `{{ name }}` is replaced by the argument of that name.
    #[schemars(regex(pattern = r"\S"))]
    pub template: Option<String>,
    /// A file with the prompt.
    pub file: Option<PathRef>,
    /// A JSON Schema for each argument.
    #[schemars(extend("minProperties" = 1))]
    pub parameters: IndexMap<String, JsonMap>,
    /// Differences from the agent's model for this tool; the agent's model if absent.
    pub model: Option<ModelOverrides>,
    /// Answers instead of the tool, which then does not run.
    pub mock: Option<MockConfig>,
}

fn yes() -> bool {
    true
}

/// Whether a tool may change something outside the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SideEffects {
    /// It only reads.
    None,
    /// It may change something, or its effects are unknown.
    Possible,
}
