//! Approvals for all conversations: for the tool as it was, listed, revoked, and only where the YAML allows them.

use holodeck_testkit::{ModelServer, PostgresServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{CommandOutput, Project, TWO_CASES, agent},
    serve::Server,
    serve_faults::try_ask,
};

/// A model that calls a tool with each message.
fn calling() -> ModelServer {
    ModelServer::answering(|request| {
        let messages = request.texts("user").len();
        if request.texts("tool").len() < messages {
            Reply::tool_call(&format!("c-{messages}"), "note", &json!({"text": "tea"}))
        } else {
            Reply::text("noted")
        }
    })
}

fn write(project: &Project, model: &ModelServer, tool: &str, approvals: &str) {
    project.write(
        "agent.yaml",
        format!(
            "{}tools:\n  - {tool}\n  - {{type: function, name: other, description: O., command: cat, parameters: {{}}}}\n\
             approvals: {{{approvals}rules: [{{tools: '*', approver: human}}]}}\n",
            agent(&model.url(), TWO_CASES)
        ),
    );
}

const TOOL: &str = "{type: function, name: note, description: Notes., command: ./note.sh, parameters: {text: {type: string, description: What.}}}";

/// The answer to a message in a new conversation: `None` if a person is asked about a call, whose id is kept.
struct Talk<'s> {
    server: &'s Server,
    session: String,
    asked: Option<String>,
}

impl<'s> Talk<'s> {
    fn begin(server: &'s Server, session: &str) -> Self {
        let path = format!("/v1/sessions/{session}/messages");
        let (status, _) = try_ask(&server.address, "POST", &path, r#"{"message": "go"}"#).unwrap();
        assert_eq!(status, 202);
        let mut talk = Self {
            server,
            session: session.to_owned(),
            asked: None,
        };
        loop {
            let path = format!("/v1/approvals?sessionId={session}");
            let (_, listed) = try_ask(&server.address, "GET", &path, "").unwrap();
            if let Some(id) = listed["approvals"][0]["approvalId"].as_str() {
                talk.asked = Some(id.to_owned());
                return talk;
            }
            if talk.is_over() {
                return talk;
            }
        }
    }

    fn is_over(&self) -> bool {
        let path = format!("/v1/sessions/{}", self.session);
        let (_, session) = try_ask(&self.server.address, "GET", &path, "").unwrap();
        session["openRun"].is_null()
    }

    fn answer(&self, body: &Value) -> (u16, Value) {
        let path = format!("/v1/approvals/{}", self.asked.as_ref().unwrap());
        try_ask(&self.server.address, "POST", &path, &body.to_string()).unwrap()
    }

    fn approve(self, scope: &str) {
        assert_eq!(
            self.answer(&json!({"decision": "approve", "scope": scope})).0,
            200
        );
        while !self.is_over() {}
    }

    fn reject(self) {
        assert_eq!(self.answer(&json!({"decision": "reject"})).0, 200);
        while !self.is_over() {}
    }
}

fn script(project: &Project, text: &str) {
    program(project, &format!("#!/bin/sh\ncat\n# {text}\n"));
}

fn program(project: &Project, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    project.write("note.sh", text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(project.path("note.sh"), mode).unwrap();
}

#[test]
fn a_tool_that_is_always_approved_is_asked_about_again_when_it_changed() {
    let model = calling();
    let project = Project::with("");
    write(&project, &model, TOOL, "");
    script(&project, "one");
    let server = Server::start(&project, &[]);
    let first = Talk::begin(&server, "first");
    assert!(first.asked.is_some());
    first.approve("always");
    assert_eq!(Talk::begin(&server, "second").asked, None);
    // Its program changes while the server runs.
    script(&project, "two");
    let third = Talk::begin(&server, "third");
    assert!(third.asked.is_some());
    third.reject();
    // As it was before, it is approved as before.
    script(&project, "one");
    assert_eq!(Talk::begin(&server, "fourth").asked, None);
    server.end("-TERM").exits(0);
    // Its schema or its settings change; another tool does not matter.
    for (session, tool, asks) in [
        ("fifth", TOOL.replace("What.", "Which."), true),
        ("sixth", TOOL.replace("Notes.", "Notes it."), true),
        ("seventh", TOOL.to_owned(), false),
    ] {
        write(&project, &model, &tool, "");
        let server = Server::start(&project, &[]);
        let talk = Talk::begin(&server, session);
        assert_eq!(talk.asked.is_some(), asks, "{session}");
        if asks {
            talk.reject();
        }
        server.end("-TERM").exits(0);
    }
}

#[test]
fn files_that_calls_write_change_no_tool_and_programs_among_the_arguments_do() {
    let model = calling();
    let project = Project::with("");
    let tool = TOOL.replace("./note.sh", "./note.sh, args: [state.json, --rules=rules.sql]");
    write(&project, &model, &tool, "");
    program(&project, "#!/bin/sh\ncat >> \"$1\"\necho noted\n");
    project.write("state.json", "");
    project.write("rules.sql", "select 1");
    let server = Server::start(&project, &[]);
    let first = Talk::begin(&server, "first");
    assert!(first.asked.is_some());
    // As a call of another conversation does meanwhile.
    project.write("state.json", "[]");
    first.approve("always");
    let written = project.read("state.json");
    assert!(written.contains("tea"), "{written}");
    assert_eq!(Talk::begin(&server, "second").asked, None);
    assert!(project.read("state.json").len() > written.len());
    project.write("rules.sql", "select 2");
    let third = Talk::begin(&server, "third");
    assert!(third.asked.is_some());
    third.reject();
    server.end("-TERM").exits(0);
}

#[test]
fn what_is_always_approved_is_listed_and_revoked_over_http_and_in_a_terminal() {
    listed_and_revoked("", &[]);
}

#[test]
fn what_is_always_approved_is_listed_and_revoked_in_a_database() {
    let database = PostgresServer::start();
    let events = "events: {store: postgres, url_env: EVENTS_DB}\n";
    listed_and_revoked(events, &[("EVENTS_DB", &database.url())]);
}

fn listed_and_revoked(events: &str, env: &[(&str, &str)]) {
    let model = calling();
    let project = Project::with("");
    write(&project, &model, TOOL, "");
    project.write("agent.yaml", format!("{}{events}", project.read("agent.yaml")));
    script(&project, "one");
    let run = |args: &[&str]| {
        let args = [&["approvals", "always"], args].concat();
        let output = project.command(&args).envs(env.iter().copied()).output();
        CommandOutput::of(&output.unwrap())
    };
    let nothing = run(&["list", "--json"]).exits(0);
    assert_eq!(nothing.stdout, "[]\n");
    let server = Server::start_with(&project, &[], env);
    Talk::begin(&server, "first").approve("always");
    let path = "/v1/approvals/always";
    let (status, listed) = try_ask(&server.address, "GET", path, "").unwrap();
    assert_eq!((status, &listed["always"][0]["tool"]), (200, &json!("note")));
    let listed = run(&["list", "--json"]).exits(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&listed[0]["tool"], &listed[0]["user"]),
        (&json!("note"), &json!("local"))
    );
    assert!(listed[0]["toolDigest"].is_string());
    let unknown = try_ask(&server.address, "DELETE", &format!("{path}?tool=other"), "").unwrap();
    assert_eq!(
        (unknown.0, &unknown.1["code"]),
        (404, &json!("APPROVAL_NOT_FOUND"))
    );
    run(&["revoke", "note", "--user", "eve"])
        .exits(2)
        .says("not always approved");
    run(&["revoke", "note"]).exits(0).says("revoked");
    let asked = Talk::begin(&server, "second");
    assert!(asked.asked.is_some());
    asked.approve("always");
    assert_eq!(Talk::begin(&server, "third").asked, None);
    let gone = server.ask("DELETE", &format!("{path}?tool=note&agent=support"), "", "");
    assert!(gone.starts_with("HTTP/1.1 204"), "{gone}");
    for session in ["second", "fourth"] {
        let asked = Talk::begin(&server, session);
        assert!(asked.asked.is_some(), "{session}");
        asked.reject();
    }
    server.end("-TERM").exits(0);
}

#[test]
fn only_the_scopes_of_the_yaml_can_be_given() {
    let model = calling();
    let project = Project::with("");
    write(&project, &model, TOOL, "scopes: [once, session], ");
    script(&project, "one");
    let server = Server::start(&project, &[]);
    let asked = Talk::begin(&server, "first");
    let (status, refused) = asked.answer(&json!({"decision": "approve", "scope": "always"}));
    assert_eq!((status, &refused["code"]), (400, &json!("SCOPE_NOT_ALLOWED")));
    let id = asked.asked.clone().unwrap();
    project
        .run(&["approvals", "approve", &id, "--scope", "always"])
        .exits(2)
        .says("only `once`, `session`")
        .says("approvals.scopes");
    asked.approve("session");
    let listed = project.run(&["approvals", "always", "list"]).exits(0);
    assert!(listed.says("no tool is always approved").stdout.is_empty());
    assert_eq!(Talk::begin(&server, "first").asked, None);
    server.end("-TERM").exits(0);
}
