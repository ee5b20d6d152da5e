//! No client of `serve` opens a file outside the agent's folders, however it answers a question: every route of an answer,
//! every scope, and every place of a changed call.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{Bench, agent};
use crate::{project::SECRET, serve::Server};

/// How a client answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Rest,
    Socket,
    AgUi,
}

const ROUTES: [Route; 3] = [Route::Rest, Route::Socket, Route::AgUi];

/// The next calls of a conversation, whose first message has them all.
fn answer(request: &AnthropicRequest) -> AnthropicReply {
    let texts = request.texts("user");
    let script = texts.iter().find_map(|text| text.strip_prefix("CALLS "));
    let batches: Vec<Vec<(String, Value)>> = serde_json::from_str(script.unwrap()).unwrap();
    let done = request
        .messages()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    match batches.get(done) {
        None => AnthropicReply::text("done"),
        Some(calls) => calls
            .iter()
            .fold(AnthropicReply::nothing(), |reply, (tool, arguments)| {
                reply.and_tool_use(tool, arguments)
            }),
    }
}

/// Sends one frame over a WebSocket, and reads the next that the server sends, if it is an error.
fn send_frame(server: &Server, frame: &Value) {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let key = BASE64_STANDARD.encode([7; 16]);
    write!(
        stream,
        "GET /v1/ws HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: {key}\r\n\r\n",
        server.address
    )
    .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    assert!(
        head.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&head)
    );
    let text = frame.to_string().into_bytes();
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    // A text frame with a mask of zeros, and one that closes.
    stream
        .write_all(&[0x81, 0xfe, length[0], length[1], 0, 0, 0, 0])
        .unwrap();
    stream.write_all(&text).unwrap();
    stream.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body = body.trim();
    serde_json::from_str(body).unwrap_or_else(|_| {
        // Chunked: the JSON is on one line.
        let json = body.lines().find(|line| line.starts_with('{')).unwrap();
        serde_json::from_str(json).unwrap()
    })
}

/// Answers a question over a route; `changed` replaces the arguments of the call.
fn respond(server: &Server, route: Route, session: &str, id: &str, scope: &str, changed: Option<&Value>) {
    let mut decision = match changed {
        Some(arguments) => json!({"decision": "modify", "modifiedArgs": arguments}),
        None => json!({"decision": "approve", "scope": scope}),
    };
    let json_header = "content-type: application/json\r\n";
    match route {
        Route::Rest => {
            server.ask(
                "POST",
                &format!("/v1/approvals/{id}"),
                json_header,
                &decision.to_string(),
            );
        }
        Route::Socket => {
            decision["approvalId"] = json!(id);
            send_frame(server, &json!({"event": "approval:response", "data": decision}));
        }
        Route::AgUi => {
            let payload = match changed {
                Some(arguments) => json!({"approved": true, "editedArgs": arguments}),
                None => json!({"approved": true, "scope": scope}),
            };
            let input = json!({
                "threadId": session, "runId": format!("answer-{session}"), "protocolVersion": "1.0.0", "messages": [], "tools": [], "context": [],
                "state": {}, "forwardedProps": {},
                "resume": [{"interruptId": id, "status": "resolved", "payload": payload}],
            });
            server.ask("POST", "/awp", json_header, &input.to_string());
        }
    }
}

/// A project and the files around it, each with its name as content.
fn disk(bench: &Bench) -> (PathBuf, PathBuf) {
    let work = bench.project.dir().canonicalize().unwrap();
    let out = work.with_file_name("out");
    for folder in [out.clone(), work.join(".git/hooks"), work.join("results")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(out.join("secret.txt"), "needle outside").unwrap();
    fs::write(work.join("results/run.json"), "needle own").unwrap();
    std::os::unix::fs::symlink(&out, work.join("linked")).unwrap();
    (work, out)
}

/// Calls that no client may make possible, each with the file that it would write.
fn forbidden(work: &Path, out: &Path) -> Vec<(&'static str, Value, Option<PathBuf>)> {
    let write = |named: PathBuf, real: PathBuf| {
        (
            "Write",
            json!({"file_path": named, "content": "pwned"}),
            Some(real),
        )
    };
    let read = |named: PathBuf| ("Read", json!({"file_path": named}), None);
    vec![
        read(out.join("secret.txt")),
        read(work.join("../out/secret.txt")),
        read(work.join("linked/secret.txt")),
        read(work.join("results/run.json")),
        (
            "Grep",
            json!({"pattern": "needle", "path": out, "output_mode": "content"}),
            None,
        ),
        write(out.join("new.txt"), out.join("new.txt")),
        write(work.join("../out/parent.txt"), out.join("parent.txt")),
        write(work.join("linked/through.txt"), out.join("through.txt")),
        write(
            work.join(".git/hooks/pre-commit"),
            work.join(".git/hooks/pre-commit"),
        ),
        write(work.join(".mcp.json"), work.join(".mcp.json")),
        write(work.join(".env"), work.join(".env")),
        write(work.join(".holodeck/x.txt"), work.join(".holodeck/x.txt")),
    ]
}

/// Each changed call and each scope over one of the routes. Every question is followed by all forbidden calls, so that each
/// of them is tried over each route.
fn sample(route: Route) {
    let tried = check(route, |row| row % ROUTES.len() == route as usize);
    assert!(tried >= 3, "{tried}");
}

#[test]
fn no_answer_over_http_opens_a_file_outside_the_folders_of_the_agent() {
    sample(Route::Rest);
}

#[test]
fn no_answer_over_a_socket_opens_a_file_outside_the_folders_of_the_agent() {
    sample(Route::Socket);
}

#[test]
fn no_answer_over_ag_ui_opens_a_file_outside_the_folders_of_the_agent() {
    sample(Route::AgUi);
}

/// `cargo xtask soak clients` runs it.
#[test]
#[ignore = "asks the CLI 30 times; `cargo xtask soak clients` runs it"]
fn no_answer_of_a_client_opens_a_file_outside_the_folders_of_the_agent() {
    for route in ROUTES {
        let tried = check(route, |_| true);
        println!("{route:?}: {tried} questions, each followed by every forbidden call");
    }
}

/// Asks a question for each chosen row, and answers it. Returns how many there were.
fn check(route: Route, is_chosen: impl Fn(usize) -> bool) -> usize {
    let claude = "events: {store: memory}\nclaude:\n  permission_mode: manual\n  file_system: {read: true, write: true, edit: true}\n";
    let bench = Bench::new(
        &agent(claude, &[("one", "yes")]),
        AnthropicServer::answering(answer),
    );
    let (work, out) = disk(&bench);
    let (wrapper, url) = (bench.wrapper(), bench.server.url());
    let server = Server::start_with(
        &bench.project,
        &["--protocol", "both"],
        &[
            ("HOLODECK_CLAUDE_CLI", wrapper.to_str().unwrap()),
            ("ANTHROPIC_BASE_URL", &url),
            ("ANTHROPIC_API_KEY", SECRET),
            ("TMPDIR", bench.temporary().to_str().unwrap()),
        ],
    );
    let forbidden = forbidden(&work, &out);
    let writes = forbidden
        .iter()
        .enumerate()
        .filter(|(_, (tool, _, _))| *tool == "Write");
    let mut rows: Vec<(&str, Option<usize>)> = writes.map(|(index, _)| ("once", Some(index))).collect();
    // What is always approved is not asked about again.
    rows.extend(["once", "session", "always"].map(|scope| (scope, None)));
    let chosen = rows.iter().enumerate().filter(|(number, _)| is_chosen(*number));
    let mut tried = 0;
    for (number, (scope, changed)) in chosen {
        tried += 1;
        let session = format!("s{number}");
        let new = work.join(format!("new-{number}.txt"));
        let first = json!([["Write", {"file_path": new, "content": "asked"}]]);
        let second: Vec<Value> = forbidden
            .iter()
            .map(|(tool, arguments, _)| json!([tool, arguments]))
            .collect();
        let message = format!("CALLS {}", json!([first, second]));
        let path = format!("/v1/sessions/{session}/messages");
        server.ask(
            "POST",
            &path,
            "content-type: application/json\r\n",
            &json!({ "message": message }).to_string(),
        );
        let mut asked = Vec::new();
        loop {
            let waiting = body(&server.ask("GET", &format!("/v1/approvals?sessionId={session}"), "", ""));
            let questions = waiting["approvals"].as_array().unwrap();
            if let Some(question) = questions.first() {
                let id = question["approvalId"].as_str().unwrap().to_owned();
                let arguments = question["args"].clone();
                if asked.last() != Some(&arguments) {
                    asked.push(arguments);
                    let changed = changed.map(|index: usize| &forbidden[index].1);
                    respond(&server, route, &session, &id, scope, changed);
                }
            }
            let state = body(&server.ask("GET", &format!("/v1/sessions/{session}"), "", ""));
            if state["runs"] == 1 && state["openRun"].is_null() && questions.is_empty() {
                break;
            }
        }
        let row = format!("{route:?} {scope} {changed:?}");
        let events = server.ask("GET", &format!("/v1/sessions/{session}/events"), "", "");
        // Only the call inside is asked about.
        assert_eq!(asked.len(), 1, "{row}: {asked:?} {events}");
        assert_eq!(asked[0]["content"], "asked", "{row}");
        assert_eq!(new.exists(), changed.is_none(), "{row}");
        for (tool, arguments, file) in &forbidden {
            let written = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
            assert!(
                !written.is_some_and(|text| text.contains("pwned")),
                "{row}: {tool} {arguments}"
            );
        }
        assert!(!events.contains("needle o"), "{row}: {events}");
    }
    server.end("-TERM").exits(0);
    bench.wait_for_processes();
    assert!(bench.private_folders().is_empty());
    bench.server.finish_unchecked();
    tried
}
