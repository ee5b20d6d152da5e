//! `holodeck serve` as a process: where it listens, who may use it, and how it ends.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    mem,
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use holodeck_testkit::{Gate, ModelServer, PostgresServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project, TWO_CASES, agent, correct_server},
};

/// A server that listens. It ends with its test at the latest, also where that fails.
pub(crate) struct Server {
    child: Running,
    pub(crate) address: String,
    /// Its lines on stderr. A thread reads them, so that a full pipe holds up nothing.
    lines: Receiver<String>,
    /// The lines that were taken.
    log: String,
}

/// A process, until its end is waited for.
struct Running(Option<Child>);

impl Running {
    fn child(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    pub(crate) fn start(project: &Project, args: &[&str]) -> Self {
        Self::start_with(project, args, &[])
    }

    pub(crate) fn start_with(project: &Project, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::launch(project, &[&["--port", "0"], args].concat(), env)
    }

    /// At the configured address.
    fn start_at(project: &Project, args: &[&str]) -> Self {
        Self::launch(project, args, &[])
    }

    fn launch(project: &Project, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::try_launch(project, args, env).unwrap_or_else(|refused| panic!("{}", refused.all()))
    }

    /// A server, or the output of one that refused to start.
    pub(crate) fn try_start(project: &Project) -> Result<Self, Box<CommandOutput>> {
        Self::try_launch(project, &["--port", "0"], &[])
    }

    fn try_launch(
        project: &Project,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Self, Box<CommandOutput>> {
        let mut child = project
            .command(&[&["serve", "--json"], args].concat())
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let Ok(listening) = serde_json::from_str::<Value>(&line) else {
            return Err(Box::new(CommandOutput::of(&child.wait_with_output().unwrap())));
        };
        let url = listening["url"].as_str().unwrap();
        Ok(Self {
            address: url.strip_prefix("http://").unwrap().to_owned(),
            lines: lines(child.stderr.take().unwrap()),
            log: String::new(),
            child: Running(Some(child)),
        })
    }

    /// The answer to a request: its status line, headers and body.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}",
            self.address
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn say(&self, message: &str) -> String {
        let body = json!({ "message": message }).to_string();
        self.ask("POST", "/v1/sessions/s/messages?wait=true", "", &body)
    }

    /// Waits for a line of the log that contains `text`, and gives it back.
    #[track_caller]
    pub(crate) fn until_logged(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv() else {
                panic!("no `{text}` in the log\n{}", self.log);
            };
            self.log.push_str(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.child().id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.child(), name);
    }

    pub(crate) fn wait(mut self) -> CommandOutput {
        let child = self.child.0.take().unwrap();
        let mut output = CommandOutput::of(&child.wait_with_output().unwrap());
        output.stderr = self.log + &self.lines.iter().collect::<String>();
        output
    }

    pub(crate) fn end(self, name: &str) -> CommandOutput {
        self.signal(name);
        self.wait()
    }
}

/// The lines of a log, as they arrive.
fn lines(log: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut log = BufReader::new(log);
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 && sender.send(mem::take(&mut line)).is_ok() {}
    });
    lines
}

fn echoing() -> ModelServer {
    ModelServer::answering(|request| {
        let question = request.texts("user").last().unwrap().to_string();
        Reply::text(format!("re: {question}"))
    })
}

#[test]
fn it_answers_and_ends_with_a_signal() {
    let model = echoing();
    let project = Project::with(&agent(&model.url(), TWO_CASES));
    let server = Server::start(&project, &[]);
    assert!(server.ask("GET", "/", "", "").contains("<title>HoloDeck</title>"));
    assert!(server.say("hello").contains(r#""response":"re: hello""#));
    server.end("-TERM").exits(0);
    // The conversation is that of the other commands, too.
    let ran = project.run(&["sessions", "show", "last"]).exits(0);
    assert_eq!(ran.stdout, "you › hello\nre: hello\n\n");
    project.run(&["chat", "--resume", "--once", "more"]).exits(0);
    project.run(&["events", "check", "last"]).exits(0);
    let server = Server::start(&project, &[]);
    let session = server.ask("GET", "/v1/sessions/s", "", "");
    assert!(session.contains(r#""runs":2"#), "{session}");
    server.end("-INT").exits(130);
}

#[test]
fn a_second_signal_stops_the_runs_that_a_first_one_lets_end() {
    for (first, second, code) in [
        ("-TERM", "-TERM", 0),
        ("-TERM", "-INT", 0),
        ("-INT", "-TERM", 130),
        ("-INT", "-INT", 130),
        ("-HUP", "-QUIT", 0),
    ] {
        let gate = Gate::new();
        let reply = Reply::text("so far").behind(&gate);
        let model = ModelServer::answering(move |_| reply.clone());
        let project = Project::with(&agent(&model.url(), TWO_CASES));
        // Nothing but the second signal can end the run: the test would wait for an hour.
        let mut server = Server::start(&project, &["--drain", "3600"]);
        let accepted = server.ask("POST", "/v1/sessions/s/messages", "", r#"{"message": "hello"}"#);
        assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
        server.signal(first);
        server.until_logged("stopping: runs have 3600 s to end");
        server.signal(second);
        server.wait().exits(code);
        let shown = project.run(&["events", "export", "last"]).exits(0).stdout;
        assert!(shown.contains("user_cancelled"), "{first} {second}: {shown}");
        project.run(&["events", "check", "last"]).exits(0);
    }
}

#[test]
fn what_was_said_survives_a_kill() {
    let gate = Gate::new();
    let reply = Reply::text("so far").behind(&gate);
    let model = ModelServer::answering(move |_| reply.clone());
    let project = Project::with(&agent(&model.url(), TWO_CASES));
    let server = Server::start(&project, &[]);
    let accepted = server.ask("POST", "/v1/sessions/s/messages", "", r#"{"message": "hello"}"#);
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
    let seen = server.ask("GET", "/v1/sessions/s/events", "", "");
    assert!(seen.contains("user_message_confirmed"));
    server.end("-KILL");
    let server = Server::start(&project, &[]);
    let events = server.ask("GET", "/v1/sessions/s/events", "", "");
    assert!(events.contains("RUN_INTERRUPTED"), "{events}");
    let payload = |text: &str| {
        let mut lines = text
            .lines()
            .filter(|line| line.contains("user_message_confirmed"));
        lines.next().unwrap().to_owned()
    };
    assert_eq!(payload(&events), payload(&seen));
    let session = server.ask("GET", "/v1/sessions/s", "", "");
    assert!(session.contains(r#""openRun":null"#), "{session}");
    server.end("-TERM").exits(0);
    project.run(&["events", "check", "last"]).exits(0);
    gate.open();
}

#[test]
fn without_a_token_only_this_machine_is_served() {
    let yaml = agent("http://127.0.0.1:9", TWO_CASES);
    let project = Project::with(&yaml);
    let refused = project
        .run(&["serve", "--port", "0", "--host", "0.0.0.0"])
        .exits(2);
    let refused = refused
        .says("can be reached from other machines")
        .says("HOLODECK_TOKEN");
    assert_eq!(refused.stdout, "");
    project
        .run(&["serve", "--port", "0", "--cors-origins", "*"])
        .exits(2)
        .says("any web page could use the agent");
    let server = Server::start_with(
        &project,
        &["--host", "0.0.0.0"],
        &[("HOLODECK_TOKEN", "tok-0123456789abcdef")],
    );
    assert!(
        server
            .ask("GET", "/v1/sessions", "", "")
            .starts_with("HTTP/1.1 401")
    );
    let token = "authorization: Bearer tok-0123456789abcdef\r\n";
    assert!(
        server
            .ask("GET", "/v1/sessions", token, "")
            .starts_with("HTTP/1.1 200")
    );
    let ended = server.end("-TERM").exits(0);
    assert!(!ended.all().contains("tok-0123456789abcdef"));

    project.write(
        "agent.yaml",
        format!("{yaml}serve:\n  auth: {{tokens: [{{user: alice, token_env: A_SECRET}}]}}\n"),
    );
    project
        .run(&["serve", "--port", "0"])
        .exits(2)
        .says("`A_SECRET` has no token for the user `alice`");
    let server = Server::start_with(
        &project,
        &[],
        &[("A_SECRET", "tok-0123456789abcdef"), ("HOLODECK_TOKEN", "other")],
    );
    assert!(
        server
            .ask("GET", "/v1/sessions", token, "")
            .starts_with("HTTP/1.1 200")
    );
    let other = "authorization: Bearer other\r\n";
    assert!(
        server
            .ask("GET", "/v1/sessions", other, "")
            .starts_with("HTTP/1.1 401")
    );
    server.end("-TERM").exits(0);
}

#[test]
fn what_is_wrong_is_said_before_it_listens() {
    let yaml = agent("http://127.0.0.1:9", TWO_CASES);
    let project = Project::with(&yaml);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    project
        .run(&["serve", "--port", &port])
        .exits(3)
        .says(&format!("cannot listen on 127.0.0.1:{port}"))
        .says("--port");
    project
        .run(&["serve", "agent.yaml", "agent.yaml"])
        .exits(2)
        .says("two agents have the name");
    for (block, says) in [
        ("serve: {listen: 8000}", "agent.yaml:"),
        ("serve: {listen: '127.0.0.1:99999'}", "above 65535"),
        ("serve: {concurency: reject}", "did you mean `concurrency`"),
        ("serve: {auth: {mode: none, token_env: A}}", "asks for no token"),
        ("serve: {auth: {mode: none}, cors_origins: ['*']}", "any web page"),
        ("serve: {auth: {token_env: A, tokens: []}}", "mutually exclusive"),
        ("events: {on_restart: resume}", "on_restart"),
        ("events: {retention_days: 0}", "retention_days"),
    ] {
        project.write("agent.yaml", format!("{yaml}{block}\n"));
        let ran = project.run(&["serve", "--port", "0"]).exits(2);
        let all = ran.all();
        assert!(
            all.contains(says) && all.contains("agent.yaml:"),
            "{block}: {all}"
        );
    }
    assert!(!project.path(".holodeck").exists());
}

#[test]
fn a_recording_is_served_without_the_model() {
    let model = correct_server();
    let project = Project::with(&agent(&model.url(), TWO_CASES));
    project.run(&["test", "--record", "answers.jsonl"]).exits(0);
    model.finish();
    let server = Server::start(&project, &["--replay", "answers.jsonl"]);
    assert!(server.say("The capital of France?").contains("Paris"));
    let missing = server.say("And of Spain?");
    assert!(missing.starts_with("HTTP/1.1 502"), "{missing}");
    server.end("-TERM").exits(0);
}

#[test]
fn conversations_are_kept_where_the_yaml_says() {
    let model = echoing();
    let yaml = agent(&model.url(), TWO_CASES);
    let project = Project::with(&yaml);
    project.write("agent.yaml", format!("{yaml}events: {{store: memory}}\n"));
    let server = Server::start(&project, &[]);
    assert!(server.say("hello").contains("re: hello"));
    server.end("-TERM").exits(0);
    assert!(!project.path(".holodeck/events.db").exists());
    project.write("agent.yaml", format!("{yaml}events: {{path: kept/log.db}}\n"));
    let server = Server::start(&project, &[]);
    server.say("hello");
    server.end("-TERM").exits(0);
    assert!(project.path("kept/log.db").exists());
    assert!(
        project
            .run(&["sessions", "list"])
            .exits(0)
            .stdout
            .contains("hello")
    );
}

#[test]
fn the_command_line_beats_serve_and_serve_beats_deployment() {
    let yaml = agent("http://127.0.0.1:9", TWO_CASES);
    let free_port = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let [deployed, served, flag] = [(); 3].map(|()| free_port());
    let deployment = |protocol: &str| {
        format!(
            "deployment:\n  registry: {{url: ghcr.io, repository: r}}\n  target: {{provider: gcp, gcp: {{project_id: \
             my-project}}}}\n  protocol: {protocol}\n  port: {deployed}\n"
        )
    };
    let serve = format!("serve: {{listen: '127.0.0.1:{served}'}}\n");
    let project = Project::with(&yaml);
    let status = |server: &Server, method: &str, path: &str| {
        let answer = server.ask(method, path, "", "");
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    // The port and the protocol of `deployment:` are the defaults.
    project.write("agent.yaml", format!("{yaml}{}", deployment("ag-ui")));
    let server = Server::start_at(&project, &[]);
    assert!(
        server.address.ends_with(&format!(":{deployed}")),
        "{}",
        server.address
    );
    assert_eq!(status(&server, "GET", "/v1/sessions"), "404");
    assert_eq!(status(&server, "POST", "/awp"), "400");
    server.end("-TERM").exits(0);
    project.write("agent.yaml", format!("{yaml}{}{serve}", deployment("rest")));
    let server = Server::start_at(&project, &[]);
    assert!(
        server.address.ends_with(&format!(":{served}")),
        "{}",
        server.address
    );
    assert_eq!(status(&server, "GET", "/v1/sessions"), "200");
    assert_eq!(status(&server, "POST", "/awp"), "404");
    server.end("-TERM").exits(0);
    let port = flag.to_string();
    let flags = ["-p", &port, "--host", "localhost", "--protocol", "both"];
    let cors = ["--cors-origins", "https://a.example,https://b.example"];
    let server = Server::start_at(&project, &[&flags[..], &cors].concat());
    assert!(
        server.address.ends_with(&format!(":{flag}")),
        "{}",
        server.address
    );
    assert_eq!(status(&server, "GET", "/v1/sessions"), "200");
    assert_eq!(status(&server, "POST", "/awp"), "400");
    for (origin, expected) in [("https://b.example", "200"), ("https://c.example", "403")] {
        let answer = server.ask("GET", "/health", &format!("origin: {origin}\r\n"), "");
        assert_eq!(answer.split(' ').nth(1).unwrap(), expected, "{origin}");
        assert_eq!(
            answer.contains("access-control-allow-origin: https://b.example"),
            expected == "200"
        );
    }
    server.end("-TERM").exits(0);
}

#[test]
fn clients_choose_one_of_several_agents() {
    let model = ModelServer::answering(|request| {
        let instructions = request.texts("system").concat();
        Reply::text(format!("{} {}", instructions, request.texts("user").len()))
    });
    let yaml = agent(&model.url(), TWO_CASES);
    let project = Project::with(&yaml);
    let other = yaml
        .replace("name: support", "name: sales")
        .replace("Answer briefly.", "Sell.");
    project.write("sales/agent.yaml", other);
    let server = Server::start(&project, &["agent.yaml", "sales/agent.yaml"]);
    let post = |path: &str, body: &Value| {
        let answer = server.ask("POST", path, "", &body.to_string());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().to_owned();
        (status, serde_json::from_str::<Value>(body).unwrap_or_default())
    };
    // The first one answers where none is named.
    let said = post("/v1/sessions/a/messages?wait=true", &json!({"message": "hi"}));
    assert_eq!(said.1["response"], "Answer briefly. 1");
    let created = post("/v1/sessions", &json!({"sessionId": "b", "agent": "sales"}));
    assert_eq!(
        (created.0.as_str(), &created.1["agent"]),
        ("201", &json!("sales"))
    );
    let said = post("/v1/sessions/b/messages?wait=true", &json!({"message": "hi"}));
    assert_eq!(said.1["response"], "Sell. 1");
    // A conversation keeps its agent, whichever protocol continues it.
    let said = post(
        "/agent/sales/chat",
        &json!({"message": "more", "session_id": "b"}),
    );
    assert_eq!(said.1["content"], "Sell. 2");
    let refused = post(
        "/agent/support/chat",
        &json!({"message": "more", "session_id": "b"}),
    );
    assert_eq!(
        (refused.0.as_str(), &refused.1["code"]),
        ("409", &json!("OTHER_AGENT"))
    );
    let message = json!([{"id": "m", "role": "user", "content": "and more"}]);
    // A client of AG-UI sends what it knows of the conversation, too.
    let texts = ["hi", "Sell. 1", "more", "Sell. 2", "and more"];
    let texts = texts.into_iter().zip(["user", "assistant"].into_iter().cycle());
    let messages = texts.enumerate();
    let messages: Vec<Value> = messages
        .map(|(at, (text, role))| json!({"id": format!("m{at}"), "role": role, "content": text}))
        .collect();
    let run = json!({"threadId": "b", "runId": "r", "state": {}, "messages": messages, "tools": [], "context": [],
        "forwardedProps": {}});
    let events = server.ask("POST", "/awp", "", &run.to_string());
    let pieces = events.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        Some(event["delta"].as_str()?.to_owned())
    });
    assert_eq!(pieces.collect::<String>(), "Sell. 3", "{events}");
    let completion = post(
        "/v1/chat/completions",
        &json!({"model": "sales", "messages": message}),
    );
    assert_eq!(completion.1["choices"][0]["message"]["content"], "Sell. 1");
    let models = server.ask("GET", "/v1/models", "", "");
    assert!(models.contains(r#""id":"support""#) && models.contains(r#""id":"sales""#));
    server.end("-TERM").exits(0);
}

#[test]
fn old_pieces_are_swept_while_it_serves() {
    let model = echoing();
    let yaml = agent(&model.url(), TWO_CASES);
    let project = Project::with(&yaml);
    let server = Server::start(&project, &[]);
    server.say("hello");
    let whole = server.ask("GET", "/v1/sessions/s/events", "", "");
    assert!(whole.contains("message_chunk"));
    server.end("-TERM").exits(0);
    project.write(
        "agent.yaml",
        format!("{yaml}events: {{resume_window_seconds: 0}}\n"),
    );
    let server = Server::start(&project, &[]);
    let rest = loop {
        let rest = server.ask("GET", "/v1/sessions/s/events", "", "");
        if !rest.contains("message_chunk") {
            break rest;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    for line in rest.lines().filter(|line| line.starts_with("data: ")) {
        assert!(whole.contains(line), "{line}");
    }
    assert!(rest.contains("re: hello"));
    server.end("-TERM").exits(0);
    project.run(&["events", "check", "last"]).exits(0);
}

#[test]
fn two_servers_share_a_database() {
    let database = PostgresServer::start();
    let model = echoing();
    let yaml = agent(&model.url(), TWO_CASES);
    let project = Project::with(&format!(
        "{yaml}events: {{store: postgres, url_env: EVENTS_DB}}\n"
    ));
    project
        .run(&["serve", "--port", "0"])
        .exits(3)
        .says("`EVENTS_DB` has no URL");
    let url = database.url();
    let env = [("EVENTS_DB", url.as_str())];
    let one = Server::start_with(&project, &[], &env);
    let other = Server::start_with(&project, &[], &env);
    assert!(one.say("hello").contains("re: hello"));
    let events = |server: &Server| server.ask("GET", "/v1/sessions/s/events", "", "");
    let payloads = |answer: String| -> Vec<String> {
        let data = answer.lines().filter(|line| line.starts_with("data: "));
        data.map(str::to_owned).collect()
    };
    assert_eq!(payloads(events(&one)), payloads(events(&other)));
    assert!(other.say("more").contains("re: more"));
    assert!(events(&one).contains("re: more"));
    one.end("-KILL");
    assert!(other.say("still there?").contains("re: still there?"));
    other.end("-TERM").exits(0);
    let list = project
        .command(&["sessions", "list", "--json"])
        .envs(env)
        .output()
        .unwrap();
    let list = CommandOutput::of(&list).exits(0).json();
    assert_eq!(
        (&list[0]["sessionId"], &list[0]["runs"]),
        (&json!("s"), &json!(3))
    );
    assert!(!project.path(".holodeck/events.db").exists());
}
