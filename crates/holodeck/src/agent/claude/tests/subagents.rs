//! Sub-agents with built-in tools that the agent itself has not, on the real CLI.

use std::{fs, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{ApprovalAsk, ApprovalDecision, Approver, Occasion, Outcome, Ruling};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::setup::{OLDER, PINNED, agent_at, ask};
use crate::PolicyApprover;
use crate::agent::claude::options::BuiltinChanges;

const AGENTS: &str = "claude:\n  agents:\n    reader: {description: Reads., prompt: Read., tools: [Read]}\n    \
                      plain: {description: Does., prompt: Do.}\n";

fn start(agent: &str) -> AnthropicReply {
    AnthropicReply::tool_use(
        "Agent",
        &json!({"description": "d", "prompt": "p", "subagent_type": agent}),
    )
}

#[tokio::test]
async fn a_sub_agent_uses_a_tool_that_the_agent_itself_and_other_sub_agents_have_not() {
    for version in [PINNED, OLDER] {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in.txt"), "needle inside").unwrap();
        fs::write(outside.path().join("out.txt"), "needle outside").unwrap();
        let read = || AnthropicReply::tool_use("Read", &json!({"file_path": folder.path().join("in.txt")}));
        let out = json!({"file_path": outside.path().join("out.txt")});
        let server = AnthropicServer::replies([
            start("reader"),
            read().and_tool_use("Read", &out),
            AnthropicReply::text("read"),
            read(),
            start("plain"),
            read(),
            AnthropicReply::text("not read"),
            start("general-purpose"),
            read(),
            AnthropicReply::text("not read"),
            start("holodeck-agent"),
            AnthropicReply::text("done"),
        ]);
        let mut yaml = agent_at(&server.url(), folder.path(), AGENTS);
        yaml.version = version;
        let turn = ask(yaml.options().unwrap(), "go").await;
        assert_eq!(turn.result().outcome, Outcome::Completed, "{version}");
        let requests = server.finish();
        let offered = |request: usize| requests[request].tool_names();
        assert_eq!(offered(0), ["Agent"], "{version}");
        assert_eq!(offered(1), ["Read"], "{version}");
        assert!(!offered(5).contains(&"Read"), "{version}");
        let results = |request: usize| requests[request].last_results();
        let [inside, outside] = &results(2)[..] else {
            panic!("{version}: {:?}", results(2));
        };
        assert!(
            inside.0.contains("needle inside") && !inside.1,
            "{version}: {inside:?}"
        );
        assert!(
            outside.1 && !outside.0.contains("needle outside"),
            "{version}: {outside:?}"
        );
        for other in [4, 6, 9] {
            let (text, is_error) = &results(other)[0];
            assert!(*is_error && !text.contains("needle"), "{version} {other}: {text}");
        }
        let (text, is_error) = &results(11)[0];
        assert!(*is_error, "{version}: {text}");
    }
}

#[tokio::test]
async fn a_sub_agent_whose_shell_has_patterns_runs_only_matching_commands() {
    for (version, main) in [(PINNED, false), (OLDER, false), (PINNED, true)] {
        let folder = tempfile::tempdir().unwrap();
        let run = |command: &str| json!({"command": command, "description": "d"});
        let server = AnthropicServer::replies([
            start("runner"),
            AnthropicReply::tool_use("Bash", &run("echo needle"))
                .and_tool_use("Bash", &run("ls -a"))
                .and_tool_use("Bash", &run("echo a; touch made"))
                .and_tool_use("Bash", &run("touch made")),
            AnthropicReply::text("ran"),
            AnthropicReply::text("done"),
        ]);
        // Also where the agent itself may run everything.
        let block = format!(
            "claude:\n  bash: {{enabled: {main}}}\n  agents:\n    runner: {{description: Runs., prompt: Run., tools: ['Bash(echo *)']}}\n"
        );
        let mut yaml = agent_at(&server.url(), folder.path(), &block);
        yaml.version = version;
        ask(yaml.options().unwrap(), "go").await.result();
        let requests = server.finish();
        let results = requests[2].last_results();
        let errors: Vec<bool> = results.iter().map(|result| result.1).collect();
        assert_eq!(errors, [false, true, true, true], "{version} {main}: {results:?}");
        assert!(results[0].0.contains("needle"), "{version} {main}: {results:?}");
        assert!(!folder.path().join("made").exists(), "{version} {main}");
    }
}

/// A person who approves every call, with another command.
struct Rewrites(PolicyApprover);

#[async_trait]
impl Approver for Rewrites {
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling> {
        self.0.decide(ask)
    }

    fn has_person(&self) -> bool {
        true
    }

    async fn ask(&self, _: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        ApprovalDecision::Approve {
            arguments: Some(json!({"command": "mv kept gone", "description": "d"})),
        }
    }
}

#[tokio::test]
async fn a_changed_command_of_a_sub_agent_is_held_against_its_patterns_too() {
    for (tools, is_moved) in [("Bash(touch *)", false), ("Bash", true)] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kept"), "").unwrap();
        let server = AnthropicServer::replies([
            start("runner"),
            AnthropicReply::tool_use("Bash", &json!({"command": "touch made", "description": "d"})),
            AnthropicReply::text("ran"),
            AnthropicReply::text("done"),
        ]);
        let block = format!(
            "claude:\n  permission_mode: manual\n  agents:\n    runner: {{description: Runs., prompt: Run., tools: ['{tools}']}}\n\
             approvals: {{rules: [{{tools: Agent, decision: approve}}]}}\n"
        );
        let yaml = agent_at(&server.url(), folder.path(), &block);
        let options = yaml.options_for(Occasion::Chat, |policy| Arc::new(Rewrites(policy.with_person())));
        ask(options.unwrap(), "go").await.result();
        let (text, is_error) = &server.finish()[2].last_results()[0];
        assert_eq!(*is_error, !is_moved, "{tools}: {text}");
        assert_eq!(folder.path().join("kept").exists(), !is_moved, "{tools}: {text}");
        assert!(!folder.path().join("made").exists(), "{tools}");
    }
}

/// The values of an option of the CLI.
fn values(arguments: &[String], option: &str) -> Option<Vec<String>> {
    let at = arguments.iter().position(|argument| argument == option)?;
    let value = arguments.get(at + 1)?;
    Some(
        value
            .split(',')
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

/// The built-in tools that the CLI gets for a `claude:` block, and whether the agent itself gets a definition.
fn given(claude: &Value, side_effects: BuiltinChanges) -> (Vec<String>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut yaml = agent_at(
        "http://127.0.0.1:9",
        folder.path(),
        &format!("claude: {claude}\n"),
    );
    yaml.side_effects = side_effects;
    let arguments = yaml.options().unwrap().arguments().unwrap();
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    (
        values(&arguments, "--tools").unwrap(),
        arguments.contains(&"--agent".to_owned()),
    )
}

#[test]
fn lists_and_tests_withhold_tools_of_sub_agents_as_they_do_those_of_the_agent() {
    let helper = |tools: &[&str]| json!({"description": "d", "prompt": "p", "tools": tools});
    let agents = json!({"h": helper(&["Read", "Write", "Bash"])});
    let rows: [(Value, &[&str], &[&str]); 7] = [
        (json!({}), &["Agent", "Read", "Write", "Bash"], &["Agent", "Read"]),
        (
            json!({"file_system": {"read": true}}),
            &["Read", "Glob", "Grep", "Agent", "Write", "Bash"],
            &["Read", "Glob", "Grep", "Agent"],
        ),
        (
            json!({"disallowed_tools": ["Write"]}),
            &["Agent", "Read", "Bash"],
            &["Agent", "Read"],
        ),
        (
            json!({"disallowed_tools": ["Bash(rm *)"]}),
            &["Agent", "Read", "Write", "Bash"],
            &["Agent", "Read"],
        ),
        (json!({"allowed_tools": ["Agent"]}), &["Agent"], &["Agent"]),
        (
            json!({"allowed_tools": ["Agent", "Read"]}),
            &["Agent", "Read"],
            &["Agent", "Read"],
        ),
        (json!({"subagents": {"enabled": false}}), &[], &[]),
    ];
    for (mut claude, all, in_test) in rows {
        claude["agents"] = agents.clone();
        for (side_effects, expected) in [
            (BuiltinChanges::AsConfigured, all),
            (BuiltinChanges::Allowed, all),
            (BuiltinChanges::Withheld, in_test),
        ] {
            let (tools, _) = given(&claude, side_effects);
            assert_eq!(tools, expected, "{claude} {side_effects:?}");
        }
    }
    // An agent that needs no definition of itself gets none.
    for claude in [
        json!({"agents": {"h": helper(&["Agent"])}}),
        json!({"file_system": {"read": true}, "agents": {"h": helper(&["Read"])}}),
    ] {
        assert!(!given(&claude, BuiltinChanges::AsConfigured).1, "{claude}");
    }
    let one = json!({"agents": {"h": helper(&["Write"])}});
    assert!(given(&one, BuiltinChanges::AsConfigured).1);
    assert!(!given(&one, BuiltinChanges::Withheld).1);
}
