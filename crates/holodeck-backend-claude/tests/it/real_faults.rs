//! Faults around the real CLI.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use async_trait::async_trait;
use holodeck_backend_api::{
    AgentBackend as _, ApprovalAsk, ApprovalDecision, Approver, BackendError, Outcome, Ruling, ToolOutput,
    TurnRequest,
};
use holodeck_backend_claude::{ClaudeBackend, Tools};
use holodeck_process::{ChildEnv, ProcessSpec};
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::setup::{PATH, approve_all, ask, cli, collect_events, options, options_of};

/// The CLI behind a script with these lines.
fn wrap_cli(folder: &Path, lines: &str) -> std::path::PathBuf {
    let path = folder.join("claude");
    fs::write(
        &path,
        format!("#!/bin/sh\n{lines}\nexec '{}' \"$@\"\n", cli().display()),
    )
    .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_tool_that_panics_ends_the_turn_by_name() {
    let server = AnthropicServer::answering(|request| match request.tool_results().first() {
        Some(_) => AnthropicReply::text("so be it"),
        None => AnthropicReply::tool_use("mcp__holodeck_tools__brittle", &json!({})),
    });
    let parameters = json!({"type": "object"});
    let tools = Tools::new().with("brittle", "Breaks.", parameters, |_, _| async {
        assert!(!std::hint::black_box(true), "expected by the test");
        ToolOutput::ok("")
    });
    let backend = ClaudeBackend::new(options(&server).tools(tools)).unwrap();
    for _ in 0..2 {
        let result = backend.invoke_once("Break.", &[]).await.unwrap();
        assert!(
            matches!(&result.outcome, Outcome::ToolFailed { name, reason: Some(_) } if name == "brittle")
        );
        assert_eq!(result.error_reason().unwrap(), "tool execution failed: brittle");
    }
    backend.teardown().await.unwrap();
    let _ = server.finish_unchecked();
}

/// Panics in `decide` or in `ask`.
struct PanickingApprover {
    at_once: bool,
}

#[async_trait]
impl Approver for PanickingApprover {
    fn decide(&self, ask: &ApprovalAsk) -> Option<Ruling> {
        assert!(!self.at_once, "expected by the test, at {}", ask.tool_name);
        None
    }

    async fn ask(&self, ask: &ApprovalAsk, _: &CancellationToken) -> ApprovalDecision {
        panic!("expected by the test, at {}", ask.tool_name);
    }
}

#[tokio::test]
async fn an_approver_that_panics_approves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("written.txt");
    let target = file.clone();
    let server = AnthropicServer::answering(move |request| match request.tool_results().first() {
        Some(result) => AnthropicReply::text(result.text.clone()),
        None => AnthropicReply::tool_use("Write", &json!({"file_path": target, "content": "x"})),
    });
    for at_once in [true, false] {
        let options = options(&server)
            .working_directory(folder.path())
            .builtin_tools(["Write"])
            .approver(Arc::new(PanickingApprover { at_once }));
        let log = ask(options, "Write.").await;
        let response = &log.result().response;
        assert!(response.contains("the approval failed"), "{response}");
        assert!(!file.exists());
    }
    server.finish();
}

#[tokio::test]
async fn a_failed_write_is_reported_with_the_systems_message() {
    let folder = tempfile::tempdir().unwrap();
    let cli = wrap_cli(folder.path(), "ulimit -f 0");
    let server = AnthropicServer::replies([]);
    let backend = ClaudeBackend::new(options_of(&cli, &server)).unwrap();
    let error = backend.initialize().await.unwrap_err();
    assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the Claude Code CLI exited during startup: killed by SIGXFSZ"
    );
    server.finish();
}

/// A config directory of 4 KiB, if mounting is allowed.
const FULL: &str = r#"
[ -n "$FULL" ] || FULL=1 exec unshare -rm "$0" "$@"
mount -t tmpfs -o size=4k tmpfs "$CLAUDE_CONFIG_DIR" || exit 1"#;

#[tokio::test]
async fn a_full_disk_costs_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let env: ChildEnv = [("PATH".into(), PATH.into())].into_iter().collect();
    let probe = ProcessSpec::new("unshare", env).args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    let may_mount = holodeck_process::run(&probe, &CancellationToken::new()).await;
    let cli = match may_mount.and_then(holodeck_process::ProcessOutput::check) {
        Ok(_) => wrap_cli(folder.path(), FULL),
        // Mounting is not allowed here; at least the wrapped CLI has to work.
        Err(_) => wrap_cli(folder.path(), ""),
    };
    let server = AnthropicServer::answering(|_| AnthropicReply::text("x".repeat(50_000)));
    let backend = ClaudeBackend::new(options_of(&cli, &server)).unwrap();
    for _ in 0..2 {
        let answer = backend.invoke_once("Hi.", &[]).await.unwrap();
        assert_eq!(answer.response.len(), 50_000);
    }
    backend.teardown().await.unwrap();
    server.finish();
}

#[tokio::test]
async fn an_error_of_the_endpoint_leaves_no_process() {
    let server = AnthropicServer::answering(|_| AnthropicReply::error(401, "no"));
    let backend = ClaudeBackend::new(options(&server)).unwrap();
    let (_, error) = collect_events(backend.start(TurnRequest::new("Hi."))).await;
    let error = error.unwrap();
    assert!(
        matches!(
            error,
            BackendError::Provider {
                status: Some(401),
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.is_credentials());
    backend.teardown().await.unwrap();
    drop(backend);
    let _ = server.finish_unchecked();
}

/// The agent's own shell can send the CLI the signal of Ctrl-C.
#[tokio::test]
async fn an_agent_that_interrupts_its_own_cli_does_not_look_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let server = AnthropicServer::answering(|request| {
        if request.tool_results().is_empty() {
            AnthropicReply::tool_use("Bash", &json!({"command": "kill -INT $PPID; sleep 20"}))
        } else {
            AnthropicReply::text("still here")
        }
    });
    let options = options(&server)
        .builtin_tools(["Bash"])
        .approver(approve_all())
        .working_directory(folder.path());
    let end = ask(options, "go").await.end;
    match end {
        Err(BackendError::Session { .. } | BackendError::Terminated { .. }) => {}
        other => panic!("{other:?}"),
    }
    server.finish();
}
