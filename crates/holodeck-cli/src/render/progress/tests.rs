//! Snapshots of the progress and the summary of runs, on a terminal and in a pipe.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use holodeck::{
    model::{NotRun, Replayed, ReportHead},
    reports::SummaryFold,
    runner::{RunEvent, RunSink},
    runs::{CaseReport, ExitCode, Expected},
};
use serde_json::{Value, json};

use super::{
    Highlights,
    json::Json,
    live::{Board, Live},
    plain::Plain,
};
use crate::{
    render::{FailureList, Summary, hints, summary},
    terminal::{Outputs, Verbosity},
};

/// A case with only the fields that are shown: `record` and `grade` are merged into its turn.
fn case(index: usize, name: &str, state: &str, record: &Value, grade: &Value) -> CaseReport {
    let id = format!("{index:032x}");
    let identity = json!({"id": id, "content": id});
    let mut turn = json!({
        "input": "question",
        "state": "completed",
        "result": {"response": "I could not find order #12"},
        "usage": {"prompt_tokens": 700, "completion_tokens": 112, "total_tokens": 812},
        "cost_usd": 0.0021,
        "elapsed_ms": 1_200 + 400 * index,
    });
    merge(&mut turn, record);
    let mut verdict = json!({"state": state});
    merge(&mut verdict, grade);
    CaseReport {
        index,
        name: Some(name.to_owned()),
        tags: Vec::new(),
        input: "question".to_owned(),
        expected: Expected {
            ground_truth: Some("Your order #12 is in transit".to_owned()),
            ..Expected::default()
        },
        expected_turns: Vec::new(),
        unit: from(json!({
            "key": {"case": id, "trial": 0},
            "case": identity,
            "at": "2026-11-21T20:11:03Z",
            "turns": [turn],
        })),
        grade: from(json!({"grader": "", "state": state, "turns": [verdict]})),
        trials: None,
    }
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

fn metric(name: &str, score: f64, threshold: Option<f64>, passed: Option<bool>, why: Option<&str>) -> Value {
    json!({
        "metric_name": name, "kind": "standard", "score": score, "threshold": threshold, "passed": passed,
        "scale": "0-1", "error": null, "retry_count": 0, "evaluation_time_ms": 0.1, "model_used": null,
        "reasoning": why,
    })
}

fn cases() -> Vec<CaseReport> {
    let nothing = json!({});
    let passed = json!({"metrics": [
        metric("rougeL", 0.91, Some(0.4), Some(true), None),
        metric("f1", 0.5, None, None, None),
    ]});
    let failed = json!({
        "tools_matched": false,
        "failures": [{
            "kind": "expectation",
            "field": "expected_tools",
            "text": "not called: get_order; called: search_docs",
        }],
        "metrics": [metric("rougeL", 0.31, Some(0.4), Some(false), None)],
    });
    let timed_out = json!({
        "state": "error",
        "elapsed_ms": 60_000,
        "result": {"response": ""},
        "usage": null,
        "cost_usd": null,
        "failures": [{"kind": "timeout", "text": "timeout exceeded (60 s, `execution.llm_timeout`)"}],
    });
    let hostile = json!({"result": {"response": "\u{1b}[2J\u{1b}]0;owned\u{7} gone"}});
    let unequal = json!({
        "metrics": [metric("equality", 0.0, None, Some(false), Some("expected `a`, got `\u{1b}[2J`"))],
    });
    vec![
        case(0, "refund policy", "passed", &nothing, &passed),
        case(1, "order status", "failed", &nothing, &failed),
        case(2, "escalation", "error", &timed_out, &nothing),
        case(3, "greeting", "unchecked", &nothing, &nothing),
        case(
            4,
            "a name that is much longer than any column has room for\u{1b}[31m",
            "failed",
            &hostile,
            &unequal,
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

fn head(cases: &[CaseReport], ended: &str, replayed: Option<Replayed>) -> ReportHead {
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
        adapted: Vec::new(),
        replayed,
        ended: ended.to_owned(),
        ended_because: None,
        regraded_from: None,
        combination: None,
        shard: None,
        merged_from: Vec::new(),
        partial: None,
        judge_steps: None,
        quality_loop: None,
        agent_parts: std::collections::BTreeMap::new(),
    }
}

/// A run of `cases`, of which `total` were planned.
fn events(cases: &[CaseReport], total: usize, ended: &str, replayed: Option<Replayed>) -> Vec<RunEvent> {
    let mut events = vec![RunEvent::Started {
        run_id: "20261121T201103000-abcdef".to_owned(),
        agent_name: "customer-support".to_owned(),
        model: "openai gpt-4o".to_owned(),
        total,
        trials: total,
        already: 0,
        concurrency: 8,
        replayed: replayed.clone(),
    }];
    for case in cases {
        events.push(RunEvent::CaseStarted {
            index: case.index,
            label: case.label(),
            trial: None,
        });
    }
    events.push(RunEvent::Notice {
        message: "`o3` is a reasoning model: temperature is not sent".to_owned(),
    });
    for (finished, case) in cases.iter().enumerate() {
        events.push(RunEvent::CaseFinished {
            finished: finished + 1,
            case: Arc::new(case.clone()),
        });
    }
    if ended == "interrupted" {
        events.push(RunEvent::Draining {
            reason: ended.to_owned(),
            running: 2,
            judging: 3,
        });
    }
    let mut head = head(cases, ended, replayed);
    head.summary.not_run = total - cases.len();
    events.push(RunEvent::Finished {
        head: Arc::new(head),
        exit: ExitCode::Failed,
    });
    events
}

/// Records permanent lines and each status line.
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

fn plain(events: &[RunEvent], outputs: Outputs) -> String {
    let paper = Paper::default();
    feed(Plain::new(paper.clone(), Verbosity::Normal, outputs), events);
    paper.text()
}

/// The summary of a run with its hints.
fn end(events: &[RunEvent], failures: FailureList, width: usize) -> String {
    let mut highlights = Highlights::default();
    let mut last_head = None;
    for event in events {
        highlights.on(event);
        if let RunEvent::Finished { head, .. } = event {
            last_head = Some(Arc::clone(head));
        }
    }
    let head = last_head.unwrap();
    let planned = head.summary.total_tests + head.summary.not_run;
    let not_run: Vec<NotRun> = (head.summary.total_tests..planned)
        .map(|index| NotRun {
            index,
            test_name: None,
            reason: "not run".to_owned(),
        })
        .collect();
    let run = Summary {
        head: &head,
        not_run: &not_run,
        highlights: &highlights,
        took: Duration::from_millis(14_800),
        files: &[PathBuf::from(
            "results/customer-support/2026-11-21T20-11-18.123Z.json",
        )],
    };
    let text = format!("{}{}", summary(&run, failures, width), hints(&run, "", width));
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
    insta::assert_snapshot!(plain(&events, Outputs::Apart));
}

#[test]
fn the_end_of_a_run() {
    let events = events(&cases(), 5, "completed", Some(replayed()));
    insta::assert_snapshot!(end(&events, FailureList::Omit, 80));
}

#[test]
fn the_end_of_a_run_without_a_terminal() {
    let events = events(&cases(), 5, "completed", None);
    insta::assert_snapshot!(end(&events, FailureList::Show, 60));
}

#[test]
fn the_end_of_a_run_that_was_interrupted() {
    let events = events(&cases()[..2], 12, "interrupted", None);
    insta::assert_snapshot!(end(&events, FailureList::Omit, 80));
}

#[test]
fn many_failures_are_counted_not_listed() {
    let failed: Vec<_> = (0..30)
        .map(|index| case(index, &format!("case {index}"), "failed", &json!({}), &json!({})))
        .collect();
    let text = end(&events(&failed, 30, "completed", None), FailureList::Show, 80);
    assert_eq!(text.matches("✗").count(), 20, "{text}");
    assert!(text.contains("… and 10 more that did not pass"), "{text}");
}

#[test]
fn a_program_gets_one_object_a_line() {
    let paper = Paper::default();
    let events = events(&cases()[..1], 1, "interrupted", Some(replayed()));
    feed(Json::new(paper.clone(), false, None), &events);
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
fn the_remaining_time_is_estimated_after_two_cases() {
    let status_line = |finished: usize, total: usize| {
        let cases: Vec<_> = (0..finished)
            .map(|index| {
                let unknown = json!({"usage": null, "cost_usd": null});
                case(index, "c", "passed", &unknown, &json!({}))
            })
            .collect();
        let text = live(80, Verbosity::Normal, &events(&cases, total, "completed", None));
        text.lines()
            .rfind(|line| line.starts_with("~ "))
            .unwrap()
            .to_owned()
    };
    let after = |total: usize, left: &str| format!("~ 0 running · 2 of {total} done · 2 passed{left}");
    assert_eq!(status_line(1, 9), "~ 0 running · 1 of 9 done · 1 passed");
    assert_eq!(status_line(2, 4), after(4, " · about 5 s left"));
    assert_eq!(status_line(2, 200), after(200, " · about 7 min left"));
    assert_eq!(status_line(2, 20_000), after(20_000, " · about 11.1 h left"));
    assert_eq!(status_line(2, 2), after(2, ""));
}

#[test]
fn a_judged_case_is_not_running_and_counts_agree_with_the_header() {
    let cases: Vec<CaseReport> = (0..2)
        .map(|index| {
            case(
                index,
                "c",
                "passed",
                &json!({"usage": null, "cost_usd": null}),
                &json!({}),
            )
        })
        .collect();
    let answered = |index| RunEvent::CaseAnswered { index, trial: None };
    let mut all = events(&cases, 12, "completed", None);
    // Started, two starts, a notice, two ends, the end: the answers come after the notice, that of another case is from before.
    all.insert(4, answered(7));
    all.insert(5, answered(0));
    all.insert(6, answered(1));
    all.insert(
        7,
        RunEvent::Draining {
            reason: "interrupted".to_owned(),
            running: 0,
            judging: 3,
        },
    );
    let text = live(80, Verbosity::Normal, &all);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("~ ") || line.starts_with("interrupted"))
        .collect();
    assert_eq!(
        lines[3..],
        [
            "~ 2 running · 0 of 12 done",
            "~ 2 running · 1 being judged · 0 of 12 done",
            "~ 1 running · 2 being judged · 0 of 12 done",
            "~ 0 running · 3 being judged · 0 of 12 done",
            "interrupted: waiting for 3 cases being judged; press Ctrl-C again to stop now",
            "~ 0 running · 3 being judged · 0 of 12 done",
            "~ 0 running · 2 being judged · 1 of 12 done · 1 passed",
            "~ 0 running · 1 being judged · 2 of 12 done · 2 passed · about 20 s left",
        ]
    );
}

#[test]
fn a_log_has_the_reason_of_a_failure_once() {
    let failed: Vec<_> = (0..22)
        .map(|index| {
            let why = format!("no word {index}");
            let verdict = json!({"metrics": [metric("regex", 0.0, None, Some(false), Some(&why))]});
            case(index, &format!("case {index}"), "failed", &json!({}), &verdict)
        })
        .collect();
    let events = events(&failed, 22, "completed", None);
    let log = plain(&events, Outputs::OneLog) + &end(&events, FailureList::Show, 80);
    for index in 0..22 {
        assert_eq!(log.matches(&format!("no word {index}\n")).count(), 1, "{log}");
    }
    assert!(log.contains("[ 4/22] FAIL case 3 (2.4 s)\n"), "{log}");
    assert!(
        log.contains("[22/22] FAIL case 21 (9.6 s): regex: no word 21\n"),
        "{log}"
    );
}

#[test]
fn a_small_cost_has_its_column() {
    let cheap = json!({"cost_usd": 0.000_012_3});
    let cases = [case(0, "cheap", "passed", &cheap, &json!({}))];
    let text = live(80, Verbosity::Normal, &events(&cases, 1, "completed", None));
    assert!(text.contains("    812 tokens <$0.0001\n"), "{text}");
}

#[test]
fn metrics_with_long_names_are_aligned() {
    let gate = |name: &str, score: f64, passed: bool, why: &str| {
        let mut metric = metric(name, score, Some(0.7), Some(passed), Some(why));
        metric["conversation"] = name.starts_with("goal").into();
        metric
    };
    let turn = json!({"metrics": [
        gate("contains", 1.0, true, "found"),
        gate("fluency", 0.4, false, "It repeats itself."),
    ]});
    let mut judged = case(0, "refund", "failed", &json!({}), &turn);
    let reason = "The user asked for a refund, and the agent confirmed it in its last message.";
    judged.grade.conversation = Some(from(json!({
        "state": "passed",
        "metrics": [gate("goal_success", 0.9, true, reason)],
    })));
    let events = events(&[judged], 1, "completed", None);
    let rows = |width| {
        let text = live(width, Verbosity::Verbose, &events);
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("    ")).collect();
        rows.join("\n")
    };
    insta::assert_snapshot!(rows(80), @"
        question                    question
        fluency                     0.40, needs 0.70: It repeats itself.
        expected  Your order #12 is in transit
        got       I could not find order #12
        contains                    1.00, needs 0.70: found
        goal_success (conversation) 0.90, needs 0.70: The user asked for a refund,
                                    and the agent confirmed it in its last message.
    ");
    insta::assert_snapshot!(rows(48), @"
        question                question
        fluency                 0.40, needs 0.70: It
                                repeats itself.
        expected  Your order #12 is in transit
        got       I could not find order #12
        contains                1.00, needs 0.70:
                                found
        goal_success (conversa… 0.90, needs 0.70:
                                The user asked for a
                                refund, and the
                                agent confirmed it
                                in its last message.
    ");
}

/// A case that passed although one of its two tool calls failed.
fn with_calls() -> CaseReport {
    let calls = json!({"result": {
        "tool_calls": [
            {"name": "get_order", "arguments": {"id": 12}, "call_id": "a"},
            {"name": "search_docs", "arguments": {"query": "refund"}, "call_id": "b"},
        ],
        "tool_results": [
            {"call_id": "a", "name": "get_order", "result": "connection\nrefused", "is_error": true, "duration_ms": 31},
            {"call_id": "b", "name": "search_docs", "result": "30 days", "is_error": false, "duration_ms": 12},
        ],
    }});
    case(0, "refund policy", "passed", &calls, &json!({}))
}

#[test]
fn failed_tool_calls_of_a_passed_case_are_shown() {
    let events = events(&[with_calls()], 1, "completed", None);
    for text in [
        live(80, Verbosity::Normal, &events),
        plain(&events, Outputs::Apart),
    ] {
        assert!(
            text.contains("    tool get_order   failed: connection refused (31 ms)\n"),
            "{text}"
        );
        assert!(!text.contains("search_docs"), "{text}");
    }
}

#[test]
fn verbose_output_shows_every_tool_call_with_result_and_time() {
    let events = events(&[with_calls()], 1, "completed", None);
    let text = live(80, Verbosity::Verbose, &events);
    assert!(
        text.contains("    tool get_order   failed: connection refused (31 ms)\n"),
        "{text}"
    );
    assert!(text.contains("    tool search_docs 30 days (12 ms)\n"), "{text}");
}
