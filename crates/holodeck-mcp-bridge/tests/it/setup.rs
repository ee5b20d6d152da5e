//! Starts real and scripted servers for these tests and calls their tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holodeck_backend_api::{Tool, ToolCx, ToolError, ToolOutput, ToolSource as _};
use holodeck_mcp_bridge::{Connected, McpOptions, McpServer};
use holodeck_model::{Env, McpTool, MemoryFiles, ToolConfig};
use holodeck_yaml::load_agent;
use serde_json::Value;

/// A server of the pinned npm packages.
pub(crate) fn real(name: &str) -> String {
    let place = format!(".smoke/mcp/node_modules/@modelcontextprotocol/server-{name}/dist/index.js");
    let path = workspace().join(place);
    assert!(
        path.is_file(),
        "{} is missing; `cargo xtask smoke` installs it",
        path.display()
    );
    path.display().to_string()
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The variables of this machine that servers get.
pub(crate) fn env() -> Env {
    #[expect(clippy::disallowed_methods, reason = "where this machine's node is")]
    let path = std::env::var("PATH").unwrap();
    Env::from_iter([
        ("PATH", path.as_str()),
        ("HOME", "/nowhere"),
        ("OPENAI_API_KEY", "hush-hush"),
    ])
}

/// An `mcp` tool as written in the YAML.
pub(crate) fn tool(yaml: &str) -> McpTool {
    let lines: Vec<String> = yaml.lines().map(|line| format!("  {line}\n")).collect();
    let text = format!(
        "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Hi}}\ntools:\n- type: mcp\n  \
         description: D.\n{}",
        lines.concat()
    );
    let files = MemoryFiles::new().with("/agent/agent.yaml", text);
    let load = load_agent(Path::new("/agent/agent.yaml"), &env(), &files);
    let agent = load.agent.unwrap_or_else(|| panic!("{:?}", load.diagnostics));
    match agent.config.tools.first().unwrap() {
        ToolConfig::Mcp(tool) => tool.clone(),
        other => panic!("{other:?}"),
    }
}

/// A server that is started as `node SCRIPT`.
pub(crate) fn node(name: &str, script: &str, more: &str) -> McpTool {
    tool(&format!(
        "name: {name}\ncommand: node\nargs: [{script:?}]\n{more}"
    ))
}

pub(crate) fn options(folder: &Path) -> McpOptions {
    let mut options = McpOptions::new(folder, env());
    options.startup = Duration::from_secs(50);
    options
}

pub(crate) async fn connect(tool: &McpTool, options: &McpOptions) -> McpServer {
    let mut connected = try_connect(tool, options).await;
    assert!(connected.failed.is_empty(), "{:?}", connected.failed);
    connected.servers.remove(0)
}

pub(crate) async fn try_connect(tool: &McpTool, options: &McpOptions) -> Connected {
    let mut tool = tool.clone();
    // The YAML of tests has no file.
    if let Some(command) = &tool.command {
        tool.command = Some(holodeck_model::PathRef::new(command.as_str(), &options.base_dir));
    }
    McpServer::connect_all(&[&tool], options).await
}

pub(crate) fn names(server: &McpServer) -> Vec<String> {
    server
        .tools()
        .iter()
        .map(|tool| tool.spec().name.clone())
        .collect()
}

pub(crate) fn find(server: &McpServer, name: &str) -> Arc<dyn Tool> {
    let found = server.tools().into_iter().find(|tool| tool.spec().name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", names(server)))
}

pub(crate) async fn call(server: &McpServer, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
    find(server, name).call(arguments, ToolCx::default()).await
}

pub(crate) async fn text(server: &McpServer, name: &str, arguments: Value) -> String {
    let output = call(server, name, arguments).await.unwrap();
    assert!(!output.is_error, "{}", output.text);
    output.text
}

/// Whether a process exists and is not a zombie.
pub(crate) fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some(Some(state)) if state != 'Z' && state != 'X')
}

/// Polls for a condition.
pub(crate) async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let waiting = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(waited.is_ok(), "{what} did not come to pass");
}
