//! Votes of judges that are missing, and texts that judges must not see: what every report says about them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, SECRET};

const REPORTS: [&str; 4] = ["json", "junit", "markdown", "html"];

fn arguments<'a>(more: &[&'a str], reports: &'a [String]) -> Vec<&'a str> {
    let mut args = vec!["test"];
    args.extend(more);
    for report in reports {
        args.extend(["--report", report]);
    }
    args
}

fn report_flags() -> Vec<String> {
    REPORTS
        .iter()
        .map(|format| format!("{format}=report.{format}"))
        .collect()
}

/// The terminal, and every report of the last run.
fn reports(project: &Project, output: &CommandOutput) -> Vec<(&'static str, String)> {
    let files = REPORTS.map(|format| (format, project.read(&format!("report.{format}"))));
    let terminal = (
        "terminal",
        output.stdout.split_whitespace().collect::<Vec<_>>().join(" "),
    );
    let unescape = |text: String| {
        text.replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&#x27;", "'")
    };
    let files = files.map(|(format, text)| (format, unescape(text)));
    files.into_iter().chain([terminal]).collect()
}

fn score(score: u32) -> Reply {
    Reply::text(json!({"reason": "so it is", "score": score}).to_string())
}

fn project(agent: &str, judge: &str, metric: &str, cases: &str) -> Project {
    Project::with(&format!(
        "name: support\nmodel: {{provider: openai, name: answering-model, endpoint: \"{agent}\"}}\n\
         instructions: {{inline: Help.}}\nexecution: {{parallel_test_cases: 1}}\n\
         evaluations:\n  model: {{provider: openai, name: judging-model, endpoint: \"{judge}\"}}\n  metrics:\n{metric}\
         test_cases:\n{cases}"
    ))
}

const ONE_CASE: &str = "  - {name: refunds, input: How long do refunds take?}\n";

fn jury(judge: &str, more: &str) -> String {
    let model = |name| format!("{{provider: openai, name: {name}, endpoint: \"{judge}\"}}");
    let models = ["steady-judge", "absent-judge"].map(model).join(", ");
    format!(
        "    - {{type: geval, name: Right, criteria: c, evaluation_steps: [s], judges: [{models}], timeout_ms: 1500{more}}}\n"
    )
}

#[test]
fn every_report_names_a_judge_that_gave_no_vote() {
    type Failing = fn() -> Reply;
    let failing: [(&str, Failing); 5] = [
        ("401", || Reply::openai_error(401, "bad key", None, None)),
        ("403", || Reply::openai_error(403, "not yours", None, None)),
        ("refused", || Reply::refusal("I do not judge.")),
        ("schema", || Reply::text("ten of ten")),
        ("timeout", Reply::hang),
    ];
    for (problem, reply) in failing {
        let agent = ModelServer::answering(|_| Reply::text("30 days."));
        let judge = ModelServer::answering(move |request: &ReceivedRequest| {
            match request.body["model"].as_str().unwrap() {
                "absent-judge" => reply(),
                _ => score(9),
            }
        });
        let project = project(&agent.url(), &judge.url(), &jury(&judge.url(), ""), ONE_CASE);
        let flags = report_flags();
        let output = project.run(&arguments(&[], &flags)).exits(0);
        for (report, text) in reports(&project, &output) {
            let says = text.contains("absent-judge") && (report == "json" || text.contains("gave no vote"));
            assert!(says, "{report} of {problem}: {text}");
        }
        let metric = project.run_file()["report"]["results"][0]["metric_results"][0].clone();
        let model = metric["model_used"].as_str().unwrap();
        assert!(
            model.contains("steady-judge") && !model.contains("absent-judge"),
            "{model}"
        );
        assert_eq!(metric["missing_votes"][0]["number"], 2);
        // The last vote that is needed is an error, and one of rejected credentials is an error of the run.
        let yaml = project
            .read("agent.yaml")
            .replace(", timeout_ms", ", min_judges: 2, timeout_ms");
        project.write("agent.yaml", yaml);
        let code = if problem.starts_with('4') { 3 } else { 4 };
        let output = project.run(&arguments(&[], &flags)).exits(code);
        for (report, text) in reports(&project, &output) {
            assert!(
                text.contains("1 of 2 judges returned a verdict"),
                "{report} of {problem}: {text}"
            );
        }
    }
}

#[test]
fn rejected_credentials_of_a_judge_stop_asking_the_agent() {
    for status in [401, 403] {
        for kind in ["judge", "user", "loop"] {
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&asked);
            let agent = ModelServer::answering(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
                Reply::text("30 days.")
            });
            let judge = ModelServer::answering(move |_| Reply::openai_error(status, "bad key", None, None));
            let model = format!(
                "{{provider: openai, name: other-model, endpoint: \"{}\"}}",
                judge.url()
            );
            let metric = match kind {
                "judge" => "    - {type: standard, metric: fluency, threshold: 0.5}\n",
                _ => "    - {type: standard, metric: contains, value: days}\n",
            };
            let user = match kind {
                "user" => format!(", user: {{goal: Know., model: {model}}}"),
                _ => String::new(),
            };
            let cases: Vec<String> = (0..6)
                .map(|number| format!("  - {{name: case {number}, input: question {number}{user}}}\n"))
                .collect();
            let cases = cases.concat();
            let project = project(&agent.url(), &judge.url(), metric, &cases);
            if kind == "loop" {
                let scorer = format!("quality_loop:\n  scorer: {{judge: {{criteria: c, model: {model}}}}}\n");
                project.write("agent.yaml", project.read("agent.yaml") + &scorer);
            }
            let output = project.run(&["test", "-j", "1"]).exits(3);
            assert!(
                output.all().contains(&status.to_string()),
                "{kind}: {}",
                output.all()
            );
            assert!(
                asked.load(Ordering::Relaxed) <= 4,
                "{kind}: {}",
                asked.load(Ordering::Relaxed)
            );
            assert!(
                project.run_file()["report"]["summary"]["not_run"]
                    .as_u64()
                    .unwrap()
                    >= 2,
                "{kind}"
            );
        }
    }
}

/// The answers of judges in a recording, by their place in the file.
fn judged_lines(recording: &str) -> Vec<usize> {
    let lines = recording.lines().enumerate();
    let judged = lines.filter(|(_, line)| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["request"]["unit"]
            .as_str()
            .is_some_and(|unit| unit.contains(" · Right"))
    });
    judged.map(|(place, _)| place).collect()
}

#[test]
fn no_recorded_answer_of_a_judge_is_replayed_for_another_opinion() {
    let agent = ModelServer::answering(|_| Reply::text("30 days."));
    let judge = ModelServer::answering(|_| score(9));
    let model = format!("{{provider: openai, name: m, endpoint: \"{}\"}}", judge.url());
    let geval = |more: &str| {
        format!("    - {{type: geval, name: Right, criteria: c, evaluation_steps: [s]{more}}}\n")
    };
    for (metric, opinions) in [
        (
            geval(&format!(", judges: [{model}, {model}, {model}], min_judges: 1")),
            3,
        ),
        (geval(", judge_repeats: 5"), 5),
        (geval(", samples: 4"), 4),
        (
            geval(&format!(
                ", judges: [{model}, {model}], judge_repeats: 2, samples: 2"
            )),
            8,
        ),
        (geval("") + &geval(""), 2),
    ] {
        let project = project(&agent.url(), &judge.url(), &metric, ONE_CASE);
        project.run(&["test", "--record", "run.jsonl"]).exits(0);
        let recording = project.read("run.jsonl");
        let judged = judged_lines(&recording);
        assert_eq!(judged.len(), opinions, "{metric}");
        project.run(&["test", "--replay", "run.jsonl"]).exits(0);
        let flags = report_flags();
        let replay = |kept: &dyn Fn(usize) -> bool| {
            let lines = recording.lines().enumerate().filter(|(place, _)| kept(*place));
            let lines: Vec<&str> = lines.map(|(_, line)| line).collect();
            project.write("run.jsonl", lines.join("\n") + "\n");
            let output = project
                .run(&arguments(&["--replay", "run.jsonl"], &flags))
                .exits(3);
            for (report, text) in reports(&project, &output) {
                assert!(text.contains("holds no answer"), "{report} of {metric}: {text}");
            }
        };
        // Each is missing, and only one of them is there.
        for missing in &judged {
            replay(&|place| place != *missing);
            replay(&|place| !judged.contains(&place) || place == *missing);
        }
    }
}

#[test]
fn every_report_names_a_text_that_was_masked_before_judges_and_programs() {
    let agent = ModelServer::answering(|_| Reply::text(format!("The key is {SECRET}.")));
    let judge = ModelServer::answering(|_| score(5));
    let judged = "    - {type: standard, metric: fluency, threshold: 0.5}\n";
    let code = "    - {type: code, name: check, command: sh, args: [-c, \"cat > seen.json; echo 1\"]}\n";
    for metric in [judged, code] {
        let project = project(&agent.url(), &judge.url(), metric, ONE_CASE);
        let keyed = "name: answering-model, api_key: \"${SERVICE_TOKEN}\",";
        project.write(
            "agent.yaml",
            project
                .read("agent.yaml")
                .replace("name: answering-model,", keyed),
        );
        let flags = report_flags();
        let test = |args: &[&str]| {
            let output = project
                .command(args)
                .env("SERVICE_TOKEN", SECRET)
                .output()
                .unwrap();
            CommandOutput::of(&output)
        };
        let output = test(&arguments(&[], &flags)).exits(4);
        for (report, text) in reports(&project, &output) {
            assert!(
                text.contains("the answer held a secret and was masked"),
                "{report}: {text}"
            );
            assert!(!text.contains(SECRET), "{report}");
        }
        let yaml = project.read("agent.yaml");
        for (place, metric_says) in [
            ("evaluations:\n  on_masked: accept\n", ""),
            ("evaluations:\n", ", on_masked: accept}\n"),
        ] {
            let mut changed = yaml.replace("evaluations:\n", place);
            if !metric_says.is_empty() {
                let own = metric.replace("}\n", metric_says);
                changed = changed.replace(metric, &own);
            }
            project.write("agent.yaml", changed);
            test(&["test"]).exits(0);
        }
    }
}
