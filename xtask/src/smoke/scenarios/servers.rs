//! MCP servers: in a file, one of them broken, one in the process of the host.

use anyhow::Result;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::{Value, json};

use super::{Subject, mcp_script, scripted};
use crate::smoke::conversation::Launch;
use crate::smoke::facts::{Facts, listed, text_at};

pub(super) fn run(subject: &Subject, facts: &mut Facts) -> Result<()> {
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("mcp__everything__echo", &json!({"message": "hi"}))
            .and_tool_use("mcp__holodeck__echo", &json!({"text": "ho"})),
        AnthropicReply::text("Both spoke."),
    ]);
    scripted(server, |server| {
        let launch = Launch::new(&server.url())?;
        let script = mcp_script(&subject.mcp)?;
        let config = json!({"mcpServers": {
            "everything": {"type": "stdio", "command": "node", "args": [script, "stdio"], "env": {"ANTHROPIC_API_KEY": ""}},
            "broken": {"type": "stdio", "command": "no-such-program-here", "args": []},
            "holodeck": {"type": "sdk", "name": "holodeck"},
        }});
        let file = launch.file("mcp.json", &config.to_string())?;
        let mut cli = launch
            .args(&["--tools", "", "--mcp-config", &file])
            .args(&["--allowedTools", "mcp__everything,mcp__holodeck__echo"])
            .start(subject)?;
        cli.initialize(&Value::Null)?;
        let turn = cli.turn("Ask both.")?;
        let init = turn.first("system/init");
        let mut servers: Vec<String> = init["mcp_servers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|own| format!("{} {}", text_at(own, "/name"), text_at(own, "/status")))
            .collect();
        servers.sort();
        facts.set("--mcp-config FILE: system/init.mcp_servers", listed(servers));
        let requests = server.requests();
        let offered = requests.first().map(|request| {
            let names = request.tool_names();
            let both = ["mcp__everything__echo", "mcp__holodeck__echo"];
            both.iter().all(|name| names.contains(name))
        });
        facts.either(
            "tools of MCP servers with --tools \"\"",
            offered == Some(true),
            ["offered", "not offered"],
        );
        let mut results: Vec<String> = requests
            .last()
            .map(|request| {
                request
                    .tool_results()
                    .into_iter()
                    .map(|result| first_line(&result.text))
                    .collect()
            })
            .unwrap_or_default();
        results.sort();
        facts.set("results of both servers", listed(results));
        let methods: Vec<&str> = cli
            .asked("mcp_message")
            .into_iter()
            .map(|message| text_at(message, "/message/method"))
            .take_while(|method| *method != "tools/call")
            .collect();
        let mut counted = std::collections::BTreeMap::new();
        for method in methods {
            *counted.entry(method).or_insert(0) += 1;
        }
        facts.set(
            "handshake of an in-process server, named in --mcp-config",
            listed(counted.iter().map(|(method, times)| format!("{method} ×{times}"))),
        );
        let version = cli
            .asked("mcp_message")
            .into_iter()
            .find(|message| message["message"]["method"] == "initialize")
            .map_or_else(String::new, |message| {
                text_at(message, "/message/params/protocolVersion").to_owned()
            });
        facts.set("protocolVersion asked of an in-process server", version);
        cli.close()?;
        Ok(())
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
