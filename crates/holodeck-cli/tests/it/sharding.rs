//! A run in shards, and what must not be merged to a verdict.

use std::{fs, path::PathBuf};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::project::{CommandOutput, Project, agent};

/// Seven cases; [`server`] answers all but the fifth as expected.
fn seven_cases() -> String {
    let case = |number| {
        format!("  - {{name: case {number}, input: question {number}, ground_truth: answer {number}}}\n")
    };
    (1..=7).map(case).collect()
}

fn server() -> ModelServer {
    ModelServer::answering(|request| {
        let question = request.texts("user").pop().unwrap_or_default().to_owned();
        Reply::text(if question.ends_with('5') {
            "no idea".to_owned()
        } else {
            question.replace("question", "answer")
        })
    })
}

fn project(server: &ModelServer) -> Project {
    Project::with(&agent(&server.url(), &seven_cases()))
}

/// Runs all shards and moves the journal of each to `shards/<number>/`, as a CI server does with artifacts.
fn run_shards(project: &Project, count: u32, more: &[&str]) -> Vec<PathBuf> {
    (1..=count)
        .map(|number| run_shard(project, &format!("{number}/{count}"), &number.to_string(), more))
        .collect()
}

fn run_shard(project: &Project, shard: &str, folder: &str, more: &[&str]) -> PathBuf {
    let mut args = vec!["test", "--shard", shard];
    args.extend(more);
    let ran = project.run(&args);
    assert!(matches!(ran.code, Some(0 | 1 | 5)), "{}", ran.all());
    let journal = project.journals().pop().unwrap();
    let moved = project.path(&format!(
        "shards/{folder}/{}",
        journal.file_name().unwrap().display()
    ));
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    fs::rename(journal, &moved).unwrap();
    moved
}

/// The report without what differs between two runs.
fn report(project: &Project, name: &str) -> Value {
    fn scrub(value: &mut Value) {
        const DIFFERS: [&str; 6] = [
            "timestamp",
            "run_id",
            "merged_from",
            "latency_ms",
            "evaluation_time_ms",
            "cli_args",
        ];
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    !DIFFERS.contains(&name.as_str())
                        && !name.ends_with("_time_ms")
                        && !name.ends_with("duration_ms")
                });
                fields.values_mut().for_each(scrub);
            }
            Value::Array(items) => items.iter_mut().for_each(scrub),
            _ => {}
        }
    }
    let mut report = serde_json::from_str(&project.read(name)).unwrap();
    scrub(&mut report);
    report
}

fn merge(project: &Project) -> CommandOutput {
    project.run(&["test", "merge", "shards"])
}

/// A refused merge must leave nothing that looks like a run.
#[track_caller]
fn refused(project: &Project, code: i32, what: &str) {
    let before = project.journals();
    merge(project).exits(code).says(what);
    assert_eq!(project.journals(), before);
}

#[test]
fn a_merged_run_equals_an_unsharded_one() {
    let server = server();
    let project = project(&server);
    for trials in [&[][..], &["--trials", "3", "--min-passes", "2"]] {
        let mut args = vec!["test", "--output", "whole.json", "--force"];
        args.extend(trials);
        let whole = project.run(&args).exits(1);
        for count in [1, 2, 3, 7] {
            let _ = fs::remove_dir_all(project.path("shards"));
            run_shards(&project, count, trials);
            let merged = project
                .run(&[
                    "test",
                    "merge",
                    "shards",
                    "--output",
                    "merged.json",
                    "--report",
                    "junit=merged.xml",
                    "--force",
                ])
                .exits(1)
                .says("6 of 7 passed (86 %), 1 failed")
                .says("FAIL")
                .says("case 5");
            assert_eq!(whole.code, merged.code);
            assert_eq!(
                report(&project, "merged.json"),
                report(&project, "whole.json"),
                "{count} shards"
            );
            assert!(
                project
                    .read("merged.xml")
                    .contains(&format!("merged from {count} shard"))
            );
            let file = project.run_file();
            assert_eq!(
                file["report"]["merged_from"].as_array().unwrap().len(),
                count as usize
            );
        }
    }
    // A merged run is a run like any other.
    project.run(&["test", "regrade"]).exits(1);
    project
        .run(&["test", "--failed", "--trials", "3", "--min-passes", "2"])
        .exits(1)
        .says("0 of 1 passed");
}

#[test]
fn each_shard_says_that_it_is_a_part() {
    let server = server();
    let project = project(&server);
    let formats = ["json", "markdown", "junit", "html", "jsonl"];
    let mut args = vec!["test".to_owned(), "--shard".to_owned(), "2/3".to_owned()];
    for format in formats {
        args.extend(["--report".to_owned(), format!("{format}=out.{format}")]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    project.run(&args).exits(1).says("shard 2 of 3: 2 of 7 cases");
    for format in formats {
        let text = project.read(&format!("out.{format}"));
        let says =
            text.contains("shard 2 of 3") || text.contains(r#""shard":{"index":2,"count":3,"cases":7}"#);
        let says = says
            || report(&project, "out.json")["shard"]
                == serde_json::json!({"index": 2, "count": 3, "cases": 7});
        assert!(says, "{format}: {text}");
    }
    project
        .run(&["test", "--shard", "2/3", "--dry-run"])
        .exits(0)
        .says("shard 2 of 3: 2 of 7 cases")
        .says("case 2")
        .says("case 5");
}

#[test]
fn a_shard_is_taken_after_the_filter_and_the_limit() {
    let server = server();
    let project = project(&server);
    let ran = project
        .run(&[
            "test",
            "--filter",
            "case [3-7]",
            "-n",
            "4",
            "--shard",
            "2/2",
            "--dry-run",
            "--json",
        ])
        .exits(0);
    let indices: Vec<_> = ran.json()["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indices, [3, 5]);
    assert!(server.finish().is_empty());
}

#[test]
fn impossible_shards_are_usage_errors() {
    let server = server();
    let project = project(&server);
    for shard in ["0/3", "4/3", "1/0", "2", "x", "-1/2"] {
        project.run(&["test", &format!("--shard={shard}")]).exits(2);
    }
    let auto = |variables: &[(&str, &str)]| {
        let mut command = project.command(&["test", "--shard", "auto", "--dry-run"]);
        command.envs(variables.iter().copied());
        CommandOutput::of(&command.output().unwrap())
    };
    auto(&[]).exits(2).says("--shard auto").says("hint");
    auto(&[("CI_NODE_TOTAL", "1")]).exits(2).says("CI_NODE_INDEX");
    auto(&[("JOB_COMPLETION_INDEX", "0")])
        .exits(2)
        .says("HOLODECK_SHARDS");
    auto(&[("CI_NODE_INDEX", "3"), ("CI_NODE_TOTAL", "3")])
        .exits(0)
        .says("shard 3 of 3");
    auto(&[("JOB_COMPLETION_INDEX", "0"), ("HOLODECK_SHARDS", "3")])
        .exits(0)
        .says("shard 1 of 3");
    // The variables alone do not change a run.
    let mut command = project.command(&["test", "--dry-run"]);
    command.envs([("CI_NODE_INDEX", "3"), ("CI_NODE_TOTAL", "3")]);
    let plain = CommandOutput::of(&command.output().unwrap())
        .exits(0)
        .says("7 cases");
    assert!(!plain.all().contains("shard"), "{}", plain.all());
    assert!(server.finish().is_empty());
}

#[test]
fn a_shard_without_cases_is_not_green_but_can_be_merged() {
    let server = server();
    let project = project(&server);
    let filter = ["--filter", "case [12]"];
    run_shards(&project, 2, &filter);
    fs::remove_dir_all(project.path("shards")).unwrap();
    let empty = ["test", "--shard", "3/3", "--filter", "case [12]"];
    project.run(&empty).exits(5).says("shard 3 of 3 has no case");
    project.run(&[&empty[..], &["--allow-empty"]].concat()).exits(0);
    run_shards(&project, 3, &filter);
    merge(&project).exits(0).says("2 of 2 passed");
    // Nothing selected is no shard at all.
    project
        .run(&["test", "--shard", "1/3", "--filter", "none"])
        .exits(5);
}

#[test]
fn a_missing_shard_is_named() {
    let server = server();
    let project = project(&server);
    let journals = run_shards(&project, 3, &[]);
    // The one with the failure.
    fs::remove_file(&journals[1]).unwrap();
    refused(&project, 3, "shard 2 of 3 is missing");
    fs::remove_file(&journals[0]).unwrap();
    refused(&project, 3, "2 of 3 shards are missing: 1, 2");
    fs::remove_file(&journals[2]).unwrap();
    refused(&project, 3, "no run in `shards`");
    project.run(&["test", "merge", "nowhere/"]).exits(3);
}

#[test]
fn an_unfinished_shard_is_named() {
    let server = server();
    let project = project(&server);
    let journals = run_shards(&project, 2, &[]);
    let whole = fs::read_to_string(&journals[0]).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    // Killed after any number of lines, also before only its end was written, or in the middle of a line.
    for kept in 1..lines.len() {
        fs::write(&journals[0], lines[..kept].concat()).unwrap();
        refused(&project, 3, "shard 1/2 is not finished");
        fs::write(
            &journals[0],
            lines[..kept].concat() + &lines[kept][..lines[kept].len() / 2],
        )
        .unwrap();
        refused(&project, 3, "shard 1/2 is not finished");
    }
    // A damaged line in the middle.
    for damaged in 1..lines.len() - 1 {
        let mut lines = lines.clone();
        lines[damaged] = "{\"ran\":{\n";
        fs::write(&journals[0], lines.concat()).unwrap();
        let line = format!("line {} does not fit", damaged + 1);
        refused(&project, 3, &line);
    }
    // Another end than its own.
    for end in [
        "interrupted",
        "terminated",
        "budget",
        "stopped",
        "incomplete",
        "unenforceable",
    ] {
        fs::write(
            &journals[0],
            whole.replace("\"completed\"", &format!("\"{end}\"")),
        )
        .unwrap();
        refused(&project, 3, "does not fit");
    }
    fs::write(&journals[0], &whole).unwrap();
    merge(&project).exits(1);
}

#[test]
fn a_stopped_shard_is_resumed_and_then_merged() {
    let server = server();
    let project = project(&server);
    // The failing case stops the first shard; two of its four cases do not run.
    project
        .run(&["test", "--shard", "1/2", "--fail-fast", "-j", "1"])
        .exits(1);
    project.run(&["test", "--shard", "2/2"]).exits(0);
    project
        .run(&["test", "merge", ".holodeck/runs"])
        .exits(3)
        .says("1 of 4 cases have no verdict; it ended as `stopped`");
    let stopped = project.journals().remove(0);
    let id = stopped.file_stem().unwrap().to_str().unwrap().to_owned();
    project
        .run(&["test", "resume", &id])
        .exits(1)
        .says("shard 1 of 2: 4 of 7 cases");
    project
        .run(&["test", "merge", ".holodeck/runs"])
        .exits(1)
        .says("6 of 7 passed");
    assert_eq!(server.finish().len(), 7);
    // A merged run in the same folder is not taken for a shard, and cannot be resumed.
    project
        .run(&["test", "merge", ".holodeck/runs"])
        .exits(2)
        .says("already merged");
    let merged = project.journals().pop().unwrap();
    let merged = merged.file_stem().unwrap().to_str().unwrap().to_owned();
    project
        .run(&["test", "resume", &merged])
        .exits(2)
        .says("merged of shards");
}

#[test]
fn a_second_attempt_does_not_hide_the_first() {
    let server = server();
    let project = project(&server);
    let journals = run_shards(&project, 2, &[]);
    run_shard(&project, "1/2", "again", &[]);
    refused(&project, 2, "shard 1/2 was run twice, with different results");
    fs::remove_dir_all(project.path("shards/again")).unwrap();
    // The same journal twice counts once.
    fs::create_dir_all(project.path("shards/copy")).unwrap();
    fs::copy(&journals[0], project.path("shards/copy/copy.jsonl")).unwrap();
    merge(&project)
        .exits(1)
        .says("shard 1/2 is given twice, with the same content, and counts once")
        .says("6 of 7 passed");
    // A part of the same journal is not the same.
    let text = fs::read_to_string(&journals[0]).unwrap();
    fs::write(
        project.path("shards/copy/copy.jsonl"),
        text.lines().next().unwrap().to_owned() + "\n",
    )
    .unwrap();
    refused(&project, 2, "shard 1/2 was run twice");
}

#[test]
fn shards_of_different_runs_are_not_mixed() {
    let server = server();
    let project = project(&server);
    let yaml = project.read("agent.yaml");
    let changes = [
        ("instructions", yaml.replace("Answer briefly", "Answer at length")),
        ("the model", yaml.replace("test-model", "other-model")),
        // A threshold, and what a case expects: grades would differ, not answers.
        (
            "configuration",
            yaml.replace("metric: contains", "metric: contains\n      threshold: 0.5"),
        ),
        (
            "what is expected",
            yaml.replace("ground_truth: answer 5", "ground_truth: no idea"),
        ),
        (
            "number of selected cases",
            yaml.replace(
                "  - {name: case 7, input: question 7, ground_truth: answer 7}\n",
                "",
            ),
        ),
    ];
    for (what, changed) in changes {
        assert_ne!(changed, yaml, "{what}");
        let _ = fs::remove_dir_all(project.path("shards"));
        run_shard(&project, "1/2", "1", &[]);
        project.write("agent.yaml", &changed);
        run_shard(&project, "2/2", "2", &[]);
        refused(&project, 2, "are not shards of the same run");
        project.write("agent.yaml", &yaml);
        refused(&project, 2, "are not shards of the same run");
    }
    let flags: [(&str, &[&str]); 3] = [
        ("selection", &["--filter", "case [1-7]"]),
        ("flag", &["--trials", "2"]),
        ("flag", &["--timeout", "7"]),
    ];
    for (what, flags) in flags {
        let _ = fs::remove_dir_all(project.path("shards"));
        run_shard(&project, "1/2", "1", &[]);
        run_shard(&project, "2/2", "2", flags);
        refused(&project, 2, what);
    }
    let _ = fs::remove_dir_all(project.path("shards"));
    run_shard(&project, "1/2", "1", &[]);
    run_shard(&project, "2/3", "2", &[]);
    refused(&project, 2, "the number of shards (2, 3)");
    let _ = fs::remove_dir_all(project.path("shards"));
    run_shard(&project, "1/2", "1", &[]);
    project.run(&["test"]).exits(1);
    fs::copy(
        project.journals().pop().unwrap(),
        project.path("shards/whole.jsonl"),
    )
    .unwrap();
    refused(&project, 2, "it is a whole run, not a shard");
}

#[test]
fn shards_are_merged_only_with_their_own_agent() {
    let server = server();
    let project = project(&server);
    run_shards(&project, 2, &[]);
    let yaml = project.read("agent.yaml");
    for changed in [
        yaml.replace("ground_truth: answer 5", "ground_truth: no idea"),
        yaml.replace("metric: contains", "metric: contains\n      threshold: 0.5"),
    ] {
        assert_ne!(changed, yaml);
        project.write("agent.yaml", &changed);
        refused(&project, 2, "the expectation `contains` differs");
    }
    for changed in [
        yaml.replace("question 3", "question 33"),
        yaml.replace("name: support", "name: other"),
        yaml.replace(
            "  - {name: case 7, input: question 7, ground_truth: answer 7}\n",
            "",
        ),
    ] {
        assert_ne!(changed, yaml);
        project.write("agent.yaml", &changed);
        refused(&project, 2, "the agent changed since the shards ran");
    }
    project.write("agent.yaml", &yaml);
    merge(&project).exits(1);
    // A regrade of a shard has another verdict on the same answers.
    let _ = fs::remove_dir_all(project.path("shards"));
    fs::remove_dir_all(project.path(".holodeck/runs")).unwrap();
    project.run(&["test", "--shard", "1/2"]).exits(1);
    project
        .run(&["test", "regrade"])
        .exits(1)
        .says("3 of 4 passed")
        .says("shard 1 of 2");
    let regrade = project.journals().pop().unwrap();
    project
        .run(&["test", "merge", regrade.to_str().unwrap()])
        .exits(2)
        .says("it is a regrade");
}

#[test]
fn errors_and_unchecked_cases_of_a_shard_count() {
    let server = ModelServer::answering(|request| {
        let question = request.texts("user").pop().unwrap_or_default().to_owned();
        if question.ends_with('4') {
            Reply::error(400, &serde_json::json!({"error": {"message": "bad"}}))
        } else {
            Reply::text(question.replace("question", "answer"))
        }
    });
    let project = project(&server);
    for number in ["1", "2"] {
        let ran = project.run(&["test", "--shard", &format!("{number}/2")]);
        assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.all());
    }
    project
        .run(&["test", "merge", ".holodeck/runs"])
        .exits(3)
        .says("6 of 7 passed")
        .says("1 error");
    let cases = "  - input: question 1\n  - input: question 2\n";
    let yaml = agent(&server.url(), cases);
    let metrics = "evaluations:\n  metrics:\n    - type: standard\n      metric: contains\n";
    assert!(yaml.contains(metrics));
    let unchecked = Project::with(&yaml.replace(metrics, ""));
    for number in ["1", "2"] {
        unchecked
            .run(&["test", "--shard", &format!("{number}/2")])
            .exits(5);
    }
    unchecked.run(&["test", "merge", ".holodeck/runs"]).exits(5);
    unchecked
        .run(&["test", "merge", ".holodeck/runs/", "--allow-empty"])
        .exits(2);
}
