use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use holodeck::{
    model::{Replayed, ReportHead, TestResult},
    runner::{ExitCode, RunEvent, RunSink, SummaryFold},
};
use serde_json::{Value, json};

use super::{
    Kept,
    json::Json,
    live::{Board, Live},
    plain::Plain,
};
use crate::{
    render::{Failures, Summary, hints, summary},
    terminal::Verbosity,
};

/// A result of which only what is told is given.
fn result(index: usize, name: &str, state: &str, more: &Value) -> TestResult {
    let mut result = json!({
        "index": index,
        "case_id": format!("{index:016x}"),
        "test_name": name,
        "test_input": "question",
        "agent_response": "I could not find order #12",
        "tool_calls": [],
        "tool_invocations": [],
        "expected_tools": null,
        "tools_matched": null,
        "metric_results": [],
        "ground_truth": "Your order #12 is in transit",
        "passed": state == "passed",
        "state": state,
        "execution": "completed",
        "execution_time_ms": 1_200 + 400 * index,
        "errors": [],
        "timestamp": "2026-11-21T20:11:03Z",
        "token_usage": {"prompt_tokens": 700, "completion_tokens": 112, "total_tokens": 812},
        "cost_usd": 0.0021,
        "num_turns": 1,
        "turns": null,
    });
    for (key, value) in more.as_object().unwrap() {
        result[key] = value.clone();
    }
    serde_json::from_value(result).unwrap()
}

fn metric(name: &str, score: f64, threshold: Option<f64>, passed: Option<bool>, why: Option<&str>) -> Value {
    json!({
        "metric_name": name, "kind": "standard", "score": score, "threshold": threshold, "passed": passed,
        "scale": "0-1", "error": null, "retry_count": 0, "evaluation_time_ms": 0.1, "model_used": null,
        "reasoning": why,
    })
}

fn cases() -> Vec<TestResult> {
    let passed_metrics = json!({"metric_results": [
        metric("rougeL", 0.91, Some(0.4), Some(true), None),
        metric("f1", 0.5, None, None, None),
    ]});
    let failed = json!({
        "tools_matched": false,
        "tool_calls": ["search_docs"],
        "errors": ["expected tool(s) not called: get_order; called: search_docs"],
        "metric_results": [metric("rougeL", 0.31, Some(0.4), Some(false), None)],
    });
    let timed_out = json!({
        "execution": "error",
        "execution_time_ms": 60_000,
        "agent_response": null,
        "token_usage": null,
        "cost_usd": null,
        "errors": ["timeout exceeded (60 s, `execution.llm_timeout`)"],
    });
    let hostile = json!({
        "agent_response": "\u{1b}[2J\u{1b}]0;owned\u{7} gone",
        "metric_results": [metric("equality", 0.0, None, Some(false), Some("expected `a`, got `\u{1b}[2J`"))],
    });
    vec![
        result(0, "refund policy", "passed", &passed_metrics),
        result(1, "order status", "failed", &failed),
        result(2, "escalation", "error", &timed_out),
        result(3, "greeting", "unchecked", &json!({})),
        result(
            4,
            "a name that is much longer than any column has room for\u{1b}[31m",
            "failed",
            &hostile,
        ),
    ]
}

fn replayed() -> Replayed {
    Replayed {
        recorded: "2026-11-21".to_owned(),
        model: "SmolLM2-135M-Instruct".to_owned(),
        cassette: "cassettes/quickstart.jsonl".to_owned(),
    }
}

fn head(cases: &[TestResult], ended: &str, replayed: Option<Replayed>) -> ReportHead {
    let mut fold = SummaryFold::new();
    for case in cases {
        fold.observe(case);
    }
    ReportHead {
        agent_name: "customer-support".to_owned(),
        agent_config_path: "agent.yaml".to_owned(),
        summary: fold.finish(),
        timestamp: "2026-11-21T20:11:18Z".to_owned(),
        holodeck_version: "0.1.0".to_owned(),
        environment: json!({}),
        schema_version: 1,
        run_id: "20261121T201103000-abcdef".to_owned(),
        warnings: Vec::new(),
        replayed,
        ended: ended.to_owned(),
    }
}

/// A run of `cases`, of which `total` were planned.
fn events(cases: &[TestResult], total: usize, ended: &str, replayed: Option<Replayed>) -> Vec<RunEvent> {
    let mut events = vec![RunEvent::Started {
        run_id: "20261121T201103000-abcdef".to_owned(),
        agent_name: "customer-support".to_owned(),
        model: "openai gpt-4o".to_owned(),
        total,
        already: 0,
        concurrency: 8,
        replayed: replayed.clone(),
    }];
    for case in cases {
        events.push(RunEvent::CaseStarted {
            index: case.index,
            label: case.label(),
        });
    }
    events.push(RunEvent::Notice {
        message: "`o3` is a reasoning model: temperature is not sent".to_owned(),
    });
    for (finished, case) in cases.iter().enumerate() {
        events.push(RunEvent::CaseFinished {
            finished: finished + 1,
            result: Arc::new(case.clone()),
        });
    }
    if ended == "interrupted" {
        events.push(RunEvent::Draining {
            reason: ended.to_owned(),
            running: 2,
        });
    }
    events.push(RunEvent::Finished {
        head: Arc::new(head(cases, ended, replayed)),
        exit: ExitCode::Failed,
    });
    events
}

/// Lines that stay, and each line that changed.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<String>>);

impl Paper {
    fn take(&self, text: &str) {
        let plain = anstream::adapter::strip_str(text).to_string();
        self.0.lock().unwrap().push_str(&plain);
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Board for Paper {
    fn add(&mut self, text: &str) {
        self.take(&format!("{text}\n"));
    }

    fn set(&mut self, line: String) {
        self.take(&format!("~ {line}\n"));
    }

    fn end(&mut self) {
        self.take("~\n");
    }
}

impl Write for Paper {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.take(std::str::from_utf8(buffer).unwrap());
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn feed(mut sink: impl RunSink, events: &[RunEvent]) {
    for event in events {
        sink.on(event);
    }
}

fn live(width: usize, verbosity: Verbosity, events: &[RunEvent]) -> String {
    let paper = Paper::default();
    let clock = Box::new(|| Duration::from_secs(4));
    feed(Live::new(paper.clone(), clock, width, verbosity), events);
    paper.text()
}

fn plain(events: &[RunEvent]) -> String {
    let paper = Paper::default();
    feed(Plain::new(paper.clone(), Verbosity::Normal), events);
    paper.text()
}

/// What the end of a run says, hints included.
fn end(events: &[RunEvent], failures: Failures, width: usize) -> String {
    let mut kept = Kept::default();
    let mut told = None;
    for event in events {
        kept.on(event);
        if let RunEvent::Finished { head, .. } = event {
            told = Some(Arc::clone(head));
        }
    }
    let run = Summary {
        head: &told.unwrap(),
        kept: &kept,
        took: Duration::from_millis(14_800),
        files: &[PathBuf::from(
            "results/customer-support/2026-11-21T20-11-18.123Z.json",
        )],
    };
    let text = format!("{}{}", summary(&run, failures, width), hints(&run, ""));
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn a_run_on_a_terminal() {
    insta::assert_snapshot!(live(
        80,
        Verbosity::Normal,
        &events(&cases(), 12, "completed", None)
    ));
}

#[test]
fn a_run_on_a_terminal_of_60_columns() {
    let text = live(60, Verbosity::Normal, &events(&cases(), 12, "completed", None));
    for line in text.lines() {
        let columns = unicode_width::UnicodeWidthStr::width(line);
        assert!(columns <= 60, "{columns} columns: {line}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn those_who_ask_see_scores() {
    let events = events(&cases()[..1], 1, "completed", None);
    insta::assert_snapshot!(live(80, Verbosity::Verbose, &events));
}

#[test]
fn a_run_where_nothing_moves() {
    let events = events(&cases(), 12, "interrupted", Some(replayed()));
    insta::assert_snapshot!(plain(&events));
}

#[test]
fn the_end_of_a_run() {
    let events = events(&cases(), 5, "completed", Some(replayed()));
    insta::assert_snapshot!(end(&events, Failures::Seen, 80));
}

#[test]
fn the_end_of_a_run_nobody_watched() {
    let events = events(&cases(), 5, "completed", None);
    insta::assert_snapshot!(end(&events, Failures::ToTell, 60));
}

#[test]
fn the_end_of_a_run_that_was_broken_off() {
    let events = events(&cases()[..2], 12, "interrupted", None);
    insta::assert_snapshot!(end(&events, Failures::Seen, 80));
}

#[test]
fn many_failures_are_counted_not_listed() {
    let failed: Vec<_> = (0..30)
        .map(|index| result(index, &format!("case {index}"), "failed", &json!({})))
        .collect();
    let text = end(&events(&failed, 30, "completed", None), Failures::ToTell, 80);
    assert_eq!(text.matches("✗").count(), 20, "{text}");
    assert!(text.contains("… and 10 more that did not pass"), "{text}");
}

#[test]
fn a_program_gets_one_object_a_line() {
    let paper = Paper::default();
    let events = events(&cases()[..1], 1, "interrupted", Some(replayed()));
    feed(Json::new(paper.clone(), false), &events);
    let mut lines: Vec<Value> = paper
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[3]["result"]["test_name"], "refund policy");
    lines[3]["result"] = "as in the run file".into();
    insta::assert_json_snapshot!(lines);
}

#[test]
fn a_guess_at_the_rest_needs_something_to_judge_by() {
    let told = |finished: usize, total: usize| {
        let cases: Vec<_> = (0..finished)
            .map(|index| {
                result(
                    index,
                    "c",
                    "passed",
                    &json!({"token_usage": null, "cost_usd": null}),
                )
            })
            .collect();
        let text = live(80, Verbosity::Normal, &events(&cases, total, "completed", None));
        text.lines()
            .rfind(|line| line.starts_with("~ "))
            .unwrap()
            .to_owned()
    };
    assert_eq!(told(1, 9), "~ 0 running · 1 passed");
    assert_eq!(told(2, 4), "~ 0 running · 2 passed · about 5 s left");
    assert_eq!(told(2, 200), "~ 0 running · 2 passed · about 7 min left");
    assert_eq!(told(2, 20_000), "~ 0 running · 2 passed · about 11.1 h left");
    assert_eq!(told(2, 2), "~ 0 running · 2 passed");
}
