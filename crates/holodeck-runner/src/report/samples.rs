//! Results for tests of everything that reads them.

use holodeck_model::{
    CallDetails, CaseState, ExecutionState, Failure, FailureKind, MetricResult, NotRun,
    REPORT_SCHEMA_VERSION, Replayed, ReportHead, RunMetadata, TestResult, TokenUsage, ToolInvocation,
    TurnResult,
};
use serde_json::json;

use super::{Format, PlannedResult, Results, RunView, write_report};
use crate::SummaryFold;

pub(crate) fn result(index: usize, state: CaseState, metrics: &[(&str, Option<f64>)]) -> TestResult {
    TestResult {
        index,
        case_id: format!("{index:016x}"),
        test_name: Some(format!("case {}", index + 1)),
        test_input: "What is the capital of France?".to_owned(),
        processed_files: Vec::new(),
        agent_response: Some("Paris".to_owned()),
        tool_calls: Vec::new(),
        tool_invocations: Vec::new(),
        expected_tools: None,
        tools_matched: None,
        metric_results: metrics.iter().map(|(name, score)| metric(name, *score)).collect(),
        ground_truth: Some("Paris".to_owned()),
        passed: state == CaseState::Passed,
        state,
        execution: ExecutionState::Completed,
        execution_time_ms: 1200,
        latency_ms: Some(1200),
        errors: Vec::new(),
        failures: Vec::new(),
        timestamp: "2026-11-21T20:11:03.000Z".to_owned(),
        token_usage: Some(TokenUsage::new(12, 3)),
        cost_usd: None,
        num_turns: 1,
        model: Some("m".to_owned()),
        truncated: false,
        redacted: false,
        structured_output: None,
        retrieval_context: None,
        turns: None,
    }
}

fn metric(name: &str, score: Option<f64>) -> MetricResult {
    MetricResult {
        metric_name: name.to_owned(),
        kind: "standard".to_owned(),
        score,
        threshold: Some(0.5),
        passed: score.map(|score| score >= 0.5),
        scale: "0-1".to_owned(),
        error: score.is_none().then(|| "no reference".to_owned()),
        retry_count: 0,
        evaluation_time_ms: Some(0.1),
        model_used: None,
        reasoning: None,
    }
}

pub(crate) fn passed() -> TestResult {
    TestResult {
        test_name: Some("refund policy".to_owned()),
        cost_usd: Some(0.0021),
        ..result(0, CaseState::Passed, &[("rougeL", Some(0.9))])
    }
}

pub(crate) fn failed() -> TestResult {
    let mut failed = TestResult {
        test_name: Some("order status".to_owned()),
        test_input: "Where is order #12?".to_owned(),
        agent_response: Some("I could not find order #12".to_owned()),
        ground_truth: Some("Your order #12 is in transit".to_owned()),
        tool_calls: vec!["search_docs".to_owned()],
        tool_invocations: vec![ToolInvocation {
            name: "search_docs".to_owned(),
            args: json!({"query": "order #12"}),
            result: json!("nothing found"),
            bytes: 15,
            duration_ms: Some(12),
            error: None,
            details: CallDetails::default(),
        }],
        expected_tools: Some(json!(["get_order"])),
        tools_matched: Some(false),
        failures: vec![Failure::of_field(
            "expected_tools",
            "not called: get_order; called: search_docs",
        )],
        cost_usd: Some(0.0026),
        ..result(1, CaseState::Failed, &[("rougeL", Some(0.31))])
    };
    for metric in &mut failed.metric_results {
        metric.threshold = Some(0.4);
        metric.passed = Some(false);
    }
    failed.metric_results.push(MetricResult {
        threshold: None,
        passed: Some(false),
        reasoning: Some("the answer does not contain \"30 days\"".to_owned()),
        ..metric("contains", Some(0.0))
    });
    failed
}

pub(crate) fn timed_out() -> TestResult {
    TestResult {
        test_name: Some("escalation".to_owned()),
        agent_response: None,
        execution: ExecutionState::Error,
        execution_time_ms: 60_000,
        failures: vec![Failure::new(
            FailureKind::Timeout,
            "timeout exceeded (60 s, `execution.llm_timeout`)",
        )],
        token_usage: None,
        ..result(2, CaseState::Error, &[])
    }
}

pub(crate) fn unchecked() -> TestResult {
    TestResult {
        test_name: Some("greeting".to_owned()),
        ground_truth: None,
        ..result(3, CaseState::Unchecked, &[])
    }
}

pub(crate) fn conversation() -> TestResult {
    let turn = |index: usize, state: CaseState| TurnResult {
        turn_index: index,
        input: format!("question {}", index + 1),
        response: Some("8".to_owned()),
        ground_truth: Some("7".to_owned()),
        expected_tools: None,
        tool_calls: vec![],
        tool_invocations: vec![],
        tools_matched: None,
        arg_match_details: None,
        metric_results: vec![],
        passed: state == CaseState::Passed,
        state,
        execution: ExecutionState::Completed,
        execution_time_ms: 400,
        latency_ms: Some(400),
        token_usage: None,
        cost_usd: None,
        num_turns: 1,
        structured_output: None,
        retrieval_context: None,
        errors: vec![],
        model: None,
        truncated: false,
        redacted: false,
        skipped: false,
        grader_details: None,
    };
    let mut second = turn(1, CaseState::Failed);
    second.metric_results.push(MetricResult {
        threshold: None,
        passed: Some(false),
        reasoning: Some("expected `7`, got `8`".to_owned()),
        ..metric("equality", Some(0.0))
    });
    let mut third = turn(2, CaseState::Error);
    third.response = None;
    third.execution = ExecutionState::Skipped;
    third.skipped = true;
    let skipped = Failure {
        turn: Some(3),
        ..Failure::new(FailureKind::Skipped, "skipped because an earlier turn failed")
    };
    TestResult {
        test_name: None,
        test_input: "question 1\n---\nquestion 2\n---\nquestion 3".to_owned(),
        agent_response: Some("8".to_owned()),
        ground_truth: None,
        execution: ExecutionState::Skipped,
        failures: vec![skipped],
        metric_results: second.metric_results.clone(),
        turns: Some(vec![turn(0, CaseState::Passed), second, third]),
        ..result(4, CaseState::Error, &[])
    }
}

/// A case in which every text tries to break out of where it is put.
pub(crate) fn hostile() -> TestResult {
    let nasty = "</script></style></details>]]>\u{0}\u{1b}[31m\u{ffff}|*_`<img src=x onerror=alert(1)>\"'&@team\r\n```\n# x";
    TestResult {
        test_name: Some(nasty.to_owned()),
        test_input: nasty.to_owned(),
        agent_response: Some(nasty.to_owned()),
        ground_truth: Some(format!("not {nasty}")),
        failures: vec![Failure::new(FailureKind::Agent, nasty)],
        execution: ExecutionState::AgentFailed,
        metric_results: vec![MetricResult {
            passed: Some(false),
            ..metric("equality", Some(0.0))
        }],
        ..result(5, CaseState::Failed, &[])
    }
}

pub(crate) fn cases() -> Vec<TestResult> {
    vec![passed(), failed(), timed_out(), unchecked(), conversation()]
}

pub(crate) fn replayed() -> Replayed {
    Replayed {
        recorded: "2026-11-21".to_owned(),
        model: "SmolLM2-135M-Instruct".to_owned(),
        cassette: "cassettes/quickstart.jsonl".to_owned(),
    }
}

fn warning() -> String {
    "index `kb` is not whole: 1 source could not be taken in: `docs/a_b.pdf`: it is locked".to_owned()
}

pub(crate) fn head(results: &[TestResult], replayed: Option<Replayed>) -> ReportHead {
    let mut fold = SummaryFold::new();
    for result in results {
        fold.observe(result);
    }
    ReportHead {
        agent_name: "customer-support".to_owned(),
        agent_config_path: "agent.yaml".to_owned(),
        summary: fold.finish(),
        timestamp: "2026-11-21T20:11:18.123456Z".to_owned(),
        holodeck_version: "0.1.0".to_owned(),
        environment: json!({"llm_timeout_s": 60.0}),
        schema_version: REPORT_SCHEMA_VERSION,
        run_id: "20261121T201103000-abcdef".to_owned(),
        warnings: if replayed.is_some() {
            vec![warning()]
        } else {
            Vec::new()
        },
        replayed,
        ended: "completed".to_owned(),
        ended_because: None,
        regraded_from: None,
    }
}

/// A report over `results` and two cases that were not run, of a run that a budget stopped.
pub(crate) fn stopped_report(format: Format, results: &[TestResult]) -> String {
    let not_run = |index: usize, name: Option<&str>| NotRun {
        index,
        test_name: name.map(ToOwned::to_owned),
        reason: "not run: token budget used up: 40 of 40 tokens".to_owned(),
    };
    let mut head = head(results, None);
    head.ended = "budget".to_owned();
    head.ended_because = Some("token budget used up: 40 of 40 tokens".to_owned());
    head.summary.not_run = 2;
    let finished = results
        .iter()
        .cloned()
        .map(|result| PlannedResult::Finished(Box::new(result)));
    let missing = [not_run(8, Some("returns & refunds")), not_run(9, None)].map(PlannedResult::NotRun);
    let planned: Vec<PlannedResult> = finished.chain(missing).collect();
    write(format, &head, &planned)
}

/// A report over `results`, as text.
pub(crate) fn report(format: Format, results: &[TestResult], replayed: Option<Replayed>) -> String {
    let planned: Vec<PlannedResult> = results
        .iter()
        .cloned()
        .map(|result| PlannedResult::Finished(Box::new(result)))
        .collect();
    write(format, &head(results, replayed), &planned)
}

fn write(format: Format, head: &ReportHead, planned: &[PlannedResult]) -> String {
    let metadata = RunMetadata {
        agent_config: json!({"name": "customer-support"}),
        prompt_version: json!({"version": "auto-12345678"}),
        holodeck_version: "0.1.0".to_owned(),
        cli_args: vec!["test".to_owned(), "agent.yaml".to_owned()],
        git_commit: None,
        mcp_servers: Vec::new(),
    };
    let read = || -> Results<'_> { Box::new(planned.iter().cloned().map(Ok)) };
    let mut out = Vec::new();
    write_report(format, &RunView::new(head, &metadata, &read), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Every `<` begins a tag, every `&` a reference, tags are closed in order. Enough of XML to find a broken report.
pub(crate) fn assert_well_formed(xml: &str) {
    let body = xml
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        .unwrap();
    assert_balanced(body, &[]);
}

/// The same of HTML, where the elements `void` have no end.
pub(crate) fn assert_balanced(markup: &str, void: &[&str]) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = markup;
    while let Some(at) = rest.find(['<', '&']) {
        let (text, tail) = rest.split_at(at);
        assert!(!text.contains('>'), "a stray `>` in {text:?}");
        if tail.starts_with('&') {
            let end = tail.find(';').expect("a reference ends");
            assert!(
                tail[1..end]
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '#')
            );
            rest = &tail[end + 1..];
            continue;
        }
        let end = end_of_tag(tail);
        let tag = &tail[1..end];
        rest = &tail[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "{name:?}"
        );
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !void.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

fn end_of_tag(tag: &str) -> usize {
    let mut quoted = false;
    for (at, c) in tag.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return at,
            '<' if at > 0 => panic!("`<` inside {:?}", &tag[..=at]),
            _ => {}
        }
    }
    panic!("a tag does not end: {tag:?}");
}
