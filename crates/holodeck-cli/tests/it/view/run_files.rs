//! The pages of run files and baselines that have no journal.

use std::fs;

use holodeck_testkit::ModelServer;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{View, pages, status};
use crate::project::{Project, TWO_CASES, agent};

/// A project with one file, which has these cases as HoloDeck 0.7 writes them.
fn with_file(cases: &[Value]) -> Project {
    let server = ModelServer::answering(|_| holodeck_testkit::Reply::text("never asked"));
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    let run = json!({"report": {
        "agent_name": "parcel-desk", "agent_config_path": "agent.yaml", "results": cases,
        "timestamp": "2025-11-30T10:00:00Z", "holodeck_version": "0.7.1", "environment": {},
    }});
    fs::create_dir_all(project.path("results/other-folder")).unwrap();
    project.write("results/other-folder/old.json", run.to_string());
    project
}

fn case(name: &str, passed: bool, answer: &str) -> Value {
    json!({
        "test_name": name, "test_input": format!("question of {name}"), "processed_files": [],
        "agent_response": answer, "tool_calls": [], "tool_invocations": [], "expected_tools": null,
        "tools_matched": null, "passed": passed, "execution_time_ms": 8, "errors": [],
        "metric_results": [{"metric_name": "rouge", "kind": "standard", "score": 0.25, "threshold": 0.3,
            "passed": passed, "scale": "0-1", "error": null, "retry_count": 0, "evaluation_time_ms": 1.0,
            "model_used": null, "reasoning": null}],
        "ground_truth": "x", "timestamp": "2025-11-30T10:00:00Z", "token_usage": null, "turns": null,
    })
}

/// The page of the only run.
fn only_page(project: &Project, more: &str) -> String {
    let view = View::start(project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let [address] = pages(&list)[..] else {
        panic!("{list}");
    };
    let page = view.ask("GET", &format!("{address}{more}"), &head);
    assert_eq!(status(&page), "200", "{page}");
    page
}

#[test]
fn a_file_of_an_earlier_holodeck_has_a_page_with_failures_first() {
    let cases = [
        case("the good one", true, "an answer that passed"),
        case("the bad one", false, "an answer that failed"),
    ];
    let page = only_page(&with_file(&cases), "");
    for text in [
        "Run file of HoloDeck 0.7",
        "parcel-desk",
        "1 of 2 passed",
        "question of the bad one",
        "an answer that failed",
        "rouge 0.25",
        "other-folder/old.json",
    ] {
        assert!(page.contains(text), "{text} is not in {page}");
    }
    let states: Vec<&str> = page
        .split("data-state=\"")
        .skip(1)
        .filter_map(|part| part.split('"').next())
        .collect();
    assert_eq!(states, ["failed", "passed"]);
    assert!(page.find("the bad one") < page.find("the good one"), "{page}");
    // No case has a page, and none can be labelled or saved.
    assert!(
        !page.contains("/case/") && !page.contains("method=\"post\""),
        "{page}"
    );
}

#[test]
fn texts_of_a_file_are_shown_as_texts() {
    let script = "<script>alert(1)</script>\u{1b}[31m\u{202e}";
    let mut hostile = case(script, false, script);
    hostile["errors"] = json!([script]);
    hostile["metric_results"][0]["metric_name"] = json!(script);
    let page = only_page(&with_file(&[hostile]), "");
    assert!(page.contains("&lt;script&gt;"), "{page}");
    for raw in ["<script>alert", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(raw), "{raw:?} in {page}");
    }
}

#[test]
fn a_file_of_many_cases_has_pages_and_each_case_is_on_one_of_them() {
    let cases: Vec<Value> = (0..230)
        .map(|number| case(&format!("case-{number:03}."), number % 50 != 7, "a"))
        .collect();
    let project = with_file(&cases);
    let mut shown: Vec<String> = Vec::new();
    for (number, count) in [(1, 100), (2, 100), (3, 30)] {
        let page = only_page(&project, &format!("?page={number}"));
        assert!(page.contains(&format!("Page {number} of 3")), "{page}");
        let labels: Vec<String> = page
            .split("<b>case-")
            .skip(1)
            .map(|part| part.split('.').next().unwrap().to_owned())
            .collect();
        assert_eq!(labels.len(), count);
        shown.extend(labels);
    }
    assert_eq!(shown[..5], ["007", "057", "107", "157", "207"]);
    shown.sort();
    let all: Vec<String> = (0..230).map(|number| format!("{number:03}")).collect();
    assert_eq!(shown, all);
}

#[test]
fn a_case_that_the_file_does_not_say_is_nothing_to_pass() {
    let page = only_page(&with_file(&[]), "");
    assert!(!page.contains("badge passed"), "{page}");
}

#[test]
fn a_file_is_exported_as_a_page_without_forms() {
    let project = with_file(&[case("the bad one", false, "an answer that failed")]);
    let exported = project
        .run(&["view", "--export", "out", "--json"])
        .exits(0)
        .json();
    assert_eq!(exported["runs"], 1);
    let list = project.read("out/index.html");
    let page = project.read(&format!("out/{}", pages(&list)[0]));
    assert!(page.contains("an answer that failed"), "{page}");
    assert!(!page.contains("<form"), "{page}");
}

#[test]
fn a_file_that_is_cut_has_a_row_with_its_error_and_no_page() {
    let project = with_file(&[case("the bad one", false, "an answer that failed")]);
    let path = project.path("results/other-folder/old.json");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    let view = View::start(&project);
    let list = view.list();
    assert!(
        pages(&list).is_empty() && list.contains("cannot be read"),
        "{list}"
    );
}
