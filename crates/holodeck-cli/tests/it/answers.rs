//! Which cases run, and where the answers come from.

use std::fs;

use holodeck_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::project::{Project, TWO_CASES, agent, assert_output, correct_server, half_correct_server};

fn labels(lines: &str) -> Vec<String> {
    lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["event"] == "case_finished")
        .map(|line| line["result"]["test_name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_part_of_the_cases() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let run_labels = |args: &[&str]| {
        let ran = project.run(&[&["test", "--json"], args].concat()).exits(0);
        labels(&ran.stdout)
    };
    assert_eq!(run_labels(&["--filter", "cap*"]), ["capital"]);
    assert_eq!(run_labels(&["-n", "1"]), ["capital"]);
    assert_eq!(run_labels(&["--filter", "*"]), ["capital", "sum"]);
    project
        .run(&["test", "--filter", "[x"])
        .exits(2)
        .says("--filter [x");
    server.finish();
}

#[test]
fn what_failed_runs_again() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test", "--failed"]).exits(2).says("no run");
    project.run(&["test"]).exits(1);
    let ran = project.run(&["test", "--failed", "--dry-run"]).exits(0);
    assert_output!(ran);
    assert_eq!(
        labels(&project.run(&["test", "--failed", "--json"]).exits(1).stdout),
        ["sum"]
    );
    assert_eq!(server.finish().len(), 3);
}

#[test]
fn a_dry_run_asks_nothing() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    assert_output!(project.run(&["test", "--dry-run"]).exits(0));
    let plan = project.run(&["test", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(plan["cases"].as_array().unwrap().len(), 2);
    assert!(project.journals().is_empty());
    assert!(server.finish().is_empty());
}

#[test]
fn a_recording_answers_without_endpoint_or_key() {
    let server = half_correct_server();
    let yaml = agent(&server.url(), TWO_CASES);
    let project = Project::with(&yaml);
    project.run(&["test", "--record", "tape.jsonl"]).exits(1);
    assert_eq!(server.finish().len(), 2);
    let ran = project.run(&["test", "--replay", "tape.jsonl"]).exits(1);
    assert_output!(ran);
    let report = project.run_file();
    assert!(report["report"]["replayed"]["recorded"].is_string());
    // The YAML makes it the default; no key is needed.
    project.write(
        "agent.yaml",
        yaml.replace("execution:\n", "execution:\n  replay: tape.jsonl\n"),
    );
    project.run(&["test"]).exits(1).says("replayed, recorded");
    project.run(&["test", "--live"]).exits(3);
}

#[test]
fn a_question_that_was_not_recorded_is_3_and_tells_the_nearest() {
    let server = correct_server();
    let yaml = agent(&server.url(), TWO_CASES);
    let project = Project::with(&yaml);
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    server.finish();
    project.write("agent.yaml", yaml.replace("Answer briefly", "Answer at length"));
    let ran = project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    assert_output!(ran);
    project
        .run(&["test", "--replay", "gone.jsonl"])
        .exits(2)
        .says("gone.jsonl");
}

#[test]
fn a_recording_of_another_model_is_named_once_before_anything_runs() {
    let server = correct_server();
    let yaml = agent(&server.url(), TWO_CASES);
    let project = Project::with(&yaml);
    project.run(&["test", "--record", "tape.jsonl"]).exits(0);
    let replaying = yaml.replace("execution:\n", "execution:\n  replay: tape.jsonl\n");
    project.write("agent.yaml", &replaying);
    project.run(&["test"]).exits(0);
    project.write("agent.yaml", replaying.replace("test-model", "other-model"));
    let runs = project.journals().len();
    for args in [&["test"][..], &["test", "--dry-run"]] {
        let ran = project.run(args).exits(3);
        assert_eq!(ran.all().matches("tape.jsonl").count(), 1, "{}", ran.all());
        ran.says("was made with openai test-model, and the agent now uses openai other-model")
            .says("hint: remove `execution.replay` (agent.yaml:11:11), or run with `--live`");
    }
    assert_eq!(project.journals().len(), runs);
    project.run(&["test", "--live"]).exits(0);
    let ran = project.run(&["test", "--replay", "tape.jsonl"]).exits(3);
    let ran = ran.says("`--live --record FILE` records it again");
    assert!(!ran.all().contains("execution.replay"), "{}", ran.all());
    server.finish();
}

#[test]
fn a_run_that_broke_off_goes_on() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]).exits(1);
    let whole = project.run_file();
    // As after `kill -9` before the second case finished.
    let journal = project.journals().pop().unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    let cut: Vec<_> = text.lines().take(3).collect();
    fs::write(&journal, format!("{}\n{{\"ran\":{{\"un", cut.join("\n"))).unwrap();
    let ran = project.run(&["test", "resume", "latest"]).exits(1);
    assert_output!(ran);
    assert_eq!(server.finish().len(), 3);
    let resumed = project.run_file();
    assert_eq!(
        whole["report"]["summary"]["average_scores"],
        resumed["report"]["summary"]["average_scores"]
    );
    assert_eq!(resumed["report"]["summary"]["total_tests"], 2);
    project
        .run(&["test", "resume", "2020"])
        .exits(2)
        .says("there is no run `2020`");
    project.write(
        "agent.yaml",
        agent("http://127.0.0.1:1", TWO_CASES).replace("briefly", "long"),
    );
    project
        .run(&["test", "resume", "latest"])
        .exits(2)
        .says("the agent changed");
}

#[test]
fn answers_are_graded_again_without_being_asked_again() {
    let server = half_correct_server();
    let yaml = agent(&server.url(), TWO_CASES);
    let project = Project::with(&yaml);
    project.run(&["test"]).exits(1);
    assert_eq!(server.finish().len(), 2);
    project.write("agent.yaml", yaml.replace("\"12\"", "\"13\""));
    let ran = project
        .run(&["test", "regrade", "latest", "--report", "json=again.json"])
        .exits(0);
    assert_output!(ran);
    let report: Value = serde_json::from_str(&project.read("again.json")).unwrap();
    assert_eq!(report["summary"]["passed"], 2);
}

#[test]
fn the_first_failure_can_be_the_end() {
    let server = ModelServer::answering(|_| Reply::text("no idea"));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["test", "--fail-fast"]).exits(1);
    assert_output!(ran);
    assert_eq!(server.finish().len(), 1);
}

#[test]
fn json_output_has_every_event() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project
        .run(&["test", "--json", "--report", "junit=j.xml"])
        .exits(1);
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        [
            "started",
            "case_started",
            "case_finished",
            "case_started",
            "case_finished",
            "finished"
        ]
    );
    let last = lines.last().unwrap();
    assert_eq!(last["exit_code"], 1);
    assert_eq!(last["report"]["summary"]["failed"], 1);
    assert_eq!(last["reports"], json!(["j.xml"]));
    assert!(project.path(last["run_file"].as_str().unwrap()).is_file());
    server.finish();
}

#[test]
fn the_quiet_say_only_the_outcome() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    assert_output!(project.run(&["test", "-q"]).exits(1));
    server.finish();
}
