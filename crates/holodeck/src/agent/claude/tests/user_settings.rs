//! Settings of the user on the real CLI: they apply only with `setting_sources: [user]`, and then completely.

use std::fs;

use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::json;

use super::setup::{agent_at, ask};
use crate::agent::claude::options::BuiltinChanges;

#[tokio::test]
async fn settings_of_the_user_apply_where_they_are_named_and_only_there() {
    for (sources, applies) in [
        ("", false),
        ("setting_sources: [project]", false),
        ("setting_sources: [user]", true),
        ("setting_sources: [all]", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".claude");
        fs::create_dir_all(own.join("agents")).unwrap();
        fs::write(own.join("CLAUDE.md"), "The user likes gingerbread.\n").unwrap();
        fs::write(
            own.join("agents/baker.md"),
            "---\nname: baker\ndescription: Bakes rye bread.\n---\nBake.\n",
        )
        .unwrap();
        let settings = json!({
            "permissions": {"deny": ["Read(./secret.txt)"]},
            "hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [
                {"type": "command", "command": format!("touch {}", home.path().join("ran").display())}
            ]}]},
        });
        fs::write(own.join("settings.json"), settings.to_string()).unwrap();
        for name in ["secret.txt", "open.txt"] {
            fs::write(folder.path().join(name), format!("needle of {name}")).unwrap();
        }
        let read = |name: &str| json!({"file_path": folder.path().join(name)});
        let server = AnthropicServer::replies([
            AnthropicReply::tool_use("Read", &read("secret.txt")).and_tool_use("Read", &read("open.txt")),
            AnthropicReply::text("done"),
        ]);
        let block =
            format!("claude:\n  file_system: {{read: true}}\n  subagents: {{enabled: true}}\n  {sources}\n");
        let mut yaml = agent_at(&server.url(), folder.path(), &block);
        yaml.env.set("HOME", home.path().display().to_string());
        // A test runs no hooks unasked.
        yaml.side_effects = BuiltinChanges::Withheld;
        assert_eq!(yaml.options().is_err(), applies, "{sources}");
        yaml.side_effects = BuiltinChanges::Allowed;
        ask(yaml.options().unwrap(), "go").await.result();
        let requests = server.finish();
        let asked = requests[0].body().to_string();
        assert_eq!(asked.contains("gingerbread"), applies, "{sources}");
        assert_eq!(asked.contains("rye bread"), applies, "{sources}");
        let results = requests[1].last_results();
        assert_eq!(
            !results[0].0.contains("needle of secret.txt"),
            applies,
            "{sources}: {:?}",
            results[0]
        );
        assert!(
            results[1].0.contains("needle of open.txt"),
            "{sources}: {:?}",
            results[1]
        );
        assert_eq!(home.path().join("ran").exists(), applies, "{sources}");
    }
}
