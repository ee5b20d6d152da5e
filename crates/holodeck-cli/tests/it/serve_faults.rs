//! `holodeck serve` when its process is killed, and when its database is away.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use holodeck_testkit::{Gate, ModelServer, PostgresServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{CommandOutput, Project, TWO_CASES, agent},
    resume::{ROUNDS, Random, SEED, number_from_env},
    serve::Server,
};

const SESSIONS: [&str; 2] = ["a", "b"];

/// A model that answers slowly, after a tool call in every other conversation.
fn model() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.messages();
        let last = &messages[messages.len() - 1];
        let question = request.texts("user").len();
        if last["role"] == "user" && question % 2 == 0 {
            return Reply::tool_call(&format!("call-{question}"), "echo", &json!({"text": "tea"}));
        }
        Reply::text("a word ".repeat(40))
            .in_pieces(40)
            .between_pieces(Duration::from_millis(2))
    })
}

fn project(model: &ModelServer, events: &str) -> Project {
    Project::with(&format!(
        "{}tools:\n  - {{type: function, name: echo, description: Echoes., command: cat, parameters: {{text: {{type: \
         string, description: What.}}}}}}\napprovals: {{rules: [{{tools: '*', decision: approve}}]}}\nevents: {events}\n",
        agent(&model.url(), TWO_CASES)
    ))
}

/// A request whose answer may never come.
pub(crate) fn try_ask(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// An event that a client received: its session, index and bytes.
pub(crate) type Received = (&'static str, u64, String);

/// Follows a conversation until the connection ends; an event whose last byte did not arrive is not received. Returns the
/// last one.
pub(crate) fn follow(
    address: &str,
    session: &'static str,
    mut last: Option<u64>,
    received: &Sender<Received>,
) -> std::io::Result<Option<u64>> {
    let mut stream = TcpStream::connect(address)?;
    let after = last.map_or("-1".to_owned(), |index| index.to_string());
    let request = format!(
        "GET /v1/sessions/{session}/events?follow=true HTTP/1.0\r\nhost: localhost\r\nlast-event-id: {after}\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let (mut id, mut data) = (None, None);
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.trim().parse().ok();
        } else if let Some(text) = line.strip_prefix("data: ") {
            data = Some(text.trim_end().to_owned());
        } else if line == "\n"
            && let (Some(id), Some(data)) = (id.take(), data.take())
        {
            last = Some(id);
            if received.send((session, id, data)).is_err() {
                break;
            }
        }
        line.clear();
    }
    Ok(last)
}

/// The events of a conversation, by index.
fn stored(server: &Server, session: &str) -> BTreeMap<u64, String> {
    let (mut events, mut id) = (BTreeMap::new(), 0);
    for line in server
        .ask("GET", &format!("/v1/sessions/{session}/events"), "", "")
        .lines()
    {
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.parse().unwrap();
        } else if let Some(text) = line.strip_prefix("data: ") {
            events.insert(id, text.to_owned());
        }
    }
    events
}

/// The events that clients received before the server was killed.
#[derive(Default)]
struct Given {
    events: BTreeMap<(&'static str, u64), String>,
    runs: Vec<String>,
}

impl Given {
    /// Sends a message to each conversation, and kills the server after some events.
    fn kill(&mut self, server: Server, random: &mut Random) {
        let (sender, received) = channel();
        for session in SESSIONS {
            let last = self.events.keys().rev().find(|(of, _)| *of == session);
            let last = last.map(|(_, index)| *index);
            let (address, sender) = (server.address.clone(), sender.clone());
            thread::spawn(move || drop(follow(&address, session, last, &sender)));
        }
        drop(sender);
        let senders = SESSIONS.map(|session| {
            let address = server.address.clone();
            thread::spawn(move || {
                let path = format!("/v1/sessions/{session}/messages");
                try_ask(&address, "POST", &path, r#"{"message": "go on"}"#)
            })
        });
        let wanted = random.below(110);
        for _ in 0..wanted {
            // Both answers may be over.
            let Ok(event) = received.recv_timeout(Duration::from_millis(300)) else {
                break;
            };
            self.take(event);
        }
        server.end("-KILL");
        // What left before the kill counts, too.
        for event in received {
            self.take(event);
        }
        for sent in senders {
            if let Some((202, accepted)) = sent.join().unwrap() {
                self.runs.push(accepted["runId"].as_str().unwrap().to_owned());
            }
        }
    }

    fn take(&mut self, (session, index, data): Received) {
        let before = self.events.insert((session, index), data);
        assert_eq!(before, None, "{session} {index} was given twice");
    }

    /// Checks that a server that started again has all of it.
    fn check(&self, server: &Server) {
        let stored = SESSIONS.map(|session| (session, stored(server, session)));
        for (session, events) in &stored {
            let given = self.events.iter().filter(|((of, _), _)| of == session);
            for ((_, index), data) in given {
                assert_eq!(events.get(index), Some(data), "{session} {index}");
            }
            let numbers = events.values().filter_map(|data| {
                let event: Value = serde_json::from_str(data).unwrap();
                event["sequenceNumber"].as_u64()
            });
            let numbers: Vec<u64> = numbers.collect();
            assert_eq!(
                numbers,
                (0..numbers.len() as u64).collect::<Vec<_>>(),
                "{session}"
            );
            let (_, described) =
                try_ask(&server.address, "GET", &format!("/v1/sessions/{session}"), "").unwrap();
            assert_eq!(described["openRun"], Value::Null, "{session}");
        }
        for run in &self.runs {
            let of_run = |data: &&String| data.contains(&format!(r#""runId":"{run}""#));
            let events: Vec<&String> = stored
                .iter()
                .flat_map(|(_, events)| events.values())
                .filter(of_run)
                .collect();
            let has = |kind: &str| {
                events
                    .iter()
                    .filter(|data| data.contains(&format!(r#""type":"{kind}""#)))
                    .count()
            };
            assert_eq!(has("user_message_confirmed"), 1, "run {run} was accepted");
            assert_eq!(has("complete") + has("error"), 1, "run {run}");
        }
    }
}

#[test]
fn what_clients_were_given_survives_kills_of_the_server() {
    let rounds = 2 * number_from_env(ROUNDS).unwrap_or(4);
    let seed = number_from_env(SEED).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
        now.unwrap().as_secs()
    });
    println!("repeat with {SEED}={seed}");
    let (model, random) = (model(), &mut Random(seed));
    let (mut events, mut runs, mut round) = (0, 0, 0);
    while round < rounds {
        let project = project(&model, "{}");
        let mut given = Given::default();
        let server = Server::start(&project, &[]);
        for session in SESSIONS {
            let body = json!({"sessionId": session}).to_string();
            server.ask("POST", "/v1/sessions", "", &body);
        }
        let mut server = Some(server);
        for _ in 0..8 {
            given.kill(server.take().unwrap(), random);
            let again = Server::start(&project, &[]);
            given.check(&again);
            server = Some(again);
            round += 1;
        }
        server.unwrap().end("-TERM").exits(0);
        for session in SESSIONS {
            project.run(&["events", "check", session]).exits(0);
        }
        events += given.events.len();
        runs += given.runs.len();
    }
    println!("{round} kills; {events} events given and {runs} messages accepted before them");
    assert!(events as u64 > 5 * round, "hardly anything was given: {events}");
}

#[test]
fn a_restart_of_the_database_in_mid_run_loses_nothing() {
    let mut database = PostgresServer::start();
    let gate = Gate::new();
    let inner = gate.clone();
    let model = ModelServer::answering(move |request| match request.texts("tool").last() {
        None => Reply::tool_call("call-1", "echo", &json!({"text": "tea"})),
        Some(_) => Reply::text("The end.").in_pieces(4).behind(&inner),
    });
    let project = project(&model, "{store: postgres, url_env: EVENTS_DB}");
    let url = database.url();
    let server = Server::start_with(&project, &[], &[("EVENTS_DB", url.as_str())]);
    server.ask("POST", "/v1/sessions", "", r#"{"sessionId": "a"}"#);
    let (sender, received) = channel();
    let address = server.address.clone();
    let follower = thread::spawn(move || {
        let mut last = None;
        // As a browser does: it connects again where the stream ended, while there is a server.
        while let Ok(seen) = follow(&address, "a", last, &sender) {
            last = seen;
            thread::sleep(Duration::from_millis(20));
        }
    });
    let accepted = try_ask(
        &server.address,
        "POST",
        "/v1/sessions/a/messages",
        r#"{"message": "go"}"#,
    );
    assert_eq!(accepted.unwrap().0, 202);
    let mut events = BTreeMap::new();
    let mut until = |kind: &str| {
        let kind = format!(r#""type":"{kind}""#);
        loop {
            let (_, index, data) = received.recv_timeout(Duration::from_mins(1)).unwrap();
            let is_last = data.contains(&kind);
            assert_eq!(events.insert(index, data), None, "{index} was given twice");
            if is_last {
                return;
            }
        }
    };
    until("tool_result");
    let ready = || {
        server
            .ask("GET", "/ready", "", "")
            .split(' ')
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(ready(), "200");
    database.stop();
    assert_eq!(ready(), "503");
    database.start_again();
    while ready() != "200" {}
    gate.open();
    until("complete");
    assert_eq!(events, stored(&server, "a"));
    let said: String = events
        .values()
        .filter(|data| data.contains(r#""type":"message""#))
        .cloned()
        .collect();
    assert!(said.contains("The end."));
    server.end("-TERM").exits(0);
    follower.join().unwrap();
    let check = project
        .command(&["events", "check", "a"])
        .env("EVENTS_DB", url)
        .output()
        .unwrap();
    CommandOutput::of(&check).exits(0);
}
