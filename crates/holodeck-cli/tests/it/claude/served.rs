//! Conversations with the real CLI behind `serve`: what happens to a process or to a conversation costs no client a message.

use std::{collections::HashSet, sync::Mutex};

use holodeck_testkit::{AnthropicReply, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::Bench;
use crate::{project::SECRET, serve::Server};

const AGENT: &str = "name: desk\nmodel: {provider: anthropic, name: claude-sonnet-4-5}\n\
                     instructions: {inline: Be kind.}\nclaude: {file_system: {read: true}}\n";

fn serve(bench: &Bench) -> Server {
    let (wrapper, url) = (bench.wrapper(), bench.server.url());
    Server::start_with(
        &bench.project,
        &["--protocol", "both"],
        &[
            ("HOLODECK_CLAUDE_CLI", wrapper.to_str().unwrap()),
            ("ANTHROPIC_BASE_URL", &url),
            ("ANTHROPIC_API_KEY", SECRET),
            ("TMPDIR", bench.temporary().to_str().unwrap()),
        ],
    )
}

/// Sends a message to a session over REST.
fn say(server: &Server, session: &str, message: &str) -> String {
    let body = json!({"message": message}).to_string();
    let path = format!("/v1/sessions/{session}/messages?wait=true");
    server.ask("POST", &path, "content-type: application/json\r\n", &body)
}

/// Sends a conversation as OpenAI's clients do.
fn complete(server: &Server, messages: &Value) -> String {
    let body = json!({"model": "desk", "messages": messages}).to_string();
    server.ask(
        "POST",
        "/v1/chat/completions",
        "content-type: application/json\r\n",
        &body,
    )
}

/// Sends a message to a thread as AG-UI's clients do: with all messages before, of the person and of the agent in turn.
fn run_agent(server: &Server, thread: &str, earlier: &[&str], message: &str) -> String {
    let texts = earlier
        .iter()
        .chain([&message])
        .zip(["user", "assistant"].into_iter().cycle());
    let messages: Vec<Value> = texts
        .enumerate()
        .map(|(at, (text, role))| json!({"id": format!("{thread}-m{at}"), "role": role, "content": text}))
        .collect();
    let input = json!({
        "threadId": thread, "runId": format!("{thread}-{}", earlier.len()), "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "messages": messages,
    });
    server.ask(
        "POST",
        "/awp",
        "content-type: application/json\r\naccept: text/event-stream\r\n",
        &input.to_string(),
    )
}

/// The payloads of the stored events of a session.
fn stored(bench: &Bench, session: &str) -> Vec<Value> {
    let exported = bench.project.run(&["events", "export", session]).exits(0).stdout;
    let lines = exported.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn remembering() -> AnthropicServer {
    AnthropicServer::answering(|request| {
        let asked = request.texts("user").join(" ");
        let words = ["apple", "banana", "cherry"].into_iter();
        let seen: Vec<&str> = words.filter(|word| asked.contains(word)).collect();
        AnthropicReply::text(format!("I was told {}.", seen.join(", ")))
    })
}

/// The process of a conversation is killed while it is idle: the next message of each client is answered, and the model
/// sees what was said before.
#[test]
fn a_process_that_dies_while_idle_costs_no_client_a_message() {
    let bench = Bench::new(AGENT, remembering());
    let server = serve(&bench);
    let kill_when_written = |answer: &str| {
        // The CLI has its own copy of an answer a moment after it was sent.
        let is_written = || {
            let mut grep = std::process::Command::new("grep");
            grep.args(["-rqs", answer, "--include=*.jsonl"]);
            grep.arg(bench.temporary()).status().unwrap().success()
        };
        while !is_written() {}
        for group in bench.pids() {
            let mut kill = std::process::Command::new("kill");
            kill.args(["-9", "--", &format!("-{group}")]);
            // One that has ended already is not there.
            let _ = kill.stderr(std::process::Stdio::null()).status().unwrap();
        }
    };
    let first = say(&server, "rest", "apple");
    assert!(first.contains("I was told apple."), "{first}");
    kill_when_written("told apple");
    let second = say(&server, "rest", "banana");
    assert!(second.contains("I was told apple, banana."), "{second}");
    assert!(second.starts_with("HTTP/1.1 200"), "{second}");

    let first = run_agent(&server, "agui", &[], "apple");
    assert!(first.contains("RUN_FINISHED"), "{first}");
    kill_when_written("told apple");
    let second = run_agent(&server, "agui", &["apple", "I was told apple."], "cherry");
    assert!(
        second.contains("RUN_FINISHED") && !second.contains("RUN_ERROR"),
        "{second}"
    );

    let history = json!([
        {"role": "user", "content": "apple"}, {"role": "assistant", "content": "I was told apple."},
        {"role": "user", "content": "banana"},
    ]);
    for _ in 0..2 {
        let answer = complete(&server, &history);
        assert!(answer.contains("I was told apple, banana."), "{answer}");
        kill_when_written("told apple, banana");
    }
    server.end("-TERM").exits(0);
    for session in ["rest", "agui"] {
        let events = stored(&bench, session);
        let completed = events.iter().filter(|event| event["type"] == "complete");
        let reasons: Vec<&Value> = completed.map(|event| &event["reason"]).collect();
        assert_eq!(reasons, ["success", "success"], "{session}");
        let last = events.iter().rev().find(|event| event["type"] == "message");
        let expected = if session == "rest" {
            "I was told apple, banana."
        } else {
            "I was told apple, cherry."
        };
        assert!(last.unwrap().to_string().contains(expected), "{events:?}");
    }
    bench.server.finish();
}

/// A model that refuses the first request with each of these words as too long, so that the CLI shortens the conversation.
fn overflowing() -> AnthropicServer {
    let refused = Mutex::new(HashSet::new());
    AnthropicServer::unchecked(move |request| {
        let said = request.body()["messages"].to_string();
        if said.contains("CRITICAL: Respond with TEXT ONLY") {
            return AnthropicReply::text("<summary>We greeted.</summary>");
        }
        for word in ["overflow-rest", "overflow-agui", "overflow-openai"] {
            if said.contains(word) && refused.lock().unwrap().insert(word) {
                return AnthropicReply::error(400, "prompt is too long: 210000 tokens > 200000 maximum");
            }
        }
        AnthropicReply::text("fits")
    })
}

/// The CLI shortens a conversation: the answer arrives as any other at every client, the stored run says it, and the next
/// message is answered.
#[test]
fn a_conversation_that_was_shortened_is_said_and_continues_for_every_client() {
    let bench = Bench::new(AGENT, overflowing());
    let server = serve(&bench);
    let long = |text: &str| format!("{text} {}", "blah ".repeat(1000));
    let shortened = "the CLI put a summary in its place";
    for message in [long("hello"), long("overflow-rest"), long("more")] {
        let answer = say(&server, "rest", &message);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("fits"),
            "{answer}"
        );
    }
    let messages = [long("hello"), long("overflow-agui"), long("more")];
    let mut earlier = Vec::new();
    for message in &messages {
        let answer = run_agent(&server, "agui", &earlier, message);
        earlier.extend([message.as_str(), "fits"]);
        assert!(
            answer.contains("RUN_FINISHED") && answer.contains("fits"),
            "{answer}"
        );
        assert!(!answer.contains("RUN_ERROR"), "{answer}");
    }
    let history = json!([
        {"role": "user", "content": long("hello")}, {"role": "assistant", "content": "fits"},
        {"role": "user", "content": long("overflow-openai")},
    ]);
    let answer = complete(&server, &history);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(r#""content":"fits""#), "{answer}");
    assert!(answer.contains(r#""finish_reason":"stop""#), "{answer}");
    server.end("-TERM").exits(0);
    for session in ["rest", "agui"] {
        bench
            .project
            .run(&["events", "check", session])
            .exits(0)
            .says("no violation");
        let events = stored(&bench, session);
        let said: Vec<bool> = events
            .iter()
            .filter(|event| event["type"] == "complete")
            .map(|event| event.to_string().contains(shortened))
            .collect();
        assert_eq!(said, [false, true, false], "{session}");
    }
    bench.server.finish_unchecked();
}
