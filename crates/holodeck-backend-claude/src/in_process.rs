//! The agent's own tools as an in-process MCP server: the CLI sends its messages over the control channel.

use std::{collections::HashMap, fmt, sync::Arc};

use holodeck_backend_api::{
    CallDetails, SideEffects, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_model::mcp_tool_name;
use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::reply::{self, Fault};

/// The protocol version for clients that request none.
const PROTOCOL: &str = "2025-11-25";

/// The `_meta` field with the model's id of a call.
const CALL_ID: &str = "claudecode/toolUseId";

/// The tools of a [`ToolHost`] as an MCP server without a transport.
///
/// It is stateless: the CLI may repeat the handshake, and several CLIs may share one server.
#[derive(Clone)]
pub(crate) struct InProcessServer {
    name: String,
    host: Arc<dyn ToolHost>,
    listing: Arc<Value>,
}

/// The answer to one message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    /// The JSON-RPC message to send back.
    pub(crate) message: Value,
    /// Set when a tool could not be run at all. The model gets an error result, but the turn should end as
    /// `tool execution failed: <name>`.
    pub(crate) failed: Option<FailedCall>,
    /// The model's id of the call and the details that the MCP message cannot contain.
    pub(crate) details: Option<(String, CallDetails)>,
}

/// A call of a tool that could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCall {
    /// The tool.
    pub(crate) name: String,
    /// The model's id of the call.
    pub(crate) call_id: String,
    /// The reason, as readable text.
    pub(crate) reason: String,
}

/// Why tools can't be offered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum ServerError {
    /// Arguments are always an object, but the schema does not describe one.
    #[error("tool `{name}`: the schema of its parameters must have the type `object`")]
    NotAnObject {
        /// The tool.
        name: String,
    },
    /// Two tools have the same name for the model.
    #[error("tools `{first}` and `{second}` have the same name for the model, `{model_name}`")]
    SameName {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The name.
        model_name: String,
    },
}

impl InProcessServer {
    /// A server with the current tools of `host`.
    pub(crate) fn new(name: impl Into<String>, host: Arc<dyn ToolHost>) -> Result<Self, ServerError> {
        let name = name.into();
        let mut by_model_name = HashMap::new();
        let mut tools = Vec::new();
        for spec in host.specs() {
            let model_name = mcp_tool_name(&name, &spec.name);
            if let Some(first) = by_model_name.insert(model_name.clone(), spec.name.clone()) {
                return Err(ServerError::SameName {
                    first,
                    second: spec.name.clone(),
                    model_name,
                });
            }
            tools.push(list_entry(spec)?);
        }
        Ok(Self {
            name,
            host,
            listing: Arc::new(json!({ "tools": tools })),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The model's name of a tool.
    pub(crate) fn model_name(&self, tool: &str) -> String {
        mcp_tool_name(&self.name, tool)
    }

    /// The results of a handshake, for `sdkMcpServerManifests`: with them the CLI skips the handshake.
    pub(crate) fn manifest(&self) -> Value {
        json!({
            "initializeResult": self.initialize_result(PROTOCOL),
            "toolsListResult": *self.listing,
        })
    }

    /// Answers one JSON-RPC message. `cx` is passed to the tool that it calls.
    pub(crate) async fn handle(&self, message: &Value, cx: impl Into<ToolCx> + Send) -> Reply {
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let id = message.get("id").unwrap_or(&Value::Null);
            return Reply::new(reply::error(
                id,
                Fault::InvalidRequest,
                "a request needs a `method`",
            ));
        };
        let Some(id) = message.get("id") else {
            return Reply::new(reply::to_notification());
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        match method {
            "initialize" => {
                let requested = params.get("protocolVersion").and_then(Value::as_str);
                let result = self.initialize_result(requested.unwrap_or(PROTOCOL));
                Reply::new(reply::result(id, &result))
            }
            "ping" => Reply::new(reply::result(id, &json!({}))),
            "tools/list" => Reply::new(reply::result(id, &self.listing)),
            "tools/call" => match parse_call(id, params) {
                Ok(call) => self.call(id, call, cx.into()).await,
                Err(problem) => Reply::new(reply::error(id, Fault::InvalidParams, problem)),
            },
            other => {
                let message = format!("unknown method `{other}`");
                Reply::new(reply::error(id, Fault::UnknownMethod, message))
            }
        }
    }

    fn initialize_result(&self, protocol: &str) -> Value {
        json!({
            "protocolVersion": protocol,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": self.name, "version": env!("CARGO_PKG_VERSION") },
        })
    }

    async fn call(&self, id: &Value, call: ToolCall, cx: ToolCx) -> Reply {
        let (name, call_id) = (call.name.clone(), call.call_id.clone());
        let result = self.run(call, cx).await;
        match result {
            Ok(output) => Reply {
                details: Some((call_id, output.details.clone())),
                ..Reply::new(reply::tool_result(id, &output))
            },
            Err(error) => {
                let text = error.to_string();
                let failed = match error {
                    ToolError::Unavailable { reason, .. } => Some(reason),
                    // A tool that timed out has run: the model gets the error and continues.
                    _ => None,
                };
                Reply {
                    message: reply::tool_result(id, &ToolOutput::error(text)),
                    failed: failed.map(|reason| FailedCall {
                        name,
                        call_id,
                        reason,
                    }),
                    details: None,
                }
            }
        }
    }

    /// Runs the tool in a separate task, so that a panic ends only this call.
    async fn run(&self, call: ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let host = Arc::clone(&self.host);
        let name = call.name.clone();
        let running = tokio::spawn(async move { host.call(&call, cx).await });
        match AbortOnDropHandle::new(running).await {
            Ok(result) => result,
            Err(error) if error.is_cancelled() => Err(ToolError::Cancelled),
            Err(_panic) => Err(ToolError::Unavailable {
                name,
                reason: "it panicked".to_owned(),
            }),
        }
    }
}

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessServer")
            .field("name", &self.name)
            .field("tools", &self.host.specs().len())
            .finish_non_exhaustive()
    }
}

impl Reply {
    fn new(message: Value) -> Self {
        Self {
            message,
            failed: None,
            details: None,
        }
    }
}

fn list_entry(spec: &ToolSpec) -> Result<Value, ServerError> {
    let mut tool = Map::new();
    tool.insert("name".to_owned(), spec.name.as_str().into());
    tool.insert("description".to_owned(), spec.description.as_str().into());
    tool.insert("inputSchema".to_owned(), input_schema(spec)?);
    if spec.side_effects == SideEffects::None {
        // The CLI runs these tools in parallel.
        tool.insert("annotations".to_owned(), json!({ "readOnlyHint": true }));
    }
    Ok(Value::Object(tool))
}

/// MCP requires `type: object`, and the CLI rejects the whole list if one schema lacks it.
fn input_schema(spec: &ToolSpec) -> Result<Value, ServerError> {
    let object = || json!({ "type": "object" });
    match &spec.parameters {
        schema @ Value::Object(fields) => match fields.get("type") {
            Some(Value::String(kind)) if kind == "object" => Ok(schema.clone()),
            None => {
                let mut typed = Map::from_iter([("type".to_owned(), "object".into())]);
                typed.extend(fields.clone());
                Ok(Value::Object(typed))
            }
            Some(_) => Err(ServerError::NotAnObject {
                name: spec.name.clone(),
            }),
        },
        // As schemas, both allow any arguments.
        Value::Null | Value::Bool(true) => Ok(object()),
        _ => Err(ServerError::NotAnObject {
            name: spec.name.clone(),
        }),
    }
}

fn parse_call(id: &Value, params: &Value) -> Result<ToolCall, &'static str> {
    let name = params.get("name").and_then(Value::as_str);
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => json!({}),
        Some(arguments @ Value::Object(_)) => arguments.clone(),
        Some(_) => return Err("`arguments` must be an object"),
    };
    let call_id = params
        .get("_meta")
        .and_then(|meta| meta.get(CALL_ID))
        .and_then(Value::as_str)
        .map_or_else(|| id.to_string(), str::to_owned);
    Ok(ToolCall {
        name: name.ok_or("`name` must be the name of a tool")?.to_owned(),
        arguments,
        call_id,
        provider_fields: None,
    })
}

#[cfg(test)]
mod tests;
