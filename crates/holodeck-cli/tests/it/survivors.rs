//! No process that a child started survives, whatever it did to escape and however the program ends; and nothing else is
//! ended.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use holodeck_testkit::{AnthropicReply, AnthropicServer, ModelServer, Reply};
use serde_json::json;

use crate::{claude::Bench, index, interrupt::signal, project::Project};

/// Starts processes that leave the group and the session and have no environment, by a plain start, a double fork, a
/// daemon, and many at once. Each opens the pipe `alive` and writes its id. Then this waits for the file `go`.
const ESCAPE: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit
start='exec 9>"$0/alive"; echo $$ >&9; exec sleep 600'
env -i setsid sh -c "$start" "$PWD" &
env -i setsid sh -c '(setsid sh -c "$1" "$0" &) & exit' "$PWD" "$start" &
env -i setsid sh -c 'cd /; (sh -c "$1" "$0" &) & exit' "$PWD" "$start" <&- >&- 2>&- &
i=3
while [ $i -lt COUNT ]; do
  env -i setsid sh -c "$start" "$PWD" <&- >&- 2>&- &
  i=$((i + 1))
done
while [ ! -e go ]; do sleep 0.02; done
"#;

/// A stdio server without tools, after it has started the others.
const SERVER: &str = r#"#!/bin/sh
"$(dirname "$0")/escape.sh" </dev/null >/dev/null
while IFS= read -r line; do
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object"}}]}' ;;
  *'"method":"notifications/'*) continue ;;
  *) result='{}' ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A smallest picture.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

/// A child that runs `escape.sh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    PythonFunction,
    Grader,
    Signal,
    Skill,
    Legacy,
    McpServer,
    Documents,
    Bash,
    ClaudeHook,
    ClaudeMcpServer,
}

use Kind::*;

const KINDS: &[Kind] = &[
    Function,
    PythonFunction,
    Grader,
    Signal,
    Skill,
    Legacy,
    McpServer,
    Documents,
    Bash,
    ClaudeHook,
    ClaudeMcpServer,
];

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    ByItself,
    CtrlC,
    Terminate,
    Kill,
}

const ENDINGS: &[Ending] = &[Ending::ByItself, Ending::CtrlC, Ending::Terminate, Ending::Kill];

/// The server that answers the agent.
enum Endpoint {
    OpenAi(ModelServer),
    Claude(Box<Bench>),
    None,
}

struct Running {
    project: Option<Project>,
    endpoint: Endpoint,
    child: Child,
    alive: BufReader<File>,
    ids: Vec<u32>,
}

/// A model that calls the tool once.
fn calls(tool: &'static str) -> ModelServer {
    ModelServer::answering(move |request| match request.texts("tool").first() {
        None if !tool.is_empty() => Reply::tool_call("call-1", tool, &json!({})),
        _ => Reply::text("Paris"),
    })
}

fn write_scripts(project: &Project, count: usize) {
    let escape = ESCAPE.replace("COUNT", &count.to_string());
    let tesseract = "#!/bin/sh\ncat >/dev/null; DIR/escape.sh; echo Paris\n";
    let tesseract = tesseract.replace("DIR", &project.dir().display().to_string());
    for (name, text) in [
        ("escape.sh", escape.as_str()),
        ("server.sh", SERVER),
        ("bin/tesseract", &tesseract),
        ("grade.sh", "#!/bin/sh\ncat >/dev/null; ./escape.sh; echo 1\n"),
        (
            "answer.sh",
            "#!/bin/sh\ncat >/dev/null; ./escape.sh; echo Paris\n",
        ),
    ] {
        project.write(name, text);
        fs::set_permissions(project.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let made = Command::new("mkfifo")
        .arg(project.path("alive"))
        .status()
        .unwrap();
    assert!(made.success());
}

const CASES: &str = "evaluations: {metrics: [{type: standard, metric: contains}]}\n\
                     test_cases: [{name: one, input: The capital?, ground_truth: Paris}]\n";

fn openai(url: &str, more: &str) -> String {
    format!(
        "name: a\nmodel: {{provider: openai, name: m, endpoint: \"{url}\"}}\ninstructions: {{inline: Hi}}\n{more}"
    )
}

fn claude(more: &str) -> String {
    format!(
        "name: a\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Hi}}\n{more}{CASES}"
    )
}

/// The agent of a kind behind its endpoint, and the command that makes it start the child.
fn prepare(kind: Kind, count: usize) -> (Option<Project>, Endpoint, Command) {
    let with = |tool: &'static str, more: &str| {
        let server = calls(tool);
        let project = Project::with(&openai(&server.url(), more));
        write_scripts(&project, count);
        (project, Endpoint::OpenAi(server))
    };
    let test = |(project, endpoint): (Project, Endpoint)| {
        let command = project.command(&["test", "--allow-side-effects"]);
        (Some(project), endpoint, command)
    };
    let with_cli = |server: AnthropicServer, more: &str| {
        let bench = Bench::new(&claude(more), server);
        write_scripts(&bench.project, count);
        let command = bench.command(&["test", "--allow-side-effects"]);
        (bench, command)
    };
    let silent = || AnthropicServer::answering(|_| AnthropicReply::text("Paris"));
    match kind {
        Function => test(with(
            "t",
            &format!("tools: [{{type: function, name: t, description: d, command: ./answer.sh}}]\n{CASES}"),
        )),
        PythonFunction => {
            let (project, endpoint) = with(
                "t",
                &format!(
                    "tools: [{{type: function, name: t, description: d, file: t.py, function: t}}]\n{CASES}"
                ),
            );
            let python =
                "import subprocess\ndef t():\n    subprocess.run([\"./escape.sh\"])\n    return \"Paris\"\n";
            project.write("t.py", python);
            test((project, endpoint))
        }
        Grader => test(with(
            "",
            "evaluations: {metrics: [{type: code, name: mine, command: ./grade.sh}]}\n\
             test_cases: [{name: one, input: q}]\n",
        )),
        Signal => test(with(
            "",
            "quality_loop: {scorer: {metrics: [icontains], signals: {tests: ./answer.sh}}}\n\
             evaluations: {metrics: [{type: standard, metric: icontains, value: paris}]}\n\
             test_cases: [{name: one, input: q}]\n",
        )),
        Skill => {
            let routing = "routing: {commands: [notes], skills: {directory: skills}}\n";
            let (project, endpoint) = with("", routing);
            project.write(
                "skills/notes/SKILL.md",
                "---\nname: notes\ndescription: Writes notes.\n---\nWrite them.\n",
            );
            let script = format!("{}/escape.sh; echo Paris\n", project.dir().display());
            project.write("skills/notes/scripts/run.sh", script);
            let command = project.command(&["run", "--command", "notes", "a", "--disable-sdk"]);
            (Some(project), endpoint, command)
        }
        Legacy => {
            let (project, endpoint) = with(
                "",
                "routing: {commands: [notes], legacy: {command: [./answer.sh]}}\n",
            );
            let command = project.command(&["run", "--command", "notes", "a", "--disable-sdk"]);
            (Some(project), endpoint, command)
        }
        McpServer => test(with(
            "",
            &format!("tools: [{{type: mcp, name: s, description: d, command: ./server.sh}}]\n{CASES}"),
        )),
        Documents => {
            let project = index::shop(index::DOCS);
            project.write("docs/scan.png", PICTURE);
            write_scripts(&project, count);
            let mut command = project.command(&["index", "build"]);
            command.env("PATH", format!("{}:/usr/bin:/bin", project.path("bin").display()));
            (Some(project), Endpoint::None, command)
        }
        Bash => {
            let server = AnthropicServer::answering(|request| match request.tool_results().first() {
                Some(_) => AnthropicReply::text("Paris"),
                None => {
                    AnthropicReply::tool_use("Bash", &json!({"command": "./escape.sh", "description": "d"}))
                }
            });
            let (bench, command) = with_cli(server, "claude: {bash: {enabled: true}}\n");
            (None, Endpoint::Claude(Box::new(bench)), command)
        }
        ClaudeHook => {
            let (bench, command) = with_cli(silent(), "claude: {setting_sources: [project]}\n");
            let hooks = json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "./escape.sh"}]}]}});
            bench.project.write(".claude/settings.json", hooks.to_string());
            (None, Endpoint::Claude(Box::new(bench)), command)
        }
        ClaudeMcpServer => {
            let tools = "tools: [{type: mcp, name: s, description: d, command: ./server.sh}]\n";
            let (bench, command) = with_cli(silent(), tools);
            (None, Endpoint::Claude(Box::new(bench)), command)
        }
    }
}

impl Running {
    /// Starts the program, and waits until all processes of `escape.sh` run.
    fn start(kind: Kind, count: usize) -> Self {
        let (project, endpoint, mut command) = prepare(kind, count);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Self {
            alive: BufReader::new(File::open("/dev/null").unwrap()),
            project,
            endpoint,
            child,
            ids: Vec::new(),
        };
        // Opening blocks until a process opens the pipe, and so does reading until one writes.
        running.alive = BufReader::new(File::open(running.project().path("alive")).unwrap());
        for _ in 0..count {
            let mut line = String::new();
            running.alive.read_line(&mut line).unwrap();
            running.ids.push(line.trim().parse().unwrap());
        }
        running
    }

    fn project(&self) -> &Project {
        match &self.endpoint {
            Endpoint::Claude(bench) => &bench.project,
            Endpoint::OpenAi(_) | Endpoint::None => self.project.as_ref().unwrap(),
        }
    }

    /// Ends the program, and waits until nothing holds the pipe.
    fn end(mut self, ending: Ending) -> (Option<i32>, String) {
        let mut stderr = BufReader::new(self.child.stderr.take().unwrap());
        match ending {
            Ending::ByItself => self.project().write("go", ""),
            Ending::Terminate => signal(&self.child, "-TERM"),
            Ending::Kill => signal(&self.child, "-KILL"),
            // The first lets a case finish, which waits for `go`.
            Ending::CtrlC => {
                while self.child.try_wait().unwrap().is_none() {
                    signal(&self.child, "-INT");
                    thread::sleep(Duration::from_millis(300));
                }
            }
        }
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        let code = self.child.wait().unwrap().code();
        let (sender, ended) = mpsc::channel();
        let mut alive = self.alive;
        thread::spawn(move || {
            alive.read_to_end(&mut Vec::new()).unwrap();
            sender.send(()).unwrap();
        });
        // The limit only makes the failure readable.
        let ended = ended.recv_timeout(Duration::from_mins(1));
        assert!(
            ended.is_ok(),
            "{ending:?}: {:?} of {:?} live\n{text}",
            living(&self.ids).len(),
            self.ids.len()
        );
        match self.endpoint {
            Endpoint::OpenAi(server) => drop(server),
            Endpoint::Claude(bench) => drop(bench.server.finish_unchecked()),
            Endpoint::None => {}
        }
        (code, text)
    }
}

fn living(ids: &[u32]) -> Vec<u32> {
    let lives = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    ids.iter().copied().filter(lives).collect()
}

fn check(kind: Kind, ending: Ending, count: usize) {
    let (code, text) = Running::start(kind, count).end(ending);
    let expected: &[Option<i32>] = match ending {
        // Without a tool the case fails nowhere.
        Ending::ByItself => &[Some(0), Some(1)],
        Ending::CtrlC => &[Some(130)],
        Ending::Terminate => &[Some(143)],
        Ending::Kill => &[None],
    };
    assert!(expected.contains(&code), "{kind:?} {ending:?}: {code:?}\n{text}");
}

#[test]
fn nothing_below_a_function_survives_any_ending() {
    for ending in ENDINGS {
        check(Function, *ending, 103);
    }
}

/// Each kind with one of the endings; the rest is in [`nothing_below_any_child_survives_any_ending`].
macro_rules! sample {
    ($($name:ident: $kind:ident, $ending:ident;)*) => {
        $(
            #[test]
            fn $name() {
                check($kind, Ending::$ending, 5);
            }
        )*
        const SAMPLE: &[Kind] = &[$($kind),*];
    };
}

sample! {
    nothing_below_a_python_function_survives: PythonFunction, CtrlC;
    nothing_below_a_grader_survives: Grader, Terminate;
    nothing_below_a_signal_survives: Signal, Kill;
    nothing_below_a_skill_survives: Skill, ByItself;
    nothing_below_a_legacy_command_survives: Legacy, CtrlC;
    nothing_below_a_server_survives: McpServer, Kill;
    nothing_below_a_document_reader_survives: Documents, Terminate;
    nothing_below_the_clis_shell_survives_the_end_of_the_run: Bash, ByItself;
    nothing_below_the_clis_shell_survives_a_kill: Bash, Kill;
    nothing_below_a_hook_of_the_cli_survives: ClaudeHook, Kill;
    nothing_below_a_server_of_the_cli_survives: ClaudeMcpServer, CtrlC;
}

#[test]
fn the_sample_has_every_kind() {
    let missing: Vec<_> = KINDS
        .iter()
        .filter(|kind| **kind != Function && !SAMPLE.contains(kind))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
#[ignore = "takes minutes; `cargo xtask soak survivors` runs it"]
fn nothing_below_any_child_survives_any_ending() {
    for kind in KINDS {
        for ending in ENDINGS {
            let start = std::time::Instant::now();
            check(*kind, *ending, 103);
            println!("{kind:?} {ending:?}: {} ms", start.elapsed().as_millis());
        }
    }
}

#[test]
fn the_children_of_another_run_stay_alive() {
    for ending in [Ending::Terminate, Ending::Kill] {
        let stays = Running::start(Function, 4);
        Running::start(Function, 4).end(ending);
        assert_eq!(living(&stays.ids), stays.ids, "{ending:?}");
        stays.end(Ending::Kill);
    }
}

/// A process that was there before the program, and is its child, because a shell became the program; and one that left
/// that process, which the system gives to the program.
#[test]
fn a_process_that_was_not_started_by_the_program_stays_alive() {
    for ending in [Ending::Terminate, Ending::Kill, Ending::ByItself] {
        let (project, endpoint, plain) = prepare(Function, 4);
        let project = project.unwrap();
        let mut command = Command::new("/bin/sh");
        let text = "sleep 600 >&- 2>&- & echo $! > others; \
                    (sh -c 'while [ ! -e up ]; do sleep 0.02; done; (sleep 600 & echo $! >> others; : > left) &' >&- 2>&- &)
                    exec \"$@\"";
        command
            .args(["-c", text, "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(project.dir())
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let mut alive = BufReader::new(File::open(project.path("alive")).unwrap());
        let mut ids = Vec::new();
        for _ in 0..4 {
            let mut line = String::new();
            alive.read_line(&mut line).unwrap();
            ids.push(line.trim().parse().unwrap());
        }
        project.write("up", "");
        wait_for(&project.path("left"));
        let others = project.read("others");
        let running = Running {
            project: Some(project),
            endpoint,
            child,
            alive,
            ids,
        };
        running.end(ending);
        let others: Vec<u32> = others.lines().map(|id| id.parse().unwrap()).collect();
        assert_eq!(others.len(), 2);
        let still = living(&others);
        for id in &others {
            let _ = Command::new("kill").arg(id.to_string()).status();
        }
        assert_eq!(still, others, "{ending:?}");
    }
}

fn wait_for(file: &Path) {
    while !file.exists() {
        thread::yield_now();
    }
}
