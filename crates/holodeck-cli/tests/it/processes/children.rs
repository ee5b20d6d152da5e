//! No child survives, however the program ends.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{BufRead as _, BufReader, Read},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use holodeck_testkit::{Gate, ModelServer, Reply};
use serde_json::json;

use crate::{
    interrupt::signal,
    project::{Project, agent},
};

/// The tool and a grandchild in its own session; both hold only the pipe open.
const TOOL: &str = "#!/bin/sh
exec 3> alive
setsid sh -c 'echo up >&3; exec sleep 600' <&- >&- 2>&- &
exec sleep 600
";

const CASE: &str = "  - {name: one, input: q, ground_truth: a}\n";

struct Running {
    project: Project,
    _server: ModelServer,
    child: Child,
    alive: BufReader<File>,
}

/// An agent with a tool that writes to the pipe `alive`.
fn with_tool(server: &ModelServer, cases: &str, script: &str) -> Project {
    let tools = "tools:\n  - {type: function, name: lookup, description: Looks up., command: ./tool.sh}\n";
    let project = Project::with(&format!("{}{tools}", agent(&server.url(), cases)));
    project.write("tool.sh", script);
    let executable = Permissions::from_mode(0o755);
    fs::set_permissions(project.path("tool.sh"), executable).unwrap();
    let status = Command::new("mkfifo")
        .arg(project.path("alive"))
        .status()
        .unwrap();
    assert!(status.success());
    project
}

/// Starts a run and waits until its tool and the grandchild are running.
fn start(args: &[&str]) -> Running {
    let server = ModelServer::answering(|_| Reply::tool_call("call-1", "lookup", &json!({})));
    let project = with_tool(&server, CASE, TOOL);
    let child = project
        .command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Opening blocks until the tool opens the pipe.
    let mut alive = BufReader::new(File::open(project.path("alive")).unwrap());
    let mut line = String::new();
    alive.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    Running {
        project,
        _server: server,
        child,
        alive,
    }
}

impl Running {
    /// Waits until nothing holds the pipe: the tool and its grandchild have ended.
    #[track_caller]
    fn wait_for_children(self, how: &str) {
        let Self {
            project,
            mut child,
            alive,
            ..
        } = self;
        child.wait().unwrap();
        wait_for_end(alive, how);
        drop(project);
    }
}

#[test]
fn no_tool_survives_a_signal() {
    for name in ["-KILL", "-HUP", "-QUIT", "-TERM"] {
        let running = start(&["test"]);
        signal(&running.child, name);
        running.wait_for_children(name);
    }
}

#[test]
fn no_tool_survives_a_timeout() {
    start(&["test", "--timeout", "0.5"]).wait_for_children("timeout");
}

#[test]
fn no_tool_survives_a_second_interrupt() {
    let mut running = start(&["test"]);
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap());
    signal(&running.child, "-INT");
    let mut line = String::new();
    while !line.contains("press Ctrl-C again") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0);
    }
    signal(&running.child, "-INT");
    running.wait_for_children("second interrupt");
}

#[test]
fn no_tool_survives_a_killed_question() {
    let running = start(&["run", "agent.yaml", "q"]);
    signal(&running.child, "-KILL");
    running.wait_for_children("kill of `holodeck run`");
}

/// Starts a session of its own with each call, which outlives it, and answers.
const ANSWERING: &str = "#!/bin/sh
exec 3> alive
setsid sh -c 'exec sleep 600' <&- >&- 2>&- &
echo up >&3
cat > /dev/null
echo Paris
";

#[test]
fn a_killed_run_with_tools_leaves_no_child_and_is_resumed() {
    const CASES: usize = 6;
    for calls in 1..4 {
        // The last case cannot finish before the kill.
        let killed = Gate::new();
        let server = ModelServer::answering({
            let killed = killed.clone();
            move |request| match request.texts("tool").first() {
                None => Reply::tool_call("call-1", "lookup", &json!({})),
                Some(found) if request.texts("user") == ["q5"] => {
                    Reply::text((*found).to_owned()).behind(&killed)
                }
                Some(found) => Reply::text((*found).to_owned()),
            }
        });
        let cases = (0..CASES)
            .map(|n| format!("  - {{name: case{n}, input: q{n}, ground_truth: Paris}}\n"))
            .collect::<Vec<_>>()
            .concat();
        let project = with_tool(&server, &cases, ANSWERING);
        // Open for writing too, so that there is no end between two calls.
        let both = OpenOptions::new()
            .read(true)
            .write(true)
            .open(project.path("alive"))
            .unwrap();
        let mut lines = BufReader::new(both);
        let mut child = project.command(&["test"]).stdout(Stdio::null()).spawn().unwrap();
        for _ in 0..calls {
            lines.read_line(&mut String::new()).unwrap();
        }
        signal(&child, "-KILL");
        child.wait().unwrap();
        killed.open();
        wait_for_all(&project, lines, &format!("killed after {calls} calls"));

        let both = OpenOptions::new()
            .read(true)
            .write(true)
            .open(project.path("alive"))
            .unwrap();
        let finished = project.journal_grades().len();
        assert!(finished < CASES, "{finished} cases finished");
        project
            .run(&["test", "resume", "latest"])
            .exits(0)
            .says("6 passed");
        wait_for_all(&project, BufReader::new(both), "resumed");
        server.finish();
    }
}

/// Waits until nothing but this test holds the pipe.
#[track_caller]
fn wait_for_all(project: &Project, lines: BufReader<File>, how: &str) {
    // Does not block, as `lines` is a writer.
    let rest = File::open(project.path("alive")).unwrap();
    drop(lines);
    wait_for_end(rest, how);
}

/// Waits until a pipe has no writer left.
#[track_caller]
fn wait_for_end(mut pipe: impl Read + Send + 'static, how: &str) {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        pipe.read_to_end(&mut Vec::new()).unwrap();
        sender.send(()).unwrap();
    });
    let ended = ended.recv_timeout(Duration::from_secs(30));
    assert!(ended.is_ok(), "{how}: a child is alive");
}
