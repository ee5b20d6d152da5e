//! Tests for operators: probes that tell the truth, tokens that cannot be guessed, and few threads.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
};

use holodeck_testkit::{ModelServer, Reply};

use crate::{
    project::{Project, TWO_CASES, agent},
    serve::Server,
};

fn answering() -> ModelServer {
    ModelServer::answering(|_| Reply::text("yes"))
}

#[test]
fn a_server_is_ready_only_while_its_store_can_be_written() {
    let model = answering();
    let project = Project::with(&agent(&model.url(), TWO_CASES));
    let mut server = Server::start(&project, &[]);
    let until = |server: &Server, status: &str| {
        while !server.ask("GET", "/ready", "", "").starts_with(status) {}
        assert!(server.ask("GET", "/health", "", "").starts_with("HTTP/1.1 200"));
    };
    until(&server, "HTTP/1.1 200");
    let (file, away) = (project.path(".holodeck/events.db"), project.path("away.db"));
    fs::rename(&file, &away).unwrap();
    until(&server, "HTTP/1.1 503");
    let line = server.until_logged("the store fails");
    assert!(line.contains(" error: "), "{line}");
    fs::rename(&away, &file).unwrap();
    until(&server, "HTTP/1.1 200");
    server.until_logged("the store can be written again");
    server.end("-TERM").exits(0);
}

#[test]
fn a_token_that_is_short_or_given_twice_is_refused_with_its_place() {
    let yaml = agent("http://127.0.0.1:9", TWO_CASES);
    let lines = yaml.lines().count();
    let project = Project::with(&yaml);
    let refused = |auth: &str, env: &[(&str, &str)]| {
        project.write("agent.yaml", format!("{yaml}serve:\n  auth:\n{auth}"));
        let mut command = project.command(&["serve", "--port", "0"]);
        let output = command.envs(env.iter().copied()).output().unwrap();
        crate::project::CommandOutput::of(&output).exits(2)
    };
    let two = "    tokens:\n    - {user: alice, token_env: A}\n    - {user: bob, token_env: B}\n";
    let long = "0123456789abcdef";
    for (auth, env, line, says) in [
        (
            "    token_env: A\n",
            &[("A", "0123456789abcde")][..],
            3,
            "in `A` has 15 characters",
        ),
        (two, &[("A", long), ("B", "b")], 5, "in `B` has 1 characters"),
        (
            two,
            &[("A", long), ("B", long)],
            5,
            "`alice` and `bob` have the same token",
        ),
        // The space around a token is none of it.
        (
            two,
            &[("A", long), ("B", " 0123456789abcdef ")],
            5,
            "have the same token",
        ),
        (two, &[("A", long)], 5, "`B` has no token"),
        // A name is shown wherever a conversation is, so it is refused before anything shows it: as a token of its own, of
        // another user, as a part, and for a variable that names no user here.
        (
            "    tokens:\n    - {user: 0123456789abcdef, token_env: A}\n",
            &[("A", long)],
            4,
            "`serve.auth.tokens.0.user` has the token of `A` in it",
        ),
        (
            "    tokens:\n    - {user: alice, token_env: A}\n    - {user: x-0123456789abcdef, token_env: B}\n",
            &[("A", " 0123456789abcdef ")],
            5,
            "`serve.auth.tokens.1.user` has the token of `A` in it",
        ),
        (
            "    tokens:\n    - {user: 0123456789abcdef, token_env: A}\n",
            &[("A", "fedcba9876543210"), ("HOLODECK_TOKEN", long)],
            4,
            "has the token of `HOLODECK_TOKEN` in it",
        ),
    ] {
        let all = refused(auth, env).says(says).all();
        assert!(all.contains(&format!("agent.yaml:{}:", lines + line)), "{all}");
        assert!(!all.contains(long), "{all}");
    }
    project.write("agent.yaml", &yaml);
    let mut command = project.command(&["serve", "--port", "0"]);
    let output = command.env("HOLODECK_TOKEN", "short").output().unwrap();
    crate::project::CommandOutput::of(&output)
        .exits(2)
        .says("`HOLODECK_TOKEN` has 5 characters");
}

#[test]
fn many_readers_at_once_need_few_threads() {
    let model = answering();
    let project = Project::with(&agent(&model.url(), TWO_CASES));
    let server = Server::start(&project, &[]);
    let body = r#"{"message": "hello"}"#;
    server.ask("POST", "/v1/sessions/s/messages?wait=true", "", body);
    let readers: Vec<_> = (0..300)
        .map(|_| {
            let mut reader = TcpStream::connect(&server.address).unwrap();
            let path = "/v1/sessions/s/events?follow=true";
            write!(reader, "GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address).unwrap();
            reader
        })
        .collect();
    for mut reader in &readers {
        reader.read_exact(&mut [0; 600]).unwrap();
    }
    let threads = fs::read_dir(format!("/proc/{}/task", server.id()))
        .unwrap()
        .count();
    assert!(threads < 48, "{threads} threads");
    drop(readers);
    server.end("-TERM").exits(0);
}
