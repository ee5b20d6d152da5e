//! Which calls need approval, and the effect of the answers.

use std::{future::pending, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend as _, ApprovalAsk, ApprovalDecision, Approver, BackendError, BackendEvent, Outcome, Ruling,
    ToolOutput, TurnRequest,
};
use holodeck_backend_claude::{ClaudeBackend, Edits, Reuse, Tools};
use holodeck_testkit::{AnthropicReply, AnthropicServer, Gate};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;

use crate::setup::{ScriptedApprover, approve_all, ask, options, reject, turn};

fn write(folder: &Path, name: &str) -> Value {
    json!({"file_path": folder.join(name), "content": "the model's"})
}

fn asks_and_answers(events: &[BackendEvent]) -> Vec<String> {
    let lines = events.iter().filter_map(|event| match event {
        BackendEvent::ApprovalAsked(ask) => Some(format!("{}?", ask.tool_name)),
        BackendEvent::ApprovalAnswered { decision, .. } => Some(match decision {
            ApprovalDecision::Approve { arguments: None } => "yes".to_owned(),
            ApprovalDecision::Approve { arguments: Some(_) } => "yes, but".to_owned(),
            ApprovalDecision::Reject { reason } => format!("no: {reason}"),
            ApprovalDecision::Terminate { reason } => format!("stop: {reason}"),
            ApprovalDecision::Withdrawn => "withdrawn".to_owned(),
        }),
        BackendEvent::ApprovalDecided(approval) => {
            Some(format!("{:?}: {:?}", approval.by, approval.decision))
        }
        _ => None,
    });
    lines.collect()
}

#[tokio::test]
async fn in_manual_mode_every_edit_needs_approval() {
    let folder = tempdir().unwrap();
    let at = folder.path().to_owned();
    let call = |name: &str| AnthropicReply::tool_use("Write", &write(&at, name));
    let server = AnthropicServer::replies([
        call("allowed"),
        AnthropicReply::text("one"),
        call("rejected"),
        AnthropicReply::text("two"),
        call("changed"),
        AnthropicReply::text("three"),
        call("terminated"),
    ]);
    let changed = json!({"file_path": at.join("changed"), "content": "the approver's"});
    let approver = ScriptedApprover::new(move |ask: &ApprovalAsk| {
        let file = ask.arguments["file_path"].as_str().unwrap_or_default();
        match file.rsplit('/').next().unwrap_or_default() {
            "rejected" => reject("not today"),
            "changed" => ApprovalDecision::Approve {
                arguments: Some(changed.clone()),
            },
            "terminated" => ApprovalDecision::Terminate {
                reason: "enough".to_owned(),
            },
            _ => ApprovalDecision::approve(),
        }
    });
    let options = options(&server)
        .builtin_tools(["Write"])
        .approver(approver)
        .working_directory(folder.path());
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.create_session().await.unwrap();
    let mut answered = Vec::new();
    for (message, answer) in [("a", "one"), ("b", "two"), ("c", "three")] {
        let log = turn(session.turn(TurnRequest::new(message))).await;
        assert_eq!(log.result().response, answer);
        assert_eq!(log.result().tool_calls[0].arguments["content"], "the model's");
        answered.extend(asks_and_answers(&log.events));
    }
    let log = turn(session.turn(TurnRequest::new("d"))).await;
    let reason = "enough".to_owned();
    assert_eq!(log.result().outcome, Outcome::Terminated { reason });
    answered.extend(asks_and_answers(&log.events));
    session.close().await.unwrap();
    assert_eq!(
        answered,
        [
            "Write?",
            "yes",
            "Write?",
            "no: not today",
            "Write?",
            "yes, but",
            "Write?",
            "stop: enough"
        ]
    );
    let read = |name: &str| std::fs::read_to_string(at.join(name)).ok();
    assert_eq!(read("allowed").as_deref(), Some("the model's"));
    assert_eq!(read("rejected"), None);
    assert_eq!(read("changed").as_deref(), Some("the approver's"));
    assert_eq!(read("terminated"), None);
    let requests = server.finish();
    assert_eq!(requests.len(), 7);
    assert_eq!(requests[3].last_results(), [("not today".to_owned(), true)]);
    assert!(!requests[5].last_results()[0].1);
}

#[tokio::test]
async fn accepted_edits_are_those_in_the_working_directory() {
    let (folder, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Write", &write(folder.path(), "here"))
            .and_tool_use("Write", &write(elsewhere.path(), "there"))
            .and_tool_use("Bash", &json!({"command": "sh -c 'echo made > by_bash'"})),
        AnthropicReply::text("done"),
    ]);
    let approver = ScriptedApprover::new(|_: &ApprovalAsk| reject("no"));
    let options = options(&server)
        .builtin_tools(["Write", "Bash"])
        .edits(Edits::Accept)
        .approver(Arc::clone(&approver) as Arc<dyn Approver>)
        .working_directory(folder.path());
    let log = ask(options, "go").await;
    assert_eq!(log.result().outcome, Outcome::Completed);
    assert_eq!(approver.tools(), ["Write", "Bash"]);
    assert!(folder.path().join("here").exists());
    assert!(!elsewhere.path().join("there").exists());
    assert!(!folder.path().join("by_bash").exists());
    let refused: Vec<_> = server.finish()[1]
        .last_results()
        .into_iter()
        .map(|(_, error)| error)
        .collect();
    assert_eq!(refused, [false, true, true]);
}

/// Also as root, where the CLI refuses to skip permissions.
#[tokio::test]
async fn approving_everything_needs_no_other_mode() {
    let (folder, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Write", &write(elsewhere.path(), "there"))
            .and_tool_use("Bash", &json!({"command": "echo made > by_bash; pwd"})),
        AnthropicReply::text("done"),
    ]);
    let options = options(&server)
        .builtin_tools(["Write", "Bash"])
        .approver(approve_all())
        .working_directory(folder.path());
    let log = ask(options, "go").await;
    assert_eq!(log.result().outcome, Outcome::Completed);
    assert!(elsewhere.path().join("there").exists());
    assert!(folder.path().join("by_bash").exists());
    let real = folder.path().canonicalize().unwrap();
    assert_eq!(log.result().tool_results[1].result, real.display().to_string());
    server.finish();
}

#[tokio::test]
async fn without_an_approver_calls_are_rejected() {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Write", &write(folder.path(), "made")),
        AnthropicReply::text("I may not."),
    ]);
    let options = options(&server)
        .builtin_tools(["Write"])
        .working_directory(folder.path());
    let log = ask(options, "go").await;
    assert_eq!(log.result().response, "I may not.");
    assert_eq!(
        asks_and_answers(&log.events),
        [r#"Mode: Reject { reason: "no approver is configured" }"#]
    );
    assert!(!folder.path().join("made").exists());
    assert_eq!(
        server.finish()[1].last_results(),
        [("no approver is configured".to_owned(), true)]
    );
}

#[tokio::test]
async fn own_and_reading_tools_need_no_approval_unless_a_rule_names_them() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("note.txt");
    std::fs::write(&file, "remember").unwrap();
    let answer = |text: &'static str| move |_: Value, _| async move { ToolOutput::ok(text) };
    let object = json!({"type": "object"});
    let tools = Tools::new()
        .with("look", "Looks.", object.clone(), answer("looked"))
        .with("order", "Orders.", object, answer("ordered"));
    let calls = || {
        AnthropicReply::nothing()
            .and_tool_use("mcp__holodeck_tools__look", &json!({}))
            .and_tool_use("mcp__holodeck_tools__order", &json!({}))
            .and_tool_use("Read", &json!({"file_path": file}))
    };
    for (governed, questions) in [(true, vec!["order", "Read"]), (false, vec!["order"])] {
        let server = AnthropicServer::replies([calls(), AnthropicReply::text("done")]);
        let approver = ScriptedApprover::new(|ask: &ApprovalAsk| match ask.tool_name.as_str() {
            "Read" => reject("no reading"),
            _ => ApprovalDecision::approve(),
        });
        let options = options(&server)
            .builtin_tools(["Read"])
            .governed_tools(governed.then_some("Read"))
            .tools(tools.clone())
            .approved_tools(["look"])
            .approver(Arc::clone(&approver) as Arc<dyn Approver>)
            .working_directory(folder.path());
        let log = ask(options, "go").await;
        assert_eq!(log.result().outcome, Outcome::Completed);
        assert_eq!(approver.tools(), questions);
        let results = server.finish()[1].last_results();
        assert_eq!(
            (results[0].0.as_str(), results[1].0.as_str()),
            ("looked", "ordered")
        );
        let read = if governed { "no reading" } else { "remember" };
        assert!(
            results[2].1 == governed && results[2].0.contains(read),
            "{results:?}"
        );
    }
}

/// Never answers, and opens the gate when the question is withdrawn.
struct SilentApprover(Gate);

#[async_trait]
impl Approver for SilentApprover {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        None
    }

    async fn ask(&self, _: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        let _guard = OpenOnDrop(self.0.clone());
        pending().await
    }
}

struct OpenOnDrop(Gate);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[tokio::test]
async fn an_ask_ends_with_its_turn() {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Write", &write(folder.path(), "made")),
        AnthropicReply::text("fresh"),
    ]);
    let withdrawn = Gate::new();
    let options = options(&server)
        .builtin_tools(["Write"])
        .approver(Arc::new(SilentApprover(withdrawn.clone())))
        .reuse(Reuse::Never)
        .working_directory(folder.path());
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.create_session().await.unwrap();
    let control = session.control();
    {
        let mut events = session.turn(TurnRequest::new("go"));
        loop {
            if let Some(Ok(BackendEvent::ApprovalAsked(_))) = events.next().await {
                break;
            }
        }
        control.interrupt();
        let end = events.next().await;
        assert!(matches!(end, Some(Err(BackendError::Cancelled))), "{end:?}");
    }
    withdrawn.opened().await;
    assert_eq!(session.send("again").await.unwrap().response, "fresh");
    session.close().await.unwrap();
    assert!(!folder.path().join("made").exists());
    server.finish();
}

/// The CLI treats a command that changes files in the working directory as an edit.
#[tokio::test]
async fn shell_commands_need_approval_unless_they_only_read_or_edit() {
    let commands = ["echo hi", "rm kept", "env | sort"];
    for (edits, questions) in [(Edits::Ask, &commands[1..]), (Edits::Accept, &commands[2..])] {
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("kept"), "").unwrap();
        let calls = commands.iter().fold(AnthropicReply::nothing(), |reply, command| {
            reply.and_tool_use("Bash", &json!({ "command": command }))
        });
        let server = AnthropicServer::replies([calls, AnthropicReply::text("done")]);
        let approver = ScriptedApprover::new(|_: &ApprovalAsk| reject("no"));
        let options = options(&server)
            .builtin_tools(["Bash"])
            .edits(edits)
            .approver(Arc::clone(&approver) as Arc<dyn Approver>)
            .working_directory(folder.path());
        ask(options, "go").await.result();
        let arguments = approver.arguments();
        let commands_asked: Vec<_> = arguments.iter().map(|arguments| &arguments["command"]).collect();
        assert_eq!(commands_asked, questions, "{edits:?}");
        assert_eq!(folder.path().join("kept").exists(), edits == Edits::Ask);
        server.finish();
    }
}

/// Approves after a while.
struct SlowApprover(Duration);

#[async_trait]
impl Approver for SlowApprover {
    fn decide(&self, _: &ApprovalAsk) -> Option<Ruling> {
        None
    }

    async fn ask(&self, _: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        tokio::time::sleep(self.0).await;
        ApprovalDecision::approve()
    }
}

/// The real CLI waits for an answer: its input stays open, and the answer is accepted.
async fn answer_after(wait: Duration) {
    let folder = tempdir().unwrap();
    let server = AnthropicServer::replies([
        AnthropicReply::tool_use("Write", &write(folder.path(), "made")),
        AnthropicReply::text("done"),
    ]);
    let options = options(&server)
        .builtin_tools(["Write"])
        .approver(Arc::new(SlowApprover(wait)))
        .working_directory(folder.path());
    let backend = ClaudeBackend::new(options).unwrap();
    let mut session = backend.create_session().await.unwrap();
    let log = turn(session.turn(TurnRequest::new("go"))).await;
    assert_eq!(log.result().response, "done");
    assert_eq!(asks_and_answers(&log.events), ["Write?", "yes"]);
    assert!(folder.path().join("made").exists());
    session.close().await.unwrap();
    server.finish();
}

#[tokio::test]
async fn an_answer_that_takes_a_while_is_accepted() {
    answer_after(Duration::from_secs(3)).await;
}

/// `cargo xtask soak` runs it.
#[tokio::test]
#[ignore = "takes ten minutes"]
async fn an_answer_that_takes_ten_minutes_is_accepted() {
    answer_after(Duration::from_secs(605)).await;
}
