//! `holodeck test calibrate --record` and `--replay`, as a user runs them.

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project};

fn server() -> ModelServer {
    ModelServer::answering(|request: &ReceivedRequest| {
        let prompt = request.texts("user").concat();
        let score = if prompt.contains("a good answer") { 5 } else { 1 };
        Reply::text(json!({"reason": "because of it", "score": score}).to_string())
    })
}

fn project(server: &str) -> Project {
    let project = Project::with(&format!(
        "name: support\nmodel: {{provider: openai, name: answering-model, endpoint: \"{server}\"}}\n\
         instructions: {{inline: Be kind.}}\n\
         evaluations:\n  model: {{provider: openai, name: judge-1, endpoint: \"{server}\"}}\n  metrics:\n\
         \x20   - {{type: standard, metric: relevance, threshold: 0.6, require_calibrated: true}}\n\
         test_cases:\n  - {{name: refunds, input: How long do refunds take?}}\n"
    ));
    project.write(
        "labels.csv",
        format!("case,response,passed\n{}", rows(0..12).concat()),
    );
    project
}

fn rows(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    let row = |number: usize| {
        let (kind, label) = if number.is_multiple_of(2) {
            ("good", "yes")
        } else {
            ("bad", "no")
        };
        format!("refunds,a {kind} answer {number},{label}\n")
    };
    numbers.map(row).collect()
}

fn calibrate(project: &Project, more: &[&str]) -> CommandOutput {
    let args = ["test", "calibrate", "--labels", "labels.csv"];
    project.run(&[&args[..], more].concat())
}

const REPLAY: [&str; 3] = ["--replay", "calibration.cassette", "--json"];

/// The parts of a result that a repetition has too.
fn measured(mut result: Value) -> Value {
    let fields = result.as_object_mut().unwrap();
    for name in ["stored", "replayed", "judge_usage"] {
        fields.remove(name);
    }
    result
}

#[test]
fn a_replayed_calibration_is_the_recorded_one_and_asks_nothing() {
    let server = server();
    let project = project(&server.url());
    let recorded = calibrate(&project, &["--record", "calibration.cassette", "--json"])
        .exits(0)
        .json();
    assert_eq!(recorded["replayed"], Value::Null);
    assert!(recorded["stored"].is_string());
    assert_eq!(server.finish().len(), 12);
    std::fs::remove_dir_all(project.path("calibration")).unwrap();
    let mut command =
        project.command(&[&["test", "calibrate", "--labels", "labels.csv"][..], &REPLAY].concat());
    // No key is needed.
    let output = command.env_remove("OPENAI_API_KEY").output().unwrap();
    let replayed = CommandOutput::of(&output).exits(0).json();
    assert!(replayed["replayed"]["recorded"].is_string());
    assert_eq!(measured(replayed.clone()), measured(recorded));
    // A recording does not show which judge would answer now.
    assert_eq!(replayed["stored"], Value::Null);
    assert!(!project.path("calibration").exists());
    project.run(&["test"]).exits(2).says("was never calibrated");
    calibrate(&project, &REPLAY[..2])
        .exits(0)
        .says("replayed, recorded ");
}

#[test]
fn answers_are_found_by_item_and_metric_wherever_their_row_is() {
    let server = server();
    let project = project(&server.url());
    calibrate(&project, &["--record", "calibration.cassette"]).exits(0);
    server.finish();
    project.write(
        "labels.csv",
        format!("case,response,passed\n{}", rows((0..12).rev()).concat()),
    );
    let result = calibrate(&project, &REPLAY).exits(0).json();
    assert_eq!((&result["kappa"], &result["judged"]), (&json!(1.0), &json!(12)));
    // An answer that was not recorded has no verdict, and neither has a judge that was not.
    project.write(
        "labels.csv",
        format!("case,response,passed\n{}", rows(0..13).concat()),
    );
    let result = calibrate(&project, &REPLAY).exits(4).json();
    assert_eq!((&result["judged"], &result["errors"]), (&json!(12), &json!(1)));
    assert!(
        result["rows"][12]["error"]
            .as_str()
            .unwrap()
            .contains("holds no answer to this request"),
        "{}",
        result["rows"][12]
    );
    for (from, to) in [
        ("judge-1", "judge-2"),
        ("threshold: 0.6", "threshold: 0.6, scale: 3"),
    ] {
        let agent = project.read("agent.yaml");
        project.write("agent.yaml", agent.replace(from, to));
        let result = calibrate(&project, &REPLAY).exits(4).json();
        assert_eq!(result["judged"], 0, "{to}");
        project.write("agent.yaml", agent);
    }
}

#[test]
fn a_recording_must_not_overwrite_what_is_read() {
    let server = server();
    let project = project(&server.url());
    for path in ["labels.csv", "agent.yaml"] {
        let before = project.read(path);
        calibrate(&project, &["--record", path]).exits(2);
        calibrate(&project, &["--record", path, "--force"]).exits(2);
        assert_eq!(project.read(path), before);
    }
    calibrate(&project, &["--record", "a", "--output", "a"]).exits(2);
    calibrate(&project, &["--record", "a", "--replay", "b"]).exits(2);
    calibrate(&project, &["--replay", "none.cassette"])
        .exits(2)
        .says("none.cassette");
    assert_eq!(server.finish().len(), 0);
}
