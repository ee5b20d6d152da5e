//! `require_calibrated`, as a user runs it.

use std::{
    process::{Child, Stdio},
    sync::{Mutex, mpsc},
};

use holodeck_testkit::{Gate, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project},
};

/// The agent and its judges. A judge passes good answers, and one answer of people's good ones not.
fn server() -> ModelServer {
    ModelServer::answering(|request: &ReceivedRequest| {
        let model = request.body["model"].as_str().unwrap_or_default();
        if !model.contains("judge") {
            return Reply::text("a good answer");
        }
        let prompt = request.texts("user").concat();
        let good = prompt.contains("a good answer") && !prompt.contains("a good answer 10");
        let score = if good { 5 } else { 1 };
        Reply::text(json!({"reason": "because of it", "score": score}).to_string())
    })
}

fn metric(options: &str) -> String {
    format!("{{type: standard, metric: relevance, threshold: 0.6{options}}}")
}

const REQUIRED: &str = ", require_calibrated: true";

/// An agent with these metrics for all cases, and these fields of its case.
fn agent(server: &str, metrics: &str, case: &str) -> String {
    format!(
        "name: support\nmodel: {{provider: openai, name: answering-model, endpoint: \"{server}\"}}\n\
         instructions: {{inline: Be kind.}}\n\
         evaluations:\n  model: {{provider: openai, name: judge-1, endpoint: \"{server}\"}}\n  metrics:\n\
         \x20   - {metrics}\n\
         test_cases:\n  - {{name: refunds, input: How long do refunds take?, ground_truth: 30 days{case}}}\n"
    )
}

fn labels(count: usize) -> String {
    let rows = (0..count).map(|number| {
        let (kind, label) = if number % 2 == 0 {
            ("good", "yes")
        } else {
            ("bad", "no")
        };
        format!("refunds,a {kind} answer {number},{label}\n")
    });
    format!("case,response,passed\n{}", rows.collect::<String>())
}

fn project(agent: &str) -> Project {
    let project = Project::with(agent);
    project.write("labels.csv", labels(12));
    project
}

const CALIBRATE: [&str; 4] = ["test", "calibrate", "--labels", "labels.csv"];

fn calibrate(project: &Project, more: &[&str]) -> CommandOutput {
    project.run(&[&CALIBRATE[..], more].concat())
}

fn stored_files(project: &Project) -> Vec<String> {
    let entries = std::fs::read_dir(project.path("calibration"));
    let entries = entries.into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_judge_that_was_never_calibrated_is_refused_before_any_question() {
    let server = server();
    let project = project(&agent(&server.url(), &metric(REQUIRED), ""));
    for args in [&["test"][..], &["test", "--dry-run"]] {
        let refused = project.run(args).exits(2);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.stderr, @"
            error: agent.yaml:7:79: metric `relevance` requires a calibrated judge: its judge was never calibrated

            hint: `holodeck test calibrate --labels FILE --metric relevance` compares the judge with labels of people and stores the result
            ");
        }
    }
    assert_eq!(project.journals().len(), 0);
    assert_eq!(server.requests().len(), 0);
    project
        .run(&["doctor"])
        .exits(1)
        .says("calibration of `relevance`  its judge was never calibrated");
    let result = calibrate(&project, &["--json"]).exits(0).json();
    let files = stored_files(&project);
    assert_eq!(files.len(), 1);
    assert_eq!(result["stored"], json!(format!("calibration/{}", files[0])));
    project.run(&["test"]).exits(0).says("1 of 1 passed");
    project.run(&["test", "--dry-run"]).exits(0);
    project
        .run(&["doctor"])
        .says("calibration of `relevance`  reaches the minimum");
    let asked = server.finish();
    let asked = asked.iter().filter(|request| request.body["model"].is_string());
    assert_eq!(asked.count(), 12 + 2);
}

#[test]
fn what_is_not_saved_or_not_complete_does_not_count() {
    let server = server();
    let project = project(&agent(&server.url(), &metric(REQUIRED), ""));
    let result = calibrate(&project, &["--json", "--no-save"]).exits(0).json();
    assert_eq!(result["stored"], Value::Null);
    project.write("labels.csv", labels(8));
    let result = calibrate(&project, &["--json"]).exits(4).json();
    assert_eq!(result["stored"], Value::Null);
    assert_eq!(stored_files(&project), Vec::<String>::new());
    project.run(&["test"]).exits(2).says("was never calibrated");
    server.finish();
}

#[test]
fn a_change_of_the_judge_makes_its_calibration_stale() {
    let server = server();
    let url = server.url();
    let agent = agent(&url, &metric(REQUIRED), "");
    let project = project(&agent);
    calibrate(&project, &[])
        .exits(0)
        .says("stored the calibration in `calibration/relevance-");
    let asked = server.requests().len();
    for (from, to, what) in [
        ("threshold: 0.6", "threshold: 0.5", "`threshold` differs"),
        ("threshold: 0.6", "threshold: 0.6, scale: 3", "`scale` differs"),
        (
            "threshold: 0.6",
            "threshold: 0.6, judge_repeats: 3",
            "`judge_repeats` differs",
        ),
        (
            "threshold: 0.6",
            "threshold: 0.6, custom_prompt: \"{{response}}?\"",
            "`custom_prompt` differs",
        ),
        (
            "name: judge-1",
            "name: judge-2",
            "judge 1 differs, it was judged by `judge-1`, and now by `judge-2`",
        ),
        (
            "name: judge-1",
            "name: judge-1, temperature: 0.5",
            "judge 1 differs",
        ),
        (
            &format!("name: judge-1, endpoint: \"{url}\""),
            &format!("name: judge-1, endpoint: \"{url}/v2\""),
            "judge 1 differs",
        ),
    ] {
        assert!(agent.contains(from), "{from}");
        project.write("agent.yaml", agent.replace(from, to));
        project
            .run(&["test"])
            .exits(2)
            .says("it has changed since its calibration: ")
            .says(what);
    }
    assert_eq!(server.requests().len(), asked);
    // These change no verdict.
    let same =
        "threshold: 0.6, timeout_ms: 9000, retry_on_failure: 2, fail_on_error: true, when: gates_passed";
    project.write("agent.yaml", agent.replace("threshold: 0.6", same));
    project.run(&["test"]).exits(0);
    // The judge is the same wherever the file names it.
    let moved = format!("threshold: 0.6, model: {{provider: openai, name: judge-1, endpoint: \"{url}\"}}");
    project.write(
        "agent.yaml",
        agent
            .replace("name: judge-1", "name: judge-9")
            .replace("threshold: 0.6", &moved),
    );
    project.run(&["test"]).exits(0);
    server.finish();
}

#[test]
fn one_other_juror_makes_the_calibration_of_a_jury_stale() {
    let server = server();
    let jury = |names: [&str; 3]| {
        let models = names.map(|name| {
            format!(
                "{{provider: openai, name: {name}, endpoint: \"{}\"}}",
                server.url()
            )
        });
        agent(
            &server.url(),
            &metric(&format!(", judges: [{}]{REQUIRED}", models.join(", "))),
            "",
        )
    };
    let project = project(&jury(["judge-a", "judge-b", "judge-c"]));
    calibrate(&project, &[]).exits(0);
    project.run(&["test"]).exits(0);
    project.write("agent.yaml", jury(["judge-a", "judge-b", "judge-d"]));
    project.run(&["test"]).exits(2).says(
        "judge 3 differs, it was judged by `judge-a`, `judge-b`, `judge-c`, and now by `judge-a`, `judge-b`, `judge-d`",
    );
    server.finish();
}

#[test]
fn each_of_two_metrics_with_one_name_needs_its_own_calibration() {
    let server = server();
    let metric = |criteria: &str| {
        format!("{{type: geval, name: Kind/1, criteria: {criteria}, evaluation_steps: [Read it.]{REQUIRED}}}")
    };
    let project = project(&agent(&server.url(), &metric("Is it kind?"), ""));
    calibrate(&project, &[]).exits(0).says("`calibration/Kind_1-");
    project.run(&["test"]).exits(0);
    let other = format!(", evaluations: [{}]", metric("Is it polite?"));
    project.write("agent.yaml", agent(&server.url(), &metric("Is it kind?"), &other));
    let refused = project.run(&["test"]).exits(2);
    let error = refused.stderr.find("error: ").map(|at| &refused.stderr[at..]);
    insta::assert_snapshot!(error.unwrap(), @"
    error: agent.yaml:9:195: metric `Kind/1` requires a calibrated judge: it has changed since its calibration: `criteria` differs

    hint: `holodeck test calibrate --labels FILE --metric Kind/1` compares the judge with labels of people and stores the result
    ");
    calibrate(&project, &["--metric", "Kind/1"])
        .exits(2)
        .says("give them different names");
    server.finish();
}

#[test]
fn resuming_grading_again_merging_and_replaying_need_the_calibration_too() {
    let server = server();
    let free = agent(&server.url(), &metric(""), "");
    let required = agent(&server.url(), &metric(REQUIRED), "");
    let project = project(&free);
    project.run(&["test", "--record", "answers.json"]).exits(0);
    project
        .run(&["test", "--shard", "1/1", "--output", "shard.json"])
        .exits(0);
    let asked = server.requests().len();
    project.write("agent.yaml", &required);
    let commands = [
        &["test", "resume", "latest", "--accept-changes"][..],
        &["test", "regrade", "latest"],
        &["test", "merge", "latest"],
        &["test", "--replay", "answers.json"],
    ];
    for args in commands {
        let journals = project.journals().len();
        project
            .run(args)
            .exits(2)
            .says("agent.yaml:7:79: metric `relevance` requires a calibrated judge");
        assert_eq!(project.journals().len(), journals, "{args:?}");
    }
    assert_eq!(server.requests().len(), asked);
    calibrate(&project, &[]).exits(0);
    project.run(&["test", "regrade", "latest"]).exits(0);
    project.run(&["test", "--replay", "answers.json"]).exits(0);
    server.finish();
}

#[test]
fn metrics_of_the_agent_of_cases_and_of_turns_obey() {
    let server = server();
    let url = server.url();
    let own = format!(
        ", evaluations: [{{type: standard, metric: contains, value: answer}}, {}]",
        metric(REQUIRED)
    );
    let of_case = agent(&url, &metric(""), &own);
    let in_turn = format!("turns: [{{input: How long?{own}}}]");
    let of_turn = agent(&url, &metric(""), "").replace(
        "input: How long do refunds take?, ground_truth: 30 days",
        &in_turn,
    );
    let project = project(&of_case);
    for agent in [of_case, of_turn] {
        project.write("agent.yaml", &agent);
        project.run(&["test"]).exits(2).says("agent.yaml:9:");
        project.write(
            "agent.yaml",
            agent.replace(REQUIRED, ", require_calibrated: true, enabled: false"),
        );
        project.run(&["test"]).exits(0);
        project.write(
            "agent.yaml",
            agent.replace(REQUIRED, ", require_calibrated: false"),
        );
        project.run(&["test"]).exits(0);
    }
    server.finish();
}

#[test]
fn a_minimum_may_be_set() {
    let server = server();
    let with = |minimum: &str| {
        agent(
            &server.url(),
            &metric(&format!(", require_calibrated: {minimum}")),
            "",
        )
    };
    let project = project(&with("{min_kappa: 0.8}"));
    // κ is 0.833 with 12 labels.
    calibrate(&project, &[]).exits(0);
    project.run(&["test"]).exits(0);
    project.write("agent.yaml", with("{min_kappa: 0.9}"));
    project
        .run(&["test"])
        .exits(2)
        .says("κ of its calibration is 0.833, below `min_kappa` 0.9");
    project.write("agent.yaml", with("{min_labels: 20}"));
    project
        .run(&["test"])
        .exits(2)
        .says("its calibration has 12 labels, fewer than `min_labels` 20");
    for (wrong, what) in [
        ("{min_kapa: 0.9}", "unknown field `min_kapa`"),
        ("{min_kappa: 1.5}", "min_kappa"),
        ("{min_labels: 5}", "min_labels"),
        ("[true]", "require_calibrated"),
    ] {
        project.write("agent.yaml", with(wrong));
        project.run(&["validate"]).exits(2).says(what);
    }
    server.finish();
}

#[test]
fn a_requirement_that_cannot_be_met_is_an_error_of_the_file() {
    for (metric, what) in [
        (
            "{type: standard, metric: contains, value: a, require_calibrated: true}",
            "`require_calibrated` does not belong to metric `contains`",
        ),
        (
            "{type: code, grader: \"graders:check\", require_calibrated: true}",
            "unknown field `require_calibrated`",
        ),
        (
            "{type: standard, metric: relevance, require_calibrated: true}",
            "`require_calibrated` needs `threshold`",
        ),
    ] {
        let project = project(&agent("http://127.0.0.1:9", metric, ""));
        project.run(&["validate"]).exits(2).says(what).says("agent.yaml:");
        project.run(&["test"]).exits(2).says(what);
    }
}

#[test]
fn two_metrics_can_be_calibrated_at_the_same_time() {
    let server = server();
    let fluency = metric(REQUIRED).replace("relevance", "fluency");
    let project = project(&agent(
        &server.url(),
        &format!("{}\n    - {fluency}", metric(REQUIRED)),
        "",
    ));
    let start = |name: &str| -> Child {
        let mut command = project.command(&[&CALIBRATE[..], &["--metric", name]].concat());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let refused = project.run(&["test"]).exits(2);
    assert!(refused.stderr.contains("metric `relevance`") && refused.stderr.contains("metric `fluency`"));
    let running = [start("relevance"), start("fluency")];
    for child in running {
        CommandOutput::of(&child.wait_with_output().unwrap()).exits(0);
    }
    let files = stored_files(&project);
    assert_eq!(files.len(), 2);
    assert!(files[0].starts_with("fluency-") && files[1].starts_with("relevance-"));
    project.run(&["test"]).exits(0);
    server.finish();
}

#[test]
fn an_interrupted_calibration_says_how_far_it_came_and_stores_nothing() {
    let gate = Gate::new();
    let (sender, received) = mpsc::channel();
    let (closed, sender) = (gate.clone(), Mutex::new(sender));
    let server = ModelServer::answering(move |request: &ReceivedRequest| {
        let reply = Reply::text(json!({"reason": "so", "score": 5}).to_string());
        if request.texts("user").concat().contains("answer 3") {
            sender.lock().unwrap().send(()).unwrap();
            return reply.behind(&closed);
        }
        reply
    });
    let one_at_a_time = "test_cases:".to_owned();
    let agent = agent(&server.url(), &metric(REQUIRED), "").replace(
        &one_at_a_time,
        "execution: {parallel_judge_calls: 1}\ntest_cases:",
    );
    let project = project(&agent);
    let mut command = project.command(&CALIBRATE);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    received.recv().unwrap();
    signal(&child, "-INT");
    CommandOutput::of(&child.wait_with_output().unwrap())
        .exits(130)
        .says("interrupted after 3 of 12 answers were judged; nothing was stored");
    assert_eq!(stored_files(&project), Vec::<String>::new());
    gate.open();
    server.finish_unchecked();
    project.run(&["test"]).exits(2).says("was never calibrated");
}

#[test]
fn labels_of_a_workbook_are_the_same_labels() {
    let server = server();
    let project = project(&agent(&server.url(), &metric(REQUIRED), ""));
    project.write(
        "labels.xlsx",
        include_bytes!("../../../../fixtures/yaml/files/labels.xlsx"),
    );
    let of_workbook = project
        .run(&["test", "calibrate", "--labels", "labels.xlsx", "--json"])
        .exits(0)
        .json();
    let of_table = calibrate(&project, &["--json"]).exits(0).json();
    assert_eq!(of_workbook["judged"], 12);
    for field in ["kappa", "confusion", "stored"] {
        assert_eq!(of_workbook[field], of_table[field], "{field}");
    }
    server.finish();
}

#[test]
fn an_endpoint_from_a_variable_belongs_to_the_judge_except_in_a_replay() {
    let (first, second) = (server(), server());
    let agent = agent("", &metric(REQUIRED), "").replace(", endpoint: \"\"", "");
    let project = project(&agent);
    let run = |args: &[&str], base: Option<&str>| {
        let mut command = project.command(args);
        command.env("OPENAI_API_KEY", "k-1");
        if let Some(base) = base {
            command.env("OPENAI_BASE_URL", base);
        }
        CommandOutput::of(&command.output().unwrap())
    };
    let url = first.url();
    run(&CALIBRATE, Some(&url)).exits(0);
    run(&["test", "--record", "answers.json"], Some(&url)).exits(0);
    run(&["test"], Some(&second.url()))
        .exits(2)
        .says("OPENAI_BASE_URL of judge 1 differs");
    run(&["test", "--replay", "answers.json"], None).exits(0);
    first.finish();
    assert_eq!(second.finish().len(), 0);
}

#[test]
fn a_calibration_that_cannot_be_stored_is_reported() {
    let server = server();
    let project = project(&agent(&server.url(), &metric(REQUIRED), ""));
    project.write("calibration", "in the way");
    calibrate(&project, &[])
        .exits(3)
        .says("cannot store the calibration: ")
        .says("`--no-save` measures without storing");
    calibrate(&project, &["--no-save"]).exits(0);
    assert_eq!(project.read("calibration"), "in the way");
    project.run(&["test"]).exits(2).says("cannot be read");
    server.finish();
}
