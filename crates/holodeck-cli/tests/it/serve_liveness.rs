//! Two `holodeck serve` processes on one store, of which one dies or freezes while a person is asked.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use holodeck_testkit::{ModelServer, PostgresServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{CommandOutput, Project, TWO_CASES, agent},
    serve::Server,
    serve_faults::{Received, follow, try_ask},
};

/// A model that calls a tool with the first message of a conversation, and answers any other.
fn model() -> ModelServer {
    ModelServer::answering(|request| {
        let first = request.texts("user").last().is_some_and(|text| *text == "go");
        if first && request.texts("tool").is_empty() {
            return Reply::tool_call("call-1", "note", &json!({"text": "tea"}));
        }
        Reply::text("I am here.")
    })
}

/// The tool leaves a file.
const NOTED: &str = "noted.txt";

fn project(model: &ModelServer, events: &str) -> Project {
    Project::with(&format!(
        "{}tools:\n  - {{type: function, name: note, description: Notes., command: tee, args: [{NOTED}], parameters: {{text: \
         {{type: string, description: What.}}}}}}\napprovals: {{rules: [{{tools: '*', approver: human}}]}}\n{events}",
        agent(&model.url(), TWO_CASES)
    ))
}

/// Two servers, of which `owner` asks a person about a call, and a reader of the other one.
struct Pair<'p> {
    project: &'p Project,
    env: Vec<(&'static str, String)>,
    owner: Server,
    other: Server,
    run: String,
    approval: String,
    received: Receiver<Received>,
}

impl<'p> Pair<'p> {
    fn start(project: &'p Project, env: &[(&'static str, &str)]) -> Self {
        let [owner, other] = [(); 2].map(|()| Server::start_with(project, &[], env));
        owner.ask("POST", "/v1/sessions", "", r#"{"sessionId": "a"}"#);
        let (sender, received) = channel();
        let address = other.address.clone();
        thread::spawn(move || follow(&address, "a", None, &sender));
        let path = "/v1/sessions/a/messages";
        let (status, accepted) = try_ask(&owner.address, "POST", path, r#"{"message": "go"}"#).unwrap();
        assert_eq!(status, 202);
        let mut pair = Self {
            project,
            env: env
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            owner,
            other,
            run: accepted["runId"].as_str().unwrap().to_owned(),
            approval: String::new(),
            received,
        };
        let asked = pair.until("approval_requested");
        asked["approvalId"]
            .as_str()
            .unwrap()
            .clone_into(&mut pair.approval);
        pair
    }

    /// The next event of this type that the reader gets.
    fn until(&self, kind: &str) -> Value {
        loop {
            let (_, _, data) = self.received.recv_timeout(Duration::from_mins(2)).unwrap();
            let event: Value = serde_json::from_str(&data).unwrap();
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// The status and the code or state of an answer of the other server.
    fn ask(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, answer) = try_ask(&self.other.address, "POST", path, &body.to_string()).unwrap();
        let word = answer.get("code").or_else(|| answer.get("state"));
        (status, word.cloned().unwrap_or_default())
    }

    fn approve(&self) -> (u16, Value) {
        let path = format!("/v1/approvals/{}", self.approval);
        self.ask(&path, &json!({"decision": "approve"}))
    }

    fn cancel(&self) -> (u16, Value) {
        self.ask(&format!("/v1/runs/{}/cancel", self.run), &json!({}))
    }

    /// The events that a reader got, and the answers about a run that another process ended.
    fn check_end(&self) {
        let closed = self.until("approval_resolved");
        assert_eq!(
            (&closed["approved"], &closed["decision"]),
            (&json!(false), &json!("cancelled"))
        );
        assert_eq!(self.until("error")["code"], "RUN_INTERRUPTED");
        assert_eq!(self.approve(), (409, json!("ALREADY_RESOLVED")));
        assert_eq!(self.cancel(), (200, json!("done")));
        let (_, listed) = try_ask(&self.other.address, "GET", "/v1/approvals", "").unwrap();
        assert_eq!(listed["approvals"], json!([]));
        let (_, session) = try_ask(&self.other.address, "GET", "/v1/sessions/a", "").unwrap();
        assert_eq!(session["openRun"], Value::Null);
    }

    /// The conversation continues, and the tool has not run.
    fn check_after(self) {
        let path = "/v1/sessions/a/messages?wait=true";
        let (status, answer) = try_ask(
            &self.other.address,
            "POST",
            path,
            r#"{"message": "still there?"}"#,
        )
        .unwrap();
        assert_eq!((status, &answer["response"]), (200, &json!("I am here.")));
        let log = self.other.end("-TERM").exits(0).stderr;
        let took_over = format!(
            "ended a run that no process continues (session: a, run: {})",
            self.run
        );
        assert!(log.contains(&took_over), "{log}");
        self.owner.wait();
        let mut check = self.project.command(&["events", "check", "a"]);
        let checked = check.envs(self.env).output().unwrap();
        CommandOutput::of(&checked).exits(0);
        assert!(!self.project.path(NOTED).exists());
    }
}

/// The answer of a server to the deletion of the conversation: the status, and the code of a refusal.
fn delete(server: &Server, query: &str) -> (u16, Value) {
    let answer = server.ask("DELETE", &format!("/v1/sessions/a{query}"), "", "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    (status, body["code"].clone())
}

impl Pair<'_> {
    /// The stream of the reader at the other server ends, and nothing is left anywhere, also of the tool.
    fn check_gone(&self) {
        check_gone(&self.received, &[&self.other, &self.owner]);
        assert_eq!(self.approve(), (404, json!("APPROVAL_NOT_FOUND")));
        assert!(!self.project.path(NOTED).exists());
    }
}

fn check_gone(received: &Receiver<Received>, servers: &[&Server]) {
    let ended = loop {
        match received.recv_timeout(Duration::from_mins(2)) {
            Ok(_) => {}
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, RecvTimeoutError::Disconnected);
    for server in servers {
        let (status, gone) = try_ask(&server.address, "GET", "/v1/sessions/a", "").unwrap();
        assert_eq!((status, &gone["code"]), (404, &json!("SESSION_NOT_FOUND")));
        let (_, listed) = try_ask(&server.address, "GET", "/v1/approvals", "").unwrap();
        assert_eq!(listed["approvals"], json!([]));
    }
}

/// The conversation of a dead process is deleted elsewhere.
fn a_conversation_of_a_killed_server_is_deleted(project: &Project, env: &[(&'static str, &str)]) {
    let pair = Pair::start(project, env);
    assert_eq!(delete(&pair.other, ""), (409, json!("RUN_IN_PROGRESS")));
    let Pair {
        owner,
        other,
        received,
        ..
    } = pair;
    owner.signal("-KILL");
    owner.wait();
    // A database may notice it a moment later.
    let deleted = loop {
        let deleted = delete(&other, "");
        if env.is_empty() || deleted.0 != 409 {
            break deleted;
        }
    };
    assert_eq!(deleted, (204, Value::Null));
    check_gone(&received, &[&other]);
    assert!(!project.path(NOTED).exists());
    other.end("-TERM").exits(0);
}

/// A conversation is deleted at one server while a person is asked there, and another one has a reader.
fn a_conversation_with_a_foreign_reader_is_deleted(project: &Project, env: &[(&'static str, &str)]) {
    let pair = Pair::start(project, env);
    assert_eq!(delete(&pair.owner, ""), (409, json!("RUN_IN_PROGRESS")));
    assert_eq!(delete(&pair.owner, "?force=true"), (204, Value::Null));
    pair.check_gone();
}

/// The same at a server that does not run it.
fn a_conversation_that_runs_elsewhere_is_deleted(project: &Project, env: &[(&'static str, &str)]) {
    let pair = Pair::start(project, env);
    assert_eq!(delete(&pair.other, "?force=true"), (204, Value::Null));
    pair.check_gone();
    // Its run ends without the tool, and the server takes other messages.
    let path = "/v1/sessions/b/messages?wait=true";
    let (status, answer) = try_ask(&pair.owner.address, "POST", path, r#"{"message": "hello"}"#).unwrap();
    assert_eq!((status, &answer["response"]), (200, &json!("I am here.")));
    pair.owner.end("-TERM").exits(0);
    assert!(!pair.project.path(NOTED).exists());
}

#[test]
fn deleted_conversations_of_one_file_end_their_readers_and_runs_in_every_process() {
    let model = model();
    for deletes in [
        a_conversation_of_a_killed_server_is_deleted,
        a_conversation_with_a_foreign_reader_is_deleted,
        a_conversation_that_runs_elsewhere_is_deleted,
    ] {
        deletes(&project(&model, ""), &[]);
    }
}

#[test]
fn deleted_conversations_of_one_database_end_their_readers_and_runs_in_every_process() {
    let model = model();
    for deletes in [
        a_conversation_of_a_killed_server_is_deleted,
        a_conversation_with_a_foreign_reader_is_deleted,
        a_conversation_that_runs_elsewhere_is_deleted,
    ] {
        let database = PostgresServer::start();
        let project = project(&model, "events: {store: postgres, url_env: EVENTS_DB}\n");
        deletes(&project, &[("EVENTS_DB", &database.url())]);
    }
}

fn a_server_that_is_killed(project: &Project, env: &[(&'static str, &str)]) {
    let pair = Pair::start(project, env);
    // It lives: its run can be stopped only there.
    assert_eq!(pair.cancel(), (409, json!("RUN_ELSEWHERE")));
    pair.owner.signal("-KILL");
    pair.check_end();
    pair.check_after();
}

fn a_server_that_is_frozen(project: &Project, env: &[(&'static str, &str)]) {
    let pair = Pair::start(project, env);
    pair.owner.signal("-STOP");
    pair.check_end();
    // It wakes up, and its run is over: it is asked for something else, answers, and ends.
    pair.owner.signal("-CONT");
    let path = "/v1/sessions/b/messages?wait=true";
    let (status, answer) = try_ask(&pair.owner.address, "POST", path, r#"{"message": "hello"}"#).unwrap();
    assert_eq!((status, &answer["response"]), (200, &json!("I am here.")));
    let stored = pair.owner.ask("GET", "/v1/sessions/a", "", "");
    assert!(stored.contains(r#""openRun":null"#), "{stored}");
    pair.owner.signal("-TERM");
    pair.check_after();
}

#[test]
fn readers_of_one_file_get_the_end_of_a_run_whose_server_was_killed() {
    let model = model();
    a_server_that_is_killed(&project(&model, ""), &[]);
}

#[test]
fn readers_of_one_file_get_the_end_of_a_run_whose_server_is_frozen() {
    let model = model();
    a_server_that_is_frozen(&project(&model, ""), &[]);
}

#[test]
fn readers_of_one_database_get_the_end_of_a_run_whose_server_was_killed() {
    let (model, database) = (model(), PostgresServer::start());
    let project = project(&model, "events: {store: postgres, url_env: EVENTS_DB}\n");
    a_server_that_is_killed(&project, &[("EVENTS_DB", &database.url())]);
}

#[test]
fn readers_of_one_database_get_the_end_of_a_run_whose_server_is_frozen() {
    let (model, database) = (model(), PostgresServer::start());
    let project = project(&model, "events: {store: postgres, url_env: EVENTS_DB}\n");
    a_server_that_is_frozen(&project, &[("EVENTS_DB", &database.url())]);
}
