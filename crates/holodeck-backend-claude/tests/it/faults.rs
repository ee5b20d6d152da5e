//! A misbehaving CLI causes a clear error in time and leaves no process running.

use std::time::Duration;

use futures::StreamExt as _;
use holodeck_backend_api::{AgentBackend as _, BackendError, BackendEvent, ExecutionResult, TurnRequest};
use holodeck_backend_claude::{
    ClaudeBackend, ClaudeOptions, Limits, McpServer, McpServers, Reuse, ServerNeed,
};
use holodeck_testkit::{ClaudeFault, ClaudeStage, FakeClaude};
use pretty_assertions::assert_eq;
use tokio::time::timeout;

use crate::setup::{PATH, collect_events, wait_for_no_orphans};

/// More time than any test here may take.
const LONG: Duration = Duration::from_secs(20);

fn options(fake: &FakeClaude) -> ClaudeOptions {
    ClaudeOptions::new(fake.path()).limits(Limits {
        handshake: Duration::from_millis(300),
        mcp_start: Duration::from_millis(300),
        clear: Duration::from_millis(300),
        close: Duration::from_millis(100),
        attempts: 3,
        ..Limits::default()
    })
}

/// Runs a turn that ends by itself, and checks that no process of the CLI is left.
async fn turn(fake: &FakeClaude, options: ClaudeOptions) -> (Vec<BackendEvent>, Option<BackendError>) {
    let run = async {
        let backend = ClaudeBackend::new(options).unwrap();
        let log = collect_events(backend.start(TurnRequest::new("Hi."))).await;
        backend.teardown().await.unwrap();
        drop(backend);
        log
    };
    let log = timeout(LONG, run).await.expect("the turn does not end");
    wait_for_no_orphans(fake).await;
    log
}

async fn error(fake: &FakeClaude, options: ClaudeOptions) -> BackendError {
    let (events, error) = turn(fake, options).await;
    error.unwrap_or_else(|| panic!("no error: {events:?}"))
}

fn result(events: &[BackendEvent]) -> &ExecutionResult {
    match events.last() {
        Some(BackendEvent::End(result)) => result,
        other => panic!("the turn did not end: {other:?}"),
    }
}

fn text(events: &[BackendEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        BackendEvent::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_named() {
    let missing = ClaudeBackend::new(ClaudeOptions::new("/nowhere/claude")).unwrap();
    let error = missing.initialize().await.unwrap_err();
    assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
    assert_eq!(error.to_string(), "program `/nowhere/claude` not found");

    let locked = FakeClaude::new(&ClaudeFault::NotExecutable);
    let error = self::error(&locked, options(&locked)).await;
    assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
    let expected = format!(
        "`{}` is not executable: permission denied",
        locked.path().display()
    );
    assert_eq!(error.to_string(), expected);

    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("claude");
    std::fs::write(&script, "#!/nowhere/node\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let backend = ClaudeBackend::new(ClaudeOptions::new(&script)).unwrap();
    let error = backend.initialize().await.unwrap_err();
    assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
    let expected = format!(
        "`{}` is not executable: its interpreter is missing",
        script.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_private_folder_that_cannot_be_created_is_named() {
    let fake = FakeClaude::new(&ClaudeFault::None);
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = error(&fake, options(&fake).temporary_folder(file.path())).await;
    assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
    let error = error.to_string();
    assert!(
        error.starts_with("can't prepare a private folder for the Claude Code CLI: "),
        "{error}"
    );
    assert!(error.contains(file.path().to_str().unwrap()), "{error}");
    assert_eq!(fake.starts(), 0);
}

#[tokio::test]
async fn a_crash_before_the_handshake_is_retried_and_reported() {
    for stage in [ClaudeStage::Start, ClaudeStage::Initialize] {
        let fake = FakeClaude::new(&ClaudeFault::Crash(stage));
        let error = error(&fake, options(&fake)).await;
        assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
        let stage_name = format!("{stage:?}").to_lowercase();
        assert_eq!(
            error.to_string(),
            format!(
                "the Claude Code CLI exited during startup: exit code 70: fatal: crashed at {stage_name}"
            )
        );
        assert_eq!(fake.starts(), 3, "{stage:?}");
    }
    let fake = FakeClaude::new(&ClaudeFault::Kill(ClaudeStage::Start));
    let error = error(&fake, options(&fake)).await.to_string();
    assert_eq!(
        error,
        "the Claude Code CLI exited during startup: killed by SIGKILL"
    );
    assert_eq!(fake.starts(), 3);
}

/// Programs that are not the CLI, or whose CLI does something else first.
#[tokio::test]
async fn what_a_program_printed_instead_of_an_answer_is_shown() {
    for (script, expected) in [
        (
            "echo 'Please log in: run claude login'; exit 3",
            "exited during startup: exit code 3: Please log in: run claude login",
        ),
        (
            "echo 'line one'; echo 'line two' >&2; exit 0",
            "exited during startup: exit code 0: line one; line two",
        ),
        (
            "printf 'half a line'; exit 1",
            "exited during startup: exit code 1: half a line",
        ),
        (
            "echo '<html>'; echo 'Moved'; exec sleep 600",
            "did not answer the handshake within 0.2 s; it printed: <html>; Moved",
        ),
        (
            "printf 'Update to 2.2.0 now? [y/N] '; exec sleep 600",
            "did not answer the handshake within 0.2 s; it printed: Update to 2.2.0 now? [y/N]",
        ),
        (
            "echo 'waiting for a lock' >&2; exec sleep 600",
            "did not answer the handshake within 1 s; it printed: waiting for a lock",
        ),
        (
            "echo '{\"type\":\"greeting\"}'; exec sleep 600",
            "did not answer the handshake within 1 s",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("claude");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let options = ClaudeOptions::new(&program).env("PATH", PATH).limits(Limits {
            handshake: Duration::from_secs(1),
            printed: Duration::from_millis(200),
            close: Duration::from_millis(100),
            ..Limits::default()
        });
        let error = ClaudeBackend::new(options)
            .unwrap()
            .initialize()
            .await
            .unwrap_err();
        let error = error.to_string();
        assert_eq!(error, format!("the Claude Code CLI {expected}"), "{script}");
    }
}

/// A notice before the first message is no reason to give up.
#[tokio::test]
async fn a_cli_that_prints_a_notice_and_then_answers_is_used() {
    let fake = FakeClaude::new(&ClaudeFault::Noise);
    let limits = Limits {
        printed: Duration::from_secs(10),
        ..Limits::default()
    };
    let (events, error) = turn(&fake, options(&fake).limits(limits)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(text(&events), "Answer 1.");
}

#[tokio::test]
async fn a_crash_after_the_handshake_is_retried_before_the_first_message() {
    let fake = FakeClaude::new(&ClaudeFault::Crash(ClaudeStage::Initialized));
    let error = error(&fake, options(&fake)).await;
    assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("exit code 70: fatal: crashed at initialized"),
        "{error}"
    );
    assert!(fake.starts() >= 3, "{}", fake.starts());
    let was_sent = fake
        .received()
        .iter()
        .any(|line| line["message"]["content"] == "Hi.");
    assert!(!was_sent, "the message was sent");
}

#[tokio::test]
async fn a_crash_within_a_turn_is_not_retried() {
    for (stage, answer) in [
        (ClaudeStage::Message, ""),
        (ClaudeStage::Init, ""),
        (ClaudeStage::Answer, "Answer "),
        (ClaudeStage::Result, "Answer 1."),
    ] {
        for reuse in [Reuse::WhereSafe, Reuse::Never] {
            let fake = FakeClaude::new(&ClaudeFault::Crash(stage));
            let (events, error) = turn(&fake, options(&fake).reuse(reuse)).await;
            let error = error.unwrap();
            assert!(matches!(error, BackendError::Terminated { .. }), "{error:?}");
            let stage_name = format!("{stage:?}").to_lowercase();
            assert_eq!(
                error.to_string(),
                format!("subprocess terminated unexpectedly: exit code 70: fatal: crashed at {stage_name}")
            );
            assert_eq!(text(&events), answer, "{stage:?}");
            assert_eq!(fake.starts(), 1, "{stage:?}");
        }
    }
    let fake = FakeClaude::new(&ClaudeFault::Kill(ClaudeStage::Answer));
    let (events, error) = turn(&fake, options(&fake)).await;
    assert_eq!(
        error.unwrap().to_string(),
        "subprocess terminated unexpectedly: killed by SIGKILL"
    );
    assert_eq!(text(&events), "Answer ");
}

#[tokio::test]
async fn silence_before_the_first_message_ends_in_time() {
    for (stage, reuse, expected) in [
        (
            ClaudeStage::Start,
            Reuse::Never,
            "the Claude Code CLI did not answer the handshake within 0.3 s",
        ),
        (
            ClaudeStage::Initialize,
            Reuse::Never,
            "the Claude Code CLI did not answer the handshake within 0.3 s",
        ),
        (
            ClaudeStage::Initialized,
            Reuse::WhereSafe,
            "the Claude Code CLI did not answer `/clear` within 0.3 s",
        ),
    ] {
        let fake = FakeClaude::new(&ClaudeFault::Hang(stage));
        let error = error(&fake, options(&fake).reuse(reuse)).await;
        assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn silence_within_a_turn_ends_when_the_stream_is_dropped() {
    for stage in [
        ClaudeStage::Message,
        ClaudeStage::Init,
        ClaudeStage::Answer,
        ClaudeStage::Result,
    ] {
        let fake = FakeClaude::new(&ClaudeFault::Hang(stage));
        let backend = ClaudeBackend::new(options(&fake)).unwrap();
        let result = timeout(
            Duration::from_millis(500),
            collect_events(backend.start(TurnRequest::new("Hi."))),
        )
        .await;
        result.unwrap_err();
        // Only the process ends, not the backend.
        wait_for_no_orphans(&fake).await;
    }
}

#[tokio::test]
async fn a_cli_that_ignores_sigterm_is_killed_with_its_children() {
    let fake = FakeClaude::new(&ClaudeFault::IgnoresTerm);
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    let request = TurnRequest::new("Hi.");
    let cancel = request.cancel.clone();
    let mut stream = backend.start(request);
    let mut answer = String::new();
    while answer.is_empty() {
        use futures::StreamExt as _;
        match timeout(LONG, stream.next()).await.unwrap() {
            Some(Ok(event)) => answer = text(&[event]),
            other => panic!("{other:?}"),
        }
    }
    cancel.cancel();
    let (_, error) = timeout(LONG, collect_events(stream)).await.unwrap();
    assert!(matches!(error, Some(BackendError::Cancelled)), "{error:?}");
    wait_for_no_orphans(&fake).await;
}

#[tokio::test]
async fn the_exit_is_noticed_although_a_grandchild_holds_the_pipe() {
    // The grandchild runs for ten minutes with its parent's standard output.
    let fake = FakeClaude::new(&ClaudeFault::LeavesGrandchild);
    let (events, error) = turn(&fake, options(&fake)).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(result(&events).response, "Answer 1.");
}

#[tokio::test]
async fn a_program_that_dies_while_its_servers_start_is_noticed_at_once() {
    let fake = FakeClaude::new(&ClaudeFault::Crash(ClaudeStage::Initialized));
    let servers = McpServers {
        document: Some(r#"{"mcpServers":{"kb":{"type":"stdio","command":"kb"}}}"#.to_owned().into()),
        servers: vec![McpServer {
            name: "kb".to_owned(),
            need: ServerNeed::Required,
            allowed_tools: None,
        }],
    };
    let mut options = options(&fake).mcp_servers(servers);
    options = options.limits(Limits {
        // Waiting for this limit would time out the test.
        mcp_start: Duration::from_hours(1),
        ..Limits::default()
    });
    let error = error(&fake, options).await;
    assert!(matches!(error, BackendError::Init { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("exit code 70: fatal: crashed at initialized"),
        "{error}"
    );
}

#[tokio::test]
async fn output_that_is_not_a_message_is_ignored() {
    for fault in [
        ClaudeFault::Noise,
        ClaudeFault::UnknownKinds,
        ClaudeFault::UnknownRequest,
        ClaudeFault::StderrFlood { bytes: 4_000_000 },
        ClaudeFault::IgnoresEof,
    ] {
        let fake = FakeClaude::new(&fault);
        let (events, error) = turn(&fake, options(&fake)).await;
        assert!(error.is_none(), "{fault:?}: {error:?}");
        assert_eq!(result(&events).response, "Answer 1.", "{fault:?}");
        assert_eq!(text(&events), "Answer 1.", "{fault:?}");
    }
}

#[tokio::test]
async fn lines_without_end_are_errors() {
    let long = FakeClaude::new(&ClaudeFault::LongLine { bytes: 50_000_000 });
    let error = self::error(&long, options(&long)).await;
    assert!(matches!(error, BackendError::Protocol { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "a line of output is longer than 33554432 bytes"
    );

    let half = FakeClaude::new(&ClaudeFault::HalfLine);
    let error = self::error(&half, options(&half)).await;
    assert!(matches!(error, BackendError::Terminated { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "subprocess terminated unexpectedly: exit code 0"
    );
}

#[tokio::test]
async fn only_the_last_lines_of_a_dying_program_are_reported() {
    let lines: Vec<_> = (1..=9).map(|n| format!("line {n}")).collect();
    let fake = FakeClaude::new(&ClaudeFault::Exits {
        code: 3,
        stderr: lines.join("\n"),
    });
    let error = error(&fake, options(&fake)).await.to_string();
    assert_eq!(
        error,
        "subprocess terminated unexpectedly: exit code 3: line 5; line 6; line 7; line 8; line 9"
    );
}

#[tokio::test]
async fn a_second_result_is_not_the_next_turn_s() {
    // In one conversation …
    let fake = FakeClaude::new(&ClaudeFault::TwoResults);
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    for turn in 1..=3 {
        let answer = session.send("Hi.").await.unwrap();
        assert_eq!(
            (answer.response, answer.num_turns),
            (format!("Answer {turn}."), 1)
        );
    }
    session.close().await.unwrap();
    drop(session);
    drop(backend);
    wait_for_no_orphans(&fake).await;

    // … and in separate ones, for which such a process is not reused.
    let fake = FakeClaude::new(&ClaudeFault::TwoResults);
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    for _ in 1..=3 {
        let answer = backend.invoke_once("Hi.", &[]).await.unwrap();
        assert_eq!((answer.response.as_str(), answer.num_turns), ("Answer 1.", 1));
    }
    backend.teardown().await.unwrap();
    drop(backend);
    assert_eq!(fake.starts(), 3);
    wait_for_no_orphans(&fake).await;
}

#[tokio::test]
async fn a_result_that_comes_late_is_not_the_next_turn_s() {
    let fake = FakeClaude::new(&ClaudeFault::LateResult);
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    for turn in 1..=3 {
        let answer = session.send("Hi.").await.unwrap();
        assert_eq!(
            (answer.response, answer.num_turns),
            (format!("Answer {turn}."), 1)
        );
    }
    session.close().await.unwrap();
    // After `/clear` the late result belongs to a finished conversation.
    for turn in 1..=3 {
        let answer = backend.invoke_once("Hi.", &[]).await.unwrap();
        assert_eq!(
            (answer.response, answer.num_turns),
            (format!("Answer {turn}."), 1)
        );
    }
    assert_eq!(fake.starts(), 2);
    backend.teardown().await.unwrap();
    drop(session);
    drop(backend);
    wait_for_no_orphans(&fake).await;
}

#[tokio::test]
async fn a_cli_that_cannot_clear_a_conversation_gets_a_process_for_each() {
    let fake = FakeClaude::new(&ClaudeFault::CannotClear);
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    for _ in 0..3 {
        let answer = backend.invoke_once("Hi.", &[]).await.unwrap();
        // The first answer of its process: nothing of an earlier conversation is in it.
        assert_eq!((answer.response, answer.num_turns), ("Answer 1.".to_owned(), 1));
    }
    backend.teardown().await.unwrap();
    drop(backend);
    wait_for_no_orphans(&fake).await;
}

#[tokio::test]
async fn output_of_a_cancelled_turn_is_not_part_of_the_next_turn() {
    let fake = FakeClaude::new(&ClaudeFault::WaitsForInterrupt);
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    for _ in 0..2 {
        let request = TurnRequest::new("Hi.");
        let cancel = request.cancel.clone();
        let mut stream = session.turn(request);
        let mut texts = Vec::new();
        let error = loop {
            use futures::StreamExt as _;
            match timeout(LONG, stream.next()).await.unwrap() {
                Some(Ok(BackendEvent::Text { text })) => {
                    texts.push(text);
                    cancel.cancel();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("the turn did not fail"),
            }
        };
        assert!(matches!(error, BackendError::Cancelled), "{error:?}");
        assert_eq!(texts, ["Answer "]);
    }
    session.close().await.unwrap();
    drop(session);
    drop(backend);
    wait_for_no_orphans(&fake).await;
}

#[tokio::test]
async fn a_process_that_died_while_idle_is_replaced() {
    let fake = FakeClaude::new(&ClaudeFault::None);
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    for starts in 1..=3 {
        let answer = backend.invoke_once("Hi.", &[]).await.unwrap();
        assert_eq!(answer.response, "Answer 1.");
        assert_eq!(fake.starts(), starts);
        crate::setup::kill_group(*fake.pids().last().unwrap()).await;
        wait_for_no_orphans(&fake).await;
    }
}

/// The CLI reports SIGINT like an interrupt. A turn only counts as cancelled if this program cancelled it.
#[tokio::test]
async fn a_turn_that_the_cli_ends_by_itself_is_an_error() {
    let fake = FakeClaude::new(&ClaudeFault::InterruptsItself);
    for reuse in [Reuse::Never, Reuse::WhereSafe] {
        let error = error(&fake, options(&fake).reuse(reuse)).await;
        assert!(matches!(error, BackendError::Session { .. }), "{error:?}");
    }
    let backend = ClaudeBackend::new(options(&fake)).unwrap();
    let mut session = backend.create_session().await.unwrap();
    let error = session.send("Hi.").await.unwrap_err();
    assert!(matches!(error, BackendError::Session { .. }), "{error:?}");
    session.close().await.unwrap();
    backend.teardown().await.unwrap();
}

/// The CLI sends collected data, for example telemetry, when its input ends.
#[tokio::test]
async fn every_process_ends_by_itself_before_the_backend_is_closed() {
    let fake = FakeClaude::new(&ClaudeFault::FlushesAtExit);
    let patient = |reuse| {
        options(&fake).reuse(reuse).limits(Limits {
            close: Duration::from_secs(20),
            ..Limits::default()
        })
    };
    for reuse in [Reuse::Never, Reuse::WhereSafe] {
        let backend = ClaudeBackend::new(patient(reuse)).unwrap();
        for _ in 0..2 {
            backend.invoke_once("Hi.", &[]).await.unwrap();
        }
        let mut session = backend.create_session().await.unwrap();
        session.send("Hi.").await.unwrap();
        // A turn that is dropped in the middle.
        let mut turn = session.turn(TurnRequest::new("Hi."));
        while !matches!(turn.next().await, Some(Ok(BackendEvent::Text { .. }))) {}
        drop(turn);
        session.close().await.unwrap();
        let mut turn = backend.start(TurnRequest::new("Hi."));
        while !matches!(turn.next().await, Some(Ok(BackendEvent::Text { .. }))) {}
        drop(turn);
        backend.teardown().await.unwrap();
        // A spare process without messages has collected nothing.
        let (asked, flushed) = (fake.asked(), fake.flushed());
        assert!(asked.len() >= 2, "{reuse:?}: {asked:?}");
        assert!(flushed.is_superset(&asked), "{reuse:?}: {asked:?}, {flushed:?}");
    }
    wait_for_no_orphans(&fake).await;
}
