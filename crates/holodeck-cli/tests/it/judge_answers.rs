//! Texts of judges: every form with one reading is the same verdict, every other is asked for once more, with the reason, and
//! never becomes a score.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{judges::kind_answer, project::Project};

const OBJECT: &str = r#"{"score": 8, "reason": "polite"}"#;

/// The beginning of the question that is asked once more.
const ONCE_MORE: &str = "That is not the JSON that was asked for: ";

/// The verdict of a judge's text.
#[derive(Debug, PartialEq)]
struct Judged {
    state: String,
    score: Option<f64>,
    /// The questions to the judge about it.
    asked: usize,
    /// The questions that were asked once more, without their beginning.
    reasons: Vec<String>,
}

/// The last message of a request.
fn last_message(request: &ReceivedRequest) -> &str {
    request.texts("user").pop().unwrap_or_default()
}

/// Runs a case for each text, which its judge answers with, however often it is asked. The judged answers begin with `judged`.
fn judge_all_of(texts: &[String], judged: &'static str) -> Vec<Judged> {
    let number_in = |request: &ReceivedRequest| -> usize {
        let prompt = request.texts("user").concat();
        let (_, after) = prompt.split_once("question number ").unwrap();
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        after[..digits].parse().unwrap()
    };
    let answers = texts.to_vec();
    let beginning = if judged.is_empty() { "An answer to" } else { judged };
    let server = ModelServer::answering(move |request| match request.body["model"].as_str() {
        Some("judge") => Reply::text(answers[number_in(request)].clone()),
        // The judge sees the answer.
        _ => Reply::text(format!("{beginning} question number {}.", number_in(request))),
    });
    let endpoint = server.url();
    let mut yaml = format!(
        "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{endpoint}\"}}\n\
         instructions: {{inline: Answer briefly.}}\nexecution: {{parallel_test_cases: 8}}\nevaluations:\n  \
         model: {{provider: openai, name: judge, endpoint: \"{endpoint}\"}}\n  metrics: [{{type: geval, name: polite, \
         criteria: Is it polite?, evaluation_steps: [Read it.], threshold: 0.7}}]\ntest_cases:\n"
    );
    for number in 0..texts.len() {
        let _ = writeln!(
            yaml,
            "- {{name: case {number}, input: question number {number}.}}"
        );
    }
    let project = Project::with(&yaml);
    project.run(&["test"]);
    let run = project.run_file();
    let mut asked: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for request in server.finish() {
        if request.body["model"] == "judge" {
            let last = last_message(&request).to_owned();
            asked.entry(number_in(&request)).or_default().push(last);
        }
    }
    let results = run["report"]["results"].as_array().unwrap();
    let judged = results.iter().enumerate().map(|(number, result)| {
        let asked = asked.remove(&number).unwrap_or_default();
        let reasons = asked.iter().filter_map(|message| message.strip_prefix(ONCE_MORE));
        Judged {
            state: result["state"].as_str().unwrap().to_owned(),
            score: result["metric_results"][0]["score"].as_f64(),
            asked: asked.len(),
            reasons: reasons.map(str::to_owned).collect(),
        }
    });
    let judged: Vec<Judged> = judged.collect();
    assert_eq!(judged.len(), texts.len());
    judged
}

fn check_all_read(texts: &[String]) {
    check_read(texts, "");
}

fn check_all_refused(texts: &[String]) {
    check_refused(texts, "");
}

fn check_read(texts: &[String], judged: &'static str) {
    let right = Judged {
        state: "passed".to_owned(),
        score: Some(0.8),
        asked: 1,
        reasons: Vec::new(),
    };
    let judged = judge_all_of(texts, judged);
    let wrong = texts.iter().zip(&judged).filter(|(_, judged)| **judged != right);
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}

fn check_refused(texts: &[String], judged: &'static str) {
    let judged = judge_all_of(texts, judged);
    let wrong = texts.iter().zip(&judged).filter(|(_, judged)| {
        let has_reason = judged
            .reasons
            .iter()
            .all(|reason| reason.len() > ". Answer again".len() + 10);
        (
            judged.state.as_str(),
            judged.score,
            judged.asked,
            judged.reasons.len(),
        ) != ("error", None, 2, 1)
            || !has_reason
    });
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}

/// The texts around an object: fences, sentences before and after it, think blocks.
fn wrapped(objects: &[String], every: usize) -> Vec<String> {
    let fences = [
        "@",
        "```json\n@\n```",
        "```\n@\n```",
        "```JSON\n@```",
        "```json5\n@\n```",
        "~~~json\n@\n~~~",
        "\n\n @ \n",
    ];
    let before = [
        "",
        "Sure!\n",
        "Here is my verdict:\n",
        "\u{feff}",
        "**Verdict:**\n\n",
        "I weigh tone and facts.\n",
    ];
    let after = [
        "",
        "\nHope this helps!",
        "\n\nExplanation: it is kind in 3 of 4 sentences.",
    ];
    let thoughts = [
        "",
        "<think>\nA 2? Or {\"score\": 2}?\n</think>\n",
        "A 2, I think.\n</think>\n",
        "<think></think>\n\n",
    ];
    let mut texts = Vec::new();
    for object in objects {
        for fence in fences {
            for before in before {
                for after in after {
                    for thought in thoughts {
                        texts.push(format!("{thought}{before}{}{after}", fence.replace('@', object)));
                    }
                }
            }
        }
    }
    // A step that divides no number of forms, so that every pair of forms is tried.
    texts.into_iter().step_by(every).collect()
}

#[test]
fn every_form_of_one_verdict_is_read_alike() {
    let objects = [
        OBJECT,
        "{\n  \"score\": 8,\n  \"reason\": \"polite\"\n}",
        r#"{"reason": "polite", "score": 8}"#,
        r#"{"reason":"polite","score":"8"}"#,
        r#"{"score": 8.0, "reason": "polite"}"#,
        r#"{"score": " 8 ", "reason": "a } b \" {"}"#,
        r#"{"confidence": 0.9, "score": 8, "reason": "polite"}"#,
        r#"{"score": 8, "reason": "polite", "details": {"tone": ["kind", {"a": 1}], "none": null}}"#,
        "{\"score\": 8, \"reason\": \"line one\nline two\r\nline\tthree\"}",
        r#"{"score": 8, "reason": ""}"#,
        r#"{"sc\u006fre": 8, "reason": "“polite”, 親切"}"#,
    ];
    check_all_read(&wrapped(&objects.map(str::to_owned), 23));
}

#[test]
fn no_text_with_two_readings_becomes_a_verdict() {
    let cores = [
        // A key twice.
        r#"{"score": 8, "score": 2, "reason": "r"}"#,
        r#"{"score": 2, "reason": "r", "score": 8}"#,
        r#"{"score": 8, "sc\u006fre": 2, "reason": "r"}"#,
        r#"{"score": 8, "reason": "r", "details": {"score": 2, "score": 8}}"#,
        // Two different objects.
        "{\"score\": 8, \"reason\": \"r\"}\n{\"score\": 2, \"reason\": \"r\"}",
        "{\"score\": 2, \"reason\": \"r\"} {\"score\": 8, \"reason\": \"r\"}",
        "{\"score\": 8, \"reason\": \"r\"}\n{\"score\": 8, \"reason\": \"r\"}\n{\"score\": 2, \"reason\": \"r\"}",
        "[{\"score\": 8, \"reason\": \"r\"}, {\"score\": 2, \"reason\": \"r\"}]",
        // An object in one that cannot be read.
        "{score: 2, details: {\"score\": 8, \"reason\": \"r\"}}",
        "{\"score\": 2, {\"score\": 8, \"reason\": \"r\"}}",
        "{'score': 2, 'details': {\"score\": 8, \"reason\": \"r\"}}",
        "{\"result\": {\"score\": 8, \"reason\": \"r\"}}",
        // An object that is only quoted.
        "It asks for {\"score\": 8, \"reason\": \"r\"}, which decides nothing.",
        "The answer contains `{\"score\": 8, \"reason\": \"r\"}`.",
        "> {\"score\": 8, \"reason\": \"r\"}",
        // Another verdict beside it.
        "{\"score\": 8, \"reason\": \"r\"}\nMy verdict: 2",
        "2/10\n{\"score\": 8, \"reason\": \"r\"}",
        "{\"score\": 8, \"reason\": \"r\"} {\"score\":",
    ];
    check_all_refused(&wrapped(&cores.map(str::to_owned), 43));
    let more = [
        "<think>{\"score\": 8, \"reason\": \"r\"}",
        "<think>{\"score\": 8, \"reason\": \"r\"}</think>",
        "<think>{\"score\": 8, \"reason\": \"r\"}</think>Good.",
        "```json\n{\"score\": 8, \"reason\": \"r\"}\n```\n```json\n{\"score\": 2, \"reason\": \"r\"}\n```",
    ];
    check_all_refused(&more.map(str::to_owned));
}

/// The table of the documentation has exactly these rows, and each says what happens to its examples.
#[test]
fn the_documented_table_of_what_is_read_is_true() {
    let rows = include_str!("../../../../fixtures/judges/answers.json");
    let rows: Vec<Value> = serde_json::from_str(rows).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/metrics.md")).unwrap();
    let (_, table) = page
        .split_once("| a judge writes | it is |\n|---|---|\n")
        .unwrap();
    let documented: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let listed = rows
        .iter()
        .map(|row| format!("| {} | {} |", text(row, "writes"), text(row, "is")));
    assert_eq!(
        listed.collect::<Vec<_>>(),
        documented,
        "`fixtures/judges/answers.json` and the table differ"
    );
    let (mut read, mut refused) = (Vec::new(), Vec::new());
    for row in &rows {
        let texts = |key: &str| {
            let texts = row[key].as_array().into_iter().flatten();
            texts
                .map(|text| text.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert!(!texts("examples").is_empty(), "{row}");
        let is_read = row["read"].as_bool().unwrap();
        assert_eq!(is_read, !text(row, "is").starts_with("refused"), "{row}");
        let (own, others) = if is_read {
            (&mut read, &mut refused)
        } else {
            (&mut refused, &mut read)
        };
        if let Some(judged) = row["judged"].as_str() {
            let judged: &'static str = judged.to_owned().leak();
            check_refused(&texts("examples"), judged);
            check_read(&texts("counterexamples"), judged);
            continue;
        }
        own.extend(texts("examples"));
        others.extend(texts("counterexamples"));
    }
    check_all_read(&read);
    check_all_refused(&refused);
}

/// Every judged metric, from the schema of the language; `goal_success` is one of conversations.
fn judged_metrics() -> (Vec<String>, Vec<String>) {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/schemas/agent.schema.json")).unwrap();
    let definitions = &schema["$defs"];
    let names = |definition: &str, is_judge: fn(&str) -> bool| -> Vec<&str> {
        let names = definitions[definition]["oneOf"].as_array().unwrap().iter();
        let judges = names.filter(|name| is_judge(name["description"].as_str().unwrap()));
        judges.map(|name| name["const"].as_str().unwrap()).collect()
    };
    let kinds = definitions["MetricConfig"]["oneOf"].as_array().unwrap();
    let judged = kinds
        .iter()
        .filter(|kind| kind["properties"].get("include_reason").is_some());
    let (mut of_turns, mut of_conversations) = (Vec::new(), Vec::new());
    for kind in judged {
        match kind["properties"]["type"]["const"].as_str().unwrap() {
            "standard" => {
                for name in names("StandardMetricName", |description| description.starts_with("A judge:")) {
                    of_turns.push(format!("{{type: standard, metric: {name}, threshold: 0.5}}"));
                }
            }
            "rag" => {
                for name in names("RagMetricType", |_| true) {
                    of_turns.push(format!("{{type: rag, metric_type: {name}}}"));
                }
            }
            "geval" => of_turns.extend([
                "{type: geval, name: plain, criteria: Is it right?, evaluation_steps: [Read it.]}".to_owned(),
                "{type: geval, name: strict, criteria: Is it right?, evaluation_steps: [Read.], strict_mode: true}"
                    .to_owned(),
            ]),
            "goal_success" => of_conversations.push("{type: goal_success, goal: Know the time.}".to_owned()),
            other => panic!("`{other}` is judged, and no test asks its judge"),
        }
    }
    (of_turns, of_conversations)
}

/// The right answer of a judge to a question, made unreadable, and a part of the reason.
type Spoiled = (&'static str, fn(&str) -> String, &'static str);

const SPOILED: &[Spoiled] = &[
    (
        "words",
        |_| "It is all right.".to_owned(),
        "it has no JSON object",
    ),
    ("nothing", |_| String::new(), "it is empty"),
    (
        "cut",
        |good| good[..good.len() - 1].to_owned(),
        "an object is not complete",
    ),
    (
        "two objects",
        |good| format!("{good}\n{{\"other\": 1}}"),
        "two different JSON objects",
    ),
    (
        "a key twice",
        |good| format!("{{\"a\": 1, \"a\": 2, {}", &good[1..]),
        "it is not JSON",
    ),
    (
        "a comma",
        |good| format!("{},}}", &good[..good.len() - 1]),
        "it is not JSON",
    ),
    ("other quotes", |good| good.replace('"', "'"), "it is not JSON"),
    (
        "quoted",
        |good| format!("It wants {good}, which I ignore."),
        "as if quoted",
    ),
    (
        "an example",
        |good| format!("For example:\n{good}"),
        "an example, a quotation or a supposition",
    ),
    (
        "a supposition",
        |good| format!("If it were right:\n{good}"),
        "an example, a quotation or a supposition",
    ),
    ("within braces", |good| format!("{{answer: {good}}}"), "not JSON"),
    (
        "another verdict",
        |good| format!("{good}\nMy verdict: bad"),
        "another verdict",
    ),
    ("another object", |_| "{\"verdict\": \"good\"}".to_owned(), ""),
    ("null", |_| "null".to_owned(), "it has no JSON object"),
];

#[test]
fn an_unreadable_answer_to_any_judged_metric_is_asked_for_once_more_with_the_reason() {
    let (of_turns, of_conversations) = judged_metrics();
    for &(name, spoil, reason) in SPOILED {
        let server = ModelServer::answering(move |request| {
            if request.body["model"] != "judge" {
                return Reply::text("It takes 30 days.");
            }
            let good = kind_answer(request);
            if last_message(request).starts_with(ONCE_MORE) {
                Reply::text(good)
            } else {
                Reply::text(spoil(&good))
            }
        });
        let endpoint = server.url();
        let list = |metrics: &[String]| metrics.join(", ");
        let project = Project::with(&format!(
            "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{endpoint}\"}}\n\
             instructions: {{inline: Answer briefly.}}\nevaluations:\n  model: {{provider: openai, name: judge, endpoint: \
             \"{endpoint}\"}}\n  metrics: [{{type: standard, metric: contains, value: days}}]\ntest_cases:\n- name: turn\n  input: How long?\n  ground_truth: 30 days\n  \
             retrieval_context: [Refunds take 30 days., We ship on Mondays.]\n  evaluations: [{}]\n- name: talk\n  \
             turns: [{{input: How long?}}, {{input: Sure?}}]\n  conversation_evaluations: [{}]\n",
            list(&of_turns),
            list(&of_conversations),
        ));
        let ran = project.run(&["test"]);
        let asked = server.finish();
        let asked = asked.iter().filter(|request| request.body["model"] == "judge");
        let (again, first): (Vec<_>, Vec<_>) =
            asked.partition(|request| last_message(request).starts_with(ONCE_MORE));
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        assert_eq!(
            again.len(),
            first.len(),
            "{name}: each question is asked once more"
        );
        assert!(first.len() >= of_turns.len() + of_conversations.len(), "{name}");
        for request in again {
            let message = last_message(request);
            assert!(message.contains(reason), "{name}: {message}");
            let spoiled = request.texts("assistant");
            assert_eq!(
                spoiled.len(),
                1,
                "{name}: the judge sees its own answer: {spoiled:?}"
            );
        }
        let run = project.run_file();
        for result in run["report"]["results"].as_array().unwrap() {
            assert_eq!(result["state"], "passed", "{name}: {result:#}");
        }
    }
}

/// A judge that answers with a call, as models do that were trained with tools.
#[test]
fn a_judge_that_calls_a_tool_is_asked_once_more_and_never_again() {
    for calls_for in [1, usize::MAX] {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let server = ModelServer::answering(move |request| {
            if request.body["model"] != "judge" {
                return Reply::text("It takes 30 days.");
            }
            let number = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if number < calls_for {
                Reply::tool_call("call_1", "submit_verdict", &json!({"score": 2, "reason": "rude"}))
            } else {
                Reply::text(OBJECT)
            }
        });
        let endpoint = server.url();
        let project = Project::with(&format!(
            "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{endpoint}\"}}\n\
             instructions: {{inline: Answer briefly.}}\nevaluations:\n  model: {{provider: openai, name: judge, endpoint: \
             \"{endpoint}\"}}\n  metrics: [{{type: geval, name: polite, criteria: Is it polite?, evaluation_steps: [Read \
             it.], threshold: 0.7}}]\ntest_cases: [{{name: a, input: How long?}}]\n"
        ));
        let ran = project.run(&["test"]);
        let requests = server.finish();
        let questions: Vec<_> = requests
            .iter()
            .filter(|request| request.body["model"] == "judge")
            .collect();
        assert_eq!(questions.len(), 2, "{ran:?}");
        let again = last_message(questions[1]);
        assert!(
            again.starts_with(&format!(
                "{ONCE_MORE}it calls a tool, `submit_verdict`, and there are none"
            )),
            "{again}"
        );
        let is_read = calls_for == 1;
        assert_eq!(ran.code, Some(if is_read { 0 } else { 4 }), "{ran:?}");
        let result = project.run_file()["report"]["results"][0].clone();
        assert_eq!(result["state"], if is_read { "passed" } else { "error" });
        assert_eq!(
            result["metric_results"][0]["score"].as_f64(),
            is_read.then_some(0.8),
            "{result:#}"
        );
    }
}

/// The schema's words for the metrics are those that this file chooses by.
#[test]
fn all_kinds_of_judged_metrics_are_found() {
    let (of_turns, of_conversations) = judged_metrics();
    let has = |name: &str| of_turns.iter().any(|metric| metric.contains(name));
    for name in [
        "groundedness",
        "fluency",
        "faithfulness",
        "answer_relevancy",
        "geval",
    ] {
        assert!(has(name), "{name}");
    }
    assert!(!has("bleu") && !of_conversations.is_empty());
    assert_eq!(json!(of_turns.len()), json!(11));
}
