//! Masked texts in recordings: a check never passes on a text that was masked.

use std::fs;

use holodeck_testkit::{ClaudeFault, FakeClaude, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, agent};

/// A text in the form of a key.
fn key(letters: &str) -> String {
    format!("sk-{}", letters.repeat(8))
}

/// A case that checks with a negated regex that the answer has no key.
fn no_key(name: &str) -> String {
    format!(
        "  - name: {name}\n    input: {name}\n    evaluations:\n      \
         - {{type: standard, metric: regex, value: \"sk-[A-Za-z0-9]{{20,}}\", negate: true}}\n"
    )
}

/// The masked parts of each turn, according to the newest journal.
fn masked(project: &Project) -> Vec<Value> {
    let lines = project.journal_lines();
    let turns = lines
        .iter()
        .filter_map(|line| line["ran"]["unit"]["turns"].as_array());
    turns.flatten().map(|turn| turn["redacted"].clone()).collect()
}

fn record(project: &Project) -> CommandOutput {
    project.run(&["test", "--record", "tape.jsonl"])
}

fn replay(project: &Project, more: &[&str]) -> CommandOutput {
    project.run(&[&["test", "--replay", "tape.jsonl"], more].concat())
}

#[test]
fn a_leak_that_failed_live_is_an_error_when_it_is_replayed() {
    let server = ModelServer::answering(move |request| match *request.texts("user").last().unwrap() {
        "leak" => Reply::text(format!("the key is {}", key("a1B2"))),
        "stars" => Reply::text("the code is ***"),
        _ => Reply::text("no"),
    });
    let sure = "  - name: leak\n    input: leak\n    evaluations:\n      \
                - {type: standard, metric: contains, value: the key is}\n";
    let project = Project::with(&agent(&server.url(), &(no_key("leak") + &no_key("stars"))));
    record(&project).exits(1).says("1 failed");
    let live = masked(&project);
    assert_eq!(live, [json!({"answer": true}), Value::Null]);
    assert!(!project.read("tape.jsonl").contains("sk-a1B2"));

    replay(&project, &[]).exits(4).says("masked").says("--live");
    assert_eq!(masked(&project), live);
    // Regrading does not change it.
    project.run(&["test", "regrade", "latest"]).exits(4);
    // An answer that itself contains `***` is not marked as masked.
    replay(&project, &["--filter", "stars"]).exits(0);
    // Text outside the mask can be checked.
    project.write("agent.yaml", agent(&server.url(), sure));
    replay(&project, &[]).exits(0);
    assert_eq!(server.finish().len(), 2);
}

#[test]
fn an_object_with_a_leak_is_an_error_when_it_is_replayed() {
    let server = ModelServer::answering(|_| Reply::text(json!({"key": key("a1B2")}).to_string()));
    let yaml = agent(&server.url(), &no_key("leak"))
        + "response_format: {type: object, properties: {key: {type: string}}, required: [key], \
           additionalProperties: false}\n";
    let project = Project::with(&yaml);
    record(&project).exits(1);
    let live = masked(&project);
    assert_eq!(live, [json!({"answer": true, "object": true})]);
    replay(&project, &[]).exits(4);
    assert_eq!(masked(&project), live);
    assert_eq!(
        project.run_file()["report"]["results"][0]["agent_response"],
        "{\"key\":\"***\"}"
    );
    server.finish();
}

/// An agent whose model passes a key to `pay`, gets one from `pay`, and finds one in a search.
fn with_tools(endpoint: &str) -> String {
    let expects = "  - {name: pay, input: pay, ground_truth: done, expected_tools: [{name: pay, args: {token: {regex: '^[*]+$'}}}]}\n  \
                   - {name: find, input: find, ground_truth: done, expected_tools: [kb]}\n";
    agent(endpoint, expects)
        + "embedding_provider: {provider: hash}\ntools:\n  \
           - {type: function, name: pay, description: Pays., command: /bin/cat, args: [./receipt],\n     \
              parameters: {token: {type: string}}}\n  \
           - {type: vectorstore, name: kb, description: Finds., source: docs}\n"
}

fn calling(request: &ReceivedRequest) -> Reply {
    let asked = *request.texts("user").last().unwrap();
    match (request.texts("tool").is_empty(), asked) {
        (false, _) => Reply::text("done"),
        (true, "pay") => Reply::tool_call("call-1", "pay", &json!({"token": key("a1B2")})),
        (true, _) => Reply::tool_call("call-2", "kb_search", &json!({"query": "credentials"})),
    }
}

#[test]
fn leaks_in_arguments_results_and_passages_are_known_when_they_are_replayed() {
    let server = ModelServer::answering(calling);
    let project = Project::with(&with_tools(&server.url()));
    project.write("receipt", format!("paid with {}", key("c3D4")));
    project.write("docs/a.md", format!("The credentials are {}.", key("e5F6")));
    record(&project).exits(1).says("1 of 2 passed");
    let live = masked(&project);
    assert_eq!(
        live,
        [
            json!({"arguments": ["call-1"], "results": ["call-1"]}),
            json!({"results": ["call-2"]})
        ]
    );
    let tape = project.read("tape.jsonl");
    for letters in ["a1B2", "c3D4", "e5F6"] {
        assert!(!tape.contains(&key(letters)), "{letters}");
    }
    let recorded = project.run_file();
    // The masked argument would meet the expectation.
    replay(&project, &[])
        .exits(4)
        .says("arguments were masked")
        .says("1 of 2 passed");
    assert_eq!(masked(&project), live);
    let calls_of = |run: &Value| {
        let calls = run["report"]["results"].as_array().unwrap().iter();
        let calls = calls.map(|case| {
            json!([
                case["tool_invocations"][0]["args"],
                case["tool_invocations"][0]["result"]
            ])
        });
        calls.collect::<Vec<_>>()
    };
    assert_eq!(calls_of(&project.run_file()), calls_of(&recorded));
    project.run(&["test", "regrade", "latest"]).exits(4);
    server.finish();
}

#[test]
fn a_leak_of_an_agent_on_claude_code_is_an_error_when_it_is_replayed() {
    let fake = FakeClaude::new(&ClaudeFault::None);
    let script = fs::read_to_string(fake.path()).unwrap();
    fs::write(
        fake.path(),
        script.replace("Answer ", &format!("The key is {} ", key("a1B2"))),
    )
    .unwrap();
    let project = Project::with(&format!(
        "name: leaky\nmodel: {{provider: anthropic, name: sonnet}}\ninstructions: {{inline: Be brief}}\ntest_cases:\n{}",
        no_key("leak")
    ));
    let run = |args: &[&str]| {
        let mut command = project.command(args);
        command
            .env("HOLODECK_CLAUDE_CLI", fake.path())
            .env("ANTHROPIC_API_KEY", "key-of-nothing");
        CommandOutput::of(&command.output().unwrap())
    };
    run(&["test", "--record", "tape.jsonl"]).exits(1).says("1 failed");
    let live = masked(&project);
    assert_eq!(live, [json!({"answer": true})]);
    assert!(!project.read("tape.jsonl").contains("sk-a1B2"));
    replay(&project, &[]).exits(4);
    assert_eq!(masked(&project), live);
}

#[test]
fn another_key_in_an_input_misses_and_a_rotated_secret_does_not() {
    let server = ModelServer::answering(|request| {
        if request.texts("tool").is_empty() {
            Reply::tool_call("call-1", "note", &json!({}))
        } else {
            Reply::text("yes")
        }
    });
    let yaml = |question: &str, note: &str| {
        let case =
            format!("  - {{name: one, input: 'is {question} right? ${{API_TOKEN}}', ground_truth: yes}}\n");
        let tools = format!(
            "tools:\n  - {{type: function, name: note, description: d, parameters: {{}}, mock: {{result: '{note}'}}}}\n"
        );
        agent(&server.url(), &case) + &tools
    };
    let project = Project::with(&yaml(&key("a1B2"), &key("c3D4")));
    let run = |args: &[&str], token: &str| {
        CommandOutput::of(&project.command(args).env("API_TOKEN", token).output().unwrap())
    };
    let again = |token: &str| run(&["test", "--replay", "tape.jsonl"], token);
    run(&["test", "--record", "tape.jsonl"], "token-of-the-laptop").exits(0);
    for token in ["token-of-the-laptop", "token-in-ci-8472"] {
        again(token).exits(0);
    }
    for (question, note) in [("a1B3", "c3D4"), ("a1B2", "c3D5")] {
        project.write("agent.yaml", yaml(&key(question), &key(note)));
        again("token-in-ci-8472")
            .exits(3)
            .says("holds no answer to this request")
            .says("***.");
    }
    let tape = project.read("tape.jsonl");
    assert!(!tape.contains("token-of") && !tape.contains("sk-a1B2"), "{tape}");
    assert_eq!(server.finish().len(), 2);
}
