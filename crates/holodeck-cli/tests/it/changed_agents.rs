//! Recordings and resumed runs of an agent, or of cases, that changed meanwhile.

use holodeck_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::project::{CommandOutput, Project, TWO_CASES, agent, correct_server};

#[test]
fn a_recording_of_an_older_format_is_refused_with_what_to_do() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test", "--record", "old.jsonl"]).exits(0);
    let recording = project.read("old.jsonl");
    let (header, entries) = recording.split_once('\n').unwrap();
    assert_eq!(header, r#"{"holodeck_cassette":2}"#);
    project.write("old.jsonl", format!("{{\"holodeck_cassette\":1}}\n{entries}"));
    project
        .run(&["test", "--replay", "old.jsonl"])
        .exits(2)
        .says("`old.jsonl` has format version 1; this holodeck reads version 2")
        .says("record again: `--live --record FILE`");
}

/// An agent with a file behind each kind of tool. Its model calls each tool once.
fn shop() -> (ModelServer, Project) {
    let server = ModelServer::answering(|request| {
        if request
            .texts("user")
            .last()
            .is_some_and(|text| text.contains("Sum up"))
        {
            return Reply::text("summed up");
        }
        let calls = [
            ("look_up", json!({"order": "7"})),
            ("check", json!({})),
            ("sum_up", json!({"text": "x"})),
            ("kb_search", json!({"query": "night"})),
        ];
        let called = request.texts("tool").len();
        match calls.get(called) {
            Some((tool, arguments)) => Reply::tool_call(&format!("c{called}"), tool, arguments),
            None => Reply::text("done"),
        }
    });
    let project = Project::with(&format!(
        "name: shop\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{file: instructions.md}}\n\
         embedding_provider: {{provider: hash}}\n\
         tools:\n\
         \x20 - {{type: function, name: look_up, description: d, file: tools/orders.py, function: look_up, \
         parameters: {{order: {{type: string}}}}}}\n\
         \x20 - {{type: function, name: check, description: d, command: cat, args: [./rules.txt], parameters: {{}}}}\n\
         \x20 - {{type: mcp, name: garden, description: d, command: python3, args: [./server/garden.py]}}\n\
         \x20 - {{type: prompt, name: sum_up, description: d, file: prompt.txt, parameters: {{text: {{type: string}}}}}}\n\
         \x20 - {{type: vectorstore, name: kb, description: d, source: docs}}\n\
         evaluations: {{metrics: [{{type: standard, metric: contains}}]}}\n\
         test_cases: [{{name: one, input: \"Where is order 7?\", ground_truth: done}}]\n",
        server.url()
    ));
    project.write("instructions.md", "Be kind.\n");
    project.write(
        "tools/orders.py",
        "import prices\n\ndef look_up(order):\n    return prices.OF\n",
    );
    project.write("tools/prices.py", "OF = 'sent'\n");
    project.write("rules.txt", "none\n");
    project.write("server/garden.py", crate::changes::GARDEN);
    project.write("prompt.txt", "Sum up {{ text }}.\n");
    project.write("docs/a.md", "Orders are sent at night.\n");
    (server, project)
}

/// The files of [`shop`] that affect an answer, each with its name in the message of a replay that misses and in that
/// of a refused resume.
const SHOP_FILES: &[(&str, &str, &str)] = &[
    (
        "tools/orders.py",
        "tool execution failed: look_up",
        "tool look_up: tools/orders.py",
    ),
    (
        "tools/prices.py",
        "tool execution failed: look_up",
        "tool look_up: tools/prices.py",
    ),
    (
        "rules.txt",
        "tool execution failed: check",
        "tool check: rules.txt",
    ),
    (
        "server/garden.py",
        "tool garden: server/garden.py",
        "tool garden: server/garden.py",
    ),
    (
        "prompt.txt",
        "tool execution failed: sum_up",
        "tool sum_up: prompt.txt",
    ),
    (
        "docs/a.md",
        "tool execution failed: kb_search",
        "tool kb: docs/a.md",
    ),
    ("instructions.md", "messages[0].content", "instructions"),
];

#[test]
fn a_changed_file_behind_a_tool_misses_by_name() {
    let (_server, project) = shop();
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    for (file, named, _) in SHOP_FILES {
        let old = project.read(file);
        project.write(file, format!("{old}# changed\n"));
        let missed = project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
        if named.starts_with("tool execution failed") {
            // The verdict names the reason, not only the tool.
            let report = project.run_file();
            let error = report["report"]["results"][0]["errors"][0].as_str().unwrap();
            assert!(error.contains(file) && error.contains("changed"), "{error}");
        }
        missed.says(named).says("--live --record FILE");
        project.write(file, old);
    }
    // A new module may shadow another one.
    project.write("tools/json.py", "x = 1\n");
    project
        .run(&["test", "--replay", "tape.jsonl"])
        .exits(3)
        .says("tool execution failed: look_up");
    project.write("tools/readme.md", "Nothing of it is run.\n");
    std::fs::remove_file(project.path("tools/json.py")).unwrap();
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
}

#[test]
fn resume_refuses_another_agent_and_names_what_changed() {
    let (server, project) = shop();
    project.run(&["test"]).exits(0);
    project.run(&["test", "resume", "latest"]).exits(0);
    let refused = |named: &str| {
        project.run(&["test", "resume", "latest"]).exits(2).says(named);
    };
    for (file, _, named) in SHOP_FILES {
        let old = project.read(file);
        project.write(file, format!("{old}# changed\n"));
        refused(named);
        project.write(file, old);
    }
    // It refuses before a server starts; this one would fail to start.
    let old = project.read("server/garden.py");
    project.write("server/garden.py", "raise SystemExit(7)\n");
    refused("tool garden");
    project.write("server/garden.py", old);
    let old = project.read("agent.yaml");
    for (from, to, named) in [
        ("name: m,", "name: n,", "model"),
        (
            "parameters: {}",
            "parameters: {}, env: {MODE: strict}",
            "tool check",
        ),
        (server.url().as_str(), "http://127.0.0.1:9/v1", "model.endpoint"),
        ("input: \"Where", "input: \"And where", "the test cases of run"),
    ] {
        assert!(old.contains(from), "{from}");
        project.write("agent.yaml", old.replacen(from, to, 1));
        refused(named);
    }
    project.write("agent.yaml", &old);
    let asked = server.requests().len();
    project.run(&["test", "resume", "latest"]).exits(0);
    assert_eq!(server.requests().len(), asked);
}

#[test]
fn resume_refuses_another_endpoint_of_the_environment() {
    let (first, other) = (correct_server(), correct_server());
    let yaml = agent(&first.url(), TWO_CASES);
    let project = Project::with(&yaml.replace(&format!("  endpoint: {}\n", first.url()), ""));
    let run = |server: &ModelServer, args: &[&str]| {
        let mut command = project.command(args);
        command.env("OPENAI_BASE_URL", server.url());
        command.env("OPENAI_API_KEY", "not-a-real-key");
        CommandOutput::of(&command.output().unwrap())
    };
    run(&first, &["test"]).exits(0);
    run(&first, &["test", "resume", "latest"]).exits(0);
    run(&other, &["test", "resume", "latest"])
        .exits(2)
        .says("variable OPENAI_BASE_URL");
}

#[test]
fn resume_refuses_another_recording() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    project.run(&["test", "resume", "latest"]).exits(0);
    let recording = project.read("tape.jsonl");
    project.write("tape.jsonl", recording.replace("It is 12.", "It is 13."));
    project
        .run(&["test", "resume", "latest"])
        .exits(2)
        .says("recording");
}

/// Two cases with the same question, which the endpoint answers differently.
fn two_cases_of_one_question() -> (ModelServer, Project) {
    let server =
        ModelServer::answering(|request| Reply::text(if request.index == 0 { "heads" } else { "tails" }));
    let cases = "  - {name: one, input: Toss!, ground_truth: heads}\n  - {name: two, input: Toss!, ground_truth: tails}\n";
    let project = Project::with(&agent(&server.url(), cases));
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    (server, project)
}

#[test]
fn no_case_gets_the_answer_of_another_one() {
    let (_server, project) = two_cases_of_one_question();
    let yaml = project.read("agent.yaml");
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    // Renamed: it is unknown which of the answers belongs to the case.
    project.write("agent.yaml", yaml.replace("name: two", "name: other"));
    project
        .run(&["test", "--replay", "tape.jsonl"])
        .exits(3)
        .says("other");
    let first = "  - {name: one, input: Toss!, ground_truth: heads}\n";
    project.write("agent.yaml", yaml.replace(first, ""));
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
    project.write(
        "agent.yaml",
        yaml.replace("Toss!, ground_truth: tails", "Roll!, ground_truth: tails"),
    );
    project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
}

#[test]
fn a_renamed_case_of_its_own_question_keeps_its_answer() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    let yaml = project.read("agent.yaml");
    project.write("agent.yaml", yaml.replace("name: capital", "name: town"));
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
}

#[test]
fn cases_of_one_name_keep_their_answers() {
    let server =
        ModelServer::answering(|request| Reply::text(if request.index == 0 { "heads" } else { "tails" }));
    let cases = "  - {name: same, input: Toss!, ground_truth: heads}\n  - {name: same, input: Toss!, ground_truth: tails}\n";
    let project = Project::with(&agent(&server.url(), cases));
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    // The entries of a case are in the order of its answers; the order between cases does not matter.
    let recording = project.read("tape.jsonl");
    let mut lines: Vec<&str> = recording.lines().collect();
    assert_eq!(lines.len(), 3);
    lines.swap(1, 2);
    project.write("tape.jsonl", format!("{}\n", lines.join("\n")));
    project.run(&["test", "--replay", "tape.jsonl"]).exits(0);
}
