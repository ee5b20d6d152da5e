//! The effects of settings of the YAML.

use std::{path::Path, sync::Arc};

use holodeck_backend_api::{Outcome, ToolOutput};
use holodeck_backend_claude::Tools;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::tempdir;

use super::setup::{Yaml, agent_at, ask};
use crate::agent::claude::options::BuiltinChanges;

fn own_tools() -> Tools {
    let answer = |_, _| async { ToolOutput::ok("seen") };
    let object = json!({"type": "object"});
    Tools::new()
        .with("look", "Looks.", object.clone(), answer)
        .with("order", "Orders.", object, answer)
}

/// Whether an agent with this `claude:` block runs an edit and a command.
async fn run_edit_and_command(claude: &str) -> (bool, bool) {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use(
            "Write",
            &json!({"file_path": folder.path().join("written"), "content": "x"}),
        )
        .and_tool_use("Bash", &json!({"command": "sh -c 'echo x > by_bash'"})),
        AnthropicReply::text("done"),
    ]);
    let rest = format!("claude:\n  file_system: {{write: true}}\n  bash: {{enabled: true}}\n{claude}");
    let options = agent_at(&server.url(), folder.path(), &rest).options().unwrap();
    assert_eq!(ask(options, "go").await.result().outcome, Outcome::Completed);
    server.finish();
    let exists = |name: &str| folder.path().join(name).exists();
    (exists("written"), exists("by_bash"))
}

#[tokio::test]
async fn permission_modes_without_a_person() {
    assert_eq!(
        run_edit_and_command("  permission_mode: manual\n").await,
        (false, false)
    );
    assert_eq!(
        run_edit_and_command("  permission_mode: acceptEdits\n").await,
        (true, false)
    );
    assert_eq!(
        run_edit_and_command("  permission_mode: acceptAll\n  i_understand_this_is_unsafe: true\n").await,
        (true, true)
    );
    // Tools that the YAML enables are approved.
    assert_eq!(run_edit_and_command("").await, (true, true));
    let rule = "approvals:\n  rules:\n    - {tools: [Write], decision: reject}\n";
    assert_eq!(run_edit_and_command(rule).await, (false, true));
}

async fn offered_tools(yaml: impl Fn(&str, &Path) -> Yaml) -> (Vec<String>, Vec<String>) {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
    let options = yaml(&server.url(), folder.path()).options().unwrap();
    let turn = ask(options, "hi").await;
    turn.result();
    let notices = turn.notices;
    let requests = server.finish();
    let mut names: Vec<_> = requests[0].tool_names().into_iter().map(str::to_owned).collect();
    names.sort_unstable();
    (names, notices)
}

const EVERYTHING: &str = "claude:\n  file_system: {read: true, write: true, edit: true}\n  bash: {enabled: true}\n  \
                          web_search: true\n  subagents: {enabled: true}\n";

#[tokio::test]
async fn tools_are_those_that_are_enabled_and_allowed() {
    let (all, notices) = offered_tools(|url, folder| agent_at(url, folder, EVERYTHING)).await;
    assert_eq!(
        all,
        [
            "Agent",
            "Bash",
            "Edit",
            "Glob",
            "Grep",
            "Read",
            "WebSearch",
            "Write"
        ]
    );
    assert_eq!(notices, <[String; 0]>::default());
    let (some, _) = offered_tools(|url, folder| {
        let rest = format!("{EVERYTHING}  allowed_tools: [Read, Task, look]\n");
        let mut yaml = agent_at(url, folder, &rest);
        yaml.tools = Arc::new(own_tools());
        yaml
    })
    .await;
    assert_eq!(some, ["Agent", "Read", "mcp__holodeck_tools__look"]);
    let (withheld, notices) = offered_tools(|url, folder| {
        let rest = format!("{EVERYTHING}  disallowed_tools: [Grep, mcp__holodeck_tools__order]\n");
        let mut yaml = agent_at(url, folder, &rest);
        yaml.side_effects = BuiltinChanges::Withheld;
        yaml.tools = Arc::new(own_tools());
        yaml
    })
    .await;
    assert_eq!(
        withheld,
        ["Agent", "Glob", "Read", "WebSearch", "mcp__holodeck_tools__look"]
    );
    assert_eq!(notices.len(), 1);
    assert!(notices[0].contains("--allow-side-effects"), "{notices:?}");
}

#[tokio::test]
async fn a_rule_applies_to_tools_that_would_run_without_asking() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "remember").unwrap();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Read", &json!({"file_path": file}))
            .and_tool_use("mcp__holodeck_tools__order", &json!({}))
            .and_tool_use("mcp__holodeck_tools__look", &json!({})),
        AnthropicReply::text("done"),
    ]);
    let rest = "claude:\n  file_system: {read: true}\napprovals:\n  rules:\n    \
                - {tools: [Read, order], decision: reject}\n";
    let mut yaml = agent_at(&server.url(), folder.path(), rest);
    yaml.tools = Arc::new(own_tools());
    ask(yaml.options().unwrap(), "go").await.result();
    assert_eq!(
        server.finish()[1].last_results(),
        [
            ("a rule of this agent rejects `Read`".to_owned(), true),
            ("a rule of this agent rejects `order`".to_owned(), true),
            ("seen".to_owned(), false),
        ]
    );
}
