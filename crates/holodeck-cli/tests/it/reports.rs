//! Tests that report files are written in every format, and that bad paths are refused before the run.

use std::fs;

use crate::project::{Project, TWO_CASES, agent, half_correct_server};

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
