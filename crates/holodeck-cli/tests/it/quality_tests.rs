//! `quality_loop:` around test cases.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    project::{Project, assert_output},
    quality_loop::{BY_METRICS, METRICS, agent, improving, question},
};

/// Gates that are not those of the loop.
const CASES: &str = "test_cases:\n  - name: capital\n    input: The capital of France?\n    evaluations:\n      \
                     - {type: standard, metric: starts_with, value: Paris}\n";

fn yaml(endpoint: &str, quality: &str) -> String {
    format!("{}{CASES}", agent(endpoint, quality))
}

fn prices(project: &Project) {
    project.write(
        "prices.json",
        r#"{"as_of": "2026-11-21", "models": {"test-model": {"input": 1000000, "output": 1000000}}}"#,
    );
}

#[test]
fn a_case_is_judged_by_its_improved_answer_and_all_iterations_count() {
    let server = ModelServer::answering(improving);
    let project = Project::with(&yaml(&server.url(), BY_METRICS));
    prices(&project);
    let ran = project.run(&["test"]).exits(0);
    let requests = server.finish();
    assert_eq!(requests.len(), 3);
    let report = &project.run_file()["report"];
    let case = &report["results"][0];
    assert_eq!(case["agent_response"], "Paris, France");
    assert_eq!(case["test_input"], "The capital of France?");
    assert_eq!(case["passed"], true);
    let quality = &case["loop"];
    assert_eq!(quality["first_score"], 0.0);
    assert_eq!(quality["final_score"], 100.0);
    assert_eq!(quality["iterations"], 3);
    assert_eq!(quality["termination_reason"], "threshold_met");
    assert_eq!(quality["scores"], json!([0.0, 50.0, 100.0]));
    // What three calls used, and what two of them bought.
    assert_eq!(case["num_turns"], 3);
    let of_case = case["token_usage"]["total_tokens"].as_u64().unwrap();
    let cost = case["cost_usd"].as_f64().unwrap();
    let beyond = quality["cost_usd"].as_f64().unwrap();
    assert!(of_case > 0 && beyond > 0.0 && beyond < cost, "{case}");
    assert_eq!(report["summary"]["token_usage"]["total_tokens"], of_case);
    let totals = &report["summary"]["loops"];
    assert_eq!((&totals["cases"], &totals["points"]), (&json!(1), &json!(100.0)));
    assert_output!(ran);
}

#[test]
fn expectations_are_checked_on_the_returned_answer() {
    let server = ModelServer::answering(improving);
    let quality = format!("{BY_METRICS}  threshold: 100\n  max_iterations: 2\n");
    let project =
        Project::with(&yaml(&server.url(), &quality).replace("value: Paris}\n      ", "value: Paris}\n"));
    // Below the threshold of the loop, and right for the case.
    project.run(&["test"]).exits(0);
    let case = &project.run_file()["report"]["results"][0];
    assert_eq!(
        (&case["agent_response"], &case["loop"]["passed"]),
        (&json!("Paris"), &json!(false))
    );
    server.finish();
}

#[test]
fn a_scorer_failure_is_an_error_of_the_case_and_4() {
    let server = ModelServer::answering(|request| {
        if request.body["response_format"]["json_schema"]["name"] == "quality" {
            Reply::text("no")
        } else {
            Reply::text("Paris")
        }
    });
    let project = Project::with(&yaml(&server.url(), "  scorer: {judge: {criteria: right}}\n"));
    project
        .run(&["test"])
        .exits(4)
        .says("quality loop: the scorer failed");
    let case = &project.run_file()["report"]["results"][0];
    // Its metric passed; how the answer was chosen is not known to be right.
    assert_eq!(
        (&case["state"], &case["metric_results"][0]["passed"]),
        (&json!("error"), &json!(true))
    );
    assert_eq!(case["loop"]["termination_reason"], "scorer_error");
    server.finish();
}

#[test]
fn a_first_answer_that_failed_is_not_improved() {
    let server = ModelServer::answering(|_| Reply::refusal("no"));
    let project = Project::with(&yaml(&server.url(), BY_METRICS));
    project.run(&["test"]).exits(1);
    assert_eq!(project.run_file()["report"]["results"][0]["loop"], Value::Null);
    assert_eq!(server.finish().len(), 1);
}

#[test]
fn a_recording_replays_every_iteration_and_the_judge() {
    let judged = |request: &ReceivedRequest| {
        if request.body["response_format"]["json_schema"]["name"] != "quality" {
            return improving(request);
        }
        let score = if question(request).contains("Paris, France") {
            90
        } else {
            30
        };
        let score = if question(request).contains("\nParis\n") {
            60
        } else {
            score
        };
        let verdict = json!({"reason": "r", "improvements": ["more"], "score": score, "unachievable": false});
        Reply::text(verdict.to_string())
    };
    let server = ModelServer::answering(judged);
    let project = Project::with(&yaml(&server.url(), "  scorer: {judge: {criteria: right}}\n"));
    project.run(&["test", "--record", "calls.jsonl"]).exits(0);
    let live = project.run_file()["report"]["results"][0].clone();
    assert_eq!(live["loop"]["scores"], json!([30.0, 60.0, 90.0]));
    assert_eq!(server.finish().len(), 6);
    // Without an endpoint.
    project.run(&["test", "--replay", "calls.jsonl"]).exits(0);
    let replayed = &project.run_file()["report"]["results"][0];
    assert_eq!(replayed["loop"]["scores"], live["loop"]["scores"]);
    assert_eq!(replayed["agent_response"], live["agent_response"]);
}

#[test]
fn trials_have_a_loop_each_and_a_regrade_needs_no_model() {
    let server = ModelServer::answering(improving);
    let project = Project::with(&yaml(&server.url(), BY_METRICS));
    project.run(&["test", "--trials", "2"]).exits(0);
    let case = &project.run_file()["report"]["results"][0];
    assert_eq!(
        (&case["num_turns"], &case["trials_passed"]),
        (&json!(6), &json!(2))
    );
    assert_eq!(server.finish().len(), 6);
    project.write(
        "agent.yaml",
        yaml("http://127.0.0.1:9", BY_METRICS).replace("value: Paris}\n", "value: Rome}\n"),
    );
    project.run(&["test", "regrade", "latest"]).exits(1);
    let case = &project.run_file()["report"]["results"][0];
    assert_eq!(
        (&case["passed"], &case["loop"]["final_score"]),
        (&json!(false), &json!(100.0))
    );
}

#[test]
fn a_token_budget_counts_every_iteration() {
    let server = ModelServer::answering(improving);
    let second = "  - {name: second, input: And of Italy?}\n";
    let project = Project::with(&format!("{}{second}", yaml(&server.url(), BY_METRICS)));
    project.run(&["test", "-n", "1"]).exits(0);
    let used = project.run_file()["report"]["summary"]["token_usage"]["total_tokens"]
        .as_u64()
        .unwrap();
    // More than the returned answer used, as much as all three.
    project
        .run(&["test", "--max-tokens-total", &used.to_string()])
        .exits(6)
        .says("1 of 2");
    server.finish();
}

#[test]
fn a_loop_that_is_killed_is_repeated_and_never_half_counted() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let gate = holodeck_testkit::Gate::new();
    let blocked = Reply::text("never").behind(&gate);
    let server = ModelServer::answering(move |request| {
        match counted.fetch_add(1, Ordering::Relaxed) {
            // Killed in the second iteration.
            1 => blocked.clone(),
            _ => improving(request),
        }
    });
    let project = Project::with(&yaml(&server.url(), BY_METRICS));
    let mut child = project.command(&["test"]).spawn().unwrap();
    while asked.load(Ordering::Relaxed) < 2 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(project.journal_grades().len(), 0);
    project.run(&["test", "resume", "latest"]).exits(0);
    let case = &project.run_file()["report"]["results"][0];
    assert_eq!(case["loop"]["scores"], json!([0.0, 50.0, 100.0]));
    assert_eq!(case["num_turns"], 3);
    gate.open();
    server.finish_unchecked();
}

#[test]
fn commands_need_the_flag_that_allows_side_effects() {
    let server = ModelServer::answering(improving);
    let quality = "  scorer: {metrics: [contains, icontains], signals: {build: /bin/true}}\n";
    let project = Project::with(&yaml(&server.url(), quality));
    project
        .run(&["test"])
        .exits(2)
        .says("runs commands, which a test does only with `--allow-side-effects`");
    assert!(server.requests().is_empty());
    project.run(&["test", "--allow-side-effects"]).exits(0);
    server.finish();
}

#[test]
fn a_metric_that_drives_the_loop_and_gates_is_a_warning() {
    let own = "      - {type: standard, metric: starts_with, value: Paris}\n";
    let yaml = yaml("http://127.0.0.1:9", BY_METRICS).replace(&format!("    evaluations:\n{own}"), "");
    let project = Project::with(&yaml);
    let ran = project
        .run(&["validate"])
        .exits(0)
        .says("metric `contains` both drives the quality loop and gates the test cases");
    assert!(ran.all().contains("agent.yaml:"), "{}", ran.all());
    // With a threshold for its score only, a text metric would gate as well; without any gate there is no warning.
    assert!(METRICS.contains("contains"));
}

#[test]
fn a_changed_loop_is_another_agent() {
    let server = ModelServer::answering(|request| {
        if question(request).contains("Iteration") {
            Reply::text("Paris")
        } else {
            Reply::text("somewhere")
        }
    });
    let second = "  - {name: second, input: And of Italy?}\n";
    let text = format!("{}{second}", yaml(&server.url(), BY_METRICS));
    let project = Project::with(&text);
    project.run(&["test", "--fail-fast"]);
    project.write("agent.yaml", text.replace("[contains, icontains]", "[contains]"));
    let ran = project.run(&["test", "resume", "latest"]);
    assert_eq!(ran.code, Some(2), "{}", ran.all());
    assert!(ran.all().contains("quality_loop"), "{}", ran.all());
    server.finish();
}
