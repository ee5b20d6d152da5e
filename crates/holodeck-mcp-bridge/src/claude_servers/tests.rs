//! Tests of the document for the Claude CLI: every transport, no inherited credentials, and errors without values.

use std::fs;

use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::from_str;

use super::*;

fn tool(fields: Value) -> McpTool {
    let mut all = json!({"name": "srv", "description": "d"});
    let Value::Object(fields) = fields else {
        panic!("an object")
    };
    all.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(all).unwrap()
}

fn env() -> Env {
    Env::from_iter([
        ("HOME", "/home/ada"),
        ("TOKEN", "t0ken"),
        ("ANTHROPIC_API_KEY", "sk-hush"),
    ])
}

fn translate(tools: &[McpTool]) -> Result<ClaudeServers, Vec<Diagnostic>> {
    let tools: Vec<&McpTool> = tools.iter().collect();
    ClaudeServers::translate(&tools, Path::new("/agents/a"), &env(), &["ANTHROPIC_API_KEY"])
}

fn document(servers: &ClaudeServers) -> Value {
    from_str(servers.document().expose_secret()).unwrap()
}

fn messages(diagnostics: &[Diagnostic]) -> Vec<&str> {
    diagnostics
        .iter()
        .map(|diagnostic| diagnostic.message.as_str())
        .collect()
}

#[test]
fn every_transport_in_one_document() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mcp.env");
    fs::write(&file, "# comment\nFROM_FILE=${TOKEN}\nBOTH=file\n").unwrap();
    let servers = translate(&[
        tool(json!({"name": "files", "command": "npx", "args": ["-y", "@x/server", "./data", "../up/x", "--flag=./y"],
            "env": {"BOTH": "env", "KEY": "k"}, "env_file": file, "timeout": 2.5,
            "config": {"allowed_tools": ["read", "list"], "root": "/"}})),
        tool(json!({"name": "web", "transport": "http", "url": "https://mcp.test/v1", "headers": {"Authorization": "Bearer t"}})),
        tool(json!({"name": "stream", "transport": "sse", "url": "http://localhost:1/sse", "timeout": 0.2, "required": false})),
    ])
    .unwrap();
    assert_snapshot!(serde_json::to_string_pretty(&document(&servers)).unwrap());
    assert_eq!(servers.warnings, []);
    let first = servers.servers.first().unwrap();
    assert_eq!(
        first.allowed_tools.as_deref(),
        Some(&["read".to_owned(), "list".to_owned()][..])
    );
    assert_eq!(
        format!("{servers:?}"),
        r#"[ClaudeServer { name: "files", need: Required, .. }, ClaudeServer { name: "web", need: Required, .. }, ClaudeServer { name: "stream", need: Optional, .. }]"#
    );
}

#[test]
fn programs_are_names_or_paths_beside_the_yaml() {
    for (command, expected) in [
        ("npx", "npx"),
        ("./server.sh", "/agents/a/server.sh"),
        ("bin/server", "/agents/a/bin/server"),
        ("../x", "/agents/x"),
        ("/usr/bin/env", "/usr/bin/env"),
    ] {
        let servers = translate(&[tool(json!({ "command": command, "required": false }))]).unwrap();
        assert_eq!(document(&servers)["mcpServers"]["srv"]["command"], expected);
        assert_eq!(servers.servers.first().unwrap().need, ServerNeed::Optional);
    }
}

#[test]
fn credentials_are_blank_unless_the_yaml_gives_them() {
    let environment =
        |fields| document(&translate(&[tool(fields)]).unwrap())["mcpServers"]["srv"]["env"].clone();
    let plain = environment(json!({"command": "node"}));
    assert_eq!(plain["ANTHROPIC_API_KEY"], "");
    assert_eq!(plain["CLAUDE_CODE_MESSAGING_TOKEN"], "");
    assert_eq!(plain["HOME"], "/home/ada");
    let given = environment(json!({"command": "node", "env": {"ANTHROPIC_API_KEY": "mine", "HOME": "/srv"}}));
    assert_eq!(given["ANTHROPIC_API_KEY"], "mine");
    assert_eq!(given["HOME"], "/srv");
}

/// The real CLI (2.1.197 and 2.1.330) returns `${NAME}` for it.
#[test]
fn the_cli_can_replace_nothing() {
    let servers = translate(&[tool(
        json!({"command": "node", "args": ["${ANTHROPIC_API_KEY}", "$HOME"], "env": {"A": "${HOME}x${B:-c}"}}),
    )])
    .unwrap();
    let server = &document(&servers)["mcpServers"]["srv"];
    assert_eq!(
        server["args"],
        json!(["${HOLODECK_:-$}{ANTHROPIC_API_KEY}", "$HOME"])
    );
    assert_eq!(server["env"]["A"], "${HOLODECK_:-$}{HOME}x${HOLODECK_:-$}{B:-c}");
}

#[test]
fn fields_without_effect_are_named() {
    let servers = translate(&[
        tool(json!({"name": "old", "command": "node", "encoding": "utf-8", "url": "https://x.test"})),
        tool(json!({"name": "web", "transport": "http", "url": "https://x.test", "env": {"A": "b"}})),
    ])
    .unwrap();
    assert_eq!(
        messages(&servers.warnings),
        [
            "MCP server `old`: `encoding`, `url` have no effect on a Claude agent with this transport",
            "MCP server `web`: `env` has no effect on a Claude agent with this transport",
        ]
    );
    assert_eq!(servers.servers.len(), 2);
}

#[test]
fn names_are_free_and_accepted() {
    let names = ["holodeck_tools", "constructor", "__proto__", "fine"];
    let tools: Vec<_> = names
        .iter()
        .map(|name| tool(json!({"name": name, "command": "node"})))
        .collect();
    let servers = translate(&tools).unwrap();
    let given: Vec<_> = servers
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(
        given,
        ["holodeck_tools_2", "mcp_constructor", "mcp_proto__", "fine"]
    );
    assert_eq!(servers.warnings.len(), 3);
}

#[test]
fn every_problem_is_reported_without_values() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.env");
    fs::write(&file, "A=hunter2${NOPE}\n").unwrap();
    let errors = translate(&[
        tool(json!({"name": "a", "command": "node", "env_file": "/nowhere.env"})),
        tool(json!({"name": "b", "command": "node", "env_file": file})),
        tool(json!({"name": "c"})),
        tool(json!({"name": "d", "transport": "http"})),
    ])
    .unwrap_err();
    assert_eq!(
        messages(&errors),
        [
            "can't read `/nowhere.env`, the `env_file` of MCP server `a`: no such file or directory"
                .to_owned(),
            format!(
                "environment variable `NOPE`, which `{}` uses, is not set",
                file.display()
            ),
            "MCP server `c` has no `command`".to_owned(),
            "MCP server `d` has no `url`".to_owned(),
        ]
    );
    assert!(!format!("{errors:?}").contains("hunter2"));
}
