//! Tests with servers that fail to start, die, hang or answer too late.

use std::path::Path;
use std::time::Duration;

use holodeck_backend_api::{ToolCx, ToolError};
use holodeck_model::McpTool;
use holodeck_model::ServerNeed;
use holodeck_process::{ChildEnv, ProcessSpec, run};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::setup::{call, connect, find, lives, node, options, real, text, tool, try_connect, until};

/// The scripted server with a kind of misbehaviour.
pub(crate) fn scripted(how: &str, folder: &Path, more: &str) -> McpTool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripted.py");
    let memory = folder.join("starts");
    tool(&format!(
        "name: odd\ncommand: python3\nargs: ['{}', {how}, '{}']\n{more}",
        script.display(),
        memory.display()
    ))
}

async fn refusal(tool: &McpTool, startup: Duration) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.startup = startup;
    let connected = try_connect(tool, &options).await;
    assert!(connected.servers.is_empty());
    assert_eq!(connected.failed[0].need, ServerNeed::Required);
    connected.failed[0].reason.clone()
}

#[tokio::test]
async fn the_error_of_a_server_that_does_not_start_has_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let broken = scripted("broken", folder.path(), "env: {TOKEN: sesame-open}");
    assert_eq!(
        refusal(&broken, Duration::from_secs(30)).await,
        "it ended (exit code 1)\nstderr: no such table: ***"
    );
    let missing = tool("name: x\ncommand: no-such-program-anywhere");
    assert_eq!(
        refusal(&missing, Duration::from_secs(30)).await,
        "program `no-such-program-anywhere` not found"
    );
    let silent = scripted("silent", folder.path(), "");
    assert_eq!(
        refusal(&silent, Duration::from_secs(3)).await,
        "no answer within 3 s\nstderr: this server stays silent"
    );
}

#[tokio::test]
async fn older_servers_are_met_as_they_expect() {
    let folder = tempfile::tempdir().unwrap();
    for (how, protocol) in [
        ("strict", "2025-11-25"),
        ("old", "2024-11-05"),
        ("fine", "2025-11-25"),
    ] {
        let server = connect(&scripted(how, folder.path(), ""), &options(folder.path())).await;
        assert_eq!(server.info().protocol, protocol, "{how}");
        assert_eq!(server.info().name.as_deref(), Some("scripted"));
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_belongs_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("late", folder.path(), ""), &options(folder.path())).await;
    assert_eq!(server.info().protocol, "2025-11-25");
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("once", folder.path(), ""), &options(folder.path())).await;
    let first = server.info().process.unwrap();
    // The effect of the call is unknown: it is not sent again, and the model gets an error.
    let output = call(&server, "mcp__odd__die", json!({})).await.unwrap();
    assert!(output.is_error);
    insta::assert_snapshot!(output.text, @r"
    the MCP server `odd` went away during this call and was connected again; whether the call had an effect is not known: exit code 1
    stderr: out of memory
    ");
    assert!(!lives(first));
    assert_eq!(text(&server, "mcp__odd__die", json!({})).await, "die at start 1");
}

#[tokio::test]
async fn a_call_that_only_reads_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("once", folder.path(), ""), &options(folder.path())).await;
    assert_eq!(
        text(&server, "mcp__odd__die_reading", json!({})).await,
        "die_reading at start 1"
    );
}

#[tokio::test]
async fn a_server_that_dies_again_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("mortal", folder.path(), ""), &options(folder.path())).await;
    let error = call(&server, "mcp__odd__die_reading", json!({}))
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @r"
    tool `mcp__odd__die_reading` could not be run: its MCP server `odd` was lost again: exit code 1
    stderr: out of memory
    ");
    assert!(matches!(error, ToolError::Unavailable { .. }));
    // A client that did not kill it would find it here.
    assert!(
        text(&server, "mcp__odd__cancelled", json!({}))
            .await
            .starts_with('[')
    );
}

#[tokio::test]
async fn a_server_killed_while_nothing_is_asked_is_there_for_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(
        &node("everything", &real("everything"), ""),
        &options(folder.path()),
    )
    .await;
    let process = server.info().process.unwrap();
    kill(process).await;
    until("it is gone", || !lives(process)).await;
    assert_eq!(
        text(&server, "mcp__everything__echo", json!({ "message": "x" })).await,
        "Echo: x"
    );
    assert_ne!(server.info().process, Some(process));
}

#[tokio::test]
async fn a_real_server_killed_in_a_call_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(
        &node("everything", &real("everything"), ""),
        &options(folder.path()),
    )
    .await;
    let process = server.info().process.unwrap();
    let slow = find(&server, "mcp__everything__trigger-long-running-operation");
    let call = slow.call(json!({ "duration": 1, "steps": 1 }), ToolCx::default());
    tokio::pin!(call);
    assert!(futures::poll!(&mut call).is_pending());
    kill(process).await;
    // The server declares this tool read-only.
    let output = call.await.unwrap();
    assert!(output.text.contains("completed"), "{}", output.text);
    assert_ne!(server.info().process, Some(process));
}

#[tokio::test]
async fn what_is_stopped_is_taken_back_on_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("fine", folder.path(), ""), &options(folder.path())).await;
    let cancel = CancellationToken::new();
    let cx = ToolCx {
        cancel: cancel.clone(),
        ..ToolCx::default()
    };
    let hanging = find(&server, "mcp__odd__hang");
    let (stopped, ()) = tokio::join!(hanging.call(json!({}), cx), async {
        // A later answer: the server has processed the first request.
        text(&server, "mcp__odd__cancelled", json!({})).await;
        cancel.cancel();
    });
    assert!(matches!(stopped, Err(ToolError::Cancelled)));
    let cancelled = text(&server, "mcp__odd__cancelled", json!({})).await;
    let cancelled: Vec<u64> = serde_json::from_str(&cancelled).unwrap();
    assert_eq!(cancelled.len(), 1);
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_does_not_listen() {
    let folder = tempfile::tempdir().unwrap();
    let server = connect(&scripted("deaf", folder.path(), ""), &options(folder.path())).await;
    let group = server.info().process.unwrap();
    let children = members(group);
    assert_eq!(children.len(), 2);
    drop(server);
    until("both are gone", || children.iter().all(|&child| !lives(child))).await;
}

async fn kill(process: u32) {
    let spec = ProcessSpec::new("/bin/kill", ChildEnv::new()).args(["-9".to_owned(), process.to_string()]);
    let ran = run(&spec, &CancellationToken::new()).await.unwrap();
    assert!(ran.exit.success(), "{}", ran.stderr);
}

/// The processes of a group.
fn members(group: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let belongs = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let rest = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.to_owned())
            .unwrap_or_default();
        rest.split_whitespace().nth(2) == Some(group.to_string().as_str())
    };
    numbers.filter(belongs).collect()
}
