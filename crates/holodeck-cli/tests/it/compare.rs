//! `holodeck test compare` and baselines, as a user runs them.

use std::fs;

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::project::{FILTERS, Project, TWO_CASES, agent, correct_server, half_correct_server};

/// Checks a snapshot of a text without what differs between runs.
macro_rules! assert_stable {
    ($text:expr) => {
        let more = [(r"\d{4}-\d\d-\d\d", "[date]"), (r"sha256:[0-9a-f]{32}", "[digest]")];
        let filters = FILTERS.iter().copied().chain(more);
        insta::with_settings!({filters => filters.collect::<Vec<_>>()}, {
            insta::assert_snapshot!($text);
        });
    };
}

/// A project with a run that passed, saved as a baseline, and a later one that half failed.
fn regressed() -> Project {
    let good = correct_server();
    let project = Project::with(&agent(&good.url(), TWO_CASES));
    project
        .run(&["test", "--save-baseline"])
        .exits(0)
        .says("baselines/baseline.json");
    good.finish();
    let bad = half_correct_server();
    project.write("agent.yaml", agent(&bad.url(), TWO_CASES));
    project.run(&["test"]).exits(1);
    bad.finish();
    project
}

#[test]
fn a_regression_is_shown_with_both_answers() {
    let project = regressed();
    let shown = project.run(&["test", "compare", "baseline", "latest"]).exits(0);
    assert_stable!(shown.all());
    // One new failure is not significant, but it can be limited.
    project
        .run(&["test", "compare", "baseline", "latest", "--gate"])
        .exits(0);
    project
        .run(&["test", "compare", "baseline", "latest", "--max-new-failures", "0"])
        .exits(1)
        .says("1 case passed before and does not pass now");
    project
        .run(&["test", "compare", "baseline", "latest", "--max-new-failures", "1"])
        .exits(0);
    // Journals, named by file and by the beginning of the id.
    let journals = project.journals();
    let ids: Vec<String> = journals
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let path = journals[0].to_str().unwrap();
    let both = project.run(&["test", "compare", path, &ids[1]]).exits(0);
    let both = both.says("newly failing (1)").says("It is 12.").says("It is 13.");
    // The other direction is an improvement.
    project
        .run(&["test", "compare", "latest", &ids[0], "--max-new-failures", "0"])
        .exits(0)
        .says("newly passing (1)");
    assert!(!both.stdout.contains("newly passing"), "{}", both.stdout);
}

#[test]
fn the_run_file_and_the_journal_of_a_run_are_the_same_run() {
    let project = regressed();
    let results = fs::read_dir(project.path("results/support")).unwrap();
    let mut files: Vec<_> = results.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let journals = project.journals();
    for (file, journal) in files.iter().zip(&journals) {
        let compared = project
            .run(&[
                "test",
                "compare",
                file.to_str().unwrap(),
                journal.to_str().unwrap(),
                "--json",
            ])
            .exits(0)
            .json();
        assert_eq!(compared["counts"]["pairs"], 2);
        assert_eq!(compared["counts"]["same_answer"], 2);
        assert_eq!(compared["counts"]["other_question"], 0);
        assert_eq!(compared["changes"], json!([]));
        assert_eq!(compared["notes"][0], "both are the same run");
    }
}

#[test]
fn a_baseline_is_small_sorted_and_stable() {
    let project = regressed();
    let baseline = project.read("baselines/baseline.json");
    assert_stable!(&baseline);
    // The same cases in another order give the same lines.
    let cases: Vec<&str> = TWO_CASES.split_inclusive("ground_truth: Paris\n").collect();
    let server = correct_server();
    project.write(
        "agent.yaml",
        agent(&server.url(), &format!("{}{}", cases[1], cases[0])),
    );
    project
        .run(&["test", "--save-baseline", "other", "agent.yaml"])
        .exits(0);
    server.finish();
    let lines = |text: &str| -> Vec<String> {
        let cases = text.lines().filter(|line| line.starts_with("{\"name\""));
        cases.map(str::to_owned).collect()
    };
    assert_eq!(lines(&project.read("baselines/other.json")), lines(&baseline));
    assert_eq!(lines(&baseline).len(), 2);
    project
        .run(&["test", "compare", "baseline:other", "baseline", "--gate"])
        .exits(0)
        .says("no verdict changed");
}

#[test]
fn a_baseline_of_selected_cases_says_so() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let warning = "the baseline has 1 of 2 cases";
    let name = TWO_CASES.split("name: ").nth(1).unwrap();
    let name = name.lines().next().unwrap();
    let part = ["test", "--save-baseline", "part", "--filter", name, "agent.yaml"];
    project
        .run(&part)
        .exits(2)
        .says("partial: 1 of 2 cases")
        .says("--force");
    project
        .run(&[&part[..], &["--force"]].concat())
        .exits(0)
        .says(warning);
    assert!(
        project
            .read("baselines/part.json")
            .contains("\"partial\": {\"cases\":1,\"of\":2}")
    );
    let whole = project.run(&["test", "--save-baseline"]).exits(0);
    assert!(!whole.all().contains("warning: the baseline"), "{}", whole.all());
    server.finish();
}

#[test]
fn a_baseline_is_only_saved_for_a_run_that_finished() {
    let down = ModelServer::answering(|_| Reply::error(401, &json!({})));
    let project = Project::with(&agent(&down.url(), TWO_CASES));
    project
        .run(&["test", "--save-baseline"])
        .exits(3)
        .says("was not saved, because the run did not finish");
    down.finish();
    assert!(!project.path("baselines/baseline.json").exists());
}

#[test]
fn a_bad_baseline_is_refused_before_the_run() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project
        .run(&["test", "--save-baseline=../outside"])
        .exits(2)
        .says("is not the name of a baseline");
    project.write("baselines/notes.json", "{\"mine\": true}");
    project
        .run(&["test", "--save-baseline=notes"])
        .exits(2)
        .says("is not a holodeck baseline");
    assert!(server.finish().is_empty());
}

#[test]
fn the_agent_file_after_the_flag_is_the_agent() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    fs::rename(project.path("agent.yaml"), project.path("other.yaml")).unwrap();
    project.run(&["test", "--save-baseline", "other.yaml"]).exits(0);
    server.finish();
    assert!(project.path("baselines/baseline.json").exists());
}

#[test]
fn unreadable_runs_are_usage_errors() {
    let project = Project::empty();
    project
        .run(&["test", "compare", "latest", "baseline"])
        .exits(2)
        .says("there is no agent file");
    project.write(
        "agent.yaml",
        "name: x\nmodel: {provider: openai, name: m}\ninstructions: {inline: x}\n",
    );
    project.write("broken.json", "{\"results\": [1]}");
    for (run, reason) in [
        ("latest", "there is no run"),
        ("baseline", "there is no baseline"),
        ("baseline:main", "baselines/main.json"),
        ("missing.json", "missing.json"),
        ("broken.json", "is not a run"),
        ("agent.yaml", "is not a run"),
    ] {
        project.run(&["test", "compare", run, run]).exits(2).says(reason);
    }
    for alpha in ["2", "1", "0.51", "0", "1e-320", "9e-7", "nan", "inf", "-0.05"] {
        let alpha = format!("--alpha={alpha}");
        project
            .run(&["test", "compare", "a", "b", &alpha])
            .exits(2)
            .says("must be between 0.000001 and 0.5");
    }
}

#[test]
fn two_run_files_need_no_agent() {
    let project = Project::empty();
    project.write("a.json", run_file("A", 8, 0));
    project.write("b.json", run_file("B", 8, 6));
    let compared = project
        .run(&["test", "compare", "a.json", "b.json", "--gate", "-q"])
        .exits(1);
    assert_stable!(compared.all());
    project.write("empty.json", run_file("C", 0, 0));
    project.run(&["test", "compare", "empty.json", "b.json"]).exits(4);
    project
        .run(&["test", "compare", "a.json", "empty.json", "--gate"])
        .exits(4)
        .says("no case can be compared");
}

#[test]
fn every_format_of_a_comparison() {
    let project = Project::empty();
    project.write("a.json", run_file("A", 8, 0));
    project.write("b.json", run_file("B", 8, 6));
    let compare = |extra: &[&str]| {
        let args = [&["test", "compare", "a.json", "b.json"], extra].concat();
        project.run(&args)
    };
    compare(&["-o", "out/c.md"]).exits(0);
    assert_stable!(project.read("out/c.md"));
    compare(&["-o", "out/c.html"]).exits(0);
    assert!(project.read("out/c.html").starts_with("<!DOCTYPE html>"));
    compare(&["-o", "c.txt"]).exits(2).says("the format is not known");
    compare(&["-o", "c", "--format", "json"]).exits(0);
    let file: serde_json::Value = serde_json::from_str(&project.read("c")).unwrap();
    assert_eq!(file, compare(&["--json"]).exits(0).json());
    assert_stable!(format!("{file:#}"));
    // Its own files may be replaced, other files not.
    compare(&["-o", "out/c.md"]).exits(0);
    compare(&["-o", "a.json"])
        .exits(2)
        .says("is not a holodeck comparison");
    project.write("README.md", "# mine\n");
    compare(&["-o", "README.md"]).exits(2);
    for to_stdout in [
        &["-o", "-", "--format", "markdown"][..],
        &["--format", "markdown"],
    ] {
        let piped = compare(to_stdout).exits(0);
        assert_eq!(piped.stdout, project.read("out/c.md"));
        compare(&[to_stdout, &["--json"]].concat()).exits(2);
    }
}

/// A run file with this many cases, of which the first `failed` fail.
fn run_file(id: &str, count: usize, failed: usize) -> String {
    let results: Vec<_> = (0..count)
        .map(|place| {
            let state = if place < failed { "failed" } else { "passed" };
            let reason = if place < failed { json!("the refund takes 14 days") } else { json!(null) };
            json!({
                "test_name": format!("refund {place}"), "test_input": format!("How long does refund {place} take?"),
                "agent_response": if place < failed { "30 days" } else { "14 days" },
                "metric_results": [{
                    "metric_name": "contains", "kind": "standard", "score": if place < failed { 0.0 } else { 1.0 },
                    "threshold": null, "passed": place >= failed, "scale": "0-1", "error": null, "retry_count": 0,
                    "evaluation_time_ms": 0.1, "model_used": null, "reasoning": reason,
                }],
                "passed": place >= failed, "state": state, "errors": [],
                "deciders": {"expectations": {"contains": "00112233445566778899aabbccddeeff"}},
            })
        })
        .collect();
    json!({
        "agent_name": "support", "schema_version": 1, "run_id": id, "timestamp": "2026-11-21T20:11:18Z",
        "ended": "completed", "results": results, "not_run": [],
    })
    .to_string()
}
