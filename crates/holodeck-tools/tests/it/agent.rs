//! A folder with an agent's files, and its tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holodeck_backend_api::{ToolCall, ToolCx, ToolError, ToolHost, ToolOutput};
use holodeck_model::{Env, FunctionTool, PathRef};
use holodeck_tools::{SetupError, Toolbox};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) struct Agent {
    pub(crate) folder: TempDir,
    pub(crate) env: Env,
}

impl Agent {
    pub(crate) fn new() -> Self {
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("OPENAI_API_KEY", "sk-hush"),
            ("LANG", "C.UTF-8"),
        ];
        Self {
            folder: tempfile::tempdir().unwrap(),
            env: env.into_iter().collect(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A tool as configured in the YAML.
    pub(crate) fn config(&self, yaml: &Value) -> FunctionTool {
        let mut config: FunctionTool = serde_json::from_value(json!({
            "name": yaml.get("name").unwrap_or(&json!("tool")),
            "description": "does something",
            "function": yaml.get("function"),
            "args": yaml.get("args"),
            "env": yaml.get("env"),
            "parameters": yaml.get("parameters"),
            "timeout_ms": yaml.get("timeout_ms"),
        }))
        .unwrap();
        let path = |key: &str| Some(PathRef::new(yaml.get(key)?.as_str()?, self.path()));
        (config.file, config.command) = (path("file"), path("command"));
        config
    }

    pub(crate) async fn toolbox(&self, tools: &[Value]) -> Result<Toolbox, Vec<SetupError>> {
        let configs: Vec<_> = tools.iter().map(|yaml| self.config(yaml)).collect();
        let mut toolbox = Toolbox::new();
        let configs: Vec<_> = configs.iter().collect();
        toolbox
            .add_functions(&configs, &self.env, &CancellationToken::new())
            .await?;
        Ok(toolbox)
    }

    pub(crate) async fn try_call(&self, tool: Value, arguments: Value) -> Result<ToolOutput, ToolError> {
        let toolbox = self.toolbox(&[tool]).await.unwrap();
        let name = toolbox.specs()[0].name.clone();
        let output = toolbox.call(&call(&name, arguments), ToolCx::default()).await;
        output.map(plain)
    }

    pub(crate) async fn call(&self, tool: Value, arguments: Value) -> ToolOutput {
        self.try_call(tool, arguments).await.unwrap()
    }
}

/// The output without the details that the toolbox adds.
pub(crate) fn plain(mut output: ToolOutput) -> ToolOutput {
    output.details.kind = None;
    output.details.side_effects = None;
    output
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        name: name.to_owned(),
        arguments,
        call_id: "1".to_owned(),
        provider_fields: None,
    }
}
