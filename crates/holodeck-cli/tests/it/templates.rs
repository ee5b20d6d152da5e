//! The templates of `holodeck init` and their recordings, which are recorded from a scripted model and compared with it
//! here. `HOLODECK_WRITE_RECORDINGS=1` writes them.

use std::{fs, path::PathBuf};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project};

/// A scripted model that follows the instructions.
fn scripted(request: &ReceivedRequest) -> Reply {
    let question = *request.texts("user").last().unwrap();
    let answered = request.messages().last().unwrap()["role"] == "tool";
    let (call, text) = act(question);
    let reply = match call {
        Some((tool, arguments)) if !answered => Reply::tool_call("call_1", tool, &arguments),
        _ => Reply::text(text),
    };
    reply.model("scripted example")
}

type Call = (&'static str, Value);

fn act(question: &str) -> (Option<Call>, &'static str) {
    let search = |query: &str| Some(("library_search", json!({"query": query})));
    let order = |id: &str| Some(("get_order", json!({"order_id": id})));
    match question {
        q if q.contains("capital of France") => (None, "Paris"),
        q if q.contains("7 + 5") => (None, "12"),
        q if q.contains("Greet me") => (None, "Hello, Ada!"),
        q if q.contains("What is my name") => (None, "Your name is Ada."),
        q if q.contains("breakfast") => (None, "I don't know what you had for breakfast."),
        q if q.contains("opened") => (
            search("year the station was opened"),
            "It was opened in 1954 (history.md).",
        ),
        q if q.contains("measures the wind") => (
            search("instrument that measures wind"),
            "An ultrasonic anemometer measures the wind (instruments.md).",
        ),
        q if q.contains("gust") => (
            search("strongest gust"),
            "The strongest gust was 187 km/h, on 3 February 1990 (records.md).",
        ),
        q if q.contains("director") => (
            search("director of the station"),
            "The name of the director is not in the documents.",
        ),
        q if q.contains("1001") => (
            order("1001"),
            "Your order 1001 is in transit and should arrive on Friday.",
        ),
        q if q.contains("Has order 1002") => (order("1002"), "Yes, order 1002 was delivered on Monday."),
        q if q.contains("9999") => (
            order("9999"),
            "I could not find an order 9999. Could you check the number?",
        ),
        q if q.contains("broken") => (
            order("1002"),
            "I am sorry that order 1002 arrived broken. Shall I open a ticket?",
        ),
        q if q.contains("open one") => (
            Some((
                "create_ticket",
                json!({"order_id": "1002", "problem": "The order arrived broken."}),
            )),
            "I opened the ticket T-100 for you.",
        ),
        other => panic!("no answer to {other:?}"),
    }
}

/// A recording without times and ids, for comparison.
fn comparable(recording: &str) -> Vec<Value> {
    let mut lines: Vec<Value> = recording
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &mut lines {
        strip(line);
    }
    lines
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| {
                !["recorded_at", "message_id"].contains(&key.as_str()) && !key.ends_with("_ms")
            });
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Records the template, compares, and checks that the default project passes offline and that wrong expectations fail.
fn check(template: &str, wrong: &[(&str, &str)]) {
    let server = ModelServer::answering(scripted);
    let project = Project::empty();
    let url = server.url();
    project
        .run(&["init", "live", "--template", template, "--endpoint", &url])
        .exits(0);
    project
        .run(&["test", "live/agent.yaml", "-j", "1", "--record", "new.jsonl"])
        .exits(0)
        .says("4 of 4 passed (100 %)");
    server.finish();
    let committed = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("templates")
        .join(template)
        .join("recording.jsonl");
    if std::env::var_os("HOLODECK_WRITE_RECORDINGS").is_some() {
        fs::write(&committed, project.read("new.jsonl")).unwrap();
        return;
    }
    assert_eq!(
        comparable(&project.read("new.jsonl")),
        comparable(&fs::read_to_string(&committed).unwrap()),
    );

    let init = project
        .run(&[
            "init",
            "fresh",
            "--template",
            template,
            "--description",
            "Another",
            "--author",
            "A",
        ])
        .exits(0)
        .says("`cd fresh && holodeck test` replays recorded example answers");
    assert!(
        init.stdout.contains("fresh/recordings/examples.jsonl"),
        "{}",
        init.stdout
    );
    assert!(
        project
            .read("fresh/README.md")
            .contains("recorded from a\nscript")
    );
    let test = || {
        // No program can be started.
        let mut command = project.command(&["test", "fresh/agent.yaml"]);
        command.env("PATH", "");
        CommandOutput::of(&command.output().unwrap())
    };
    test()
        .exits(0)
        .says("4 of 4 passed (100 %)")
        .says("scripted example");
    let yaml = project.read("fresh/agent.yaml");
    for (right, wrong) in wrong {
        assert!(yaml.contains(right), "{right}");
        project.write("fresh/agent.yaml", yaml.replacen(right, wrong, 1));
        test().exits(1).says("1 failed");
    }
}

#[test]
fn a_conversational_agent_passes_at_once_and_can_fail() {
    check(
        "conversational",
        &[
            ("ground_truth: Paris", "ground_truth: Rome"),
            ("ground_truth: \"12\"", "ground_truth: \"13\""),
            ("ground_truth: Ada\n\n", "ground_truth: Eve\n\n"),
            ("cannot) know", "cannot) say"),
        ],
    );
}

#[test]
fn a_research_agent_passes_at_once_and_can_fail() {
    check(
        "research",
        &[
            ("ground_truth: \"1954\"", "ground_truth: \"1955\""),
            ("expected_tools: [library]", "forbidden_tools: [library]"),
            ("ground_truth: not in the documents", "ground_truth: Ada"),
        ],
    );
}

#[test]
fn a_support_agent_passes_at_once_and_can_fail() {
    check(
        "customer-support",
        &[
            ("ground_truth: in transit", "ground_truth: lost"),
            ("args: {order_id: \"1001\"}", "args: {order_id: \"1003\"}"),
            ("negate: true", "negate: false"),
            ("ground_truth: T-100", "ground_truth: T-101"),
            (
                "{name: create_ticket, args: {order_id: \"1002\"}}",
                "{name: create_ticket, count: 2}",
            ),
        ],
    );
}
