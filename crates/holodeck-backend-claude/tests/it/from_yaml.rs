//! Settings of the YAML, as the model and the world see them.

use std::{path::Path, sync::Arc};

use holodeck_backend_api::{Outcome, ToolOutput};
use holodeck_backend_claude::{BuiltinChanges, Tools};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::tempdir;

use crate::{
    setup::{ask, told},
    yaml::{Yaml, agent_at},
};

fn own_tools() -> Tools {
    let answer = |_, _| async { ToolOutput::ok("seen") };
    let object = json!({"type": "object"});
    Tools::new()
        .with("look", "Looks.", object.clone(), answer)
        .with("order", "Orders.", object, answer)
}

/// Which of an edit and a command an agent with this `claude:` block carried out.
async fn carried_out(claude: &str) -> (bool, bool) {
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
    let made = |name: &str| folder.path().join(name).exists();
    (made("written"), made("by_bash"))
}

#[tokio::test]
async fn permission_modes_where_nobody_is() {
    assert_eq!(carried_out("  permission_mode: manual\n").await, (false, false));
    assert_eq!(
        carried_out("  permission_mode: acceptEdits\n").await,
        (true, false)
    );
    assert_eq!(
        carried_out("  permission_mode: acceptAll\n  i_understand_this_is_unsafe: true\n").await,
        (true, true)
    );
    // What the YAML switches on is meant.
    assert_eq!(carried_out("").await, (true, true));
    let rule = "approvals:\n  rules:\n    - {tools: [Write], decision: reject}\n";
    assert_eq!(carried_out(rule).await, (false, true));
}

async fn offered(yaml: impl Fn(&str, &Path) -> Yaml) -> (Vec<String>, Vec<String>) {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([AnthropicReply::text("ok")]);
    let options = yaml(&server.url(), folder.path()).options().unwrap();
    let heard = ask(options, "hi").await;
    heard.result();
    let notices = heard.notices().into_iter().map(str::to_owned).collect();
    let requests = server.finish();
    let mut names: Vec<_> = requests[0].tool_names().into_iter().map(str::to_owned).collect();
    names.sort_unstable();
    (names, notices)
}

const EVERYTHING: &str = "claude:\n  file_system: {read: true, write: true, edit: true}\n  bash: {enabled: true}\n  \
                          web_search: true\n  subagents: {enabled: true}\n";

#[tokio::test]
async fn tools_are_those_that_are_switched_on_and_allowed() {
    let (all, notices) = offered(|url, folder| agent_at(url, folder, EVERYTHING)).await;
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
    let (some, _) = offered(|url, folder| {
        let rest = format!("{EVERYTHING}  allowed_tools: [Read, Task, look]\n");
        let mut yaml = agent_at(url, folder, &rest);
        yaml.tools = Arc::new(own_tools());
        yaml
    })
    .await;
    assert_eq!(some, ["Agent", "Read", "mcp__holodeck_tools__look"]);
    let (withheld, notices) = offered(|url, folder| {
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
async fn a_rule_is_heard_about_tools_that_would_run_unasked() {
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
        told(&server.finish()[1]),
        [
            ("a rule of this agent rejects `Read`".to_owned(), true),
            ("a rule of this agent rejects `order`".to_owned(), true),
            ("seen".to_owned(), false),
        ]
    );
}
