use std::sync::Weak;

use async_trait::async_trait;
use holodeck_backend_api::{Tool, ToolCx, ToolError, ToolOutput, ToolSpec};
use serde_json::Value;

use crate::client::server::{Ask, Server};

/// A tool or a prompt of a server.
pub(crate) struct ServerTool {
    spec: ToolSpec,
    ask: Ask,
    server: Weak<Server>,
}

impl ServerTool {
    pub(crate) fn new(spec: ToolSpec, ask: Ask, server: Weak<Server>) -> Self {
        Self { spec, ask, server }
    }
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let unavailable = |reason| ToolError::Unavailable {
            name: self.spec.name.clone(),
            reason,
        };
        let Some(server) = self.server.upgrade() else {
            return Err(unavailable("its MCP server was closed".to_owned()));
        };
        let Value::Object(arguments) = arguments else {
            return Ok(ToolOutput::error("the arguments must be a JSON object"));
        };
        tokio::select! {
            biased;
            answer = server.ask(&self.ask, &arguments, &cx) => answer.map_err(unavailable),
            // Whoever drops a request takes it back on the server too.
            () = cx.cancel.cancelled() => Err(ToolError::Cancelled),
        }
    }
}
