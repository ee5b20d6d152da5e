//! Tests of listing, showing, exporting and deleting stored conversations.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    interrupt::signal,
    project::{Project, TWO_CASES, agent},
};

/// A project with the conversations `first` and `second`.
fn two_conversations() -> Project {
    let server = ModelServer::answering(|request| {
        let question = request.texts("user").last().unwrap().to_string();
        Reply::text(format!("re: {question}"))
    });
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    for (session, question) in [("first", "one"), ("second", "two\u{1b}[2J"), ("first", "three")] {
        project
            .run(&["chat", "--session", session, "--once", question])
            .exits(0);
    }
    server.finish();
    project
}

#[test]
fn without_conversations_nothing_is_created() {
    let project = Project::with(&agent("http://127.0.0.1:9", TWO_CASES));
    let ran = project.run(&["sessions", "list"]).exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("", "no conversations yet\n")
    );
    assert_eq!(
        project.run(&["sessions", "list", "--json"]).exits(0).json(),
        json!([])
    );
    project
        .run(&["sessions", "show", "last"])
        .exits(2)
        .says("there are no conversations");
    assert!(!project.path(".holodeck").exists());
}

#[test]
fn conversations_are_listed_shown_and_deleted() {
    let project = two_conversations();
    let list = project.run(&["sessions", "list", "--json"]).exits(0).json();
    let ids: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|session| &session["sessionId"])
        .collect();
    assert_eq!(ids, ["first", "second"]);
    assert_eq!(
        (&list[0]["runs"], &list[0]["firstMessage"]),
        (&json!(2), &json!("one"))
    );
    let ran = project.run(&["sessions", "list"]).exits(0);
    assert!(
        ran.stdout.contains("support · 2 messages") && !ran.stdout.contains('\u{1b}'),
        "{}",
        ran.all()
    );

    let ran = project.run(&["sessions", "show", "fir"]).exits(0);
    assert_eq!(ran.stdout, "you › one\nre: one\n\nyou › three\nre: three\n\n");
    let ran = project.run(&["sessions", "show", "second"]).exits(0);
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.all());

    project
        .run(&["sessions", "delete", "last"])
        .exits(0)
        .says("deleted first");
    project
        .run(&["sessions", "show", "first"])
        .exits(2)
        .says("there is no conversation `first`");
    let ran = project
        .run(&["chat", "--session", "first", "--once", "again"])
        .exits(3);
    assert!(ran.stderr.contains("was deleted"), "{}", ran.all());
}

#[test]
fn events_are_exported_as_they_are_stored_and_checked() {
    let project = two_conversations();
    let exported = project.run(&["events", "export", "first"]).exits(0).stdout;
    assert_eq!(
        project.run(&["events", "export", "first"]).exits(0).stdout,
        exported
    );
    let events: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events[0]["type"], "session_start");
    project
        .run(&["events", "export", "first", "-o", "events.jsonl"])
        .exits(0);
    assert_eq!(project.read("events.jsonl"), exported);
    project
        .run(&["events", "export", "first", "-o", "events.jsonl"])
        .exits(2)
        .says("cannot write events.jsonl");
    for what in ["first", "events.jsonl"] {
        project
            .run(&["events", "check", what])
            .exits(0)
            .says("no violation");
    }

    // The end of the first run is missing.
    let without_end: Vec<&str> = exported
        .lines()
        .filter(|line| !line.contains(r#""type":"complete""#))
        .collect();
    project.write("cut.jsonl", without_end.join("\n"));
    project
        .run(&["events", "check", "cut.jsonl"])
        .exits(1)
        .says("INV-5");
    let found = project.run(&["events", "check", "cut.jsonl", "--json"]).exits(1);
    let first: Value = serde_json::from_str(found.stdout.lines().next().unwrap()).unwrap();
    assert!(first["line"].is_u64() && first["message"].is_string(), "{first}");

    for (content, message) in [("", "has no events"), ("{\"type\":\n", "broken.jsonl:1:")] {
        project.write("broken.jsonl", content);
        project
            .run(&["events", "check", "broken.jsonl"])
            .exits(2)
            .says(message);
    }
}

#[test]
fn a_conversation_is_replayed_followed_and_counted() {
    let project = two_conversations();
    let ran = project
        .run(&["sessions", "replay", "first", "--speed", "1000"])
        .exits(0);
    assert_eq!(ran.stdout, "you › one\nre: one\nyou › three\nre: three\n");
    project
        .run(&["sessions", "replay", "first", "--speed", "0"])
        .exits(2)
        .says("must be more than 0");
    let stats = project
        .run(&["events", "stats", "first", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&stats["runs"], &stats["events"]["message"]),
        (&json!({"success": 2}), &json!(2))
    );
    project
        .run(&["events", "stats", "first"])
        .exits(0)
        .says("success 2");

    let mut child = project
        .command(&["events", "tail", "first", "--after", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let exported = project.run(&["events", "export", "first"]).exits(0).stdout;
    for line in exported.lines().skip(1) {
        assert_eq!(next(), serde_json::from_str::<Value>(line).unwrap());
    }
    // What another process stores follows.
    let server = ModelServer::answering(|_| Reply::text("more"));
    let yaml = agent(&server.url(), TWO_CASES);
    project.write("agent.yaml", yaml);
    project
        .run(&["chat", "--session", "first", "--once", "four"])
        .exits(0);
    assert_eq!(next()["content"], "four");
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn the_answers_of_a_conversation_are_tested_as_answers_that_exist() {
    let server = ModelServer::answering(|request| {
        let question = request.texts("user").last().unwrap().to_string();
        match (question.as_str(), request.texts("tool").last()) {
            ("fail", _) => Reply::error(400, &json!({"error": {"message": "no"}})),
            ("tea?", None) => Reply::tool_call("call-1", "echo", &json!({"text": "tea"})),
            ("tea?", Some(result)) => Reply::text(format!("It said {result}.")),
            _ => Reply::text("Paris"),
        }
    });
    let yaml = format!(
        "{}tools:\n  - {{type: function, name: echo, description: Echoes., command: cat, parameters: {{text: {{type: \
         string, description: What.}}}}}}\n",
        agent(&server.url(), TWO_CASES)
    );
    let project = Project::with(&yaml);
    for (question, exit) in [("tea?", 0), ("capital?", 0), ("fail", 3)] {
        project
            .run(&["chat", "--session", "talk", "--once", question])
            .exits(exit);
    }
    server.finish();
    project
        .run(&["events", "export", "talk", "--answers", "-o", "rows.jsonl"])
        .exits(0);
    let rows: Vec<Value> = project
        .read("rows.jsonl")
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!(rows[0]["tool_calls"][0]["arguments"], json!({"text": "tea"}));
    assert_eq!(
        (&rows[1]["tool_calls"], &rows[1]["session"]),
        (&json!([]), &json!("talk"))
    );
    assert!(
        rows[2]["text"].is_null() && rows[2]["error"].is_string(),
        "{rows:?}"
    );
    // No agent is asked, and what the rows do not have is no evidence.
    project.write(
        "agent.yaml",
        "name: talk\ntarget: {type: answers, file: rows.jsonl}\ntest_cases:\n- {name: called, input: tea?, ground_truth: It \
         said, expected_tools: [echo]}\n- {name: quiet, input: capital?, ground_truth: Paris, expected_tools: []}\n- {name: \
         wrong, input: capital?, ground_truth: Rome}\n- {name: failed, input: fail, ground_truth: x}\nevaluations:\n  metrics: [{type: standard, metric: \
         contains}]\n",
    );
    project.run(&["test"]).exits(1);
    let run = project.run_file();
    let states: Vec<(&str, &str)> = run["report"]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            (
                case["test_name"].as_str().unwrap(),
                case["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        states,
        [
            ("called", "passed"),
            ("quiet", "passed"),
            ("wrong", "failed"),
            ("failed", "error")
        ]
    );
}
