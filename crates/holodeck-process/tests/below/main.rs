//! Children of a program that starts them below watchdogs. This very program is the watchdog of its tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use holodeck_process::{
    ChildEnv, ChildProcess, Exit, ProcessError, ProcessSpec, run, start_children_below, wait_for_watchdogs,
};
use pretty_assertions::assert_eq;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Each starts something that leaves the group and the session, and has no environment.
const ESCAPES: &[(&str, usize, &str)] = &[
    (
        "a session of its own",
        1,
        r"env -i setsid sh -c 'echo $$ >> pids; exec sleep 600' &",
    ),
    (
        "a double fork",
        1,
        r#"env -i setsid sh -c '(setsid sh -c "echo \$\$ >> pids; exec sleep 600" &) & exit' &"#,
    ),
    (
        "a daemon",
        1,
        r#"env -i setsid sh -c 'cd /; (sh -c "echo \$\$ >> $0/pids; exec sleep 600" $0 <&- >&- 2>&- &) & exit' "$PWD""#,
    ),
    (
        "a hundred",
        100,
        r"i=0; while [ $i -lt 100 ]; do env -i setsid sh -c 'echo $$ >> pids; exec sleep 600' & i=$((i+1)); done",
    ),
];

#[test]
#[ignore = "is the watchdog of the other tests"]
fn watchdog() {
    let _ = holodeck_process::watch();
}

struct Script {
    folder: TempDir,
    spec: ProcessSpec,
}

fn script(text: &str) -> Script {
    start_children_below("/proc/self/exe", &["--exact", "watchdog", "--ignored"]);
    let folder = tempfile::tempdir().unwrap();
    let mut env = ChildEnv::new();
    env.set("PATH", "/usr/bin:/bin");
    let spec = ProcessSpec::new("sh", env)
        .args(["-c", text])
        .current_dir(folder.path())
        .grace(Duration::from_millis(50));
    Script { folder, spec }
}

/// Waits until `count` processes have written their ids.
async fn pids(folder: &Path, count: usize) -> Vec<String> {
    loop {
        let text = fs::read_to_string(folder.join("pids")).unwrap_or_default();
        if text.ends_with('\n') && text.lines().count() >= count {
            return text.lines().map(ToOwned::to_owned).collect();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A test that hangs here has found a survivor.
async fn gone(pids: &[String]) {
    for pid in pids {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A process that this library did not start, with this process as its parent.
struct Bystander(std::process::Child);

impl Bystander {
    fn start() -> Self {
        let sleep = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self(sleep)
    }

    fn still_lives(mut self) {
        assert!(self.0.try_wait().unwrap().is_none());
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn nothing_outlives_a_program_that_ends_and_the_end_is_reported_after_it() {
    for (name, count, escape) in ESCAPES {
        let script = script(&format!(
            "{escape}\nwhile [ \"$(cat pids 2>/dev/null | wc -l)\" -lt {count} ]; do :; done; exit 7"
        ));
        let output = run(&script.spec, &CancellationToken::new()).await.unwrap();
        assert_eq!(output.exit, Exit::Code(7), "{name}");
        let pids = pids(script.folder.path(), *count).await;
        let living: Vec<_> = pids.iter().filter(|pid| lives(pid)).collect();
        assert!(living.is_empty(), "{name}: {living:?}");
    }
}

#[tokio::test]
async fn nothing_outlives_a_program_that_is_stopped() {
    for (name, count, escape) in ESCAPES {
        let script = script(&format!("{escape}\ntrap '' TERM; while :; do sleep 600; done"));
        let cancel = CancellationToken::new();
        let (result, pids) = tokio::join!(run(&script.spec, &cancel), async {
            let pids = pids(script.folder.path(), *count).await;
            cancel.cancel();
            pids
        });
        assert!(
            matches!(result, Err(ProcessError::Cancelled)),
            "{name} {result:?}"
        );
        let living: Vec<_> = pids.iter().filter(|pid| lives(pid)).collect();
        assert!(living.is_empty(), "{name}: {living:?}");
    }
}

#[tokio::test]
async fn nothing_outlives_a_program_that_is_dropped_and_its_end_can_be_awaited() {
    for (name, count, escape) in ESCAPES {
        let script = script(&format!("{escape}\nsleep 600"));
        let child = ChildProcess::spawn(&script.spec).unwrap();
        let pids = pids(script.folder.path(), *count).await;
        drop(child);
        wait_for_watchdogs(Duration::from_mins(1));
        let living: Vec<_> = pids.iter().filter(|pid| lives(pid)).collect();
        assert!(living.is_empty(), "{name}: {living:?}");
    }
}

#[tokio::test]
async fn a_program_that_kills_its_watchdog_ends_with_all_that_it_started() {
    for (name, count, escape) in ESCAPES {
        let script = script(&format!(
            "{escape}\nwhile [ \"$(cat pids 2>/dev/null | wc -l)\" -lt {count} ]; do :; done; cat; kill -9 $PPID; sleep 600"
        ));
        let result = run(&script.spec, &CancellationToken::new()).await.unwrap();
        assert_eq!(result.exit, Exit::Signal(9), "{name}");
        gone(&pids(script.folder.path(), *count).await).await;
    }
}

#[tokio::test]
async fn a_process_that_was_not_started_here_stays_alive_even_if_a_watchdog_is_killed() {
    let bystander = Bystander::start();
    let marked = script("cat; kill -9 $PPID; sleep 600");
    run(&marked.spec, &CancellationToken::new()).await.unwrap();
    let ends = script(ESCAPES[0].2);
    run(&ends.spec, &CancellationToken::new()).await.unwrap();
    bystander.still_lives();
}

#[tokio::test]
async fn another_child_and_what_it_started_stay_alive() {
    let stays = script(&format!("{}\nsleep 600", ESCAPES[1].2));
    let mut child = ChildProcess::spawn(&stays.spec).unwrap();
    let pids = pids(stays.folder.path(), 1).await;
    for text in [ESCAPES[1].2, "cat; kill -9 $PPID; sleep 600"] {
        let ends = script(text);
        run(&ends.spec, &CancellationToken::new()).await.unwrap();
    }
    assert!(lives(&pids[0]) && !child.has_ended());
    child.stop(Duration::ZERO).await.unwrap();
    gone(&pids).await;
}

#[tokio::test]
async fn a_watchdog_obeys_no_signal() {
    let script = script("for s in HUP INT QUIT TERM USR1 USR2 ALRM; do kill -$s $PPID; done; cat; exit 7");
    let output = run(&script.spec, &CancellationToken::new()).await.unwrap();
    assert_eq!(output.exit, Exit::Code(7));
}

/// The descriptors that this machine hands to every child are there with and without a watchdog.
#[tokio::test]
async fn a_program_inherits_nothing_from_its_watchdog() {
    const SHOW: &str =
        "pwd; ls /proc/self/fd | sort; grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -a; env | grep -v ^_";
    let script = script(SHOW);
    let output = run(&script.spec, &CancellationToken::new()).await.unwrap();
    let plain = Command::new("/usr/bin/sh")
        .args(["-c", SHOW])
        .current_dir(script.folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::piped())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!(text(output.stdout), text(plain.stdout));
}

#[tokio::test]
async fn exits_signals_and_errors_are_those_of_the_program() {
    for (text, exit) in [
        ("exit 0", Exit::Code(0)),
        ("exit 255", Exit::Code(255)),
        ("kill -SEGV $$", Exit::Signal(11)),
        ("kill -TERM $$", Exit::Signal(15)),
    ] {
        let script = script(text);
        let output = run(&script.spec, &CancellationToken::new()).await.unwrap();
        assert_eq!(output.exit, exit, "{text}");
    }
    let broken = script("");
    let path = broken.folder.path().join("broken");
    for (content, expected) in [
        ("#!/no/such/interpreter\n", "interpreter is missing"),
        ("\u{1}\u{2}", "neither a binary"),
    ] {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let spec = ProcessSpec::new(&path, ChildEnv::new());
        let error = run(&spec, &CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn what_ended_below_a_running_program_is_collected() {
    let script = script(
        "i=0; while [ $i -lt 50 ]; do (setsid sh -c 'echo $$ >> pids' &) ; i=$((i+1)); done
         while [ \"$(cat pids 2>/dev/null | wc -l)\" -lt 50 ]; do :; done; echo done > pids.done; sleep 600",
    );
    let child = ChildProcess::spawn(&script.spec).unwrap();
    for pid in pids(script.folder.path(), 50).await {
        while Path::new(&format!("/proc/{pid}")).exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    drop(child);
}
