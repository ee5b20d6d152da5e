//! Metrics that a Python function or a program computes, from the YAML to the reports.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    interrupt,
    project::{Project, agent},
};

/// A grader as written for 0.7.1.
const GRADERS: &str = r#"
from __future__ import annotations

import os
import subprocess
import sys
import time

from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult


def refunds(ctx: GraderContext) -> GraderResult:
    print("grading")
    found = "30 days" in ctx.agent_response
    return GraderResult(
        score=1.0 if found else 0.25,
        passed=found,
        reason=None if found else "no deadline",
        details={
            "asked": ctx.turn_input,
            "expected": ctx.ground_truth,
            "index": ctx.turn_index,
            "name": ctx.test_case_name,
            "config": ctx.turn_config,
            "context": ctx.retrieval_context,
            "tools": [[t.name, t.args, t.result, t.bytes, t.error] for t in ctx.tool_invocations],
        },
    )


def raises(ctx):
    raise ValueError("no such order")


def exits(ctx):
    sys.exit(0)


def dies(ctx):
    os._exit(0)


def killed(ctx):
    os.kill(os.getpid(), 9)


def forks(ctx):
    os.fork()
    return True


def says_text(ctx):
    return "1"


def none(ctx):
    return None


def nan(ctx):
    return float("nan")


def high(ctx):
    return 7


def says_passed(ctx):
    return GraderResult(score=1.0, passed="false")


def floods(ctx):
    return GraderResult(score=1.0, details={"text": "x" * 2_000_000})


def hangs(ctx):
    time.sleep(600)


def yes(ctx):
    return True


def no(ctx):
    return False


def half(ctx):
    return 0.5


def less(ctx):
    return 0.49


def sealed(ctx):
    try:
        ctx.agent_response = "30 days"
    except AttributeError:
        return "HOLODECK_TEST_SECRET" not in os.environ
    return False


def leaks(ctx):
    raise ValueError("the key is " + os.environ["API_KEY"])


def lingers(ctx):
    pipe = open("alive", "w")
    subprocess.Popen(["sleep", "600"], pass_fds=[pipe.fileno()], start_new_session=True)
    pipe.write("up\n")
    pipe.flush()
    time.sleep(600)
"#;

fn project(server: &ModelServer, cases: &str) -> Project {
    let project = Project::with(&agent(&server.url(), cases));
    project.write("graders/orders.py", GRADERS);
    project
}

fn server() -> ModelServer {
    ModelServer::answering(|_| Reply::text("It takes 30 days."))
}

fn case(metrics: &str) -> String {
    format!(
        "  - name: one\n    input: How long?\n    ground_truth: 30 days\n    evaluations:\n      - {metrics}\n"
    )
}

fn first_metric(project: &Project) -> Value {
    project.run_file()["report"]["results"][0]["metric_results"][0].clone()
}

#[test]
fn a_grader_written_for_0_7_1_runs_unchanged() {
    let server = ModelServer::answering(|request| {
        Reply::text(if request.texts("user").last().unwrap().contains("refunds") {
            "Refunds take 30 days."
        } else {
            "I do not know."
        })
    });
    let cases = "  - name: single\n    input: refunds?\n    ground_truth: 30 days\n    retrieval_context: [a passage]\n    \
                 evaluations: [{type: code, grader: \"graders.orders:refunds\"}]\n  \
                 - name: several\n    evaluations: [{grader: \"graders.orders:refunds\"}]\n    turns:\n      \
                 - {input: \"refunds?\", turn_config: {strict: true}}\n      - {input: \"orders?\"}\n";
    let project = project(&server, cases);
    project.run(&["test"]).exits(1);
    let results = &project.run_file()["report"]["results"];
    assert_eq!(
        (&results[0]["state"], &results[1]["state"]),
        (&json!("passed"), &json!("failed"))
    );
    let metric = &results[0]["metric_results"][0];
    assert_eq!(
        (&metric["kind"], &metric["metric_name"], &metric["score"]),
        (&json!("code"), &json!("refunds"), &json!(1.0))
    );
    assert_eq!(
        metric["details"],
        json!({"asked": "refunds?", "expected": "30 days", "index": 0, "name": "single", "config": {},
               "context": ["a passage"], "tools": []})
    );
    let turns = &results[1]["turns"];
    assert_eq!(turns[0]["passed"], true);
    assert_eq!(
        turns[0]["grader_details"]["refunds"]["config"],
        json!({"strict": true})
    );
    let missed = &turns[1]["metric_results"][0];
    assert_eq!(
        (&missed["score"], &missed["passed"], &missed["reasoning"]),
        (&json!(0.25), &json!(false), &json!("no deadline"))
    );
    assert_eq!(turns[1]["grader_details"]["refunds"]["index"], 1);
    server.finish();
}

#[test]
fn tool_calls_reach_the_grader_with_their_results() {
    let server = ModelServer::answering(|request| {
        if request.messages().iter().any(|message| message["role"] == "tool") {
            Reply::text("30 days")
        } else {
            Reply::tool_call("call-1", "lookup", &json!({"id": 7}))
        }
    });
    let tools = "tools:\n  - {name: lookup, type: function, description: Looks up., command: /bin/echo, args: [found], \
                 parameters: {id: {type: integer}}}\n";
    let cases = case("{type: code, grader: \"graders.orders:refunds\"}");
    let project = Project::with(&format!("{}{tools}", agent(&server.url(), &cases)));
    project.write("graders/orders.py", GRADERS);
    project.run(&["test"]).exits(0);
    assert_eq!(
        first_metric(&project)["details"]["tools"],
        json!([["lookup", {"id": 7}, "found", 7, null]])
    );
    server.finish();
}

#[test]
fn results_and_thresholds_decide() {
    for (metric, exit, score) in [
        ("grader: \"graders.orders:yes\"", 0, 1.0),
        ("grader: \"graders.orders:no\"", 1, 0.0),
        ("grader: \"graders.orders:half\"", 0, 0.5),
        ("grader: \"graders.orders:less\"", 1, 0.49),
        ("grader: \"graders.orders:half\", threshold: 0.6", 1, 0.5),
        ("grader: \"graders.orders:less\", threshold: 0.4", 0, 0.49),
        // The own verdict and the threshold must both be met.
        ("grader: \"graders.orders:no\", threshold: 0", 1, 0.0),
        ("grader: \"graders.orders:sealed\"", 0, 1.0),
    ] {
        let server = server();
        let project = project(&server, &case(&format!("{{type: code, {metric}}}")));
        project.run(&["test"]).exits(exit);
        assert_eq!(first_metric(&project)["score"], score, "{metric}");
    }
}

#[test]
fn a_broken_grader_is_an_error_of_its_metric_and_never_ends_the_run() {
    for (grader, error) in [
        ("raises", "ValueError: no such order (graders/orders.py, line 32)"),
        ("exits", "SystemExit: 0"),
        ("dies", "ended without a result"),
        ("killed", "ended without a result"),
        ("forks", "is not one JSON value"),
        ("says_text", "is of type `str`, not a number"),
        ("none", "is of type `NoneType`, not a number"),
        ("nan", "is nan, not a score"),
        ("high", "is not between 0 and 1"),
        ("says_passed", "`passed` is of type `str`"),
        ("floods", "1048576"),
    ] {
        let server = server();
        let broken = format!("{{type: code, grader: \"graders.orders:{grader}\"}}");
        let cases = case(&broken) + "  - name: two\n    input: q\n    ground_truth: 30 days\n";
        let project = project(&server, &cases);
        project.run(&["test"]).exits(4);
        let metric = first_metric(&project);
        let text = metric["error"].as_str().unwrap();
        assert!(text.contains(error), "{grader}: {text}");
        assert_eq!(
            (&metric["score"], &metric["passed"]),
            (&Value::Null, &Value::Null)
        );
        let results = &project.run_file()["report"]["results"];
        assert_eq!(results[0]["state"], "error", "{grader}");
        assert_eq!(results[1]["state"], "passed", "{grader}");
        server.finish();
    }
}

#[test]
fn a_grader_that_hangs_is_ended_after_its_time() {
    let server = server();
    let project = project(
        &server,
        &case("{type: code, grader: \"graders.orders:hangs\", timeout_ms: 1000, fail_on_error: true}"),
    );
    project.run(&["test"]).exits(1);
    let metric = first_metric(&project);
    assert!(metric["error"].as_str().unwrap().contains("1 s"), "{metric}");
    server.finish();
}

#[test]
fn a_secret_of_a_grader_is_masked() {
    let server = server();
    let project = project(
        &server,
        &case("{type: code, grader: \"graders.orders:leaks\", env: {API_KEY: zebra-4711-zebra}}"),
    );
    let output = project.run(&["test", "-v"]).exits(4).all();
    assert!(!output.contains("zebra-4711"), "{output}");
    let journal = fs::read_to_string(project.journals().last().unwrap()).unwrap();
    assert!(!(journal + &project.run_file().to_string()).contains("zebra-4711"));
    assert!(
        first_metric(&project)["error"]
            .as_str()
            .unwrap()
            .contains("ValueError: the key is")
    );
    server.finish();
}

#[test]
fn a_missing_grader_is_found_before_the_agent_is_asked() {
    for (grader, file, says) in [
        ("graders.orders:chek", GRADERS, "does not occur in"),
        (
            "graders.nothing:check",
            GRADERS,
            "evaluations.metrics[graders.nothing:check]",
        ),
        (
            "graders.orders:check",
            "raise ValueError('boom')\ncheck = 1\n",
            "ValueError: boom",
        ),
        ("graders.orders:check", "check = 1\n", "is not a function"),
    ] {
        let server = server();
        let project = project(&server, &case(&format!("{{type: code, grader: \"{grader}\"}}")));
        project.write("graders/orders.py", file);
        project.run(&["test"]).exits(2).says(says);
        assert_eq!(server.finish().len(), 0, "{grader}");
    }
}

#[test]
fn a_program_grades() {
    const READS: &str = "#!/usr/bin/env python3\nimport json, sys\ncontext = json.load(sys.stdin)\n";
    for (script, exit, score, says) in [
        (
            "print(json.dumps({'score': 0.75, 'reason': context['turn_input'], 'details': [sys.argv[1]]}))",
            0,
            json!(0.75),
            "",
        ),
        ("print('true')", 0, json!(1.0), ""),
        ("print(0.2)", 1, json!(0.2), ""),
        ("print({'score': 1})", 4, Value::Null, "not one JSON value"),
        ("print('note'); print(1)", 4, Value::Null, "not one JSON value"),
        ("print(1); print(1)", 4, Value::Null, "not one JSON value"),
        (
            "print('NaN')",
            4,
            Value::Null,
            "the result is `NaN`, not a number",
        ),
        (
            "print(json.dumps({'score': 1, 'pased': False}))",
            4,
            Value::Null,
            "unknown field `pased`",
        ),
        (
            "print(json.dumps({'passed': True}))",
            4,
            Value::Null,
            "no `score`",
        ),
        ("print(1.01)", 4, Value::Null, "not between 0 and 1"),
        ("", 4, Value::Null, "standard output is empty"),
        ("print(1); sys.exit('told why')", 4, Value::Null, "told why"),
        ("print('1' * 2_000_000)", 4, Value::Null, "1048576"),
    ] {
        let server = server();
        let project = project(
            &server,
            &case("{type: code, name: mine, command: ./grade.py, args: [\"a b\"]}"),
        );
        project.write("grade.py", format!("{READS}{script}\n"));
        fs::set_permissions(project.path("grade.py"), fs::Permissions::from_mode(0o755)).unwrap();
        project.run(&["test"]).exits(exit);
        let metric = first_metric(&project);
        assert_eq!(
            (&metric["metric_name"], &metric["score"]),
            (&json!("mine"), &score),
            "{script}"
        );
        assert!(
            metric["error"].as_str().unwrap_or_default().contains(says),
            "{metric}"
        );
        if score == 0.75 {
            assert_eq!(
                (&metric["reasoning"], &metric["details"]),
                (&json!("How long?"), &json!(["a b"]))
            );
        }
        server.finish();
    }
}

#[test]
fn a_grader_names_either_a_function_or_a_program() {
    for (metric, says) in [
        (
            "{type: code, grader: \"graders.orders:yes\", command: x, name: n}",
            "mutually exclusive",
        ),
        ("{type: code, name: n}", "needs `grader` or `command`"),
        ("{type: code, command: cat}", "missing field `name`"),
    ] {
        let server = server();
        let project = project(&server, &case(metric));
        project.run(&["validate"]).exits(2).says(says);
        server.finish();
    }
}

#[test]
fn a_missed_gate_skips_a_grader_that_waits_for_it() {
    let server = server();
    let metrics = "{type: code, grader: \"graders.orders:raises\", when: gates_passed}\n      \
                   - {type: standard, metric: contains, value: never}";
    let project = project(&server, &case(metrics));
    project.run(&["test"]).exits(1);
    assert_eq!(first_metric(&project)["skipped"], true);
    server.finish();
}

/// Starts a run whose grader never ends, stops it with `signal`, and waits until the grader and its child have ended.
fn stop_while_grading(signal: &str) -> (Project, Option<i32>) {
    let server = server();
    let project = project(
        &server,
        &case("{type: code, grader: \"graders.orders:lingers\", timeout_ms: 600000}"),
    );
    let made = Command::new("mkfifo")
        .arg(project.path("alive"))
        .status()
        .unwrap();
    assert!(made.success());
    let mut child = project
        .command(&["test"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Opening blocks until the grader opens the pipe.
    let mut alive = BufReader::new(File::open(project.path("alive")).unwrap());
    let mut line = String::new();
    alive.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    interrupt::signal(&child, signal);
    let code = child.wait().unwrap().code();
    // The pipe ends when neither the grader nor its child holds it.
    assert_eq!(alive.read_to_end(&mut Vec::new()).unwrap(), 0);
    (project, code)
}

#[test]
fn killing_the_run_leaves_no_process_of_a_grader() {
    stop_while_grading("-KILL");
}

#[test]
fn terminating_the_run_ends_a_grader_and_a_resumed_run_grades_the_stored_answer() {
    let (project, code) = stop_while_grading("-TERM");
    assert_eq!(code, Some(143));
    project.write(
        "graders/orders.py",
        "def lingers(ctx):\n    return \"30 days\" in ctx.agent_response\n",
    );
    // The server is gone, so that only the stored answer can pass.
    project.run(&["test", "resume", "latest"]).exits(0);
}

#[test]
fn a_regrade_of_one_grader_runs_no_other() {
    let server = server();
    // Each run of a program appends a line, and the verdict is in a file.
    let grader = |name: &str| {
        format!(
            "{{type: code, name: {name}, command: sh, args: [\"-c\", \"echo >> {name}.runs; cat {name}.score\"]}}"
        )
    };
    let cases = format!(
        "  - name: one\n    input: How long?\n    trials: 2\n    evaluations:\n      - {}\n      - {}\n    \
         conversation_evaluations:\n      - {}\n",
        grader("first"),
        grader("second"),
        grader("whole"),
    );
    let project = project(&server, &cases);
    for name in ["first", "second", "whole"] {
        project.write(&format!("{name}.score"), "0.25");
    }
    let runs = |name: &str| project.read(&format!("{name}.runs")).lines().count();
    project.run(&["test"]).exits(1);
    for name in ["first", "second", "whole"] {
        project.write(&format!("{name}.score"), "0.75");
    }
    project.run(&["test", "regrade", "--metric", "second"]).exits(1);
    assert_eq!((runs("first"), runs("second"), runs("whole")), (2, 4, 2));
    let case = project.run_file()["report"]["results"][0].clone();
    for trial in case["trial_results"].as_array().unwrap() {
        let scores: Vec<_> = trial["metric_results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|metric| metric["score"].as_f64().unwrap())
            .collect();
        assert_eq!(scores, [0.25, 0.75, 0.25]);
    }
    // What a grader receives has changed, so an old verdict says nothing about it.
    let yaml = project.read("agent.yaml");
    project.write(
        "agent.yaml",
        yaml.replace("    trials: 2\n", "    trials: 2\n    ground_truth: 3 days\n"),
    );
    project
        .run(&["test", "regrade", "--metric", "second"])
        .exits(2)
        .says("`first`");
}
