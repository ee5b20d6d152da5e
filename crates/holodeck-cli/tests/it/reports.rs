//! Tests that report files are written in every format, and that bad paths are refused before the run.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::project::{CommandOutput, Project, TWO_CASES, agent, half_correct_server};

#[test]
fn every_format_at_once() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&[
            "test",
            "--output",
            "out/report.md",
            "--report",
            "json=out/r.json",
            "--report",
            "junit=out/r.xml",
            "--report",
            "html=out/r.html",
            "--report",
            "jsonl=out/r.jsonl",
        ])
        .exits(1)
        .says("out/r.html");
    server.finish();
    assert!(project.read("out/report.md").starts_with("## ❌ support: failed"));
    assert!(project.read("out/r.json").contains("\"total_tests\": 2"));
    assert!(project.read("out/r.xml").contains("failures=\"1\""));
    assert!(project.read("out/r.html").starts_with("<!DOCTYPE html>"));
    assert_eq!(project.read("out/r.jsonl").lines().count(), 3);
    assert_eq!(fs::read_dir(project.path("out")).unwrap().count(), 5);
}

#[test]
fn every_report_marks_a_replayed_run() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test", "--record", "tape.jsonl"]).exits(1);
    server.finish();
    for format in ["json", "markdown", "junit", "html", "jsonl"] {
        let report = format!("{format}=out.{format}");
        project
            .run(&["test", "--replay", "tape.jsonl", "--report", &report])
            .exits(1);
        let text = project.read(&format!("out.{format}"));
        match format {
            "json" | "jsonl" => assert!(text.contains("\"recorded\""), "{text}"),
            _ => assert!(text.contains("replayed, recorded 2"), "{text}"),
        }
    }
}

#[test]
fn an_invalid_report_path_is_reported_before_the_run() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.write("taken/x", "");
    project
        .run(&["test", "--output", "taken"])
        .exits(2)
        .says("it is a directory");
    project
        .run(&["test", "--output", "taken/x/y.json"])
        .exits(2)
        .says("taken/x/y.json");
    assert!(server.finish().is_empty());
}

#[test]
fn the_format_can_be_given_without_an_extension() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&["test", "--output", "summary", "--format", "markdown"])
        .exits(1);
    assert!(project.read("summary").starts_with("## "));
    server.finish();
}

#[test]
fn a_report_can_go_into_a_pipe() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let ran = project
        .run(&["test", "--output", "/dev/stdout", "--format", "jsonl", "-q"])
        .exits(1);
    assert!(
        ran.stdout.starts_with("{\"agent_name\":\"support\""),
        "{}",
        ran.stdout
    );
    server.finish();
}

#[test]
fn findings_name_the_place_of_a_case_in_the_repository() {
    let server = half_correct_server();
    let project = Project::empty();
    project.write("bots/desk/agent.yaml", agent(&server.url(), TWO_CASES));
    project.write("summary.md", "before\n");
    let mut command = project.command(&[
        "test",
        "--report",
        "github=-",
        "--report",
        "gitlab=q.json",
        "--report",
        "sarif=q.sarif",
    ]);
    let ran = command
        .current_dir(project.path("bots/desk"))
        .env("GITHUB_WORKSPACE", project.dir())
        .env("GITHUB_STEP_SUMMARY", project.path("summary.md"))
        .output();
    let ran = CommandOutput::of(&ran.unwrap()).exits(1);
    server.finish();
    let failed = ran
        .stdout
        .lines()
        .find(|line| line.starts_with("::error "))
        .unwrap();
    let text = project.read("bots/desk/agent.yaml");
    let line = 1 + text.lines().position(|line| line.contains("name: sum")).unwrap();
    let place = format!("::error file=bots/desk/agent.yaml,line={line},col=5,title=sum%3A failed::");
    assert!(failed.starts_with(&place), "{failed}\n{text}");
    let issues: Value = serde_json::from_str(&project.read("bots/desk/q.json")).unwrap();
    assert_eq!(issues[0]["location"]["path"], "bots/desk/agent.yaml");
    assert_eq!(issues[0]["location"]["lines"]["begin"], line);
    let sarif: Value = serde_json::from_str(&project.read("bots/desk/q.sarif")).unwrap();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], line);
    let summary = project.read("summary.md");
    assert!(summary.starts_with("before\n## ❌ support: failed"), "{summary}");
}

#[test]
fn a_file_that_came_with_the_agent_does_not_decide_where_a_summary_is_written() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let victim = project.path("victim");
    project.write("victim", "");
    project.write(".env", format!("GITHUB_STEP_SUMMARY={}\n", victim.display()));
    project.run(&["test", "--report", "github=out.txt"]).exits(1);
    server.finish();
    assert!(project.read("out.txt").contains("::error "));
    assert_eq!(project.read("victim"), "");
}

#[test]
fn a_partial_run_says_so_in_its_findings() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&[
            "test",
            "--filter",
            "nothing*",
            "--allow-empty",
            "--report",
            "gitlab=q.json",
        ])
        .exits(0);
    assert!(project.read("q.json").contains("nothing checked"));
    project.run(&["test", "--sample", "1", "--report", "sarif=q.sarif"]);
    assert!(
        project.read("q.sarif").contains("1 of 2 cases"),
        "{}",
        project.read("q.sarif")
    );
    server.finish();
}
