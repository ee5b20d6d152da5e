//! Metrics of whole conversations, from the YAML to the reports.

use std::{
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{Project, SECRET, assert_output};

/// The form of the answer that a model is asked for.
fn form(request: &ReceivedRequest) -> &str {
    request.body["response_format"]["json_schema"]["name"]
        .as_str()
        .unwrap_or_default()
}

/// The answers of the agent to its messages.
const ANSWERS: [&str; 3] = [
    "Which order is it?",
    "I have asked for the refund.",
    "It arrives on Monday.",
];

fn agent() -> ModelServer {
    ModelServer::answering(|request| Reply::text(ANSWERS[(request.texts("user").len() - 1) % ANSWERS.len()]))
}

fn goal(score: u32) -> Reply {
    let evidence = json!([
        {"turn": 1, "effect": "contributed", "quote": "Which order is it?"},
    ]);
    Reply::text(json!({"score": score, "reason": "So it is.", "evidence": evidence}).to_string())
}

fn score(score: u32) -> Reply {
    Reply::text(json!({"score": score, "reason": "So it is."}).to_string())
}

/// Gives this score to goals, and the highest to everything else.
fn judge(of_goals: u32) -> ModelServer {
    ModelServer::answering(move |request| match form(request) {
        "goal" => goal(of_goals),
        "user_message" if request.texts("user").concat().contains("</user-") => {
            Reply::text(json!({"message": "", "status": "goal_reached"}).to_string())
        }
        "user_message" => Reply::text(json!({"message": "Refund!", "status": "continue"}).to_string()),
        _ => score(10),
    })
}

fn project(agent: &ModelServer, judge: &ModelServer, cases: &str) -> Project {
    Project::with(&format!(
        "name: support\nmodel: {{provider: openai, name: answering-model, endpoint: \"{}\"}}\n\
         instructions: {{inline: i}}\nexecution: {{parallel_test_cases: 1}}\n\
         evaluations:\n  model: {{provider: openai, name: judging-model, endpoint: \"{}\"}}\n  metrics:\n    \
         - {{type: standard, metric: json_valid, enabled: false}}\n\
         test_cases:\n{cases}",
        agent.url(),
        judge.url()
    ))
}

const TURNS: &str = "    turns: [{input: I want a refund.}, {input: Order 7.}, {input: When?}]\n";

const GOAL: &str = "      - {type: goal_success, goal: Get a refund.}\n";

/// A conversation with these metrics.
fn case(metrics: &str) -> String {
    format!("  - name: refund\n{TURNS}    conversation_evaluations:\n{metrics}")
}

fn first(project: &Project) -> Value {
    project.run_file()["report"]["results"][0].clone()
}

fn metrics(case: &Value) -> Vec<(String, bool, Value)> {
    let metrics = case["metric_results"].as_array().unwrap().iter();
    let metric = |metric: &Value| {
        (
            metric["metric_name"].as_str().unwrap().to_owned(),
            metric["conversation"] == true,
            metric["score"].clone(),
        )
    };
    metrics.map(metric).collect()
}

#[test]
fn a_goal_that_is_missed_fails_the_case_and_every_report_says_why() {
    let (agent, judge) = (agent(), judge(3));
    let project = project(&agent, &judge, &case(GOAL));
    let reports = [
        "--report",
        "markdown=r.md",
        "--report",
        "junit=r.xml",
        "--report",
        "html=r.html",
    ];
    assert_output!(project.run(&[&["test"], &reports[..]].concat()).exits(1));
    for report in ["r.md", "r.xml", "r.html"] {
        let text = project.read(report);
        assert!(
            text.contains("0.30, needs 0.70: So it is.; turn 1 contributed"),
            "{report}: {text}"
        );
        // Markdown escapes the underscore.
        assert!(
            text.replace('\\', "").contains("goal_success (conversation)"),
            "{report}"
        );
    }
    let case = first(&project);
    assert_eq!(case["state"], "failed");
    assert_eq!(metrics(&case), [("goal_success".to_owned(), true, json!(0.3))]);
    let metric = &case["metric_results"][0];
    assert_eq!(metric["kind"], "goal_success");
    assert_eq!(metric["model_used"], "judging-model");
    assert_eq!(
        metric["details"],
        json!({"goal": "Get a refund.", "raw": 3.0, "evidence": [
            {"turn": 1, "effect": "contributed", "quote": "Which order is it?", "found": true}
        ]})
    );
    for turn in case["turns"].as_array().unwrap() {
        assert_eq!(turn["metric_results"], json!([]));
    }
    assert_eq!(judge.finish().len(), 1, "the whole conversation is judged once");
}

#[test]
fn a_metric_of_turns_and_one_of_the_conversation_may_have_the_same_name() {
    let agent = agent();
    // The conversation gets 4 of 10, later 3, each answer 10.
    let of_conversation = Arc::new(AtomicU32::new(4));
    let judge = ModelServer::answering({
        let of_conversation = Arc::clone(&of_conversation);
        move |request| {
            let prompt = request.texts("user").concat();
            score(if prompt.contains("Evaluate the conversation") {
                of_conversation.load(Ordering::Relaxed)
            } else {
                10
            })
        }
    });
    let metric = "{type: geval, name: quality, criteria: c, evaluation_steps: [s], threshold: 0.3}";
    let cases = format!(
        "{}    evaluations: [{metric}]\n",
        case(&format!("      - {metric}\n"))
    );
    let project = project(&agent, &judge, &cases);
    assert_output!(project.run(&["test", "-v"]).exits(0));
    let run = project.run_file();
    let case = first(&project);
    let both = [
        ("quality".to_owned(), false, json!(1.0)),
        ("quality".to_owned(), true, json!(0.4)),
    ];
    assert_eq!(metrics(&case), both);
    assert_eq!(
        run["report"]["summary"]["average_scores"],
        json!({"quality": 1.0, "quality (conversation)": 0.4})
    );
    project.run(&["test", "regrade"]).exits(0);
    assert_eq!(metrics(&first(&project)), both);
    let compared = project.run(&["test", "compare", "baseline", "latest", "--json"]);
    assert_ne!(compared.code, Some(0), "there is no baseline yet");
    project.run(&["test", "--save-baseline"]).exits(0);
    // Only the metric of the conversation drops.
    of_conversation.store(3, Ordering::Relaxed);
    project.run(&["test"]).exits(0);
    let compared = project
        .run(&["test", "compare", "baseline", "latest", "--json"])
        .exits(0)
        .json();
    let means: Vec<(Value, Value)> = compared["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|metric| (metric["metric"].clone(), metric["pairs"].clone()))
        .collect();
    assert_eq!(
        means,
        [
            (json!("quality"), json!(1)),
            (json!("quality (conversation)"), json!(1))
        ]
    );
    agent.finish();
}

#[test]
fn an_unanswered_turn_is_an_error_of_the_metric_and_nothing_is_judged() {
    let agent = ModelServer::answering(|request| match request.texts("user").len() {
        2 => Reply::openai_error(400, "bad request", None, None),
        _ => Reply::text("Which order is it?"),
    });
    let judge = judge(10);
    let metrics = format!(
        "{GOAL}      - {{metric: contains, value: order}}\n      - {{metric: contains, value: x, negate: true}}\n"
    );
    let project = project(&agent, &judge, &case(&metrics));
    project
        .run(&["test"])
        .exits(3)
        .says("the conversation is incomplete: turn 2 has no answer");
    let result = first(&project);
    assert_eq!(result["state"], "error");
    for metric in result["metric_results"].as_array().unwrap() {
        assert_eq!(
            (&metric["score"], &metric["passed"]),
            (&Value::Null, &Value::Null),
            "{metric}"
        );
    }
    let yaml = project
        .read("agent.yaml")
        .replace("goal: Get a refund.", "goal: Get a refund., fail_on_error: true");
    project.write("agent.yaml", yaml);
    project.run(&["test"]).exits(1);
    assert_eq!(first(&project)["state"], "failed");
    assert_eq!(judge.finish().len(), 0);
}

#[test]
fn a_broken_judge_gives_no_verdict() {
    for (name, reply) in [
        ("prose", Reply::text("The goal was reached, 10 of 10.")),
        (
            "no evidence",
            Reply::text("{\"score\": 10, \"reason\": \"r\", \"evidence\": []}"),
        ),
        ("wrong form", Reply::text("{\"score\": 10, \"reason\": \"r\"}")),
        ("refused", Reply::refusal("I cannot judge this.")),
        ("error", Reply::openai_error(401, "no", None, None)),
    ] {
        let judge = ModelServer::answering(move |_| reply.clone());
        let agent = agent();
        let project = project(&agent, &judge, &case(GOAL));
        // Rejected credentials are a failure of the run.
        project.run(&["test"]).exits(if name == "error" { 3 } else { 4 });
        let result = first(&project);
        assert_eq!(
            (&result["state"], &result["metric_results"][0]["score"]),
            (&json!("error"), &Value::Null),
            "{name}"
        );
        // A missed gate outranks it.
        let yaml = project
            .read("agent.yaml")
            .replace("Get a refund.", "Get a refund., fail_on_error: true");
        project.write("agent.yaml", yaml);
        project.run(&["test"]).exits(1);
    }
}

#[test]
fn checks_of_a_conversation_see_every_answer() {
    let (agent, judge) = (agent(), judge(10));
    let metrics = "      - {metric: contains, value: [Monday, Which order]}\n      \
                   - {metric: contains, value: sorry, negate: true}\n      \
                   - {metric: regex, value: 'asked.*refund'}\n      - {metric: latency, max_ms: 600000}\n";
    let project = project(&agent, &judge, &case(metrics));
    project.run(&["test"]).exits(0);
    let yaml = project.read("agent.yaml").replace("value: sorry", "value: Which");
    project.write("agent.yaml", yaml);
    // The first answer has the forbidden text, not the last.
    project.run(&["test"]).exits(1).says("contains (conversation)");
    project.run(&["test", "regrade"]).exits(1);
    assert_eq!(judge.finish().len(), 0);
}

#[test]
fn the_goal_comes_from_the_metric_the_user_or_the_ground_truth() {
    let (agent, judge) = (agent(), judge(10));
    let metrics = "    conversation_evaluations: [{type: goal_success}]\n";
    let cases = format!(
        "  - {{name: one, input: Hi, ground_truth: Greeted., conversation_evaluations: [{{type: goal_success}}]}}\n  \
         - name: two\n    user: {{goal: Goal of the user.}}\n{metrics}  \
         - name: three\n    user: {{goal: Goal of the user.}}\n    conversation_evaluations: [{{goal: Another goal.}}]\n"
    );
    let project = project(&agent, &judge, &cases);
    project
        .run(&["test", "--dry-run"])
        .exits(0)
        .says("judges are asked at least 3 times");
    project.run(&["test"]).exits(0);
    let results = project.run_file()["report"]["results"].clone();
    let goals: Vec<&Value> = results
        .as_array()
        .unwrap()
        .iter()
        .map(|case| &case["metric_results"][0]["details"]["goal"])
        .collect();
    assert_eq!(goals, ["Greeted.", "Goal of the user.", "Another goal."]);
    // A single answer keeps its own fields.
    assert_eq!(results[0]["turns"], Value::Null);
    let asked = judge.finish();
    let tags = asked.iter().filter(|request| form(request) == "goal").count();
    assert_eq!(tags, 3);
}

#[test]
fn a_missed_gate_of_a_turn_or_of_the_conversation_saves_the_judge() {
    let (agent, judge) = (agent(), judge(10));
    let gated = "      - {type: goal_success, goal: g, when: gates_passed}\n";
    let turn = |gate: &str| {
        format!(
            "{}    evaluations: [{{metric: contains, value: {gate}}}]\n",
            case(gated)
        )
    };
    let conversation = |gate: &str| case(&format!("{gated}      - {{metric: contains, value: {gate}}}\n"));
    for (cases, code) in [
        (turn("Monday"), 1),
        (turn("e"), 0),
        (conversation("Friday"), 1),
        (conversation("Monday"), 0),
    ] {
        let project = project(&agent, &judge, &cases);
        let before = judge.requests().len();
        project.run(&["test"]).exits(code);
        let asked = judge.requests().len() - before;
        assert_eq!(asked, usize::from(code == 0), "{cases}");
        let result = first(&project);
        let metrics = result["metric_results"].as_array().unwrap();
        let metric = metrics.iter().find(|metric| metric["kind"] == "goal_success");
        assert_eq!(metric.unwrap()["skipped"] == true, code == 1);
    }
}

#[test]
fn a_recording_has_the_judge_of_the_conversation_and_a_regrade_asks_only_the_judge() {
    let (agent, judge) = (agent(), judge(10));
    let project = project(&agent, &judge, &case(GOAL));
    project.run(&["test", "--record", "run.jsonl"]).exits(0);
    let recorded = metrics(&first(&project));
    assert_eq!((agent.requests().len(), judge.requests().len()), (3, 1));
    project.run(&["test", "regrade"]).exits(0);
    assert_eq!((agent.requests().len(), judge.requests().len()), (3, 2));
    drop((agent, judge));
    project.run(&["test", "--replay", "run.jsonl"]).exits(0);
    assert_eq!(metrics(&first(&project)), recorded);
    // Another goal is another question, which the recording does not answer.
    let yaml = project
        .read("agent.yaml")
        .replace("Get a refund.", "Get a voucher.");
    project.write("agent.yaml", yaml);
    project.run(&["test", "--replay", "run.jsonl"]).exits(3);
}

#[test]
fn trials_juries_and_repetitions_count_conversations() {
    let agent = agent();
    let scores = Arc::new(Mutex::new(vec![10, 0, 10, 10, 10, 10]));
    let judge = ModelServer::answering({
        let scores = Arc::clone(&scores);
        move |_| goal(scores.lock().unwrap().pop().unwrap_or(10))
    });
    let metrics = "      - {type: goal_success, goal: g, judge_repeats: 3}\n";
    let cases = case(metrics) + "    trials: 2\n";
    let project = project(&agent, &judge, &cases);
    project.run(&["test"]).exits(0);
    let result = first(&project);
    assert_eq!(result["trials_passed"], 2);
    let mut differing: Vec<u64> = result["trial_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| {
            trial["metric_results"][0]["details"]["judges"][0]["differing"]
                .as_u64()
                .unwrap()
        })
        .collect();
    // Trials are judged at the same time.
    differing.sort_unstable();
    assert_eq!(differing, [0, 1]);
    let average = project.run_file()["report"]["summary"]["metrics_evaluated"].clone();
    assert_eq!(average, json!({"goal_success (conversation)": 2}));
    assert_eq!(judge.finish().len(), 6);
    let judge =
        ModelServer::answering(|request| goal(if request.body["model"] == "strict" { 0 } else { 10 }));
    let juror = |name: &str| {
        format!(
            "{{provider: openai, name: {name}, endpoint: \"{}\"}}",
            judge.url()
        )
    };
    let jury = format!(
        "      - {{type: goal_success, goal: g, judges: [{}, {}, {}]}}\n",
        juror("kind"),
        juror("strict"),
        juror("mild")
    );
    let project = self::project(&agent, &judge, &case(&jury));
    project.run(&["test"]).exits(0);
    let metric = first(&project)["metric_results"][0].clone();
    assert_eq!(metric["model_used"], "kind, strict, mild");
    assert_eq!(metric["score"], 1.0);
    judge.finish();
}

#[test]
fn a_conversation_with_a_secret_is_judged_only_if_masked_texts_are_accepted() {
    let agent = ModelServer::answering(|request| match request.texts("user").len() {
        2 => Reply::text(format!("Your code is {SECRET}.")),
        _ => Reply::text("Which order is it?"),
    });
    let judge = judge(10);
    let metrics = format!("{GOAL}      - {{metric: contains, value: do-not-show, negate: true}}\n");
    let project = project(&agent, &judge, &case(&metrics));
    let yaml = project.read("agent.yaml").replace(
        "name: answering-model,",
        &format!("name: answering-model, api_key: {SECRET},"),
    );
    project.write("agent.yaml", yaml);
    // The check sees the answer before it is masked; the judge would see it masked, and is not asked.
    project.run(&["test"]).exits(1).says("contains (conversation)");
    let judged = &first(&project)["metric_results"][0];
    let error = judged["error"].as_str().unwrap();
    assert!(error.contains("the answer in turn 2 held a secret"), "{error}");
    project.run(&["test", "regrade"]).exits(1);
    assert_eq!(judge.requests().len(), 0);
    let yaml = project
        .read("agent.yaml")
        .replace("type: goal_success", "type: goal_success, on_masked: accept");
    project.write("agent.yaml", yaml);
    project.run(&["test"]).exits(1);
    project.run(&["test", "regrade"]).exits(1);
    let asked = judge.finish();
    assert_eq!(asked.len(), 2);
    for request in asked {
        assert!(!request.body.to_string().contains(SECRET));
    }
}

#[test]
fn a_python_grader_gets_the_turns() {
    let (agent, judge) = (agent(), judge(10));
    let project = project(
        &agent,
        &judge,
        &case("      - {type: code, grader: \"grade:turns\"}\n"),
    );
    project.write(
        "grade.py",
        "from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult\n\n\
         def turns(ctx):\n    said = [[t.turn_input, t.agent_response, t.turn_index] for t in ctx.turns]\n    \
         return GraderResult(score=1.0, details={'said': said, 'last': ctx.agent_response})\n",
    );
    project.run(&["test"]).exits(0);
    let metric = first(&project)["metric_results"][0].clone();
    assert_eq!(
        (&metric["conversation"], &metric["details"]),
        (
            &json!(true),
            &json!({"last": ANSWERS[2], "said": [
                ["I want a refund.", ANSWERS[0], 0], ["Order 7.", ANSWERS[1], 1], ["When?", ANSWERS[2], 2]
            ]})
        )
    );
    judge.finish();
}

#[test]
fn metrics_in_the_wrong_list_are_reported_with_their_place() {
    let (agent, judge) = (agent(), judge(10));
    let metrics = "      - {type: goal_success}\n      - {metric: equality, value: x}\n      \
                   - {metric: fluency}\n      - {type: rag, metric_type: faithfulness}\n      \
                   - {metric: contains, value: x, response_path: a}\n      - {type: goal_succes, goal: g}\n      ";
    let cases = format!(
        "{}    evaluations: [{{type: goal_success, goal: g}}]\n",
        case(metrics)
    );
    assert_output!(project(&agent, &judge, &cases).run(&["validate"]).exits(2));
    let prompt = "      - {type: geval, name: g, criteria: c, custom_prompt: \"{{ response }}\"}\n";
    project(&agent, &judge, &case(prompt))
        .run(&["validate"])
        .exits(2)
        .says("`custom_prompt` uses `{{response}}`, which is not known; the names are conversation,");
    let valid = project(
        &agent,
        &judge,
        &case("      - {type: goal_success, goal: g, min_judges: 2}\n"),
    );
    valid
        .run(&["validate"])
        .exits(2)
        .says("`min_judges` needs `judges`");
}

#[test]
fn a_judge_of_conversations_needs_a_key_before_anything_is_asked() {
    let (agent, judge) = (agent(), judge(10));
    let keyed = "      - {type: goal_success, goal: g, model: {provider: openai, name: gpt-4o}}\n";
    let project = project(&agent, &judge, &case(keyed));
    project.run(&["test"]).exits(3).says("the judge `gpt-4o`");
    assert_eq!(agent.requests().len(), 0);
    project.run(&["doctor"]).says("judge gpt-4o");
}

#[test]
fn after_a_kill_only_the_open_question_about_the_conversation_is_asked_again() {
    let agent = agent();
    let hangs = Arc::new(Mutex::new(true));
    let judge = ModelServer::answering({
        let hangs = Arc::clone(&hangs);
        move |request| {
            let is_open = request
                .texts("user")
                .concat()
                .contains("Evaluate the conversation");
            match form(request) {
                "goal" => goal(10),
                _ if is_open && *hangs.lock().unwrap() => Reply::hang(),
                _ => score(10),
            }
        }
    });
    // The metric of the turns has the name of the open one.
    let metric = "{type: geval, name: quality, criteria: c, evaluation_steps: [s]}";
    let cases = format!(
        "{}    evaluations: [{metric}]\n",
        case(&format!("{GOAL}      - {metric}\n"))
    );
    let project = project(&agent, &judge, &cases);
    let mut child = project
        .command(&["test"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let judged = || {
        let journal = project.journals().first().map(std::fs::read_to_string);
        journal.map_or(0, |text| text.unwrap_or_default().matches("{\"judged\":").count())
    };
    // One answer for each turn, and the goal.
    while judged() < 4 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended with an open question");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    *hangs.lock().unwrap() = false;
    let before = judge.requests().len();
    project.run(&["test", "resume", "latest"]).exits(0);
    assert_eq!(judge.requests().len() - before, 1);
    assert_eq!(agent.finish().len(), 3);
    assert_eq!(
        metrics(&first(&project)),
        [
            ("quality".to_owned(), false, json!(1.0)),
            ("goal_success".to_owned(), true, json!(1.0)),
            ("quality".to_owned(), true, json!(1.0)),
        ]
    );
}

#[test]
fn a_cut_answer_in_the_middle_leaves_a_negated_check_without_a_verdict() {
    let agent = ModelServer::answering(|request| match request.texts("user").len() {
        2 => Reply::text("I am").finish_reason("length"),
        _ => Reply::text("Which order is it?"),
    });
    let judge = judge(10);
    let negated = "      - {metric: contains, value: sorry, negate: true}\n";
    project(&agent, &judge, &case(negated))
        .run(&["test"])
        .exits(4)
        .says("the missing text could contain the forbidden text");
    // With `on_truncated: fail` it is a missed gate.
    let gated = "      - {type: goal_success, goal: g, when: gates_passed}\n";
    let project = project(&agent, &judge, &case(gated));
    let yaml = project.read("agent.yaml").replace(
        "parallel_test_cases: 1",
        "parallel_test_cases: 1, on_truncated: fail",
    );
    project.write("agent.yaml", yaml);
    project.run(&["test"]).exits(1);
    assert_eq!(judge.finish().len(), 0);
}
