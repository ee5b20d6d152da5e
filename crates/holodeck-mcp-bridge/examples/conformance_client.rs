//! The client under test of the protocol's conformance suite: connects to the given URL, lists the server's items and
//! runs the scenario named in `MCP_CONFORMANCE_SCENARIO`.

use std::{path::Path, process::ExitCode, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{ToolCx, ToolSource as _};
use holodeck_mcp_bridge::{Elicitation, ElicitationAnswer, ElicitationHost, McpOptions, McpServer};
use holodeck_model::{Env, McpTool, MemoryFiles, ToolConfig};
use holodeck_yaml::load_agent;
use serde_json::{Value, json};

/// Accepts every question with the defaults.
struct Agreeable;

#[async_trait]
impl ElicitationHost for Agreeable {
    async fn elicit(&self, _: Elicitation) -> ElicitationAnswer {
        ElicitationAnswer::Accept(json!({}))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match converse().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            #[expect(clippy::print_stderr, reason = "a program for the suite alone")]
            {
                eprintln!("{reason}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn converse() -> Result<(), String> {
    let url = std::env::args().next_back().ok_or("a URL is missing")?;
    let tool = tool(&url)?;
    let mut options = McpOptions::new("/", Env::empty());
    options.elicitation = Some(Arc::new(Agreeable));
    let mut connected = McpServer::connect_all(&[&tool], &options).await;
    if let Some(failed) = connected.failed.pop() {
        return Err(failed.reason);
    }
    let server = connected.servers.pop().ok_or("there is no server")?;
    for (name, arguments) in [
        ("add_numbers", json!({ "a": 5, "b": 3 })),
        ("test_client_elicitation_defaults", json!({})),
        ("test_reconnection", json!({})),
    ] {
        call(&server, name, arguments).await?;
    }
    server.close().await;
    Ok(())
}

/// Calls a tool if the server has it.
async fn call(server: &McpServer, name: &str, arguments: Value) -> Result<(), String> {
    let name = format!("mcp__suite__{name}");
    let tools = server.tools();
    let Some(tool) = tools.iter().find(|tool| tool.spec().name == name) else {
        return Ok(());
    };
    let output = tool.call(arguments, ToolCx::default()).await;
    let output = output.map_err(|error| error.to_string())?;
    if output.is_error { Err(output.text) } else { Ok(()) }
}

fn tool(url: &str) -> Result<McpTool, String> {
    let yaml = format!(
        "name: a\nmodel: {{provider: openai, name: m}}\ninstructions: {{inline: Hi}}\ntools:\n\
         - {{type: mcp, name: suite, description: The suite., transport: http, url: {url:?}}}\n"
    );
    let path = Path::new("/agent.yaml");
    let load = load_agent(path, &Env::empty(), &MemoryFiles::new().with(path, yaml));
    let agent = load.agent.ok_or_else(|| format!("{:?}", load.diagnostics))?;
    match agent.config.tools.first() {
        Some(ToolConfig::Mcp(tool)) => Ok(tool.clone()),
        _ => Err("there is no tool".to_owned()),
    }
}
