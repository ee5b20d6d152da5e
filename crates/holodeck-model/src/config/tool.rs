//! What an agent can call.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{DatabaseRef, KeywordIndexConfig, ModelConfig};
use crate::value::{
    JsonMap, OneOrMany, PathRef, SecretMap, nullable, read_secrets, tagged_enum, write_secrets,
};

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
}

/// Searches files or records by meaning.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VectorstoreTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// File, directory or URL (s3, az, https, http, file) that is searched.
    pub source: PathRef,
    /// Field or fields of a record that are searched; needs `id_field`.
    pub vector_field: Option<OneOrMany>,
    /// Fields of a record that are returned with it.
    pub meta_fields: Option<Vec<String>>,
    /// Tokens of one chunk; 512 if absent.
    #[schemars(range(min = 1))]
    pub chunk_size: Option<u32>,
    /// Tokens that two chunks share; 50 if absent.
    #[schemars(range(min = 0))]
    pub chunk_overlap: Option<u32>,
    /// Model that makes the embeddings; one per agent.
    pub embedding_model: Option<String>,
    /// Dimensions of the embeddings.
    #[schemars(range(min = 1, max = 10_000))]
    pub embedding_dimensions: Option<u32>,
    /// Where the vectors are kept; in memory if absent.
    pub database: Option<DatabaseRef>,
    /// How many results are returned.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 100))]
    pub top_k: u32,
    /// How similar a result must be.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_similarity_score: Option<f64>,
    /// Field that identifies a record.
    pub id_field: Option<String>,
    /// What joins several vector fields.
    #[serde(default = "newline")]
    pub field_separator: String,
    /// Delimiter of a CSV file; detected if absent.
    pub delimiter: Option<String>,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "records are read from the top of the file"))]
    pub record_path: Option<String>,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "fields keep their names"))]
    pub record_prefix: Option<String>,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "fields keep their names"))]
    pub meta_prefix: Option<String>,
}

/// Searches structured documents by meaning and by words.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HierarchicalDocumentTool {
    /// Name the model calls it by.
    #[schemars(regex(pattern = "^[0-9A-Za-z_]+$"), extend("x-form" = "letters, digits and `_`"))]
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "tools are loaded when the agent starts"))]
    pub defer_loading: bool,
    /// File, directory or URL (s3, az, https, http, file) that is searched.
    pub source: PathRef,
    /// How documents are cut.
    #[serde(default)]
    pub chunking_strategy: ChunkingStrategy,
    /// Tokens of one chunk at most.
    #[serde(default = "eight_hundred")]
    #[schemars(range(min = 100, max = 2000))]
    pub max_chunk_tokens: u32,
    /// Tokens that two chunks share.
    #[serde(default = "fifty")]
    #[schemars(range(min = 0, max = 200))]
    pub chunk_overlap: u32,
    /// What kind of documents they are.
    #[serde(default)]
    pub document_domain: DocumentDomain,
    /// How deep headings are followed.
    #[schemars(range(min = 1))]
    pub max_subsection_depth: Option<u32>,
    /// How it searches.
    #[serde(default)]
    pub search_mode: SearchMode,
    /// How many results are returned.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100))]
    pub top_k: u32,
    /// How good a result must be.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_score: Option<f64>,
    /// Share of the search by meaning.
    #[serde(default = "one_half")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub semantic_weight: f64,
    /// Share of the search by words.
    #[serde(default = "three_tenths")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub keyword_weight: f64,
    /// Share of the search for exact text.
    #[serde(default = "one_fifth")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub exact_weight: f64,
    /// Constant of reciprocal rank fusion.
    #[serde(default = "sixty")]
    #[schemars(range(min = 1))]
    pub rrf_k: u32,
    /// Whether a model describes each chunk's place in its document.
    #[serde(default = "yes")]
    pub contextual_embeddings: bool,
    /// Tokens of such a description.
    #[serde(default = "hundred")]
    #[schemars(range(min = 50, max = 200))]
    pub context_max_tokens: u32,
    /// How many descriptions are made at the same time.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    pub context_concurrency: u32,
    /// Whether definitions are collected.
    #[serde(default = "yes")]
    pub extract_definitions: bool,
    /// Whether references between sections are collected.
    #[serde(default = "yes")]
    pub extract_cross_references: bool,
    /// Whether results are ranked again; needs `reranker_model`.
    #[serde(default)]
    pub enable_reranking: bool,
    /// Model that ranks results again.
    pub reranker_model: Option<ModelConfig>,
    /// Model that describes chunks.
    pub context_model: Option<ModelConfig>,
    /// Model that makes the embeddings; one per agent.
    pub embedding_model: Option<String>,
    /// Where the vectors are kept; in memory if absent.
    pub database: Option<DatabaseRef>,
    /// Where the words are indexed; in memory if absent.
    pub keyword_index: Option<KeywordIndexConfig>,
}

/// How documents are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChunkingStrategy {
    /// By headings.
    #[default]
    Structure,
    /// By length.
    Token,
}

/// What kind of documents are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentDomain {
    /// Nothing special.
    #[default]
    None,
    /// Law of the United States.
    UsLegislative,
    /// Law of Australia.
    AuLegislative,
    /// Papers.
    Academic,
    /// Manuals.
    Technical,
    /// Contracts.
    LegalContract,
}

/// How documents are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// By meaning.
    Semantic,
    /// By words.
    Keyword,
    /// By both.
    #[default]
    Hybrid,
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
}

impl FunctionTool {
    /// How long a call may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(30_000))
    }

    /// The schema of the arguments. All are required but those with a `default`, `required: false` or `optional:
    /// true`; the latter two are ours and no JSON Schema, so they are taken out.
    pub fn parameters_schema(&self) -> Option<Value> {
        let mut properties = self.parameters.clone()?;
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
        Some(json!({ "type": "object", "properties": properties, "required": required }))
    }
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
    /// Program that starts it; required for `stdio`.
    pub command: Option<McpCommand>,
    /// Arguments of the program.
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
    /// Seconds a request may take.
    pub timeout: Option<f64>,
    /// Seconds an event stream may be silent.
    pub sse_read_timeout: Option<f64>,
    /// Whether the session is ended on the server too.
    pub terminate_on_close: Option<bool>,
    /// Handed to the server as `MCP_CONFIG`; its `allowed_tools` is a filter.
    pub config: Option<JsonMap>,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "the tools of a server are always offered"))]
    pub load_tools: bool,
    /// Without effect.
    #[serde(default = "yes")]
    #[schemars(extend("x-no-effect" = "prompts of a server are not used"))]
    pub load_prompts: bool,
    /// Without effect.
    #[serde(default = "sixty")]
    #[schemars(range(min = 1))]
    #[schemars(extend("x-no-effect" = "use `timeout`"))]
    pub request_timeout: u32,
    /// Whether its results are retrieval context.
    #[serde(default)]
    pub is_retrieval: bool,
    /// Its name in the MCP registry.
    pub registry_name: Option<String>,
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

/// Programs that may start an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpCommand {
    /// npx.
    Npx,
    /// node.
    Node,
    /// uvx.
    Uvx,
    /// docker.
    Docker,
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
    /// The prompt.
    #[schemars(regex(pattern = r"\S"))]
    pub template: Option<String>,
    /// A file with the prompt.
    pub file: Option<PathRef>,
    /// What it takes: a JSON Schema for each argument.
    #[schemars(extend("minProperties" = 1))]
    pub parameters: IndexMap<String, JsonMap>,
    /// The model that is asked.
    pub model: Option<JsonMap>,
}

fn yes() -> bool {
    true
}

fn newline() -> String {
    "\n".to_owned()
}

fn five() -> u32 {
    5
}

fn ten() -> u32 {
    10
}

fn fifty() -> u32 {
    50
}

fn sixty() -> u32 {
    60
}

fn hundred() -> u32 {
    100
}

fn eight_hundred() -> u32 {
    800
}

fn one_half() -> f64 {
    0.5
}

fn three_tenths() -> f64 {
    0.3
}

fn one_fifth() -> f64 {
    0.2
}
