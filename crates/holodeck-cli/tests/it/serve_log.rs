//! The log of `holodeck serve`: the lines that an operator reads, in both forms, and the secrets that are in none.

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{Project, TWO_CASES, agent},
    serve::Server,
};

const ALICE: &str = "alice-token-7f3a9c21d4e8";
const BOB: &str = "bob-token-55e0b7a6c3f1";
const DEFAULT: &str = "default-token-91d2c4b6a8f0";
const PASSWORD: &str = "pw-of-the-database-3c5e";

const TOKENS: [(&str, &str); 4] = [
    ("ALICE_TOKEN", ALICE),
    ("BOB_TOKEN", BOB),
    ("HOLODECK_TOKEN", DEFAULT),
    (
        "HOLODECK_EVENTS_URL",
        "postgresql://holodeck:pw-of-the-database-3c5e@db.example/holodeck",
    ),
];

const AUTH: &str =
    "serve: {auth: {tokens: [{user: alice, token_env: ALICE_TOKEN}, {user: bob, token_env: BOB_TOKEN}]}}\n";

/// A model that calls a tool if it is asked to, and repeats each message.
fn parrot() -> ModelServer {
    ModelServer::answering(|request| {
        let asked = request.texts("user").last().unwrap().to_string();
        match request.texts("tool").last() {
            None if asked == "call" => Reply::tool_call("c-1", "note", &json!({"text": "tea"})),
            _ => Reply::text(format!("re: {asked}")),
        }
    })
}

fn project(model: &str) -> Project {
    Project::with(&format!(
        "{}tools:\n  - {{type: function, name: note, description: Notes., command: cat, parameters: {{text: \
         {{type: string, description: What.}}}}}}\napprovals: {{rules: [{{tools: '*', approver: human}}]}}\n{AUTH}",
        agent(model, TWO_CASES)
    ))
}

fn token(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// Refused tokens, a decision, a request and the end of a server.
fn use_server(server: &Server) {
    for _ in 0..20 {
        let refused = server.ask(
            "GET",
            "/v1/sessions?secret=query-7",
            &token("wrong-token-123456789"),
            "",
        );
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    }
    let alice = token(ALICE);
    let body = json!({"message": "call"}).to_string();
    server.ask("POST", "/v1/sessions/s/messages", &alice, &body);
    let approval = loop {
        let listed = server.ask("GET", "/v1/approvals?sessionId=s", &alice, "");
        let (_, body) = listed.split_once("\r\n\r\n").unwrap();
        let listed: Value = serde_json::from_str(body).unwrap();
        if let Some(id) = listed["approvals"][0]["approvalId"].as_str() {
            break id.to_owned();
        }
    };
    let path = format!("/v1/approvals/{approval}");
    let answered = server.ask("POST", &path, &alice, r#"{"decision": "approve"}"#);
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    server.ask("GET", "/v1/runs/none/events?key=query-8", &token(BOB), "");
}

/// Nothing of it is in any log.
fn assert_hidden(log: &str) {
    for secret in [
        ALICE,
        BOB,
        DEFAULT,
        PASSWORD,
        "wrong-token-123456789",
        "query-7",
        "query-8",
    ] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[test]
fn the_log_says_who_was_refused_and_what_was_decided() {
    let model = parrot();
    let project = project(&model.url());
    let server = Server::start_with(&project, &[], &TOKENS);
    use_server(&server);
    let log = server.end("-TERM").exits(0).stderr;
    assert_hidden(&log);
    let about = |what: &str| log.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
    // Twenty requests are two lines: the first one, and the rest at the end.
    let refused = about("refused requests without a valid token");
    assert_eq!(refused.len(), 2, "{log}");
    assert!(refused[0].contains("(address: 127.0.0.1, count: 1)"), "{log}");
    assert!(refused[1].contains("(address: 127.0.0.1, count: 19)"), "{log}");
    let decided = about("a tool call was decided");
    assert_eq!(decided.len(), 1, "{log}");
    assert!(
        decided[0].contains("decision: approved, user: alice, scope: once, session: s"),
        "{log}"
    );
    assert!(decided[0].contains(" info: "), "{log}");
    assert_eq!(about("stopping").len(), 1, "{log}");
    assert_eq!(about("stopped").len(), 1, "{log}");
    // Requests are shown on request.
    assert_eq!(about("/v1/sessions").len(), 0, "{log}");
}

#[test]
fn with_more_words_the_log_has_every_request_and_none_of_its_secrets() {
    let model = parrot();
    let project = project(&model.url());
    let server = Server::start_with(&project, &["-v"], &TOKENS);
    use_server(&server);
    let log = server.end("-TERM").exits(0).stderr;
    assert_hidden(&log);
    let requests: Vec<_> = log
        .lines()
        .filter(|line| line.contains(" info: request ("))
        .collect();
    let refused = requests
        .iter()
        .filter(|line| line.contains("path: /v1/sessions, status: 401"));
    assert_eq!(refused.count(), 20, "{log}");
    let of_bob = "method: GET, path: /v1/runs/none/events, status: 4";
    let of_bob = requests.iter().find(|line| line.contains(of_bob)).unwrap();
    assert!(
        of_bob.contains("user: bob") && of_bob.contains("ms: "),
        "{of_bob}"
    );
}

#[test]
fn a_log_of_json_has_an_object_in_each_line() {
    let model = parrot();
    let project = project(&model.url());
    let server = Server::start_with(&project, &["-v", "--log-format", "json"], &TOKENS);
    use_server(&server);
    let log = server.end("-INT").exits(130).stderr;
    assert_hidden(&log);
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    for line in &lines {
        for field in ["time", "level", "message"] {
            assert!(line[field].is_string(), "{line}");
        }
    }
    let about = |what: &str| {
        let found = lines.iter().find(|line| line["message"] == what);
        found.unwrap_or_else(|| panic!("no {what} in {log}"))
    };
    assert!(
        about("started")["url"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
    assert_eq!(about("request")["status"], 401);
    assert_eq!(about("a tool call was decided")["user"], "alice");
    assert_eq!(about("refused requests without a valid token")["count"], 1);
    about("stopped");
}

#[test]
fn every_secret_of_a_server_is_masked_in_events_answers_and_logs() {
    let model = parrot();
    let yaml = agent(&model.url(), TWO_CASES);
    let project = Project::with(&format!("{yaml}{AUTH}"));
    // The tokens of the first agent are secrets of the second one, too.
    project.write("second.yaml", yaml.replace("name: support", "name: second"));
    for agent in ["support", "second"] {
        let args = ["agent.yaml", "second.yaml", "-vv"];
        let server = Server::start_with(&project, &args, &TOKENS);
        let secrets = [ALICE, BOB, DEFAULT, PASSWORD];
        let begun = json!({"sessionId": format!("s-{agent}"), "agent": agent}).to_string();
        server.ask("POST", "/v1/sessions", &token(ALICE), &begun);
        let body = json!({"message": format!("I know {}!", secrets.join(" and "))}).to_string();
        let path = format!("/v1/sessions/s-{agent}/messages?wait=true");
        let answer = server.ask("POST", &path, &token(ALICE), &body);
        assert!(
            answer.contains("re: I know *** and *** and *** and ***!"),
            "{answer}"
        );
        let events = server.ask(
            "GET",
            &format!("/v1/sessions/s-{agent}/events"),
            &token(ALICE),
            "",
        );
        assert!(events.contains("I know ***"), "{events}");
        let log = server.end("-TERM").exits(0).stderr;
        let file = std::fs::read(project.path(".holodeck/events.db")).unwrap();
        let mut stored = String::from_utf8_lossy(&file).into_owned();
        if let Ok(more) = std::fs::read(project.path(".holodeck/events.db-wal")) {
            stored.push_str(&String::from_utf8_lossy(&more));
        }
        assert!(stored.contains("I know ***"));
        for secret in secrets {
            for (place, text) in [
                ("answer", &answer),
                ("events", &events),
                ("log", &log),
                ("store", &stored),
            ] {
                assert!(!text.contains(secret), "{secret} in the {place} of {agent}");
            }
        }
    }
}

#[test]
fn clients_are_told_that_the_model_failed_and_the_log_why() {
    let project = project("http://127.0.0.1:9/v1");
    let server = Server::start_with(&project, &[], &TOKENS);
    let body = json!({"message": "hello"}).to_string();
    let failed = server.ask("POST", "/v1/sessions/s/messages?wait=true", &token(ALICE), &body);
    let events = server.ask("GET", "/v1/sessions/s/events", &token(ALICE), "");
    let (_, failed) = failed.split_once("\r\n\r\n").unwrap();
    let (_, events) = events.split_once("\r\n\r\n").unwrap();
    for text in [failed, events] {
        assert!(text.contains("the model can't be reached"), "{text}");
        assert!(
            !text.contains("127.0.0.1") && !text.contains("agent.yaml"),
            "{text}"
        );
    }
    let log = server.end("-TERM").exits(0).stderr;
    let why = log
        .lines()
        .find(|line| line.contains("an answer failed"))
        .unwrap();
    assert!(why.contains("127.0.0.1:9"), "{log}");
}

#[test]
fn a_client_that_takes_nothing_is_a_line_of_the_log() {
    use std::{io::Write as _, net::TcpStream};

    // More than the buffers of a connection hold.
    let model = ModelServer::answering(|_| Reply::text("word ".repeat(1 << 20)).in_pieces(1_000));
    let project = Project::with(&format!(
        "{}serve: {{slow_consumer_seconds: 1}}\n",
        agent(&model.url(), TWO_CASES)
    ));
    let server = Server::start(&project, &[]);
    let body = json!({"message": "go"}).to_string();
    let answered = server.ask("POST", "/v1/sessions/s/messages?wait=true", "", &body);
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered:.200}");
    let stalled = [(); 2].map(|()| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let path = "/v1/sessions/s/events?follow=true";
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        stream
    });
    while !server
        .ask("GET", "/metrics", "", "")
        .contains("holodeck_slow_consumers_closed_total 2\n")
    {}
    drop(stalled);
    let log = server.end("-TERM").exits(0).stderr;
    let lines = log.lines().filter(|line| line.contains("took no data"));
    // The first at once, the rest with the end.
    let counts: Vec<_> = lines
        .map(|line| line.split_once("count: ").unwrap().1.trim_end_matches(')'))
        .collect();
    assert_eq!(counts, ["1", "1"], "{log}");
}
