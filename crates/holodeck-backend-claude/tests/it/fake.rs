//! Tests the fake CLI itself: it follows the recordings and fails as configured.

use std::time::Duration;

use holodeck_backend_api::{BackendEvent, Outcome, ResultFold};
use holodeck_backend_claude::{Replay, replay};
use holodeck_process::{AtLimit, ChildEnv, ProcessError, ProcessOutput, ProcessSpec, run};
use holodeck_testkit::{ClaudeFault, ClaudeStage, FakeClaude};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

const INITIALIZE: &str =
    r#"{"type":"control_request","request_id":"req_1","request":{"subtype":"initialize","hooks":null}}"#;
const MESSAGE: &str =
    r#"{"type":"user","message":{"role":"user","content":"Hi."},"parent_tool_use_id":null,"session_id":""}"#;
const CLEAR: &str = r#"{"type":"user","message":{"role":"user","content":"/clear"},"parent_tool_use_id":null,"session_id":""}"#;
const INTERRUPT: &str =
    r#"{"type":"control_request","request_id":"req_2","request":{"subtype":"interrupt"}}"#;
const REFUSAL: &str =
    r#"{"type":"control_response","response":{"subtype":"error","request_id":"fake-1","error":"unknown"}}"#;

/// Runs the fake with `lines` as its input.
async fn run_fake(fake: &FakeClaude, lines: &[&str]) -> Result<ProcessOutput, ProcessError> {
    let spec = ProcessSpec::new(fake.path(), ChildEnv::new())
        .args(["--output-format", "stream-json", "--include-partial-messages"])
        .stdin(lines.join("\n") + "\n")
        .stdout_limit(100_000_000, AtLimit::Stop)
        .timeout(Duration::from_secs(20))
        .grace(Duration::from_millis(100));
    run(&spec, &CancellationToken::new()).await
}

async fn replay_fake(fault: ClaudeFault, lines: &[&str]) -> Replay {
    let output = run_fake(&FakeClaude::new(&fault), lines).await.unwrap();
    replay(&output.stdout, 4096)
}

fn answer(replay: &Replay) -> (String, u64) {
    let mut fold = ResultFold::new();
    for event in &replay.events {
        fold.observe(event);
    }
    let result = fold.finish(Outcome::Completed);
    let tokens = result.token_usage.unwrap_or_default().total_tokens;
    (result.response, tokens)
}

fn texts(replay: &Replay) -> Vec<&str> {
    let texts = replay.events.iter().filter_map(|event| match event {
        BackendEvent::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn without_a_fault_it_answers_each_message() {
    let fake = FakeClaude::new(&ClaudeFault::None);
    let output = run_fake(&fake, &[INITIALIZE, MESSAGE, CLEAR, MESSAGE])
        .await
        .unwrap();
    assert!(output.exit.success());
    let replay = replay(&output.stdout, 7);
    assert_eq!(texts(&replay), ["Answer ", "1.", "Answer ", "2."]);
    assert_eq!(answer(&replay), ("Answer 2.".to_owned(), 30));
    assert_eq!(replay.endings.len(), 3);
    assert_eq!((replay.unread, replay.errors.len()), (0, 0));
    assert_eq!(fake.starts(), 1);
    assert_eq!(fake.arguments()[0], "--output-format");
    assert_eq!(fake.received()[1]["message"]["content"], "Hi.");
}

#[tokio::test]
async fn it_reports_a_version() {
    for (fault, version) in [
        (ClaudeFault::None, "2.1.330 (Claude Code)\n"),
        (
            ClaudeFault::Version("2.1.100".to_owned()),
            "2.1.100 (Claude Code)\n",
        ),
    ] {
        let fake = FakeClaude::new(&fault);
        let spec = ProcessSpec::new(fake.path(), ChildEnv::new()).args(["--version"]);
        let output = run(&spec, &CancellationToken::new()).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), version);
        assert_eq!(fake.starts(), 0);
    }
    let fake = FakeClaude::new(&ClaudeFault::NotExecutable);
    run_fake(&fake, &[]).await.unwrap_err();
}

#[tokio::test]
async fn it_crashes_at_the_configured_stage() {
    for (at, stage) in ClaudeStage::ALL.into_iter().enumerate().skip(1) {
        let fake = FakeClaude::new(&ClaudeFault::Crash(stage));
        let output = run_fake(&fake, &[INITIALIZE, MESSAGE]).await.unwrap();
        assert_eq!(output.exit.to_string(), "exit code 70", "{stage:?}");
        assert!(output.stderr.starts_with("fatal: crashed at"), "{stage:?}");
        let replay = replay(&output.stdout, 4096);
        assert_eq!(replay.endings.len(), 0, "{stage:?}");
        // Only the output before the crash.
        let lines = String::from_utf8_lossy(&output.stdout).lines().count();
        assert_eq!(lines, [0, 0, 0, 1, 1, 2, 5, 10][at], "{stage:?}");
    }
    let killed = FakeClaude::new(&ClaudeFault::Kill(ClaudeStage::Answer));
    let output = run_fake(&killed, &[INITIALIZE, MESSAGE]).await.unwrap();
    assert!(!output.exit.success());
    assert_eq!(texts(&replay(&output.stdout, 4096)), ["Answer "]);
}

#[tokio::test]
async fn noise_and_unknown_kinds_change_nothing() {
    let noise = replay_fake(ClaudeFault::Noise, &[INITIALIZE, MESSAGE]).await;
    assert_eq!(answer(&noise), ("Answer 1.".to_owned(), 15));
    assert!(noise.unread > 10);
    let unknown = replay_fake(ClaudeFault::UnknownKinds, &[INITIALIZE, MESSAGE]).await;
    assert_eq!(answer(&unknown), ("Answer 1.".to_owned(), 15));
    assert_eq!((unknown.unread, unknown.endings.len()), (0, 1));
}

#[tokio::test]
async fn a_line_that_is_too_long_and_half_a_line_are_errors() {
    let long = replay_fake(
        ClaudeFault::LongLine { bytes: 50_000_000 },
        &[INITIALIZE, MESSAGE],
    )
    .await;
    assert_eq!(long.errors, ["a line of output is longer than 33554432 bytes"]);
    assert_eq!(answer(&long), ("Answer 1.".to_owned(), 15));
    let half = replay_fake(ClaudeFault::HalfLine, &[INITIALIZE, MESSAGE]).await;
    assert_eq!(
        half.errors,
        ["the output ended in the middle of a line, after 32 bytes of it"]
    );
    assert_eq!(answer(&half).0, "Answer ");
}

#[tokio::test]
async fn it_sends_an_unknown_request_and_requires_a_refusal() {
    let unknown = replay_fake(ClaudeFault::UnknownRequest, &[INITIALIZE, MESSAGE, REFUSAL]).await;
    assert_eq!(answer(&unknown).0, "Answer 1.");
    let fake = FakeClaude::new(&ClaudeFault::UnknownRequest);
    let output = run_fake(&fake, &[INITIALIZE, MESSAGE, INTERRUPT]).await.unwrap();
    assert_eq!(output.exit.to_string(), "exit code 71");
}

#[tokio::test]
async fn it_ends_as_configured() {
    let twice = replay_fake(ClaudeFault::TwoResults, &[INITIALIZE, MESSAGE]).await;
    assert_eq!(twice.endings.len(), 2);
    let interrupted = replay_fake(ClaudeFault::WaitsForInterrupt, &[INITIALIZE, MESSAGE, INTERRUPT]).await;
    assert_eq!(interrupted.endings, ["Interrupted"]);
    assert_eq!(answer(&interrupted).0, "Answer ");
    let fault = ClaudeFault::Exits {
        code: 3,
        stderr: "it's\nover\n".to_owned(),
    };
    let output = run_fake(&FakeClaude::new(&fault), &[INITIALIZE, MESSAGE])
        .await
        .unwrap();
    assert_eq!(
        (output.exit.to_string().as_str(), output.stderr.trim()),
        ("exit code 3", "it's\nover")
    );
    let flood = FakeClaude::new(&ClaudeFault::StderrFlood { bytes: 4_000_000 });
    let output = run_fake(&flood, &[INITIALIZE, MESSAGE]).await.unwrap();
    assert_eq!(answer(&replay(&output.stdout, 4096)).0, "Answer 1.");
    assert!(output.stderr.contains("xxxx"));
}

#[tokio::test]
async fn a_fake_that_does_not_end_is_killed_with_its_children() {
    for (fault, processes) in [
        (ClaudeFault::Hang(ClaudeStage::Initialize), 1),
        (ClaudeFault::IgnoresTerm, 2),
        (ClaudeFault::IgnoresEof, 1),
        (ClaudeFault::LeavesGrandchild, 2),
    ] {
        let fake = FakeClaude::new(&fault);
        let spec = ProcessSpec::new(fake.path(), ChildEnv::new())
            .stdin(format!("{INITIALIZE}\n{MESSAGE}\n"))
            .timeout(Duration::from_secs(1))
            .grace(Duration::from_millis(50));
        let output = run(&spec, &CancellationToken::new()).await;
        assert_eq!(
            output.is_ok(),
            fault == ClaudeFault::LeavesGrandchild,
            "{fault:?}"
        );
        assert_eq!(fake.pids().len(), processes, "{fault:?}");
        fake.gone().await;
    }
}
