//! A matrix: one run for each combination, and no verdict that hides one of them.

use std::fs;

use holodeck_testkit::{Gate, ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::{
    interrupt::signal,
    project::{CommandOutput, Project, TWO_CASES, agent, assert_output},
};

const MODELS: &str = "matrix:\n  model.name: [good, bad, other]\n";

fn model(request: &ReceivedRequest) -> &str {
    request.body["model"].as_str().unwrap()
}

fn right(request: &ReceivedRequest) -> Reply {
    let question = request.texts("user").pop().unwrap_or_default().to_owned();
    Reply::text(if question.contains("France") {
        "Paris."
    } else {
        "12"
    })
}

/// The models `good` and `other` are right; `bad` is wrong; `down` fails.
fn server() -> ModelServer {
    ModelServer::answering(|request| match model(request) {
        "bad" => Reply::text("No idea."),
        "down" => Reply::openai_error(400, "no such model", None, None),
        _ => right(request),
    })
}

fn project(server: &ModelServer, matrix: &str) -> Project {
    Project::with(&format!("{}{matrix}", agent(&server.url(), TWO_CASES)))
}

fn headers(project: &Project) -> Vec<Value> {
    let first_line = |path| {
        let text = fs::read_to_string(path).unwrap();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    };
    project.journals().into_iter().map(first_line).collect()
}

fn combinations(project: &Project) -> Vec<String> {
    let name = |header: Value| {
        header["combination"]["values"]["model.name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    headers(project).into_iter().map(name).collect()
}

#[test]
fn every_combination_is_a_run_and_one_that_fails_decides() {
    let server = server();
    let project = project(&server, MODELS);
    let ran = project.run(&["test"]).exits(1);
    // Without the cost, the time and the run at the end of each row.
    let rows = ran
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("model.name "));
    let table: Vec<String> = rows
        .map(|row| row.split("  ").filter(|cell| !cell.is_empty()).take(5))
        .map(|cells| cells.map(str::trim).collect::<Vec<_>>().join(" | "))
        .collect();
    insta::assert_snapshot!(table.join("\n"), @"
        model.name | passed | 95 % interval | other | contains
        good | 2 of 2 | 0.34–1.00 | – | 1.00
        bad | 0 of 2 | 0.00–0.66 | 2 failed | 0.00
        other | 2 of 2 | 0.34–1.00 | – | 1.00

        2 of 3 combinations passed
    ");
    assert_eq!(combinations(&project), ["good", "bad", "other"]);
    let asked: Vec<String> = server
        .requests()
        .iter()
        .map(|request| model(request).to_owned())
        .collect();
    assert_eq!(asked, ["good", "good", "bad", "bad", "other", "other"]);
    assert_eq!(project.run_file()["report"]["combination"]["model.name"], "other");
    // Other commands use the values of the file.
    project.run(&["run", "agent.yaml", "The capital of France?"]);
    assert_eq!(model(server.requests().last().unwrap()), "test-model");
}

#[test]
fn one_page_shows_all_combinations_and_links_theirs() {
    let server = server();
    let project = project(&server, MODELS);
    let ran = project.run(&["test", "--report", "html=all.html"]).exits(1);
    let ran = ran.says("report   all.html\n");
    assert!(ran.stdout.contains("all-good.html"), "{}", ran.stdout);
    let page = project.read("all.html");
    assert!(page.contains("3 combinations side by side"), "{page}");
    assert!(page.contains("2 cases, 2 with different states"), "{page}");
    for name in ["good", "bad", "other"] {
        assert!(
            page.contains(&format!("href=\"all-{name}.html\"")),
            "{name}: {page}"
        );
        assert!(project.path(&format!("all-{name}.html")).is_file(), "{name}");
    }
    let (_, best) = page.split_once("The best by each figure").unwrap();
    let (best, _) = best.split_once("Nothing gates on this").unwrap();
    assert!(
        best.contains("model.name=good") && best.contains("model.name=other"),
        "{best}"
    );
    assert!(!best.contains("model.name=bad"), "{best}");
    // It is a report of holodeck, and only such a one is overwritten.
    let again = project
        .run(&["test", "--json", "--report", "html=all.html"])
        .exits(1);
    let last: Value = serde_json::from_str(again.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["event"], &last["reports"]),
        (&"matrix_finished".into(), &serde_json::json!(["all.html"]))
    );
    project.write("all.html", "my notes");
    let asked = server.requests().len();
    project
        .run(&["test", "--report", "html=all.html"])
        .exits(2)
        .says("all.html");
    assert_eq!(
        (project.read("all.html").as_str(), server.requests().len()),
        ("my notes", asked)
    );
}

#[test]
fn the_instructions_of_a_combination_replace_those_of_the_file() {
    let server = ModelServer::answering(|request| {
        let strict = request.texts("system").concat().contains("Be strict");
        if strict {
            right(request)
        } else {
            Reply::text("Well.")
        }
    });
    let project = project(&server, "matrix:\n  instructions.file: [strict.md, loose.md]\n");
    project.write("strict.md", "Be strict.");
    project.write("loose.md", "Be loose.");
    project.run(&["test"]).exits(1).says("1 of 2 combinations passed");
    for request in server.requests() {
        assert!(!request.texts("system").concat().contains("Answer briefly"));
    }
    project
        .run(&["test", "--matrix", "instructions.file=strict.md"])
        .exits(0);
}

#[test]
fn values_select_combinations() {
    let server = server();
    let project = project(&server, MODELS);
    project
        .run(&[
            "test",
            "--matrix",
            "model.name=good",
            "--matrix",
            "model.name=other",
        ])
        .exits(0)
        .says("2 of 2 combinations passed");
    assert_eq!(combinations(&project), ["good", "other"]);
    project.run(&["test", "--matrix", "model.name=bad"]).exits(1);
    project
        .run(&["test", "--matrix", "model.name=god"])
        .exits(2)
        .says("did you mean `good`?");
    project
        .run(&["test", "--matrix", "model.nme=good"])
        .exits(2)
        .says("did you mean `model.name`?");
    let plain = Project::with(&agent(&server.url(), TWO_CASES));
    plain
        .run(&["test", "--matrix", "model.name=good"])
        .exits(2)
        .says("the agent file has no `matrix`");
}

#[test]
fn a_model_that_cannot_answer_is_an_error_and_the_others_run() {
    let server = server();
    let project = project(&server, "matrix:\n  model.name: [down, good]\n");
    project.run(&["test"]).exits(3).says("1 of 2 combinations passed");
    assert_eq!(combinations(&project), ["down", "good"]);
}

#[test]
fn nothing_runs_if_one_combination_cannot() {
    let server = server();
    let broken = project(&server, "matrix:\n  model.temperature: [0.1, 9]\n");
    for args in [&["validate"][..], &["doctor"], &["test"], &["test", "--dry-run"]] {
        broken.run(args).exits(2).says("agent.yaml:24:28");
    }
    // The key of the second provider is missing.
    let no_key = project(
        &server,
        "matrix:\n  model: [{provider: openai, name: good, endpoint: 'http://127.0.0.1:1'}, {provider: anthropic, name: sonnet}]\n",
    );
    let ran = no_key.run(&["test"]);
    assert!(matches!(ran.code, Some(2 | 3)), "{}", ran.all());
    assert!(
        ran.stderr
            .contains("combination model={\"provider\":\"anthropic\""),
        "{}",
        ran.all()
    );
    assert_eq!(no_key.journals().len(), 0);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn what_only_one_run_can_write_is_refused_for_several() {
    let server = server();
    let project = project(&server, MODELS);
    for args in [
        &["--save-baseline"][..],
        &["--record", "calls.jsonl"],
        &["--output", "-"],
    ] {
        let args: Vec<&str> = ["test"].iter().chain(args).copied().collect();
        project
            .run(&args)
            .exits(2)
            .says("cannot be used with several combinations")
            .says("--matrix PATH=VALUE");
    }
    assert_eq!(server.requests().len(), 0);
    project
        .run(&[
            "test",
            "--matrix",
            "model.name=good",
            "--save-baseline",
            "--record",
            "calls.jsonl",
        ])
        .exits(0);
    project
        .run(&["test", "--output", "report.md", "--report", "junit=out/r.xml"])
        .exits(1);
    for name in ["good", "bad", "other"] {
        let report = project.read(&format!("report-{name}.md"));
        assert!(
            report.contains(&format!("combination model.name={name}")),
            "{report}"
        );
        project.read(&format!("out/r-{name}.xml"));
    }
    assert!(!project.path("report.md").exists());
}

#[test]
fn each_line_of_json_says_which_combination_it_is_about() {
    let server = server();
    let project = project(&server, MODELS);
    let ran = project.run(&["test", "--json"]).exits(1);
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (end, others) = lines.split_last().unwrap();
    for line in others {
        assert!(line["combination"]["model.name"].is_string(), "{line}");
    }
    assert_eq!(end["event"], "matrix_finished");
    assert_eq!(end["exit_code"], 1);
    let codes: Vec<_> = end["combinations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["exit_code"])
        .collect();
    assert_eq!(codes, [0, 1, 0]);
}

/// The last line of `--json`.
fn last_line(ran: &CommandOutput) -> Value {
    serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap()
}

#[test]
fn the_last_line_of_json_has_the_exit_code_of_the_command() {
    let server = server();
    let models = "matrix:\n  model.name: [good, bad, down]\n";
    for (flags, exit, event) in [
        (&["--matrix", "model.name=good"][..], 0, "finished"),
        (&["--matrix", "model.name=bad"], 1, "finished"),
        (&["--matrix", "model.name=down"], 3, "finished"),
        (
            &["--matrix", "model.name=good", "--filter", "nope*"],
            5,
            "finished",
        ),
        (
            &[
                "--matrix",
                "model.name=good",
                "--filter",
                "nope*",
                "--allow-empty",
            ],
            0,
            "finished",
        ),
        (&["--matrix", "model.name=none"], 2, "finished"),
        (&["--filter", "nope*"], 5, "matrix_finished"),
        (&[], 1, "matrix_finished"),
    ] {
        let project = project(&server, models);
        let ran = project.run(&[&["test", "--json"], flags].concat()).exits(exit);
        let last = last_line(&ran);
        assert_eq!(
            (&last["event"], &last["exit_code"]),
            (&event.into(), &exit.into()),
            "{flags:?}"
        );
    }
}

#[test]
fn every_combination_that_could_not_run_has_a_last_line_of_its_own() {
    let server = server();
    let project = project(&server, MODELS);
    let ran = project.run(&["test", "--json", "--filter", "nope*"]).exits(5);
    let lines = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let finished: Vec<Value> = lines.filter(|line| line["event"] == "finished").collect();
    let names: Vec<_> = finished
        .iter()
        .map(|line| &line["combination"]["model.name"])
        .collect();
    assert_eq!(names, ["good", "bad", "other"]);
    for line in finished {
        assert_eq!((&line["exit_code"], &line["report"]), (&5.into(), &Value::Null));
        assert_eq!(line["error"]["message"], "no test case to run");
    }
}

#[tokio::test]
async fn the_last_line_of_a_resumed_combination_does_not_hide_that_another_one_was_not_run() {
    let gate = Gate::new();
    let (server, arrived) = gated(&gate);
    let project = project(&server, THREE);
    stop_in_the_second(&arrived, &project, "-KILL").await;
    gate.open();
    let ran = project.run(&["test", "resume", "--json"]).exits(3);
    let last = last_line(&ran);
    assert_eq!(
        (&last["event"], &last["exit_code"]),
        (&"matrix_finished".into(), &3.into())
    );
    let codes: Vec<_> = last["combinations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["exit_code"])
        .collect();
    assert_eq!(codes, [0]);
}

#[test]
fn a_dry_run_shows_each_estimate_and_their_sum() {
    let server = server();
    let project = project(&server, "matrix:\n  model.name: [gpt-4o, gpt-4o-mini]\n");
    assert_output!(project.run(&["test", "--dry-run"]).exits(0));
    let json = project.run(&["test", "--dry-run", "--json"]).exits(0).json();
    let sum: f64 = json["combinations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["estimate"]["cost_usd"].as_f64().unwrap())
        .sum();
    assert!((json["total"]["cost_usd"].as_f64().unwrap() - sum).abs() < 1e-12);
    assert_eq!(json["total"]["trials"], 4);
    assert_eq!((server.requests().len(), project.journals().len()), (0, 0));
}

#[test]
fn failed_cases_are_those_of_the_same_combination() {
    let server = server();
    let project = project(&server, MODELS);
    project
        .run(&[
            "test",
            "--matrix",
            "model.name=good",
            "--matrix",
            "model.name=bad",
        ])
        .exits(1);
    // Only the cases of `bad` failed, and `other` never ran.
    let ran = project.run(&["test", "--failed"]).exits(1);
    assert!(
        ran.stdout.contains("every case passed last time"),
        "{}",
        ran.all()
    );
    assert!(
        ran.stdout
            .contains("1 of 2 combinations passed, 1 had nothing to run"),
        "{}",
        ran.all()
    );
    assert_eq!(combinations(&project), ["good", "bad", "bad", "other"]);
    // One combination alone says why it has nothing to run.
    project
        .run(&["test", "--failed", "--matrix", "model.name=good"])
        .exits(5)
        .says("every selected case passed last time");
    // Nothing is left for the others, which passed; that alone is not a pass.
    project
        .run(&[
            "test",
            "--failed",
            "--matrix",
            "model.name=good",
            "--matrix",
            "model.name=other",
        ])
        .exits(5);
}

#[test]
fn the_budget_holds_for_the_whole_matrix() {
    let server = server();
    let project = project(&server, "matrix:\n  model.name: [good, other]\n");
    let used = project
        .run(&["test", "--matrix", "model.name=good", "--json"])
        .exits(0);
    let last: Value = serde_json::from_str(used.stdout.lines().last().unwrap()).unwrap();
    let tokens = last["report"]["summary"]["token_usage"]["total_tokens"]
        .as_u64()
        .unwrap();
    // Enough for the first combination and one case of the second.
    let limit = (tokens + 1).to_string();
    project
        .run(&["test", "--max-tokens-total", &limit])
        .exits(6)
        .says("1 of 2 combinations passed");
    assert_eq!(server.requests().len(), 5);
    // Used up exactly by the first, so that the second does not start.
    project
        .run(&["test", "--max-tokens-total", &tokens.to_string()])
        .exits(6)
        .says("not run: the budget of the matrix");
    assert_eq!(server.requests().len(), 7);
}

#[test]
fn fail_fast_starts_no_further_combination() {
    let server = server();
    let project = project(&server, "matrix:\n  model.name: [bad, good]\n");
    project
        .run(&["test", "--fail-fast"])
        .exits(1)
        .says("`--fail-fast`");
    assert_eq!(combinations(&project), ["bad"]);
}

/// Starts a run of three combinations and stops it in the second one, which waits at the gate.
async fn stop_in_the_second(arrived: &Gate, project: &Project, name: &str) -> CommandOutput {
    let child = project
        .command(&["test"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    arrived.opened().await;
    signal(&child, name);
    CommandOutput::of(&child.wait_with_output().unwrap())
}

/// A server whose model `second` waits at the gate, and a gate that is open once it was asked.
fn gated(gate: &Gate) -> (ModelServer, Gate) {
    let (gate, arrived) = (gate.clone(), Gate::new());
    let asked = arrived.clone();
    let server = ModelServer::answering(move |request| match model(request) {
        "second" => {
            asked.open();
            right(request).behind(&gate)
        }
        _ => right(request),
    });
    (server, arrived)
}

const THREE: &str = "matrix:\n  model.name: [first, second, third]\n";

#[tokio::test]
async fn after_a_signal_the_remaining_combinations_count_as_not_run() {
    let gate = Gate::new();
    let (server, arrived) = gated(&gate);
    let project = project(&server, THREE);
    let ran = stop_in_the_second(&arrived, &project, "-TERM").await.exits(143);
    assert!(ran.stdout.contains("1 of 3 combinations passed"), "{}", ran.all());
    assert!(ran.stdout.contains("not run: interrupted"), "{}", ran.all());
    assert_eq!(combinations(&project), ["first", "second"]);
}

#[tokio::test]
async fn a_resumed_combination_does_not_hide_that_another_one_was_not_run() {
    let gate = Gate::new();
    let (server, arrived) = gated(&gate);
    let project = project(&server, THREE);
    stop_in_the_second(&arrived, &project, "-KILL").await;
    gate.open();
    project
        .run(&["test", "resume"])
        .exits(3)
        .says("resuming combination model.name=second")
        .says("2 of 2 passed")
        .says("combination model.name=third was not run")
        .says("`holodeck test --matrix model.name=third` runs it");
    assert_eq!(combinations(&project), ["first", "second"]);
    project
        .run(&["test", "regrade", "--matrix", "model.name=second"])
        .exits(0)
        .says("combination model.name=second");
}

#[tokio::test]
async fn a_changed_matrix_is_refused() {
    let gate = Gate::new();
    let (server, arrived) = gated(&gate);
    let project = project(&server, THREE);
    stop_in_the_second(&arrived, &project, "-KILL").await;
    gate.open();
    for matrix in [
        "matrix:\n  model.name: [first, third]\n",
        "matrix:\n  model.name: [first, second, third]\n  model.temperature: [0.1]\n",
        "",
    ] {
        project.write(
            "agent.yaml",
            format!("{}{matrix}", agent(&server.url(), TWO_CASES)),
        );
        for command in [&["resume"][..], &["regrade", "--matrix", "model.name=second"]] {
            let ran = project.run(&[&["test"], command].concat()).exits(2);
            assert!(
                ran.stderr
                    .contains("`matrix` does not have the combination model.name=second"),
                "{}",
                ran.all()
            );
        }
    }
}

#[test]
fn shards_are_merged_by_combination() {
    let server = server();
    let project = project(&server, "matrix:\n  model.name: [good, other]\n");
    let run_shard = |shard: &str| {
        project.run(&["test", "--shard", shard]).exits(0);
    };
    run_shard("1/2");
    run_shard("2/2");
    let shards = project.path("shards");
    fs::create_dir(&shards).unwrap();
    for journal in project.journals() {
        fs::rename(&journal, shards.join(journal.file_name().unwrap())).unwrap();
    }
    project
        .run(&["test", "merge", "shards"])
        .exits(0)
        .says("2 of 2 combinations passed");
    assert_eq!(combinations(&project), ["good", "other"]);
    // Without the shards of a combination there is no verdict on the matrix.
    for header in fs::read_dir(&shards).unwrap() {
        let path = header.unwrap().path();
        if fs::read_to_string(&path)
            .unwrap()
            .contains(r#""values":{"model.name":"other"}"#)
        {
            fs::remove_file(path).unwrap();
        }
    }
    project
        .run(&["test", "merge", "shards"])
        .exits(3)
        .says("no shard of this combination was given");
}

#[test]
fn recordings_tell_combinations_apart() {
    let server = server();
    let project = project(&server, "matrix:\n  model.name: [good, other]\n");
    project
        .run(&["test", "--matrix", "model.name=good", "--record", "calls.jsonl"])
        .exits(0);
    let before = server.requests().len();
    // The recording has no call of `other`, and does not answer with one of `good`.
    project
        .run(&["test", "--replay", "calls.jsonl"])
        .exits(3)
        .says("1 of 2 combinations passed");
    assert_eq!(server.requests().len(), before);
}
