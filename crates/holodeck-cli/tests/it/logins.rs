//! `holodeck mcp login` and `logout`, and what commands do with and without a login.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use holodeck_testkit::{ModelServer, OauthOptions, OauthServer, Reply, browse};
use serde_json::json;

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project, agent},
    serve::Server,
};

const CASE: &str =
    "  - {name: ticket, input: Read ticket 7., ground_truth: \"ticket 7 for\", expected_tools: [read]}\n";

/// An agent whose model calls the server's tool and repeats the result.
fn model() -> ModelServer {
    ModelServer::answering(|request| match request.texts("tool").first() {
        Some(result) => Reply::text(*result),
        None => Reply::tool_call("c1", "mcp__tickets__read", &json!({})),
    })
}

pub(crate) fn tools(server: &OauthServer) -> String {
    format!(
        "tools:\n  - {{type: mcp, name: tickets, description: Tickets., transport: http, url: \"{}\", request_timeout: 20}}\n",
        server.mcp_url()
    )
}

fn project(model: &ModelServer, server: &OauthServer) -> Project {
    Project::with(&format!("{}{}", agent(&model.url(), CASE), tools(server)))
}

/// Logs in as a person who opens the page that the command prints.
pub(crate) fn log_in(project: &Project, person: impl FnOnce(&str)) -> CommandOutput {
    let mut child = project
        .command(&["mcp", "login", "tickets", "--no-browser"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut page = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut page)
        .unwrap();
    if !page.is_empty() {
        person(page.trim());
    }
    CommandOutput::of(&child.wait_with_output().unwrap())
}

pub(crate) fn agree(page: &str) {
    let (status, redirect, text) = browse(page);
    assert_eq!(status, 302, "{text}");
    assert_eq!(browse(&redirect.unwrap()).0, 200);
}

/// The files below a folder that contain a text.
pub(crate) fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_login_lets_every_command_use_the_server_and_no_file_but_its_own_has_the_token() {
    let (server, model) = (OauthServer::start(), model());
    let project = project(&model, &server);
    log_in(&project, agree).exits(0).says(&format!(
        "logged in to `tickets` at {}, for tickets.read",
        server.issuer()
    ));
    let first = server.access_token().unwrap();
    project
        .run(&[
            "test",
            "-vv",
            "--record",
            "calls.jsonl",
            "--report",
            "html=report.html",
        ])
        .exits(0)
        .says("1 passed");
    // The server refuses the token in the middle of the next run.
    server.end_access();
    let ran = project
        .run(&["run", "Read it."])
        .exits(0)
        .says("ticket 7 for ***");
    let home = project.dir().with_file_name("home");
    for token in [
        &first,
        &server.access_token().unwrap(),
        &server.refresh_token().unwrap(),
    ] {
        assert!(!ran.all().contains(token.as_str()));
        assert_eq!(files_with(&project.dir(), token), Vec::<PathBuf>::new());
        for file in files_with(&home, token) {
            assert!(
                file.starts_with(home.join(".holodeck/mcp-logins")),
                "{}",
                file.display()
            );
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    for request in model.finish() {
        assert!(!request.body.to_string().contains("-token-"), "{}", request.body);
    }
    project
        .run(&["mcp", "logout", "tickets"])
        .exits(0)
        .says("logged out of `tickets`");
    assert_eq!(server.refresh_token(), None);
    project
        .run(&["mcp", "logout", "tickets"])
        .exits(0)
        .says("there is no login to `tickets`");
    project.run(&["test"]).exits(3).says("holodeck mcp login tickets");
}

#[test]
fn a_command_without_a_login_ends_with_3_names_the_command_and_asks_nobody() {
    let (server, model) = (OauthServer::start(), model());
    let project = project(&model, &server);
    project.write("desk/agent two.yaml", project.read("agent.yaml"));
    for (args, command) in [
        (&["test"][..], "type `holodeck mcp login tickets`"),
        (&["run", "Hello"], "type `holodeck mcp login tickets`"),
        (&["chat"], "type `holodeck mcp login tickets`"),
        (&["serve", "--port", "0"], "type `holodeck mcp login tickets`"),
        (
            &["test", "desk/agent two.yaml"],
            "type `holodeck mcp login tickets --agent 'desk/agent two.yaml'`",
        ),
    ] {
        project.run(args).exits(3).says(command);
    }
    assert_eq!(server.issuer_requests().len(), 0);
    assert_eq!(model.finish().len(), 0);
}

#[test]
fn a_name_without_a_server_is_an_error_of_usage() {
    let (server, model) = (OauthServer::start(), model());
    let project = project(&model, &server);
    project
        .run(&["mcp", "login", "ticket"])
        .exits(2)
        .says("did you mean `tickets`?");
    project
        .run(&["mcp", "logout", "zzz"])
        .exits(2)
        .says("its servers are `tickets`");
    project
        .run(&["mcp", "login", "tickets", "--agent", "none.yaml"])
        .exits(2);
    project
        .run(&["mcp", "login", "tickets", "--timeout", "0"])
        .exits(2);
    model.finish();
}

#[test]
fn a_refusal_a_time_out_and_an_interrupt_end_the_command() {
    let (server, model) = (OauthServer::start(), model());
    let project = project(&model, &server);
    let refuse = |page: &str| {
        let (_, redirect, _) = browse(page);
        let redirect = redirect.unwrap();
        let (before, after) = redirect.split_once("code=").unwrap();
        let rest = after.split_once('&').unwrap().1;
        browse(&format!("{before}error=access_denied&{rest}"));
    };
    log_in(&project, refuse)
        .exits(3)
        .says("refused the login: access_denied");
    project
        .run(&["mcp", "login", "tickets", "--no-browser", "--timeout", "0.2"])
        .exits(3)
        .says("no answer from the browser");
    let mut child = project
        .command(&["mcp", "login", "tickets"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut page = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut page)
        .unwrap();
    signal(&child, "-INT");
    CommandOutput::of(&child.wait_with_output().unwrap())
        .exits(130)
        .says("interrupted");
    assert!(files_with(&project.dir().with_file_name("home"), "access_token").is_empty());
    model.finish();
}

#[test]
fn settings_without_effect_are_said_with_their_place() {
    let project = Project::with(&format!(
        "{}tools:\n  - {{type: mcp, name: a, description: d, command: cat, oauth: {{client_id: x}}}}\n  \
         - {{type: mcp, name: b, description: d, transport: http, url: \"https://b.test/mcp\",\n     \
         oauth: {{client_secret: hush-hush-1}}}}\n  \
         - {{type: mcp, name: c, description: d, transport: websocket, url: \"ws://c.test/mcp\"}}\n",
        agent("http://127.0.0.1:1", CASE)
    ));
    let said = project.run(&["validate", "-v"]).exits(0);
    for expected in [
        "`oauth` of tool `a` has no effect",
        "`client_secret`",
        "is not encrypted",
        "agent.yaml:19:",
    ] {
        assert!(said.all().contains(expected), "{expected}\n{}", said.all());
    }
    assert!(!said.all().contains("hush-hush-1"), "{}", said.all());
}

/// A server that needs a login only for calls: the first login reaches a `serve` that runs, without a restart.
#[test]
fn a_first_login_reaches_a_serve_that_runs() {
    let server = OauthServer::with(OauthOptions {
        guarded: Some("tools/call"),
        ..OauthOptions::default()
    });
    let model = model();
    let project = project(&model, &server);
    let approved = "approvals: {rules: [{tools: tickets, decision: approve}]}\n";
    project.write("agent.yaml", format!("{}{approved}", project.read("agent.yaml")));
    let serving = Server::start(&project, &[]);
    let say = || {
        let body = json!({"message": "Read it."}).to_string();
        serving.ask("POST", "/v1/sessions/s/messages?wait=true", "", &body)
    };
    let before = say();
    assert!(
        before.contains("tool execution failed: mcp__tickets__read"),
        "{before}"
    );
    // A web client learns what is missing, and no address.
    let stored = serving.ask("GET", "/v1/sessions/s/events", "", "");
    assert!(
        before.contains("MCP server `tickets` needs a login: `holodeck mcp login tickets`"),
        "{before} {stored}"
    );
    for text in [&before, &stored] {
        assert!(!text.contains("://") && !text.contains(".yaml"), "{text}");
    }
    log_in(&project, agree).exits(0);
    let token = server.access_token().unwrap();
    let after = say();
    assert!(after.contains("ticket 7 for ***"), "{after}");
    assert!(!after.contains(&token), "{after}");
    let ended = serving.end("-TERM").exits(0);
    assert!(!ended.all().contains(&token));
    model.finish();
}

/// `mcp list` says for each server whether there is a login, and never shows a token.
#[test]
fn the_list_of_servers_says_which_have_a_login() {
    let (server, model) = (OauthServer::start(), model());
    let more = "  - {type: mcp, name: other, description: d, transport: http, url: \"https://other.test/mcp\"}\n  \
                - {type: mcp, name: keyed, description: d, transport: sse, url: \"https://keyed.test/mcp\", headers: {Authorization: \"Bearer ${KEY}\"}}\n  \
                - {type: mcp, name: program, description: d, command: cat}\n  \
                - {type: mcp, name: placed, description: d, transport: http, url: \"${PLACE}/mcp\"}\n  \
                - {type: mcp, name: lost, description: d, transport: http, url: \"${NOWHERE}/mcp\"}\n";
    let project = project(&model, &server);
    let origin = server.mcp_url().strip_suffix("/mcp").unwrap().to_owned();
    project.write("agent.yaml", format!("{}{more}", project.read("agent.yaml")));
    project.write(".env", format!("PLACE={origin}\nKEY=k-4711-for-keyed\n"));
    let states = || {
        let listed = project.run(&["mcp", "list", "--json"]).exits(0).json();
        let servers = listed["servers"].as_array().unwrap().clone();
        let state = |server: &serde_json::Value| (server["name"].clone(), server["login"]["state"].clone());
        servers.iter().map(state).collect::<Vec<_>>()
    };
    let expected = |at_server: &str| {
        let rows = [
            ("tickets", json!(at_server)),
            ("other", json!("none")),
            ("keyed", json!(null)),
            ("program", json!(null)),
            ("placed", json!(at_server)),
            ("lost", json!("unknown")),
        ];
        rows.map(|(name, state)| (json!(name), state)).to_vec()
    };
    assert_eq!(states(), expected("none"));
    let logging_in = project.read("agent.yaml").replace(more, "");
    let whole = project.read("agent.yaml");
    project.write("agent.yaml", &logging_in);
    log_in(&project, agree).exits(0);
    project.write("agent.yaml", &whole);
    assert_eq!(states(), expected("logged_in"));
    let (access, refresh) = (server.access_token().unwrap(), server.refresh_token().unwrap());
    for args in [
        &["mcp", "list"][..],
        &["mcp", "list", "-v"],
        &["mcp", "list", "--json"],
    ] {
        let shown = project.run(args).exits(0).all();
        assert!(!shown.contains(&access) && !shown.contains(&refresh), "{shown}");
    }
    let shown = project.run(&["mcp", "list", "-v"]).exits(0);
    let lines: Vec<&str> = shown
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .collect();
    for (line, words) in lines
        .iter()
        .zip(["logged in", "no login", "-", "-", "logged in", "unknown"])
    {
        assert!(line.contains(&format!("  {words}")), "{words}: {line}");
    }
    assert!(shown.stdout.contains(&server.issuer()), "{}", shown.all());
    assert!(
        shown
            .stderr
            .contains("whether there is a login to `lost` is not known: `NOWHERE` is not set"),
        "{}",
        shown.all()
    );
    // A file that is broken is not "no login".
    let logins = project.dir().with_file_name("home").join(".holodeck/mcp-logins");
    for file in files_with(&logins, "access_token") {
        fs::write(file, "{").unwrap();
    }
    assert_eq!(states(), expected("unknown"));
    model.finish();
}
