//! Other users of the machine must not see an agent's data.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use holodeck_backend_claude::{McpServers, Tools};
use holodeck_testkit::{AnthropicReply, AnthropicServer, Gate};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{ask, children_named, options};

const SECRETS: [&str; 5] = [
    "sk-ant-test-key",
    "the instructions are private",
    "the token of a server",
    "the message is private",
    "the description of a tool",
];

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()).contains(text) {
            found.push(entry.path());
        }
    }
    found
}

#[tokio::test]
async fn nothing_private_is_in_an_argument_or_a_readable_file() {
    let gate = Gate::new();
    let server = AnthropicServer::replies([AnthropicReply::text("done").behind(&gate)]);
    let document = json!({"mcpServers": {"gone": {"command": "false", "env": {"TOKEN": SECRETS[2]}}}});
    let tools = Tools::new().with("look", SECRETS[4], json!({"type": "object"}), |_, _| async {
        holodeck_backend_api::ToolOutput::ok("")
    });
    let options = options(&server)
        .system_prompt(SECRETS[1])
        .tools(tools)
        .mcp_servers(McpServers {
            document: Some(document.to_string().into()),
            servers: Vec::new(),
        });
    let answer = tokio::spawn(ask(options, SECRETS[3]));
    server.until_open(1).await;
    let children = children_named("claude");
    assert_eq!(children.len(), 1);
    let process = PathBuf::from(format!("/proc/{}", children[0]));
    let arguments = String::from_utf8(fs::read(process.join("cmdline")).unwrap()).unwrap();
    assert!(arguments.contains("--system-prompt-file"));
    for secret in SECRETS {
        assert!(!arguments.contains(secret), "{arguments}");
    }
    let environment = String::from_utf8(fs::read(process.join("environ")).unwrap()).unwrap();
    let variable = |name: &str| {
        let mut pairs = environment.split('\0').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(own, value)| (own == name).then(|| PathBuf::from(value)))
    };
    let folder = variable("HOME").unwrap().parent().unwrap().to_owned();
    assert_eq!(mode(&folder), 0o700);
    for name in ["HOME", "CLAUDE_CONFIG_DIR", "TMPDIR", "PWD"] {
        let place = variable(name).unwrap();
        assert!(place.starts_with(&folder), "{name}");
        assert_eq!(mode(&place), 0o700, "{name}");
    }
    let instructions = folder.join("system-prompt.md");
    assert_eq!(mode(&instructions), 0o600);
    assert_eq!(fs::read_to_string(&instructions).unwrap(), SECRETS[1]);
    assert!(!environment.contains(SECRETS[2]));
    // The token of a server is in no file at all.
    assert_eq!(files_with(&folder, SECRETS[2]), Vec::<PathBuf>::new());
    gate.open();
    answer.await.unwrap().result();
    server.finish();
}

/// The child does not inherit the environment.
#[tokio::test]
async fn the_child_gets_only_configured_variables() {
    let gate = Gate::new();
    let server = AnthropicServer::replies([AnthropicReply::text("done").behind(&gate)]);
    let answer = tokio::spawn(ask(options(&server).env("GIVEN", "yes"), "hi"));
    server.until_open(1).await;
    let environment = fs::read(format!("/proc/{}/environ", children_named("claude")[0])).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let names: Vec<_> = environment
        .split('\0')
        .filter_map(|pair| pair.split('=').next())
        .collect();
    assert!(names.contains(&"GIVEN"));
    assert!(!names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
    assert!(!names.contains(&"CLAUDECODE"), "{names:?}");
    gate.open();
    answer.await.unwrap().result();
    server.finish();
}
