use std::{collections::HashMap, fmt, sync::Arc};

use holodeck_backend_api::{
    CallDetails, SideEffects, ToolCall, ToolCx, ToolError, ToolHost, ToolOutput, ToolSpec,
};
use holodeck_model::mcp_tool_name;
use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::reply::{self, Fault};

/// The version answered to a client that names none.
const PROTOCOL: &str = "2025-11-25";

/// Where the CLI writes the model's id of a call.
const CALL_ID: &str = "claudecode/toolUseId";

/// The tools of a [`ToolHost`] as an MCP server whose messages someone else carries.
///
/// It keeps no state between messages: the CLI may shake hands twice, or several CLIs may share one server.
#[derive(Clone)]
pub struct InProcessServer {
    name: String,
    host: Arc<dyn ToolHost>,
    listing: Arc<Value>,
    by_model_name: Arc<HashMap<String, String>>,
}

/// The answer to one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The JSON-RPC message to send back.
    pub message: Value,
    /// Set when a tool could not be run at all. The model is told, but the turn should end as
    /// `tool execution failed: <name>`.
    pub failed: Option<FailedCall>,
    /// The model's id of the call and what is known of it beside its answer, which the message has no place for.
    pub details: Option<(String, CallDetails)>,
}

/// A call of a tool that could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    /// The tool.
    pub name: String,
    /// The model's id of the call.
    pub call_id: String,
    /// Why, for people.
    pub reason: String,
}

/// Why tools can't be offered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerError {
    /// Arguments are an object, and the schema says otherwise.
    #[error("tool `{name}`: the schema of its parameters describes no object")]
    NoObject {
        /// The tool.
        name: String,
    },
    /// Two tools look the same to the model.
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
    /// A server with the tools that `host` has now.
    pub fn new(name: impl Into<String>, host: Arc<dyn ToolHost>) -> Result<Self, ServerError> {
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
            tools.push(listed(spec)?);
        }
        Ok(Self {
            name,
            host,
            listing: Arc::new(json!({ "tools": tools })),
            by_model_name: Arc::new(by_model_name),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the model calls one of its tools.
    pub fn model_name(&self, tool: &str) -> String {
        mcp_tool_name(&self.name, tool)
    }

    /// The tool that the model means by `model_name`; `None` if it is none of this server.
    pub fn tool_of(&self, model_name: &str) -> Option<&str> {
        self.by_model_name.get(model_name).map(String::as_str)
    }

    /// What a handshake would tell, for `sdkMcpServerManifests`: with it the CLI needs none.
    pub fn manifest(&self) -> Value {
        json!({
            "initializeResult": self.initialize_result(PROTOCOL),
            "toolsListResult": *self.listing,
        })
    }

    /// Answers one JSON-RPC message. `cx` is what the tool is given that it may run.
    pub async fn handle(&self, message: &Value, cx: impl Into<ToolCx> + Send) -> Reply {
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let id = message.get("id").unwrap_or(&Value::Null);
            return Reply::of(reply::error(
                id,
                Fault::InvalidRequest,
                "a request needs a `method`",
            ));
        };
        let Some(id) = message.get("id") else {
            return Reply::of(reply::to_notification());
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        match method {
            "initialize" => {
                let asked = params.get("protocolVersion").and_then(Value::as_str);
                let result = self.initialize_result(asked.unwrap_or(PROTOCOL));
                Reply::of(reply::result(id, &result))
            }
            "ping" => Reply::of(reply::result(id, &json!({}))),
            "tools/list" => Reply::of(reply::result(id, &self.listing)),
            "tools/call" => match call_of(id, params) {
                Ok(call) => self.call(id, call, cx.into()).await,
                Err(problem) => Reply::of(reply::error(id, Fault::InvalidParams, problem)),
            },
            other => {
                let message = format!("there is no method `{other}`");
                Reply::of(reply::error(id, Fault::UnknownMethod, message))
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
                ..Reply::of(reply::tool_result(id, &output))
            },
            Err(error) => {
                let text = error.to_string();
                let failed = match error {
                    ToolError::Unavailable { reason, .. } => Some(reason),
                    // A tool that was too slow has run: the model hears of it and goes on.
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

    /// In a task of its own, so that a tool that panics ends its call and nothing else.
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
            .field("tools", &self.by_model_name.len())
            .finish_non_exhaustive()
    }
}

impl Reply {
    fn of(message: Value) -> Self {
        Self {
            message,
            failed: None,
            details: None,
        }
    }
}

/// The id of the request that a `notifications/cancelled` takes back; whoever carries the messages knows whose
/// token that is.
pub fn cancelled_request(message: &Value) -> Option<&Value> {
    let is_it = message.get("method").and_then(Value::as_str) == Some("notifications/cancelled");
    message.get("params").filter(|_| is_it)?.get("requestId")
}

fn listed(spec: &ToolSpec) -> Result<Value, ServerError> {
    let mut tool = Map::new();
    tool.insert("name".to_owned(), spec.name.as_str().into());
    tool.insert("description".to_owned(), spec.description.as_str().into());
    tool.insert("inputSchema".to_owned(), input_schema(spec)?);
    if spec.side_effects == SideEffects::None {
        // Such tools the CLI runs at the same time.
        tool.insert("annotations".to_owned(), json!({ "readOnlyHint": true }));
    }
    Ok(Value::Object(tool))
}

/// MCP wants `type: object`, and the CLI refuses the whole list when one schema lacks it.
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
            Some(_) => Err(ServerError::NoObject {
                name: spec.name.clone(),
            }),
        },
        // As schemas: nothing said, and anything goes.
        Value::Null | Value::Bool(true) => Ok(object()),
        _ => Err(ServerError::NoObject {
            name: spec.name.clone(),
        }),
    }
}

fn call_of(id: &Value, params: &Value) -> Result<ToolCall, &'static str> {
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
    })
}

#[cfg(test)]
mod tests;
