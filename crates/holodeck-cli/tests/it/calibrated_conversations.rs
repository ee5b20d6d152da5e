//! `holodeck test calibrate` and `require_calibrated` with metrics of conversations, as a user runs them.

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, SECRET};

/// The agent and its judge, which passes what has a good answer and quotes it.
fn server() -> ModelServer {
    ModelServer::answering(|request: &ReceivedRequest| {
        let model = request.body["model"].as_str().unwrap_or_default();
        if !model.contains("judge") {
            return Reply::text("a good answer");
        }
        let prompt = request.texts("user").concat();
        let is_good = prompt.contains("a good answer") && !prompt.contains("a good answer 10");
        let quote = json!({"turn": 2, "effect": "contributed", "quote": "a good answer"});
        let evidence = if is_good { vec![quote] } else { Vec::new() };
        let score = if is_good { 10 } else { 0 };
        let mut verdict = json!({"reason": "because of it", "score": score});
        if request.body["response_format"].to_string().contains("evidence") {
            verdict["evidence"] = evidence.into();
        }
        Reply::text(verdict.to_string())
    })
}

const GOAL: &str = "{type: goal_success, goal: Know how long refunds take., require_calibrated: true}";

/// A metric that can measure answers and conversations.
const KIND: &str = "{type: geval, name: Kind, criteria: Is it kind?, evaluation_steps: [Read it.], require_calibrated: true}";

/// An agent with a conversation that these metrics measure, and with these metrics of answers.
fn agent(server: &str, of_conversation: &str, of_answers: &str) -> String {
    format!(
        "name: support\nmodel: {{provider: openai, name: answering-model, endpoint: \"{server}\"}}\n\
         instructions: {{inline: Be kind.}}\n\
         evaluations:\n  model: {{provider: openai, name: judge-1, endpoint: \"{server}\"}}\n  metrics:\n\
         \x20   - {of_answers}\n\
         test_cases:\n  - name: refunds\n\
         \x20   turns: [{{input: How long do refunds take?}}, {{input: Please.}}]\n\
         \x20   conversation_evaluations:\n      - {of_conversation}\n"
    )
}

const FREE: &str = "{type: standard, metric: json_valid, enabled: false}";

fn turns(number: usize) -> Value {
    let kind = if number.is_multiple_of(2) { "good" } else { "bad" };
    json!([
        {"user": "How long do refunds take?", "agent": "Wait."},
        {"user": "Please.", "agent": format!("a {kind} answer {number}"), "tools": [
            {"name": "find_refund", "arguments": {"id": number}, "result": "30 days"},
        ]},
    ])
}

/// Half of these many conversations are good.
fn lines(count: usize) -> String {
    let line = |number: usize| {
        json!({"case": "refunds", "turns": turns(number), "passed": number.is_multiple_of(2)}).to_string()
            + "\n"
    };
    (0..count).map(line).collect()
}

/// The same as a table.
fn table(count: usize) -> String {
    let row = |number: usize| {
        let turns = turns(number).to_string().replace('"', "\"\"");
        let label = if number.is_multiple_of(2) { "yes" } else { "no" };
        format!("refunds,\"{turns}\",{label}\n")
    };
    format!("case,turns,passed\n{}", (0..count).map(row).collect::<String>())
}

fn answers() -> String {
    let line = |number: usize| {
        let kind = if number.is_multiple_of(2) { "good" } else { "bad" };
        json!({"input": "How?", "response": format!("a {kind} answer {number}"), "passed": number.is_multiple_of(2)})
            .to_string()
            + "\n"
    };
    (0..12).map(line).collect()
}

fn project(agent: &str) -> Project {
    let project = Project::with(agent);
    project.write("labels.jsonl", lines(12));
    project.write("answers.jsonl", answers());
    project
}

fn calibrate(project: &Project, labels: &str, more: &[&str]) -> CommandOutput {
    project.run(&[&["test", "calibrate", "--labels", labels][..], more].concat())
}

fn stored_files(project: &Project) -> Vec<String> {
    let entries = std::fs::read_dir(project.path("calibration"));
    let names = entries.into_iter().flatten();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_judge_of_conversations_is_refused_until_it_is_calibrated() {
    let server = server();
    let project = project(&agent(&server.url(), GOAL, FREE));
    for args in [&["test"][..], &["test", "--dry-run"]] {
        let refused = project.run(args).exits(2);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused.stderr, @"
            error: agent.yaml:12:85: metric `goal_success` requires a calibrated judge: its judge was never calibrated

            hint: `holodeck test calibrate --labels FILE --metric goal_success` compares the judge with labels of people and stores the result
            ");
        }
    }
    project
        .run(&["doctor"])
        .exits(1)
        .says("calibration of `goal_success`  its judge was never calibrated");
    assert_eq!(
        server
            .requests()
            .iter()
            .filter(|request| request.body["model"].is_string())
            .count(),
        0
    );
    let result = calibrate(&project, "labels.jsonl", &["--json"]).exits(0).json();
    assert_eq!(
        (&result["subject"], &result["judged"], &result["labels"]),
        (&json!("conversations"), &json!(12), &json!(12))
    );
    // One good conversation is judged otherwise.
    assert_eq!(result["confusion"]["only_people_pass"], 1);
    assert_eq!(result["rows"][0]["turns"], turns(0));
    assert_eq!(
        result["rows"][0]["reason"],
        "because of it; turn 2 contributed: “a good answer”"
    );
    let files = stored_files(&project);
    assert_eq!(result["stored"], json!(format!("calibration/{}", files[0])));
    assert!(
        !project
            .read(&format!("calibration/{}", files[0]))
            .contains("good answer")
    );
    project.run(&["test"]).exits(0).says("1 of 1 passed");
    project.run(&["test", "--dry-run"]).exits(0);
    project
        .run(&["doctor"])
        .says("calibration of `goal_success`  reaches the minimum");
    let asked = server.finish();
    let of_judge: Vec<String> = asked
        .iter()
        .filter(|request| request.body["model"] == "judge-1")
        .map(|request| request.texts("user").concat())
        .collect();
    assert_eq!(of_judge.len(), 13);
    for prompt in &of_judge {
        for part in [
            "Know how long refunds take.",
            "<user-",
            "<agent-",
            "between a user and an AI assistant",
        ] {
            assert!(prompt.contains(part), "{part}\n{prompt}");
        }
    }
    assert!(of_judge[..12].iter().all(|prompt| prompt.contains("30 days")));
}

#[test]
fn a_calibration_of_the_same_metric_for_single_answers_does_not_count() {
    let server = server();
    let both = agent(&server.url(), KIND, KIND);
    let project = project(&both);
    calibrate(&project, "answers.jsonl", &[]).exits(0);
    let refused = project.run(&["test"]).exits(2);
    insta::assert_snapshot!(refused.stderr, @"
    error: agent.yaml:12:108: metric `Kind` requires a calibrated judge: it has changed since its calibration: what it judges (answers or conversations) differs

    hint: `holodeck test calibrate --labels FILE --metric Kind` compares the judge with labels of people and stores the result
    ");
    // The file of the one under the name of the other is of another judge.
    let of_answers = stored_files(&project);
    calibrate(&project, "labels.jsonl", &[]).exits(0);
    let files = stored_files(&project);
    let of_conversations = files.iter().find(|file| !of_answers.contains(file)).unwrap();
    project.run(&["test"]).exits(0);
    let own = project.read(&format!("calibration/{of_conversations}"));
    let other = project.read(&format!("calibration/{}", of_answers[0]));
    project.write(&format!("calibration/{of_conversations}"), &other);
    project
        .run(&["test"])
        .exits(2)
        .says("is of another judge: what it judges (answers or conversations) differs");
    // And the other way round.
    project.write(&format!("calibration/{of_conversations}"), &own);
    std::fs::remove_file(project.path(&format!("calibration/{}", of_answers[0]))).unwrap();
    let refused = project.run(&["test"]).exits(2);
    assert!(
        refused.stderr.contains("agent.yaml:7:106: metric `Kind`"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("agent.yaml:12:"), "{}", refused.stderr);
    server.finish();
}

#[test]
fn labels_of_the_other_kind_are_refused_before_the_judge_is_asked() {
    let server = server();
    let project = project(&agent(&server.url(), GOAL, FREE));
    calibrate(&project, "answers.jsonl", &[])
        .exits(2)
        .says("the agent has no metric of answers that a model judges, and the labels are answers")
        .says("write them to the column `turns`");
    project.write(
        "agent.yaml",
        agent(&server.url(), "{type: standard, metric: cost, max_usd: 1}", KIND),
    );
    calibrate(&project, "labels.jsonl", &["--metric", "Kind"])
        .exits(2)
        .says("the agent has no metric `Kind` of conversations that a model judges")
        .says("write them to the column `response`");
    project.write("mixed.jsonl", answers() + &lines(1));
    calibrate(&project, "mixed.jsonl", &[])
        .exits(2)
        .says("mixed.jsonl:13:1")
        .says("this file has answers (`response`) and conversations (`turns`)");
    assert_eq!(stored_files(&project), Vec::<String>::new());
    assert_eq!(server.finish().len(), 0);
}

#[test]
fn a_quote_that_is_not_in_its_turn_is_no_verdict() {
    let judge = ModelServer::answering(|_| {
        // The text is in turn 2.
        let quote = json!({"turn": 1, "effect": "contributed", "quote": "a good answer"});
        Reply::text(json!({"reason": "because of it", "score": 10, "evidence": [quote]}).to_string())
    });
    let project = project(&agent(&judge.url(), GOAL, FREE));
    let result = calibrate(&project, "labels.jsonl", &["--json"]).exits(4).json();
    assert_eq!((&result["judged"], &result["errors"]), (&json!(0), &json!(12)));
    assert!(
        result["rows"][0]["error"]
            .as_str()
            .unwrap()
            .contains("no turn that contributed is quoted word by word"),
        "{result}"
    );
    assert_eq!(stored_files(&project), Vec::<String>::new());
    project.run(&["test"]).exits(2).says("was never calibrated");
}

#[test]
fn a_change_too_little_agreement_and_damage_are_refused() {
    let server = server();
    let url = server.url();
    let agent = agent(&url, GOAL, FREE);
    let project = project(&agent);
    calibrate(&project, "labels.jsonl", &[]).exits(0);
    project.run(&["test"]).exits(0);
    let asked = server.requests().len();
    for (from, to, what) in [
        ("name: judge-1", "name: judge-2", "judge 1 differs"),
        (
            "{type: goal_success",
            "{type: goal_success, strict_mode: true",
            "`strict_mode` differs",
        ),
        (
            "{type: goal_success",
            "{type: goal_success, threshold: 0.5",
            "`threshold` differs",
        ),
        ("goal: Know", "goal: Ask", "`goal` differs"),
        (
            "calibrated: true",
            "calibrated: {min_kappa: 0.9}",
            "κ of its calibration is 0.833, below `min_kappa` 0.9",
        ),
        (
            "calibrated: true",
            "calibrated: {min_labels: 13}",
            "12 labels, fewer than `min_labels` 13",
        ),
    ] {
        assert!(agent.contains(from), "{from}");
        project.write("agent.yaml", agent.replace(from, to));
        project.run(&["test"]).exits(2).says(what);
    }
    project.write("agent.yaml", &agent);
    let file = format!("calibration/{}", stored_files(&project)[0]);
    let stored = project.read(&file);
    project.write(&file, stored.replacen("\"judge\":false", "\"judge\":true", 1));
    project.run(&["test"]).exits(2).says("is damaged");
    assert_eq!(server.finish().len(), asked);
}

#[test]
fn resuming_grading_again_merging_and_replaying_need_the_calibration() {
    let server = server();
    let required = agent(&server.url(), GOAL, FREE);
    let project = project(&required.replace(", require_calibrated: true", ""));
    project.run(&["test", "--record", "run.cassette"]).exits(0);
    project
        .run(&["test", "--shard", "1/1", "--output", "shard.json"])
        .exits(0);
    let asked = server.requests().len();
    project.write("agent.yaml", &required);
    for args in [
        &["test", "resume", "latest", "--accept-changes"][..],
        &["test", "regrade", "latest"],
        &["test", "regrade", "latest", "--errors"],
        &["test", "merge", "latest"],
        &["test", "--replay", "run.cassette"],
        &["test", "--replay", "run.cassette", "--dry-run"],
    ] {
        project
            .run(args)
            .exits(2)
            .says("agent.yaml:12:85: metric `goal_success` requires a calibrated judge");
    }
    assert_eq!(server.requests().len(), asked);
    calibrate(&project, "labels.jsonl", &[]).exits(0);
    project.run(&["test", "regrade", "latest"]).exits(0);
    project.run(&["test", "--replay", "run.cassette"]).exits(0);
    server.finish();
}

#[test]
fn a_table_has_the_same_labels_and_secrets_are_masked() {
    let server = server();
    let goal = GOAL.replacen('{', "{on_masked: accept, ", 1);
    let project = project(&agent(&server.url(), &goal, FREE).replace(
        "{inline: Be kind.}",
        "{inline: \"Be kind to ${SERVICE_TOKEN:-all}.\"}",
    ));
    let leak = format!("\"\"result\"\":\"\"30 days {SECRET}\"\"");
    let text = table(12);
    let secret = text.replace("\"\"result\"\":\"\"30 days\"\"", &leak);
    assert_ne!(text, secret);
    project.write("labels.csv", &text);
    let of_lines = calibrate(&project, "labels.jsonl", &["--json", "--no-save"])
        .exits(0)
        .json();
    let of_table = calibrate(&project, "labels.csv", &["--json", "--no-save"])
        .exits(0)
        .json();
    for field in ["kappa", "confusion", "verbosity"] {
        assert_eq!(of_lines[field], of_table[field], "{field}");
    }
    project.write("labels.csv", &secret);
    let mut command = project.command(&["test", "calibrate", "--labels", "labels.csv", "--json"]);
    let output = command.env("SERVICE_TOKEN", SECRET).output().unwrap();
    // It refuses every output with a secret.
    let result = CommandOutput::of(&output).exits(0).json();
    assert!(
        result["rows"][0]["turns"][1]["tools"][0]["result"]
            .as_str()
            .unwrap()
            .starts_with("30 days")
    );
    let asked = server.finish();
    assert!(
        !asked
            .iter()
            .any(|request| request.body.to_string().contains(SECRET))
    );
    let prompts: Vec<String> = asked
        .iter()
        .map(|request| request.texts("user").concat())
        .collect();
    assert_eq!(
        prompts[..12]
            .iter()
            .filter(|prompt| prompts[12..24].contains(prompt))
            .count(),
        12
    );
}

#[test]
fn the_goal_is_that_of_the_row_else_of_its_case() {
    let server = server();
    let agent = agent(&server.url(), GOAL, FREE).replace(
        "turns: [{input: How long do refunds take?}, {input: Please.}]",
        "{input: Hi, ground_truth: Goal of the case.}",
    );
    let agent = agent.replace("    {input: Hi, ground_truth", "    input: Hi\n    ground_truth");
    let agent = agent
        .replace("case.}", "case.")
        .replace("goal: Know how long refunds take., ", "");
    let project = project(&agent);
    let row = |number: usize, more: &Value| {
        let mut row = json!({"case": "refunds", "turns": turns(number), "passed": number.is_multiple_of(2)});
        row.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        row.to_string() + "\n"
    };
    let goals = [
        (json!({}), "Goal of the case."),
        (json!({"goal": "Goal of the row."}), "Goal of the row."),
        (json!({"ground_truth": "Truth of the row."}), "Truth of the row."),
    ];
    let rows: String = (0..12).map(|number| row(number, &goals[number % 3].0)).collect();
    project.write("labels.jsonl", rows);
    calibrate(&project, "labels.jsonl", &["--no-save"]).exits(0);
    let asked = server.finish();
    let prompts: Vec<String> = asked
        .iter()
        .map(|request| request.texts("user").concat())
        .collect();
    for (_, goal) in goals {
        assert_eq!(
            prompts.iter().filter(|prompt| prompt.contains(goal)).count(),
            4,
            "{goal}"
        );
    }
}

#[test]
fn conversations_that_cannot_be_read_are_reported_with_their_place() {
    let server = server();
    let project = project(&agent(&server.url(), GOAL, FREE));
    let good = turns(0).to_string().replace('"', "\"\"");
    project.write(
        "labels.csv",
        format!(
            "turns,goal,response,passed\n\
             \"{good}\",g,,yes\n\
             \"{good}\",g,,no\n\
             [],g,,no\n\
             once upon a time,g,,no\n\
             \"[{{\"\"user\"\": \"\"a\"\"}}]\",g,,no\n\
             \"[{{\"\"user\"\": \"\"a\"\", \"\"agnt\"\": \"\"b\"\"}}]\",g,,no\n\
             \"{good}\",g,an answer,no\n\
             ,g,an answer,no\n\
             [{{,g,,no\n"
        ),
    );
    let refused = calibrate(&project, "labels.csv", &[]).exits(2);
    for (place, what) in [
        ("3:1", "this conversation is labelled twice"),
        ("4:1", "`turns` cannot be read: there is no turn"),
        ("5:1", "`turns` cannot be read: it is not a JSON list"),
        ("6:1", "missing field `agent`"),
        ("7:1", "unknown field `agnt`"),
        ("8:", "this row has `turns` and `response`"),
        ("9:2", "this row has no `turns`"),
        ("10:1", "column `turns` is not JSON"),
    ] {
        assert!(
            refused.stderr.contains(&format!("labels.csv:{place}")),
            "{place}\n{}",
            refused.stderr
        );
        assert!(refused.stderr.contains(what), "{what}\n{}", refused.stderr);
    }
    assert_eq!(server.finish().len(), 0);
}
