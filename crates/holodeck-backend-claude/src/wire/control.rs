//! Reads the requests that the CLI sends to its host, and the answers to the host's own requests.

use holodeck_backend_api::Elicitation;
use serde_json::{Map, Value};

use super::{Frame, fields::Fields as _};

/// A request of the CLI to the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HostRequest {
    /// Whether a tool may run.
    CanUseTool(CanUseTool),
    /// A JSON-RPC message for a tool server inside the host.
    McpMessage { server_name: String, message: Value },
    /// A call of a hook that the host registered.
    HookCallback {
        callback_id: String,
        input: Value,
        tool_use_id: Option<String>,
    },
    /// A question of an MCP server to the person; `None` if it has no schema, such as one that opens a page.
    Elicitation(Option<Elicitation>),
    /// A request of an unknown kind.
    Other {
        subtype: String,
        body: Map<String, Value>,
    },
}

/// Asks whether a tool may run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CanUseTool {
    pub(crate) tool_name: String,
    pub(crate) input: Value,
    pub(crate) tool_use_id: Option<String>,
    pub(crate) description: Option<String>,
    /// Set when a subagent asks.
    pub(crate) agent_id: Option<String>,
    pub(crate) blocked_path: Option<String>,
    pub(crate) decision_reason: Option<String>,
    pub(crate) decision_reason_type: Option<String>,
}

/// An error answer to a request of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlError {
    pub(crate) message: String,
    pub(crate) code: Option<String>,
}

pub(super) fn host_request(mut body: Map<String, Value>) -> HostRequest {
    let subtype = body.take_text("subtype").unwrap_or_default();
    match subtype.as_str() {
        "can_use_tool" => HostRequest::CanUseTool(CanUseTool {
            tool_name: body.take_text("tool_name").unwrap_or_default(),
            input: body.take_value("input").unwrap_or_else(|| Map::new().into()),
            tool_use_id: body.take_text("tool_use_id"),
            description: body.take_text("description"),
            agent_id: body.take_text("agent_id"),
            blocked_path: body.take_text("blocked_path"),
            decision_reason: body.take_text("decision_reason"),
            decision_reason_type: body.take_text("decision_reason_type"),
        }),
        "mcp_message" => HostRequest::McpMessage {
            server_name: body.take_text("server_name").unwrap_or_default(),
            message: body.take_value("message").unwrap_or_default(),
        },
        "hook_callback" => HostRequest::HookCallback {
            callback_id: body.take_text("callback_id").unwrap_or_default(),
            input: body.take_value("input").unwrap_or_default(),
            tool_use_id: body.take_text("tool_use_id"),
        },
        "elicitation" => HostRequest::Elicitation(elicitation(body)),
        _ => HostRequest::Other { subtype, body },
    }
}

fn elicitation(mut body: Map<String, Value>) -> Option<Elicitation> {
    Some(Elicitation {
        server: body.take_text("mcp_server_name")?,
        message: body.take_text("message")?,
        schema: body.take_value("requested_schema")?,
    })
}

/// Returns the body as an error if it has no request id.
pub(super) fn response(mut body: Map<String, Value>) -> Result<Frame, Map<String, Value>> {
    let Some(request_id) = body.take_text("request_id") else {
        return Err(body);
    };
    let outcome = match body.get("subtype").and_then(Value::as_str) {
        Some("error") => Err(ControlError {
            message: body.take_text("error").unwrap_or_default(),
            code: body.take_text("error_code"),
        }),
        _ => Ok(body.take_value("response").unwrap_or_default()),
    };
    Ok(Frame::ControlResponse { request_id, outcome })
}
