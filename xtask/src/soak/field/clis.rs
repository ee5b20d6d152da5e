//! Releases of the CLI of Claude Code against a scripted API: each one that the project names, and the newest that the registry
//! serves.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer};
use serde_json::json;

use super::{Outcome, Tested, store};
use crate::served::{Profile, build};
use crate::{host, smoke};

/// The tool is one of HoloDeck's own, the server is one that the CLI starts.
const TOOLS: &str = "\
name: tools
model: {provider: anthropic, name: claude-sonnet-4-5}
instructions: {inline: Answer briefly.}
tools:
  - {type: function, name: weather, description: The weather of a city., command: ./weather.sh, parameters: {city: {type: string}}}
  - {type: mcp, name: everything, description: Examples., command: node, args: [\"SERVER\"]}
test_cases:
  - name: weather
    input: Weather in Paris?
    expected_tools: [weather]
    evaluations: [{metric: contains, value: It is sunny}]
";

const FORMAT: &str = "\
name: format
model: {provider: anthropic, name: claude-sonnet-4-5}
instructions: {inline: Answer briefly.}
response_format: {type: object, properties: {days: {type: integer}}, required: [days]}
test_cases:
  - {name: days, input: How long?, evaluations: [{metric: contains, value: '30'}]}
";

pub(in crate::soak) fn check() -> Result<()> {
    let program = build(Profile::Dev)?;
    let mut outcomes = Vec::new();
    for (version, cli) in smoke::every_cli()? {
        let works = tried(&program, &cli).with_context(|| format!("Claude Code {version}"))?;
        println!("ok    Claude Code {version}: {}", works.join(", "));
        outcomes.push(Outcome {
            program: format!("Claude Code {version}"),
            over: "",
            spoke: String::new(),
            on: "Linux x86-64".to_owned(),
            works: works.into_iter().map(str::to_owned).collect(),
            adapted: Vec::new(),
        });
    }
    store("clis", &outcomes)
}

fn tried(program: &Path, cli: &Path) -> Result<Vec<&'static str>> {
    let tools = TOOLS.replace("SERVER", &smoke::everything()?.display().to_string());
    let tested = test(program, cli, &tools)?;
    tested.ensure_passed()?;
    tested.ensure_usage()?;
    let calls = tested.calls();
    let said: Vec<(&str, &str)> = calls
        .iter()
        .map(|(name, _, result, _)| (name.as_str(), result.trim()))
        .collect();
    let wanted = [
        ("weather", "sunny"),
        ("mcp__everything__echo", "Echo: gingerbread"),
    ];
    ensure!(said == wanted, "the calls are {said:?}");
    let tested = test(program, cli, FORMAT)?;
    tested.ensure_passed()?;
    Ok(vec![
        "a tool of HoloDeck",
        "a tool of an MCP server",
        "structured answers",
        "usage",
    ])
}

fn test(program: &Path, cli: &Path, agent: &str) -> Result<Tested> {
    let server = AnthropicServer::answering(scripted);
    let folder = tempfile::tempdir()?;
    let tool = folder.path().join("weather.sh");
    fs::write(&tool, "#!/bin/sh\necho sunny\n")?;
    host::run(host::command("chmod").arg("755").arg(&tool))?;
    let cli = cli.to_str().context("the path of the CLI is not text")?;
    let env = [
        ("HOLODECK_CLAUDE_CLI", cli),
        ("ANTHROPIC_BASE_URL", &server.url()),
        ("ANTHROPIC_API_KEY", "sk-ant-field"),
    ];
    let tested = Tested::new(program, folder.path(), agent, &env)?;
    server.finish();
    Ok(tested)
}

fn scripted(request: &AnthropicRequest) -> AnthropicReply {
    let blocks = request
        .messages()
        .iter()
        .filter_map(|message| message["content"].as_array());
    let results = blocks
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .count();
    let offers = |end: &str| request.tool_names().into_iter().find(|name| name.ends_with(end));
    match (offers("weather"), offers("StructuredOutput"), results) {
        (Some(weather), _, 0) => AnthropicReply::tool_use(weather, &json!({"city": "Paris"})),
        (Some(_), _, 1) => {
            AnthropicReply::tool_use("mcp__everything__echo", &json!({"message": "gingerbread"}))
        }
        (_, Some(form), 0) => AnthropicReply::tool_use(form, &json!({"days": 30})),
        _ => AnthropicReply::text("It is sunny."),
    }
}
