//! `config.yaml`: settings shared by the agents of a project or of a user.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeploymentConfig, ExecutionConfig, McpTool, ModelConfig};
use crate::value::{JsonMap, nullable};

/// `config.yaml`: settings shared by the agents of a project or of a user.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GlobalConfig {
    /// Models by provider; they fill what an agent leaves out.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<IndexMap<String, ModelConfig>>")]
    pub providers: IndexMap<String, ModelConfig>,
    /// Vector databases by name.
    #[serde(deserialize_with = "nullable")]
    #[schemars(with = "Option<IndexMap<String, VectorstoreEntry>>")]
    pub vectorstores: IndexMap<String, VectorstoreEntry>,
    /// Time-outs, concurrency and replay.
    pub execution: Option<ExecutionConfig>,
    /// How agents are deployed.
    pub deployment: Option<DeploymentConfig>,
    /// MCP servers that every agent has.
    #[serde(deserialize_with = "nullable")]
    #[schemars(schema_with = "mcp_servers")]
    pub mcp_servers: Vec<McpTool>,
}

/// A vector database under a name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VectorstoreEntry {
    /// Which database.
    #[schemars(regex(pattern = r"\S"))]
    pub provider: String,
    /// Connection string of the database.
    #[schemars(regex(pattern = r"\S"))]
    pub connection_string: String,
    /// Further settings for its connector.
    pub options: Option<JsonMap>,
}

/// A server may have `type: mcp`, as in an agent file.
fn mcp_servers(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut server = <McpTool as JsonSchema>::json_schema(generator);
    if let Some(properties) = server
        .get_mut("properties")
        .and_then(serde_json::Value::as_object_mut)
    {
        properties.insert(
            "type".to_owned(),
            serde_json::json!({ "type": "string", "const": "mcp" }),
        );
    }
    schemars::json_schema!({ "type": ["array", "null"], "items": server })
}
