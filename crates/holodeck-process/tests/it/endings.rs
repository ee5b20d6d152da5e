//! Tests that no descendant survives a child, however the child or its owner ends.

use std::time::Duration;

use holodeck_process::{ChildProcess, Exit, ProcessError, run};
use pretty_assertions::assert_eq;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::script::{file, gone, members, script};

/// A grandchild that ignores SIGTERM and holds stdout open.
const STUBBORN: &str = "
echo $$ > pid
(trap '' TERM; echo here > grandchild; while :; do sleep 600; done) &
trap '' TERM
while :; do sleep 600; done
";

#[tokio::test]
async fn a_time_out_leaves_no_orphan() {
    let mut script = script(STUBBORN);
    script.spec = script
        .spec
        .timeout(Duration::from_millis(400))
        .grace(Duration::from_millis(50));
    let error = run(&script.spec, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, ProcessError::TimedOut { .. }), "{error:?}");
    let group = file(&script, "pid").await.parse().unwrap();
    gone(group).await;
}

#[tokio::test]
async fn cancelling_leaves_no_orphan() {
    let mut script = script(STUBBORN);
    script.spec = script.spec.grace(Duration::from_millis(50));
    let cancel = CancellationToken::new();
    let (result, group) = tokio::join!(run(&script.spec, &cancel), async {
        file(&script, "grandchild").await;
        let group = file(&script, "pid").await.parse().unwrap();
        assert!(members(group).len() >= 2);
        cancel.cancel();
        group
    });
    assert!(matches!(result, Err(ProcessError::Cancelled)), "{result:?}");
    gone(group).await;
}

#[tokio::test]
async fn nothing_starts_when_cancelled_before() {
    let script = script("echo $$ > pid");
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(matches!(
        run(&script.spec, &cancel).await,
        Err(ProcessError::Cancelled)
    ));
    assert!(!script.folder.path().join("pid").exists());
}

#[tokio::test]
async fn a_program_that_leaves_a_child_behind_is_over_when_it_ends() {
    let script = script("echo $$ > pid; sleep 600 & echo answer");
    let output = run(&script.spec, &CancellationToken::new()).await.unwrap();
    assert_eq!(
        (output.exit, output.stdout.as_slice()),
        (Exit::Code(0), b"answer\n".as_slice())
    );
    gone(file(&script, "pid").await.parse().unwrap()).await;
}

#[tokio::test]
async fn dropping_the_future_kills_the_group() {
    let script = script(STUBBORN);
    let cancel = CancellationToken::new();
    let group = {
        let running = run(&script.spec, &cancel);
        tokio::pin!(running);
        tokio::select! {
            _ = &mut running => unreachable!("it never ends by itself"),
            _ = file(&script, "grandchild") => {}
        }
        file(&script, "pid").await.parse().unwrap()
    };
    gone(group).await;
}

#[tokio::test]
async fn a_server_on_stdio_answers_and_ends_when_its_stdin_closes() {
    let script = script("while read line; do echo got $line; done; echo bye >&2");
    let mut child = ChildProcess::spawn(&script.spec).unwrap();
    let mut stdin = child.take_stdin().unwrap();
    let mut lines = BufReader::new(child.take_stdout().unwrap()).lines();
    for word in ["one", "two"] {
        stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("got {word}"));
    }
    drop(stdin);
    assert_eq!(child.close(Duration::from_mins(1)).await.unwrap(), Exit::Code(0));
}

#[tokio::test]
async fn closing_escalates_to_signals() {
    let polite = script("trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done");
    for (script, expected) in [
        (polite, Exit::Code(7)),
        (script(&format!("echo up; {STUBBORN}")), Exit::Signal(9)),
    ] {
        let mut child = ChildProcess::spawn(&script.spec).unwrap();
        let group = child.id();
        let mut lines = BufReader::new(child.take_stdout().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "up");
        if expected == Exit::Signal(9) {
            file(&script, "grandchild").await;
        }
        let exit = child.close(Duration::from_millis(300)).await.unwrap();
        assert_eq!(exit, expected);
        gone(group).await;
    }
}

/// A grandchild with its own session, which closes all pipes.
const DAEMON: &str = "
setsid sh -c 'echo $$ > daemon; exec sleep 600' <&- >&- 2>&- &
while [ ! -s daemon ]; do :; done
";

#[tokio::test]
async fn a_descendant_with_its_own_session_ends_with_the_child() {
    let ends = script(DAEMON);
    run(&ends.spec, &CancellationToken::new()).await.unwrap();
    gone(file(&ends, "daemon").await.parse().unwrap()).await;

    let mut stays = script(&format!("{DAEMON} sleep 600"));
    stays.spec = stays
        .spec
        .timeout(Duration::from_millis(500))
        .grace(Duration::from_millis(50));
    let error = run(&stays.spec, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, ProcessError::TimedOut { .. }), "{error:?}");
    gone(file(&stays, "daemon").await.parse().unwrap()).await;

    let cancelled = script(&format!("{DAEMON} sleep 600"));
    let cancel = CancellationToken::new();
    let (result, daemon) = tokio::join!(run(&cancelled.spec, &cancel), async {
        let daemon = file(&cancelled, "daemon").await;
        cancel.cancel();
        daemon.parse().unwrap()
    });
    assert!(matches!(result, Err(ProcessError::Cancelled)), "{result:?}");
    gone(daemon).await;
}

/// Reports when it is dropped whether the process group is alive then.
struct Witness {
    group: u32,
    report: std::sync::mpsc::Sender<bool>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.report.send(!members(self.group).is_empty());
    }
}

/// Writes files until it is killed.
const WRITER: &str = "
trap '' TERM
echo $$ > pid
while :; do echo x > more; done
";

/// A child that writes, what is kept for it, and the report.
async fn witnessed() -> (
    ChildProcess,
    std::sync::mpsc::Receiver<bool>,
    crate::script::Script,
) {
    let script = script(WRITER);
    let mut child = ChildProcess::spawn(&script.spec).unwrap();
    let group = file(&script, "pid").await.parse().unwrap();
    let (report, reported) = std::sync::mpsc::channel();
    child.keep(Witness { group, report });
    (child, reported, script)
}

#[test]
fn what_is_kept_for_a_child_is_dropped_after_its_end_wherever_the_child_is_dropped() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    // Dropped inside a runtime that continues to run.
    let running = runtime();
    let (child, reported, _script) = running.block_on(witnessed());
    running.block_on(async {
        drop(child);
        while let Err(std::sync::mpsc::TryRecvError::Empty) =
            reported.try_recv().inspect(|alive| assert!(!alive))
        {
            tokio::task::yield_now().await;
        }
    });
    // In a runtime that ends at once.
    let ending = runtime();
    let (child, reported, _script) = ending.block_on(witnessed());
    ending.block_on(async { drop(child) });
    drop(ending);
    assert_eq!(reported.try_recv(), Ok(false));
    // Without a runtime.
    let other = runtime();
    let (child, reported, _script) = other.block_on(witnessed());
    std::thread::spawn(move || drop(child)).join().unwrap();
    assert_eq!(reported.try_recv(), Ok(false));
    // After its end it is dropped with the child.
    let (mut child, reported, _script) = other.block_on(witnessed());
    other.block_on(child.stop(Duration::ZERO)).unwrap();
    assert!(reported.try_recv().is_err());
    drop(child);
    assert_eq!(reported.try_recv(), Ok(false));
}
