//! Offers a tool or prompt of a server as a tool of the agent.

use std::sync::Weak;

use async_trait::async_trait;
use holodeck_backend_api::{CallRefusal, Tool, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec};
use serde_json::Value;

use super::Server;
use super::ask::Ask;

/// A tool or a prompt of a server.
pub(crate) struct ServerTool {
    spec: ToolSpec,
    kind: ToolKind,
    ask: Ask,
    server: Weak<Server>,
}

impl ServerTool {
    pub(crate) fn new(spec: ToolSpec, kind: ToolKind, ask: Ask, server: Weak<Server>) -> Self {
        Self {
            spec,
            kind,
            ask,
            server,
        }
    }
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn kind(&self) -> ToolKind {
        self.kind
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
            let text = "the arguments must be a JSON object";
            return Ok(ToolOutput::refused(CallRefusal::InvalidArguments, text));
        };
        let mut output = tokio::select! {
            biased;
            answer = server.ask(&self.ask, &arguments, &cx) => answer.map_err(unavailable)?,
            // Dropping a request also cancels it on the server.
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
        };
        if self.kind != ToolKind::Retrieval {
            output.details.passages.clear();
        }
        Ok(output)
    }
}
