//! Metrics that a model judges, from the YAML to the reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
    sync::{Arc, Mutex},
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, SECRET, assert_output};

/// The form of the answer that a judge is asked for.
fn form(request: &ReceivedRequest) -> &str {
    request.body["response_format"]["json_schema"]["name"]
        .as_str()
        .unwrap_or_default()
}

/// Judges kindly.
fn kind_judge(request: &ReceivedRequest) -> Reply {
    Reply::text(kind_answer(request))
}

/// The answer of a kind judge: every score is the highest, every verdict is `yes`.
pub(crate) fn kind_answer(request: &ReceivedRequest) -> String {
    let prompt = request.texts("user").concat();
    let answer = match form(request) {
        "score" => {
            let scores =
                &request.body["response_format"]["json_schema"]["schema"]["properties"]["score"]["enum"];
            json!({"reason": "it is right", "score": scores.as_array().unwrap().last()})
        }
        "goal" => json!({"reason": "it is right", "score": 10, "evidence": [
            {"turn": 1, "effect": "contributed", "quote": "It takes 30 days."}]}),
        "items" => json!({"items": ["first", "second"]}),
        "verdicts" => {
            let count = prompt.matches(" number=\"").count().max(1);
            let count = if prompt.contains("numbered from 1 to 2") {
                2
            } else {
                count
            };
            let verdicts =
                (1..=count).map(|number| json!({"number": number, "verdict": "yes", "reason": "so it is"}));
            json!({"verdicts": verdicts.collect::<Vec<_>>()})
        }
        _ => json!({"statements": [{"statement": "s", "verdict": "yes", "reason": "so it is"}]}),
    };
    answer.to_string()
}

/// An agent that answers at `agent` and is judged at `judge` by `metrics`.
fn project(agent: &str, judge: &str, metrics: &str, cases: &str) -> Project {
    Project::with(&format!(
        "name: support\nmodel: {{provider: openai, name: answering-model, endpoint: \"{agent}\"}}\n\
         instructions: {{inline: Secret instructions of the agent.}}\n\
         execution: {{parallel_test_cases: 1}}\n\
         evaluations:\n  model: {{provider: openai, name: judging-model, endpoint: \"{judge}\"}}\n  metrics:\n{metrics}\
         test_cases:\n{cases}"
    ))
}

/// This number of cases.
fn cases(count: usize) -> String {
    let cases = (0..count).map(|number| format!("  - {{name: case {number}, input: question {number}}}"));
    cases.collect::<Vec<_>>().join("\n") + "\n"
}

const ONE_CASE: &str = "  - name: refunds\n    input: How long do refunds take?\n    ground_truth: 30 days\n    \
                        retrieval_context: [Refunds take 30 days., We ship on Mondays.]\n";

const ALL_METRICS: &str = "    - {type: geval, name: Correctness, criteria: Is the answer right?}\n    \
    - {type: geval, name: Polite, criteria: Is it polite?, evaluation_steps: [Look for insults.], strict_mode: true}\n    \
    - {type: rag, metric_type: faithfulness}\n    - {type: rag, metric_type: answer_relevancy}\n    \
    - {type: rag, metric_type: contextual_precision}\n    - {type: rag, metric_type: contextual_recall}\n    \
    - {type: rag, metric_type: contextual_relevancy}\n    \
    - {type: standard, metric: groundedness, threshold: 0.7}\n    - {type: standard, metric: relevance}\n    \
    - {type: standard, metric: coherence, scale: 3}\n    - {type: standard, metric: fluency}\n";

#[test]
fn a_judge_that_answers_in_another_form_is_named_with_its_question_and_a_way_out() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let judge = ModelServer::answering(|request| match form(request) {
        "items" => Reply::text(r#"{"items": ["Read it."], "reason": 7}"#),
        _ => Reply::text(r#"{"grade": "good"}"#),
    });
    let metrics = "    - {type: geval, name: polite, criteria: Is it polite?, evaluation_steps: [Read it.], \
                   threshold: 0.5}\n";
    let project = project(&agent.url(), &judge.url(), metrics, ONE_CASE);
    let ran = project.run(&["test"]).exits(4);
    let said = "no verdict: the judge `judging-model` (score): its answer does not have the requested form: ";
    let all = ran.all().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(all.contains(said), "{}", ran.all());
    assert!(
        all.contains("hint: a small model may not keep to the form of a verdict"),
        "{}",
        ran.all()
    );
    for never in ["could not be computed", "not judged", "structured output"] {
        assert!(!all.contains(never), "{never} in {}", ran.all());
    }
    let shown = project.run(&["test", "show", "latest", "refunds"]).exits(0);
    let shown = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(said), "{shown}");
}

#[test]
fn a_case_that_waits_for_its_judge_is_reported_as_answered() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let judge = ModelServer::answering(kind_judge);
    let project = project(&agent.url(), &judge.url(), ALL_METRICS, ONE_CASE);
    let events = |args: &[&str]| -> Vec<String> {
        let ran = project.run(args).exits(0);
        let lines = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|line| line["event"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        events(&["test", "--json"]),
        [
            "started",
            "case_started",
            "case_answered",
            "case_finished",
            "finished"
        ]
    );
    // The answer is that of the first run.
    assert_eq!(
        events(&["test", "regrade", "--json"]),
        ["started", "case_answered", "case_finished", "finished"]
    );
}

#[test]
fn every_judged_metric_gives_a_score_with_its_reason() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let judge = ModelServer::answering(kind_judge);
    let project = project(&agent.url(), &judge.url(), ALL_METRICS, ONE_CASE);
    assert_output!(project.run(&["test", "-v"]).exits(0));
    let run = project.run_file();
    let case = &run["report"]["results"][0];
    let scores: BTreeMap<&str, (&Value, &Value)> = case["metric_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|metric| {
            (
                metric["metric_name"].as_str().unwrap(),
                (&metric["score"], &metric["model_used"]),
            )
        })
        .collect();
    assert_eq!(scores.len(), 11);
    for (name, (score, model)) in scores {
        assert_eq!(
            (score.as_f64(), model.as_str()),
            (Some(1.0), Some("judging-model")),
            "{name}"
        );
    }
    // The agent's own usage does not contain the judge's.
    let answered = agent.finish();
    let judged = judge.finish();
    assert_eq!(answered.len(), 1);
    assert_eq!(case["num_turns"], 1);
    let tokens = |usage: &Value| usage["total_tokens"].as_u64().unwrap();
    assert!(tokens(&case["judge_usage"]) > tokens(&case["token_usage"]));
    // The steps were derived once, before the run.
    let (report, of_case) = (&run["report"], tokens(&case["judge_usage"]));
    assert_eq!(
        tokens(&report["summary"]["judge_usage"]),
        of_case + tokens(&report["judge_steps"]["usage"])
    );
    for request in &judged {
        assert!(request.body.get("tools").is_none(), "a judge has no tools");
        assert!(
            !request.body.to_string().contains("Secret instructions"),
            "nor the agent's instructions"
        );
    }
}

#[test]
fn a_low_score_fails_and_says_why() {
    let agent = ModelServer::answering(|_| Reply::text("It takes a year."));
    let judge = ModelServer::answering(|request| match form(request) {
        "items" => Reply::text(json!({"items": ["Refunds take a year.", "Refunds exist."]}).to_string()),
        "verdicts" => Reply::text(
            json!({"verdicts": [
                {"number": 2, "verdict": "yes", "reason": "implied"},
                {"number": 1, "verdict": "no", "reason": "passage 1 says 30 days"},
            ]})
            .to_string(),
        ),
        _ => Reply::text(json!({"reason": "a year is wrong", "score": 2}).to_string()),
    });
    let metrics = "    - {type: rag, metric_type: faithfulness, threshold: 0.9}\n    \
                   - {type: geval, name: Correctness, criteria: Is the answer right?, evaluation_steps: [Compare.]}\n";
    let project = project(&agent.url(), &judge.url(), metrics, ONE_CASE);
    assert_output!(project.run(&["test"]).exits(1));
    let metrics = project.run_file()["report"]["results"][0]["metric_results"].clone();
    assert_eq!(metrics[0]["details"][0]["verdict"], "no");
    agent.finish();
    judge.finish();
}

type BrokenReply = Box<dyn Fn() -> Reply + Send + Sync>;

#[test]
fn no_broken_judge_gives_a_verdict() {
    let score = json!({"reason": "fine", "score": 10}).to_string();
    let broken: Vec<(&str, BrokenReply)> = vec![
        (
            "does not have the requested form",
            Box::new(|| Reply::text("I would give it 10 of 10.")),
        ),
        (
            "does not have the requested form",
            Box::new(|| Reply::text("{\"reason\": \"fine\", \"score\": ")),
        ),
        (
            // Nothing is left of it but what is missing.
            "`score` is null",
            Box::new(|| Reply::text("{\"rating\": 10}")),
        ),
        (
            "the score 99 is not between 0 and 10",
            Box::new(|| Reply::text("{\"reason\": \"fine\", \"score\": 99}")),
        ),
        (
            "does not have the requested form",
            Box::new(|| Reply::text("{\"reason\": \"fine\", \"score\": NaN}")),
        ),
        ("empty", Box::new(Reply::nothing)),
        ("refused", Box::new(|| Reply::refusal("I cannot judge this."))),
        (
            "401",
            Box::new(|| Reply::openai_error(401, "bad key", None, None)),
        ),
        (
            "no such model",
            Box::new(|| Reply::openai_error(404, "no such model", None, None)),
        ),
        (
            "truncated",
            Box::new(move || Reply::text(score.clone()).finish_reason("length")),
        ),
        ("timeout exceeded", Box::new(Reply::hang)),
    ];
    for (problem, reply) in broken {
        let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
        let judge = ModelServer::answering(move |_| reply());
        let metrics = "    - {type: geval, name: Correctness, criteria: Is the answer right?, evaluation_steps: [Compare.], \
                       timeout_ms: 1500}\n    - {type: standard, metric: contains}\n";
        let project = project(&agent.url(), &judge.url(), metrics, ONE_CASE);
        let output = project.run(&["test"]);
        // Rejected credentials are a failure of the run.
        let code = if problem == "401" { 3 } else { 4 };
        assert_eq!(output.code, Some(code), "{problem}: {}", output.all());
        assert!(
            output
                .stdout
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(problem),
            "no {problem:?} in {}",
            output.all()
        );
        let metric = project.run_file()["report"]["results"][0]["metric_results"][0].clone();
        assert_eq!(
            (&metric["score"], &metric["passed"]),
            (&Value::Null, &Value::Null),
            "{problem}"
        );
    }
}

#[test]
fn a_metric_that_fails_on_errors_fails_the_case() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let judge = ModelServer::answering(|_| Reply::openai_error(400, "bad request", None, None));
    let metrics = "    - {type: standard, metric: fluency, threshold: 0.5, fail_on_error: true}\n";
    let project = project(&agent.url(), &judge.url(), metrics, ONE_CASE);
    project.run(&["test"]).exits(1).says("bad request");
    let case = project.run_file()["report"]["results"][0].clone();
    assert_eq!(
        (&case["state"], &case["metric_results"][0]["score"]),
        (&json!("failed"), &Value::Null)
    );
    judge.finish();
    agent.finish();
}

#[test]
fn the_agents_own_model_judges_with_a_warning_and_a_missed_gate_saves_the_call() {
    let server = ModelServer::answering(|request| match form(request) {
        "" => Reply::text("It takes a year."),
        _ => kind_judge(request),
    });
    let agent = |gate: &str| {
        Project::with(&format!(
            "name: support\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: i}}\n\
             evaluations:\n  metrics:\n    - {{type: standard, metric: contains, value: {gate}}}\n    \
             - {{type: standard, metric: fluency, threshold: 0.5, when: gates_passed}}\ntest_cases: [{{input: q}}]\n",
            server.url()
        ))
    };
    let passing = agent("year");
    passing
        .run(&["test"])
        .exits(0)
        .says("the agent's own model `m` judges its answers (`fluency`)");
    let failing = agent("days");
    let before = server.requests().len();
    failing.run(&["test", "-v"]).exits(1).says("skipped");
    assert_eq!(server.requests().len() - before, 1, "only the agent was asked");
    assert_eq!(
        failing.run_file()["report"]["results"][0]["metric_results"][1]["skipped"],
        true
    );
    assert_eq!(failing.run_file()["report"]["summary"]["metric_errors"], 0);
}

#[test]
fn judges_count_in_the_budget() {
    let agent = ModelServer::answering(|_| {
        Reply::text("yes").usage(json!({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}))
    });
    let judge = ModelServer::answering(|request| {
        kind_judge(request)
            .usage(json!({"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}))
    });
    let cases = cases(6);
    let metrics = "    - {type: standard, metric: fluency, threshold: 0.5}\n";
    let project = project(&agent.url(), &judge.url(), metrics, &cases);
    project.run(&["test", "--max-tokens-total", "1500"]).exits(6);
    assert_eq!(
        agent.requests().len(),
        2,
        "a case waits until the one before is judged"
    );
    project
        .run(&["test", "--max-cost-usd", "1"])
        .exits(2)
        .says("answering-model");
}

#[test]
fn a_recording_contains_the_judges_answers() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let judge = ModelServer::answering(kind_judge);
    let project = project(&agent.url(), &judge.url(), ALL_METRICS, ONE_CASE);
    project.run(&["test", "--record", "run.jsonl"]).exits(0);
    let recorded = project.run_file();
    drop((agent, judge));
    project.run(&["test", "--replay", "run.jsonl"]).exits(0);
    let replayed = project.run_file();
    let scores = |run: &Value| {
        let metrics = run["report"]["results"][0]["metric_results"]
            .as_array()
            .unwrap()
            .clone();
        let scores = metrics
            .iter()
            .map(|metric| (metric["score"].clone(), metric["reasoning"].clone()));
        scores.collect::<Vec<_>>()
    };
    assert_eq!(scores(&recorded), scores(&replayed));
    // Another question to the judge is not in the recording: an error, never a score.
    let yaml = project.read("agent.yaml").replace("Is it polite?", "Is it kind?");
    project.write("agent.yaml", yaml);
    project.run(&["test", "--replay", "run.jsonl"]).exits(3);
}

#[test]
fn a_recording_has_the_judges_answers_about_each_trial() {
    // Each trial has another answer, and the judge gives each another score.
    let trial = Mutex::new(0);
    let agent = ModelServer::answering(move |_| {
        let mut trial = trial.lock().unwrap();
        *trial += 1;
        Reply::text(format!("It takes {trial}0 days."))
    });
    let judge = ModelServer::answering(|request| {
        let prompt = request.texts("user").concat();
        let score = (1..=3)
            .find(|trial| prompt.contains(&format!("It takes {trial}0 days.")))
            .unwrap();
        Reply::text(json!({"reason": format!("gave {score}"), "score": score}).to_string())
    });
    let metrics = "    - {type: standard, metric: fluency, threshold: 0.5}\n";
    let project = project(&agent.url(), &judge.url(), metrics, ONE_CASE);
    let judged = |project: &Project| {
        let run = project.run_file();
        let trials = run["report"]["results"][0]["trial_results"]
            .as_array()
            .unwrap()
            .clone();
        let judged = trials.iter().map(|trial| {
            let metric = &trial["metric_results"][0];
            (
                trial["response"].clone(),
                metric["score"].clone(),
                metric["reasoning"].clone(),
            )
        });
        judged.collect::<Vec<_>>()
    };
    let trials = ["test", "--trials", "3", "--min-passes", "1"];
    project
        .run(&[&trials[..], &["--record", "run.jsonl"]].concat())
        .exits(0);
    let recorded = judged(&project);
    let mut scores: Vec<_> = recorded
        .iter()
        .map(|(_, score, _)| score.as_f64().unwrap())
        .collect();
    scores.sort_by(f64::total_cmp);
    assert_eq!(scores, [0.2, 0.4, 0.6]);
    drop((agent, judge));
    let replay = [&trials[..], &["--replay", "run.jsonl"]].concat();
    project.run(&replay).exits(0);
    assert_eq!(judged(&project), recorded);

    // Without the judge's answer about one trial, no other trial's answer stands in.
    let lines = project.read("run.jsonl");
    let kept: Vec<_> = lines.lines().filter(|line| !line.contains("gave 3")).collect();
    assert_eq!(kept.len(), lines.lines().count() - 1);
    project.write("run.jsonl", kept.join("\n") + "\n");
    // It could have been the one that passes, so the case has no verdict.
    project.run(&replay).exits(3);
}

#[test]
fn a_regrade_asks_the_judges_and_never_the_agent() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let down = Arc::new(Mutex::new(true));
    let judge = ModelServer::answering({
        let down = Arc::clone(&down);
        move |request| {
            if *down.lock().unwrap() {
                Reply::openai_error(400, "down", None, None)
            } else {
                kind_judge(request)
            }
        }
    });
    let metrics = "    - {type: standard, metric: fluency, threshold: 0.5}\n";
    let project = project(&agent.url(), &judge.url(), metrics, ONE_CASE);
    project.run(&["test"]).exits(4);
    *down.lock().unwrap() = false;
    project.run(&["test", "regrade"]).exits(0);
    assert_eq!(agent.finish().len(), 1);
}

/// A judge that counts its calls by the label of the metric and answers with the given score of 1 to 5; 0 is an error.
fn counting_judge(scores: &Arc<Mutex<BTreeMap<&'static str, u64>>>) -> ModelServer {
    let scores = Arc::clone(scores);
    ModelServer::answering(move |request| {
        let prompt = request.texts("user").concat() + &request.texts("system").concat();
        let asked = scores.lock().unwrap();
        let found = asked.iter().find(|(criteria, _)| prompt.contains(**criteria));
        match found.unwrap().1 {
            0 => Reply::openai_error(400, "down", None, None),
            score => Reply::text(json!({"reason": format!("gave {score}"), "score": score}).to_string()),
        }
    })
}

const TWO_JUDGED: &str = "    - {type: geval, name: right, criteria: Is it right?, evaluation_steps: [Is it right?], threshold: 0.5}\n    \
                          - {type: geval, name: polite, criteria: Is it polite?, evaluation_steps: [Is it polite?], threshold: 0.5}\n";

/// Score, verdict, error and reason of each metric of the first case.
fn verdicts(project: &Project) -> Vec<(String, Value, Value, bool, Value)> {
    let run = project.run_file();
    let metrics = run["report"]["results"][0]["metric_results"].as_array().unwrap();
    let verdicts = metrics.iter().map(|metric| {
        let name = metric["metric_name"].as_str().unwrap().to_owned();
        let is_error = !metric["error"].is_null();
        (
            name,
            metric["score"].clone(),
            metric["passed"].clone(),
            is_error,
            metric["reasoning"].clone(),
        )
    });
    verdicts.collect()
}

#[test]
fn a_regrade_of_one_metric_keeps_the_verdicts_of_the_others() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let scores = Arc::new(Mutex::new(BTreeMap::from([
        ("Is it right?", 10),
        ("Is it polite?", 1),
    ])));
    let judge = counting_judge(&scores);
    let project = project(&agent.url(), &judge.url(), TWO_JUDGED, ONE_CASE);
    project.run(&["test"]).exits(1);
    let first = verdicts(&project);
    let asked = judge.requests().len();
    assert_eq!(
        (first[0].2.clone(), first[1].2.clone()),
        (json!(true), json!(false))
    );

    // Both judges would answer otherwise now; only the named one is asked.
    *scores.lock().unwrap() = BTreeMap::from([("Is it right?", 1), ("Is it polite?", 10)]);
    project.run(&["test", "regrade", "--metric", "right"]).exits(1);
    let second = verdicts(&project);
    assert_eq!(second[0].2, json!(false));
    assert_eq!(second[1], first[1]);
    assert_eq!(judge.requests().len(), asked + 1);

    // The verdicts of a regrade are kept like those of a run.
    let regraded = project.run_file()["report"]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    project
        .run(&["test", "regrade", &regraded, "--metric", "polite"])
        .exits(1);
    let third = verdicts(&project);
    assert_eq!((&third[0], third[1].2.clone()), (&second[0], json!(true)));
    // Without a name, the first run is the one that is graded, and everything is asked.
    project.run(&["test", "regrade"]).exits(1);
    assert_eq!(judge.requests().len(), asked + 4);
    assert_eq!(agent.finish().len(), 1);
}

#[test]
fn a_regrade_of_errors_asks_only_for_them() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let scores = Arc::new(Mutex::new(BTreeMap::from([
        ("Is it right?", 0),
        ("Is it polite?", 1),
    ])));
    let judge = counting_judge(&scores);
    let project = project(&agent.url(), &judge.url(), TWO_JUDGED, ONE_CASE);
    project.run(&["test"]).exits(1);
    let first = verdicts(&project);
    assert!(first[0].3);
    *scores.lock().unwrap() = BTreeMap::from([("Is it right?", 10), ("Is it polite?", 10)]);
    let asked = judge.requests().len();
    // The missed gate stays missed, though its judge would be kinder now.
    project.run(&["test", "regrade", "--errors"]).exits(1);
    let second = verdicts(&project);
    assert_eq!((second[0].2.clone(), &second[1]), (json!(true), &first[1]));
    assert_eq!(judge.requests().len(), asked + 1);
    // A run without errors keeps everything, and its verdict.
    let regraded = project.run_file()["report"]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    project
        .run(&["test", "regrade", &regraded, "--errors", "--allow-empty"])
        .exits(1);
    assert_eq!(judge.requests().len(), asked + 1);
}

#[test]
fn a_verdict_of_a_changed_metric_is_not_kept() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let scores = Arc::new(Mutex::new(BTreeMap::from([
        ("Is it right?", 10),
        ("Is it polite?", 1),
    ])));
    let judge = counting_judge(&scores);
    let project = project(&agent.url(), &judge.url(), TWO_JUDGED, ONE_CASE);
    project.run(&["test"]).exits(1);
    let asked = judge.requests().len();
    let yaml = project.read("agent.yaml");
    let polite = "[Is it polite?], threshold: 0.5}";
    let changes = [
        // A kinder threshold would turn the stored score into a pass that no judge gave.
        yaml.replace(polite, "[Is it polite?], threshold: 0.0}"),
        yaml.replace(polite, "[Is it polite? Be kind.], threshold: 0.5}"),
        yaml.replace("name: judging-model", "name: other-model"),
        yaml.replace("name: polite", "name: courteous"),
    ];
    for changed in &changes {
        assert_ne!(*changed, yaml);
        project.write("agent.yaml", changed);
        project
            .run(&["test", "regrade", "--metric", "right"])
            .exits(2)
            .says("cannot be kept");
        project.run(&["test", "regrade", "--errors"]).exits(2);
    }
    assert_eq!(
        judge.requests().len(),
        asked,
        "nothing is asked before everything is checked"
    );
    // The renewed metric itself may change.
    let changed = yaml.replace(
        "[Is it right?], threshold: 0.5}",
        "[Is it right?], threshold: 0.9}",
    );
    project.write("agent.yaml", changed);
    project.run(&["test", "regrade", "--metric", "right"]).exits(1);
    assert_eq!(judge.requests().len(), asked + 1);
    // A name that no metric has.
    project
        .run(&["test", "regrade", "--metric", "rigth"])
        .exits(2)
        .says("did you mean `right`?");
}

#[test]
fn an_unusable_metric_is_reported_with_its_place() {
    let metrics = "    - {type: standard, metric: fluency, scale: 1}\n    \
                   - {type: standard, metric: relevance, custom_prompt: \"Rate {{ answer }}\"}\n    \
                   - {type: standard, metric: contains, judge_repeats: 3}\n    \
                   - {type: geval, name: g, criteria: c, min_judges: 2}\n";
    let project = project("http://127.0.0.1:9", "http://127.0.0.1:9", metrics, ONE_CASE);
    assert_output!(project.run(&["validate"]).exits(2));
    let metrics = metrics.replace("    - {type: standard, metric: contains, judge_repeats: 3}\n", "");
    let metrics = metrics.replace(", min_judges: 2", "");
    let project = self::project("http://127.0.0.1:9", "http://127.0.0.1:9", &metrics, ONE_CASE);
    assert_output!(project.run(&["validate"]).exits(2));
}

#[test]
fn an_error_of_a_judges_endpoint_names_the_judges_block() {
    let agent = ModelServer::answering(|_| Reply::text("It takes 30 days."));
    let metric =
        "    - {type: geval, name: Correct, evaluation_steps: [Compare.], criteria: Is the answer right?}\n";
    let project = project(&agent.url(), "http://127.0.0.1:9", metric, ONE_CASE);
    let output = project.run(&["test"]).exits(4);
    let words = |output: &CommandOutput| output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let place = "agent.yaml:6:60 (`evaluations.model.endpoint`)";
    assert!(words(&output).contains(place), "{}", output.stdout);

    let jury = metric.replace(
        "right?}",
        "right?, judges: [{provider: ollama, name: one, endpoint: \"http://127.0.0.1:9\"}]}",
    );
    let project = self::project(&agent.url(), "http://127.0.0.1:9", &jury, ONE_CASE);
    let output = project.run(&["test"]).exits(4);
    let block = "(`evaluations.metrics.0.judges.0.endpoint`)";
    assert!(words(&output).contains(block), "{}", output.stdout);
}

#[test]
fn a_judge_sees_no_secret_of_the_file() {
    let agent = ModelServer::answering(|_| Reply::text(format!("The code is {SECRET}.")));
    let judge = ModelServer::answering(kind_judge);
    let cases = "  - name: code\n    input: What is the code?\n    ground_truth: The code is ${SERVICE_TOKEN}.\n    \
                 retrieval_context: [\"Our code is ${SERVICE_TOKEN}.\"]\n";
    let project = project(&agent.url(), &judge.url(), ALL_METRICS, cases);
    let test = |args: &[&str]| {
        let output = project
            .command(args)
            .env("SERVICE_TOKEN", SECRET)
            .output()
            .unwrap();
        CommandOutput::of(&output)
    };
    // The meaning of the hidden part is unknown, so nothing is judged.
    test(&["test", "-v"])
        .exits(4)
        .says("held a secret and was masked")
        .says("on_masked");
    let yaml = project.read("agent.yaml");
    project.write(
        "agent.yaml",
        yaml.replace("evaluations:\n", "evaluations:\n  on_masked: accept\n"),
    );
    test(&["test", "-v"]).exits(0);
    let judged = judge.finish();
    assert!(!judged.is_empty());
    for request in judged {
        assert!(!request.body.to_string().contains(SECRET), "{}", request.body);
    }
    for file in [
        project.run_file().to_string(),
        std::fs::read_to_string(&project.journals()[0]).unwrap(),
    ] {
        assert!(!file.contains(SECRET));
    }
}

/// The prompts whose answers are in the journal, by the number in the judge's reason.
fn journaled(project: &Project) -> BTreeSet<usize> {
    if project.journals().is_empty() {
        return BTreeSet::new();
    }
    let journal = std::fs::read_to_string(project.journals().last().unwrap()).unwrap();
    let lines = journal
        .lines()
        .skip(1)
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let reasons = lines.filter_map(|line| line["judged"]["answer"]["value"]["reason"].as_str()?.parse().ok());
    reasons.collect()
}

/// How often the run is killed.
const KILLS: usize = 6;

#[test]
fn after_a_kill_no_answer_of_a_judge_is_asked_for_again() {
    let agent = ModelServer::answering(|request| {
        Reply::text(format!("answer to {}", request.texts("user").concat()))
    });
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    // The number of questions that are answered before a kill; the others stay open.
    let allowed = Arc::new(Mutex::new(0));
    let judge = ModelServer::answering({
        let (asked, allowed) = (Arc::clone(&asked), Arc::clone(&allowed));
        move |request| {
            let mut asked = asked.lock().unwrap();
            let number = asked.len();
            asked.push(request.texts("user").concat());
            let mut allowed = allowed.lock().unwrap();
            if *allowed == 0 {
                return Reply::hang();
            }
            *allowed -= 1;
            Reply::text(json!({"reason": number.to_string(), "score": 4}).to_string())
        }
    });
    let cases = cases(12);
    let metrics = "    - {type: standard, metric: fluency, threshold: 0.5}\n    \
                   - {type: standard, metric: coherence, threshold: 0.5}\n    - {type: standard, metric: relevance}\n";
    let project = project(&agent.url(), &judge.url(), metrics, &cases);
    let mut args = vec!["test"];
    for round in 0..=KILLS {
        let from = asked.lock().unwrap().len();
        let before = journaled(&project);
        *allowed.lock().unwrap() = if round < KILLS { 4 } else { usize::MAX };
        let mut child = project
            .command(&args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if round < KILLS {
            while journaled(&project).len() < before.len() + 4 {
                assert_eq!(
                    child.try_wait().unwrap(),
                    None,
                    "it ended although questions are open"
                );
                std::thread::yield_now();
            }
            child.kill().unwrap();
        }
        let ended = child.wait().unwrap();
        let asked = asked.lock().unwrap();
        let known: BTreeSet<&String> = before.iter().map(|&number| &asked[number]).collect();
        let again = asked[from..]
            .iter()
            .filter(|prompt| known.contains(prompt))
            .count();
        assert_eq!(again, 0, "asked again although the answer was in the journal");
        assert_eq!(ended.code(), (round == KILLS).then_some(0));
        args = vec!["test", "resume", "latest"];
    }
    assert_eq!(project.run_file()["report"]["summary"]["passed"], 12);
    // Every answer is counted once, whenever it was given.
    let used = project.run_file()["report"]["summary"]["judge_usage"]["total_tokens"].as_u64();
    assert!(used.is_some_and(|used| used > 0));
}
