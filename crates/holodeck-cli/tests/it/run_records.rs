//! The record of a run: resume, regrade, reports and exit codes agree about it.

use std::fs;

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, TWO_CASES, agent, correct_server, half_correct_server};

const FOUR: &str = "  - {name: alpha, input: first, ground_truth: yes}\n  - {name: beta, input: second, ground_truth: yes}\n  \
                    - {name: gamma, input: third, ground_truth: yes}\n  - {name: delta, input: fourth, ground_truth: yes}\n";

fn yes_server() -> ModelServer {
    ModelServer::answering(|_| Reply::text("yes"))
}

/// The reports of a run, and which of them show that all cases passed.
#[derive(Debug)]
struct Reports {
    green: Vec<(&'static str, bool)>,
    json: Value,
    junit: String,
    html: String,
    markdown: String,
}

/// The flags that write every report.
pub(crate) const REPORTS: [&str; 10] = [
    "--report",
    "json=r.json",
    "--report",
    "jsonl=r.jsonl",
    "--report",
    "junit=r.xml",
    "--report",
    "html=r.html",
    "--report",
    "markdown=r.md",
];

fn run_with_reports(project: &Project, args: &[&str]) -> (CommandOutput, Reports) {
    let ran = project.run(&[args, &REPORTS].concat());
    let json: Value = serde_json::from_str(&project.read("r.json")).unwrap();
    let junit = project.read("r.xml");
    let html = project.read("r.html");
    let markdown = project.read("r.md");
    let lines = project.read("r.jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let planned = lines.len() - 1;
    let summary = &json["summary"];
    let passed = |value: &Value| value["passed"] == json!(true);
    let suite = junit
        .lines()
        .find(|line| line.starts_with("<testsuites"))
        .unwrap();
    let green = vec![
        (
            "json",
            json["ended"] == "completed" && summary["passed"] == json!(planned) && summary["not_run"] == 0,
        ),
        (
            "jsonl",
            lines[0]["ended"] == "completed" && lines[1..].iter().all(passed),
        ),
        (
            "junit",
            suite.contains("failures=\"0\" errors=\"0\" skipped=\"0\""),
        ),
        ("html", html.contains("<h1>support <span class=\"badge passed\">")),
        ("markdown", markdown.starts_with("## ✅")),
    ];
    assert_eq!(junit.matches("<testcase ").count(), planned, "{junit}");
    (
        ran,
        Reports {
            green,
            json,
            junit,
            html,
            markdown,
        },
    )
}

/// A way a run can end: its name, the answer to the second and every later case, the cases, flags, more YAML, and the
/// exit code.
type RunEnd<'a> = (&'a str, Reply, &'a str, Vec<&'a str>, &'a str, i32);

#[test]
fn all_reports_agree_on_the_verdict() {
    let unauthorised = || Reply::openai_error(401, "wrong key", Some("invalid_api_key"), None);
    let negated = "  - name: alpha\n    input: first\n    evaluations: [{type: standard, metric: contains, value: no way, negate: true}]\n";
    let relevance = "  - name: alpha\n    input: first\n    evaluations: [{type: standard, metric: relevance, threshold: 0.5}]\n";
    let unchecked = "  - name: alpha\n    input: first\n    evaluations: [{type: standard, metric: rouge}]\n    ground_truth: yes\n";
    let fail_truncated = "execution:\n  on_truncated: fail\n";
    let cut = || Reply::text("yes").finish_reason("length");
    let ends: Vec<RunEnd<'_>> = vec![
        ("passed", Reply::text("yes"), FOUR, vec![], "", 0),
        ("failed", Reply::text("nope"), FOUR, vec![], "", 1),
        (
            "provider error",
            Reply::openai_error(400, "refused", None, None),
            FOUR,
            vec![],
            "",
            3,
        ),
        ("refusal", Reply::refusal("I will not"), FOUR, vec![], "", 1),
        ("empty answer", Reply::nothing(), FOUR, vec![], "", 1),
        ("wrong key", unauthorised(), FOUR, vec![], "", 3),
        (
            "no usage",
            Reply::text("yes").without_usage(),
            FOUR,
            vec![],
            "",
            0,
        ),
        ("truncated", cut(), FOUR, vec![], "", 0),
        ("truncated and failing", cut(), FOUR, vec![], fail_truncated, 1),
        ("truncated and negated", cut(), negated, vec![], "", 4),
        ("judge", Reply::text("yes"), relevance, vec![], "", 4),
        ("unchecked", Reply::text("yes"), unchecked, vec![], "", 5),
        (
            "budget",
            Reply::text("yes"),
            FOUR,
            vec!["--max-tokens-total", "1"],
            "",
            6,
        ),
        (
            "unenforceable budget",
            Reply::text("yes").without_usage(),
            FOUR,
            vec!["--max-tokens-total", "100000"],
            "",
            3,
        ),
        ("fail fast", Reply::text("nope"), FOUR, vec!["--fail-fast"], "", 1),
    ];
    for (name, reply, cases, flags, more, code) in ends {
        let single = cases != FOUR;
        let server = ModelServer::answering(move |request| {
            if request.index == 0 && !single {
                Reply::text("yes")
            } else {
                reply.clone()
            }
        });
        let yaml = agent(&server.url(), cases);
        let yaml = match more {
            "" => yaml,
            more => yaml.replace("execution:\n", more),
        };
        let project = Project::with(&yaml);
        let (ran, reports) = run_with_reports(&project, &[&["test"], flags.as_slice()].concat());
        let ran = ran.exits(code);
        for (format, green) in &reports.green {
            assert_eq!(*green, code == 0, "{name}: {format}\n{}", ran.all());
        }
        let not_run = reports.json["summary"]["not_run"].as_u64().unwrap();
        assert_eq!(
            reports.json["not_run"].as_array().unwrap().len() as u64,
            not_run,
            "{name}"
        );
        assert_eq!(
            reports.markdown.matches("| not run |").count() as u64,
            not_run,
            "{name}"
        );
        assert_eq!(
            reports.html.matches("data-state=\"skipped\"").count() as u64,
            not_run,
            "{name}"
        );
        if name.starts_with("truncated") {
            for text in [&ran.stdout, &reports.junit, &reports.html, &reports.markdown] {
                assert!(text.contains("truncated at max"), "{name}: {text}");
            }
            assert_eq!(
                reports.json["summary"]["truncated"],
                json!(if single { 1 } else { 3 })
            );
        }
        server.finish_unchecked();
    }
}

#[test]
fn a_regrade_of_a_stopped_run_is_as_stopped_as_that() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    project.run(&["test", "--max-tokens-total", "1"]).exits(6);
    let (ran, reports) = run_with_reports(&project, &["test", "regrade", "latest"]);
    let ran = ran
        .exits(6)
        .says("1 of 4 passed, 3 not run")
        .says("regraded from 2");
    assert!(ran.stdout.contains("beta, gamma, delta"), "{}", ran.all());
    assert!(reports.green.iter().all(|(_, green)| !green), "{reports:?}");
    assert!(reports.junit.contains("skipped=\"3\""), "{}", reports.junit);
    // `latest` is the run that asked the model, not the regrade.
    project
        .run(&["test", "resume", "latest"])
        .exits(0)
        .says("4 passed");
    assert_eq!(server.finish().len(), 4);
}

#[test]
fn a_regrade_names_added_and_reworded_cases() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    project.run(&["test"]).exits(0);
    let changed = FOUR.replace("input: second", "input: another question")
        + "  - {name: epsilon, input: fifth, ground_truth: yes}\n";
    project.write("agent.yaml", agent(&server.url(), &changed));
    let (ran, reports) = run_with_reports(&project, &["test", "regrade", "latest"]);
    let ran = ran.exits(3).says("3 of 5 passed, 2 not run");
    assert!(ran.stdout.contains("not run: beta, epsilon"), "{}", ran.all());
    let names: Vec<&Value> = reports.json["not_run"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| &case["test_name"])
        .collect();
    assert_eq!(names, ["beta", "epsilon"]);
    assert_eq!(server.finish().len(), 4);
}

#[test]
fn a_regrade_names_the_model_that_answered() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    project.run(&["test"]).exits(0);
    let changed = agent(&server.url(), FOUR)
        .replace("test-model", "newer-model")
        .replace("Answer briefly", "Answer at length");
    project.write("agent.yaml", changed);
    let (ran, reports) = run_with_reports(&project, &["test", "regrade", "latest"]);
    let ran = ran.exits(0).says("regraded from 2");
    assert!(!ran.all().contains("newer-model"), "{}", ran.all());
    assert!(ran.all().contains("test-model"), "{}", ran.all());
    for text in [&reports.junit, &reports.html, &reports.markdown] {
        assert!(text.contains("regraded from 2"), "{text}");
    }
    let run_file = project.run_file();
    assert!(run_file["report"]["regraded_from"].is_string());
    assert_eq!(
        run_file["metadata"]["agent_config"]["model"]["name"],
        "test-model"
    );
    server.finish();
}

#[test]
fn swapped_files_do_not_swap_answers() {
    let server = ModelServer::answering(|request| {
        let asked = request.texts("user").join(" ");
        Reply::text(if asked.contains("harbour") {
            "about ships"
        } else {
            "about trains"
        })
    });
    let cases = |first: &str, second: &str| {
        format!(
            "  - input: Summarise it\n    ground_truth: ships\n    files: [{{path: {first}, type: text}}]\n  \
             - input: Summarise it\n    ground_truth: trains\n    files: [{{path: {second}, type: text}}]\n"
        )
    };
    let project = Project::with(&agent(&server.url(), &cases("one.txt", "two.txt")));
    project.write("one.txt", "the harbour report");
    project.write("two.txt", "the railway report");
    project.run(&["test"]).exits(0);
    // Each case is matched with the answer to its file, and now expects the other answer.
    project.write("agent.yaml", agent(&server.url(), &cases("two.txt", "one.txt")));
    project
        .run(&["test", "regrade", "latest"])
        .exits(1)
        .says("2 failed");
    // A case whose file has changed has no answer.
    project.write("agent.yaml", agent(&server.url(), &cases("one.txt", "two.txt")));
    project.write("one.txt", "the market report");
    let asked = server.requests().len();
    project
        .run(&["test", "regrade", "latest"])
        .exits(3)
        .says("1 not run");
    assert_eq!(server.finish().len(), asked);
}

#[test]
fn checks_see_the_answer_and_regrade_keeps_their_verdict() {
    let key = format!("sk-{}", "a1B2".repeat(8));
    let leak = format!("yes, the key is {key}");
    let server = ModelServer::answering(move |_| Reply::text(leak.clone()));
    let metrics = |more: &str| {
        format!(
            "  - name: leak\n    input: first\n    evaluations:\n      \
             - {{type: standard, metric: regex, value: \"sk-[A-Za-z0-9]{{20,}}\", negate: true}}\n{more}"
        )
    };
    let project = Project::with(&agent(&server.url(), &metrics("")));
    project.run(&["test"]).exits(1);
    let (_, reports) = run_with_reports(&project, &["test", "regrade", "latest"]);
    assert_eq!(reports.json["summary"]["failed"], 1);
    // A new check cannot be computed if its text could be in the masked part, unless it finds the text elsewhere.
    let new = "      - {type: standard, metric: contains, value: a1B2a1B2, negate: true}\n      \
               - {type: standard, metric: contains, value: the key is}\n";
    project.write("agent.yaml", agent(&server.url(), &metrics(new)));
    let (ran, reports) = run_with_reports(&project, &["test", "regrade", "latest"]);
    let ran = ran.exits(1);
    let metrics = reports.json["results"][0]["metric_results"].as_array().unwrap();
    let passed: Vec<&Value> = metrics.iter().map(|metric| &metric["passed"]).collect();
    assert_eq!(
        passed,
        [&json!(false), &Value::Null, &json!(true)],
        "{}",
        ran.all()
    );
    assert!(metrics[1]["error"].as_str().unwrap().contains("masked"));
    let everything =
        fs::read_to_string(project.journals().first().unwrap()).unwrap() + &project.read("r.html");
    assert!(!everything.contains(&key) && everything.contains("\"redacted\""));
    server.finish();
}

#[test]
fn a_budget_that_is_used_up_by_the_last_case_stopped_nothing() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    project.run(&["test"]).exits(0);
    let tokens = project.run_file()["report"]["summary"]["token_usage"]["total_tokens"]
        .as_u64()
        .unwrap();
    let all = tokens.to_string();
    project
        .run(&["test", "--max-tokens-total", &all])
        .exits(0)
        .says("4 passed");
    let less = (tokens - 1).to_string();
    project.run(&["test", "--max-tokens-total", &less]).exits(0);
    let one_case_less = (tokens / 4 * 3).to_string();
    project
        .run(&["test", "--max-tokens-total", &one_case_less])
        .exits(6)
        .says("1 not run");
    server.finish();
}

#[test]
fn a_budget_that_cannot_be_enforced_stops_the_run_with_the_reason() {
    let zero = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    for reply in [Reply::text("yes").without_usage(), Reply::text("yes").usage(zero)] {
        let server = ModelServer::answering(move |_| reply.clone());
        let project = Project::with(&agent(&server.url(), FOUR));
        project
            .run(&["test", "--max-tokens-total", "1000000"])
            .exits(3)
            .says("cannot enforce `--max-tokens-total`")
            .says("3 not run");
        assert_eq!(server.finish().len(), 1);
    }
}

#[test]
fn a_resumed_run_has_the_flags_it_began_with() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    let flags = [
        "--force-ingest",
        "--timeout",
        "50",
        "--record",
        "first.jsonl",
        "--allow-side-effects",
    ];
    project
        .run(&[&["test", "--max-tokens-total", "1"], &flags[..]].concat())
        .exits(6);
    let header = fs::read_to_string(&project.journals()[0]).unwrap();
    let header: Value = serde_json::from_str(header.lines().next().unwrap()).unwrap();
    assert_eq!(
        header["flags"],
        json!({"allow_side_effects": true, "force_ingest": true, "timeout_s": 50.0, "record": "first.jsonl"})
    );
    project
        .run(&["test", "resume", "latest", "--record", "second.jsonl"])
        .exits(2)
        .says("`--record`");
    // The budget of the first run does not apply again.
    let ran = project
        .run(&["test", "resume", "latest", "--timeout", "40"])
        .exits(0);
    let ran = ran.says("4 passed").says("resumed with `--timeout 40`");
    assert!(ran.stdout.contains("50 s"), "{}", ran.all());
    assert_eq!(project.run_file()["report"]["environment"]["llm_timeout_s"], 40.0);
    assert_eq!(project.read("first.jsonl").matches("fourth").count(), 1);
    assert_eq!(server.finish().len(), 4);
}

#[test]
fn a_flag_that_shapes_answers_is_not_added_later() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    project.run(&["test", "--max-tokens-total", "1"]).exits(6);
    for flag in ["--allow-side-effects", "--force-ingest"] {
        project
            .run(&["test", "resume", "latest", flag])
            .exits(2)
            .says(&format!("was started without `{flag}`"));
    }
    assert_eq!(server.finish().len(), 1);
}

#[test]
fn a_report_without_a_place_is_refused_before_the_run() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    project.write("file", "");
    for place in ["file/r.html", "/proc/r.html"] {
        project
            .run(&["test", "--report", &format!("html={place}")])
            .exits(2)
            .says(place);
    }
    assert!(server.finish().is_empty());
}

#[test]
fn a_report_that_fails_is_not_listed_and_hides_nothing() {
    let project = Project::empty();
    let place = project.path("reports");
    let server = ModelServer::answering(move |request| {
        if request.index == 0 {
            // The folder is removed during the run.
            fs::remove_dir_all(&place).unwrap();
            fs::write(&place, "a file now").unwrap();
        }
        Reply::text("yes")
    });
    project.write("agent.yaml", agent(&server.url(), FOUR));
    let ran = project
        .run(&[
            "test",
            "--report",
            "html=reports/r.html",
            "--report",
            "json=r.json",
        ])
        .exits(3)
        .says("4 passed")
        .says("cannot write the report `reports/r.html`");
    let listed: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.contains("report  "))
        .collect();
    assert_eq!(listed.len(), 2, "{}", ran.all());
    assert!(
        !listed.iter().any(|line| line.contains("r.html")),
        "{}",
        ran.all()
    );
    assert!(project.read("r.json").contains("\"passed\": 4"));
    server.finish();
}

#[test]
fn a_long_name_of_an_agent_has_a_run_file() {
    let server = yes_server();
    let long = format!("name: {}", "very ".repeat(60));
    let yaml = agent(&server.url(), FOUR).replacen("name: support", &long, 1);
    let project = Project::with(&yaml);
    project.run(&["test"]).exits(0);
    assert_eq!(project.run_file()["report"]["summary"]["passed"], 4);
    server.finish();
}

#[test]
fn a_run_file_without_a_place_is_refused_before_the_run() {
    let server = yes_server();
    let project = Project::with(&agent(&server.url(), FOUR));
    project.write("results", "a file where the folder should be");
    project.run(&["test"]).exits(3).says("results/support");
    assert!(server.finish().is_empty());
}

#[test]
fn from_a_damaged_line_on_cases_are_asked_again_and_a_damaged_head_is_kept() {
    let server = correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]).exits(0);
    let journal = project.journals().remove(0);
    let whole = fs::read_to_string(&journal).unwrap();
    let headless = whole.replacen('\n', "", 1);
    fs::write(&journal, &headless).unwrap();
    project
        .run(&["test", "resume", "latest"])
        .exits(2)
        .says("does not say whose run it is");
    assert_eq!(fs::read_to_string(&journal).unwrap(), headless);
    let mut lines: Vec<String> = whole.lines().map(ToOwned::to_owned).collect();
    let half = lines[1].len() / 2;
    lines[1].truncate(half);
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    project
        .run(&["test", "resume", "latest"])
        .exits(0)
        .says("2 passed")
        .says("line 2 of the journal did not fit to the lines before it")
        .says("1 case was asked again");
    assert_eq!(server.finish().len(), 4);
}

#[test]
fn a_run_that_was_killed_is_incomplete_when_it_is_graded_again() {
    let server = half_correct_server();
    let project = Project::with(&agent(&server.url(), TWO_CASES));
    project.run(&["test"]).exits(1);
    let journal = project.journals().remove(0);
    let whole = fs::read_to_string(&journal).unwrap();
    // As after `kill -9` while the first case was graded.
    let lines: Vec<&str> = whole.lines().take(2).collect();
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    project
        .run(&["test", "regrade", "latest"])
        .exits(3)
        .says("1 of 2 passed, 1 not run")
        .says("sum");
    let asked = server.requests().len();
    project.run(&["test", "resume", "latest"]).exits(1);
    assert_eq!(
        server.finish().len(),
        asked + 1,
        "the answer that was recorded is graded, not asked again"
    );
}
