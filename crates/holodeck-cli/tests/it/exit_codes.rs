//! One test for each exit code.

use std::fs;

use holodeck_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::project::{Project, TWO_CASES, agent, assert_output, correct_server, half_correct_server};

#[test]
fn everything_passed_is_0() {
    let server = correct_server();
    let ran = Project::with(&agent(&server.url(), TWO_CASES))
        .run(&["test"])
        .exits(0);
    assert_output!(ran);
    server.finish();
}

#[test]
fn a_failed_test_is_1() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    assert_output!(project.run(&["test", "agent.yaml"]).exits(1));
    let report = project.run_file();
    assert_eq!(report["report"]["summary"]["passed"], 1);
    assert_eq!(report["report"]["summary"]["failed"], 1);
    assert_eq!(report["metadata"]["cli_args"], json!(["test", "agent.yaml"]));
    server.finish();
}

#[test]
fn a_wrong_file_is_2_and_nothing_is_asked() {
    let server = correct_server();
    let wrong = agent(&server.url(), TWO_CASES).replace("ground_truth", "groundtruth");
    let ran = Project::with(&wrong).run(&["test"]).exits(2);
    assert_output!(ran);
    assert!(server.finish().is_empty());
}

#[test]
fn an_endpoint_that_is_down_is_3() {
    let server = correct_server();
    let down = server.url();
    drop(server.finish());
    let project = Project::with(&agent(&down, TWO_CASES));
    assert_output!(project.run(&["test"]).exits(3));
    assert_eq!(project.journal_grades().len(), 2);
}

#[test]
fn a_metric_that_needs_a_judge_is_4_and_never_green() {
    let server = correct_server();
    let judged = agent(&server.url(), TWO_CASES).replace(
        "      metric: contains\n",
        "      metric: contains\n    - type: standard\n      metric: relevance\n      threshold: 0.5\n",
    );
    assert_output!(Project::with(&judged).run(&["test"]).exits(4));
    server.finish();
}

#[test]
fn nothing_to_run_is_5_unless_that_is_fine() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["test", "--filter", "nope*"]).exits(5);
    assert_output!(ran);
    project
        .run(&["test", "--filter", "nope*", "--allow-empty"])
        .exits(0);
    project.run(&["test", "--filter", "nope*", "--dry-run"]).exits(5);
    assert!(server.finish().is_empty());
}

#[test]
fn json_ends_with_finished_and_its_exit_code_whatever_happened() {
    let server = correct_server();
    let yaml = agent(&server.url(), TWO_CASES);
    let broken = yaml.replace("test_cases:", "tset_cases:");
    let down = yaml.replace(&server.url(), "http://127.0.0.1:9");
    for (yaml, flags, exit) in [
        (&yaml, &[][..], 0),
        (&broken, &[], 2),
        (&down, &["-j", "1"], 3),
        (&yaml, &["--filter", "nope*"], 5),
        (&yaml, &["--filter", "nope*", "--allow-empty"], 0),
        (&yaml, &["--report", "junit=."], 2),
    ] {
        let project = Project::with(yaml);
        let ran = project.run(&[&["test", "--json"], flags].concat()).exits(exit);
        let lines: Vec<Value> = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let ends = lines.iter().filter(|line| line["event"] == "finished").count();
        let last = lines.last().unwrap();
        assert_eq!((ends, &last["event"]), (1, &json!("finished")), "{flags:?}");
        assert_eq!(last["exit_code"], exit, "{flags:?}");
        assert!(exit != 5 || last["error"]["message"].is_string(), "{last}");
        for started in lines.iter().filter(|line| line["event"] == "started") {
            assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
        }
    }
    server.finish();
}

#[test]
fn a_command_that_may_be_empty_writes_its_reports() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let files = ["r.json", "r.md", "r.xml", "r.html", "r.jsonl"];
    let reports: Vec<String> = ["json", "markdown", "junit", "html", "jsonl"]
        .iter()
        .zip(files)
        .map(|(format, file)| format!("--report={format}={file}"))
        .collect();
    let mut arguments = vec!["test", "--filter", "nope*"];
    arguments.extend(reports.iter().map(String::as_str));
    project.run(&arguments).exits(5);
    assert!(files.iter().all(|file| !project.path(file).exists()));
    arguments.extend(["--allow-empty", "--json"]);
    let ran = project.run(&arguments).exits(0);
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["reports"], json!(files));
    for file in files {
        let text = fs::read_to_string(project.path(file)).unwrap();
        assert!(text.contains("support"), "{file}: {text}");
    }
    assert!(server.finish().is_empty());
}

#[test]
fn nothing_checked_is_5_unless_that_is_fine() {
    let server = correct_server();
    let unchecked = agent(
        &server.url(),
        "  - name: hello\n    input: The capital of France?\n",
    )
    .replace(
        "evaluations:\n  metrics:\n    - type: standard\n      metric: contains\n",
        "",
    );
    let project = Project::with(&unchecked);
    let ran = project.run(&["test"]).exits(5);
    assert_output!(ran);
    project.run(&["test", "--allow-empty"]).exits(0);
    assert_eq!(project.run_file()["report"]["summary"]["pass_rate"], json!(null));
    server.finish();
}

#[test]
fn a_budget_that_is_used_up_is_6() {
    let server = ModelServer::answering(|_| Reply::text("Paris"));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["test", "--max-tokens-total", "1"]).exits(6);
    assert_output!(ran);
    assert_eq!(server.finish().len(), 1);
    assert_eq!(project.journal_grades().len(), 1);
}

#[test]
fn a_price_that_is_not_known_can_not_be_held() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project.run(&["test", "--max-cost-usd", "1"]).exits(2);
    assert_output!(ran);
    project.write(
        "mine.json",
        r#"{"as_of": "2030-01-01", "models": {"test-model": {"input": 1000000, "output": 1}}}"#,
    );
    project
        .run(&["test", "--max-cost-usd", "0.5", "--prices", "mine.json"])
        .exits(6)
        .says("cost budget used up");
    assert_eq!(server.finish().len(), 1);
}

#[test]
fn what_can_not_be_run_yet_is_2_by_name() {
    let server = correct_server();
    let tools = "tools:\n  - name: kb\n    type: vectorstore\n    description: search\n    source: docs\n    \
                 database: {provider: weaviate}\n";
    let project = Project::with(&format!("{}{tools}", agent(&server.url(), TWO_CASES)));
    fs::create_dir(project.path("docs")).unwrap();
    let ran = project.run(&["test"]).exits(2);
    assert_output!(ran);
    assert!(server.finish().is_empty());
}

#[test]
fn a_closed_output_does_not_change_the_verdict() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    for args in [&["test"][..], &["test", "--json"]] {
        let mut command = project.command(args);
        let mut child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(1), "{args:?}");
    }
    server.finish();
}

#[test]
fn json_ends_with_finished_also_where_the_parser_or_a_comparison_refuses() {
    let project = Project::with(&agent("http://localhost:1", TWO_CASES));
    for (args, message) in [
        (["test", "--json", "--trials", "none"], "invalid value 'none'"),
        (
            ["test", "--json", "--trails", "2"],
            "unexpected argument '--trails'",
        ),
    ] {
        let ran = project.run(&args).exits(2);
        let event = ran.json();
        assert_eq!(
            (&event["event"], &event["exit_code"]),
            (&"finished".into(), &2.into())
        );
        let error = event["error"]["message"].as_str().unwrap();
        assert!(error.starts_with(message), "{error}");
    }
    let compared = project
        .run(&["test", "compare", "latest", "none", "--json"])
        .exits(2);
    assert_eq!(compared.json()["event"], "finished");
    // What was not asked for as JSON, or is an answer to `--help`, has no such line.
    assert_eq!(project.run(&["test", "--trials", "none"]).exits(2).stdout, "");
    let help = project.run(&["test", "--json", "--help"]).exits(0);
    assert!(!help.stdout.contains("\"event\""), "{}", help.stdout);
}
