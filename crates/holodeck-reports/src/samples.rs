//! Sample cases for the tests of reports, totals and explanations.

use holodeck_backend_api::{ExecutionResult, ToolCall, ToolResult};
use holodeck_model::{
    CallDetails, CaseIdentity, CaseState, ExecutionState, Failure, FailureKind, MetricResult, NotRun,
    REPORT_SCHEMA_VERSION, Replayed, ReportHead, RunMetadata, TokenUsage, UnitKey,
};
use holodeck_turn::TurnRecord;
use serde_json::json;

use crate::SummaryFold;
use crate::{Format, PlannedResult, Results, RunView, write_report};
use holodeck_runs::{CaseReport, Expected, Grade, TurnGrade, UnitRecord};

/// A case whose only turn answered in 1.2 s.
pub(crate) fn case(index: usize, state: CaseState, metrics: &[(&str, Option<f64>)]) -> CaseReport {
    let turn = TurnRecord {
        elapsed_ms: 1200,
        latency_ms: Some(1200),
        ..turn("What is the capital of France?", "Paris")
    };
    let grade = TurnGrade {
        metrics: metrics.iter().map(|(name, score)| metric(name, *score)).collect(),
        ..TurnGrade::bare(state)
    };
    let case = CaseIdentity {
        id: format!("{index:032x}").parse().unwrap(),
        content: format!("{index:032x}").parse().unwrap(),
    };
    CaseReport {
        index,
        name: Some(format!("case {}", index + 1)),
        tags: Vec::new(),
        input: turn.input.clone(),
        expected: ground_truth("Paris"),
        expected_turns: Vec::new(),
        unit: UnitRecord {
            route: None,
            key: UnitKey {
                case: case.id,
                trial: 0,
            },
            case,
            name: None,
            conversation: false,
            at: "2026-11-21T20:11:03.000Z".to_owned(),
            turns: vec![turn],
            failures: Vec::new(),
            user: None,
            quality_loop: None,
        },
        grade: Grade {
            deciders: holodeck_model::CaseDeciders::default(),
            min_passes: None,
            state,
            turns: vec![grade],
            conversation: None,
            score: None,
            score_failure: None,
            judging: None,
            expected: None,
        },
        trials: None,
    }
}

fn turn(input: &str, answer: &str) -> TurnRecord {
    TurnRecord {
        input: input.to_owned(),
        result: ExecutionResult {
            response: answer.to_owned(),
            num_turns: 1,
            model: Some("m".to_owned()),
            ..ExecutionResult::default()
        },
        usage: Some(TokenUsage::new(12, 3)),
        ..TurnRecord::default()
    }
}

fn ground_truth(text: &str) -> Expected {
    Expected {
        ground_truth: Some(text.to_owned()),
        ..Expected::default()
    }
}

fn metric(name: &str, score: Option<f64>) -> MetricResult {
    MetricResult {
        skipped: false,
        conversation: false,
        weight: None,
        jurors: Vec::new(),
        identity: holodeck_model::CheckIdentity::default(),
        details: None,
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
        missing_votes: Vec::new(),
        judge_failure: None,
        reasoning: None,
    }
}

pub(crate) fn passed() -> CaseReport {
    let mut passed = named(
        "refund policy",
        case(0, CaseState::Passed, &[("rougeL", Some(0.9))]),
    );
    passed.unit.turns[0].cost_usd = Some(0.0021);
    passed
}

fn named(name: &str, case: CaseReport) -> CaseReport {
    CaseReport {
        name: Some(name.to_owned()),
        ..case
    }
}

pub(crate) fn failed() -> CaseReport {
    let mut failed = named(
        "order status",
        case(1, CaseState::Failed, &[("rougeL", Some(0.31))]),
    );
    failed.expected = Expected {
        tools: Some(json!(["get_order"])),
        ..ground_truth("Your order #12 is in transit")
    };
    let record = &mut failed.unit.turns[0];
    record.cost_usd = Some(0.0026);
    "Where is order #12?".clone_into(&mut record.input);
    record.result.response = "I could not find order #12".to_owned();
    record.result.tool_calls = vec![ToolCall {
        name: "search_docs".to_owned(),
        arguments: json!({"query": "order #12"}),
        call_id: "c1".to_owned(),
        provider_fields: None,
    }];
    record.result.tool_results = vec![ToolResult {
        call_id: "c1".to_owned(),
        name: "search_docs".to_owned(),
        result: "nothing found".to_owned(),
        is_error: false,
        duration_ms: Some(12),
        details: CallDetails::default(),
    }];
    let grade = &mut failed.grade.turns[0];
    grade.tools_matched = Some(false);
    grade.failures = vec![Failure::of_field(
        "expected_tools",
        "not called: get_order; called: search_docs",
    )];
    grade.metrics[0].threshold = Some(0.4);
    grade.metrics.push(MetricResult {
        threshold: None,
        passed: Some(false),
        reasoning: Some("the answer does not contain \"30 days\"".to_owned()),
        ..metric("contains", Some(0.0))
    });
    failed
}

/// A passed case with a failed tool call.
pub(crate) fn passed_with_failed_call() -> CaseReport {
    let mut case = passed();
    let failed = failed().unit.turns.remove(0).result;
    case.unit.turns[0].result = ExecutionResult {
        tool_results: failed
            .tool_results
            .into_iter()
            .map(|result| ToolResult {
                result: "connection refused".to_owned(),
                is_error: true,
                ..result
            })
            .collect(),
        tool_calls: failed.tool_calls,
        ..case.unit.turns[0].result.clone()
    };
    case
}

pub(crate) fn timed_out() -> CaseReport {
    let mut case = named("escalation", case(2, CaseState::Error, &[]));
    let record = &mut case.unit.turns[0];
    record.state = ExecutionState::Error;
    record.elapsed_ms = 60_000;
    record.result.response.clear();
    record.usage = None;
    record.failures = vec![Failure::new(
        FailureKind::Timeout,
        "timeout exceeded (60 s, `execution.llm_timeout`)",
    )];
    case
}

pub(crate) fn unchecked() -> CaseReport {
    CaseReport {
        expected: Expected::default(),
        ..named("greeting", case(3, CaseState::Unchecked, &[]))
    }
}

pub(crate) fn conversation() -> CaseReport {
    let answered = |place: usize, tokens| TurnRecord {
        elapsed_ms: 600,
        usage: Some(tokens),
        ..turn(&format!("question {place}"), "8")
    };
    let mut second = TurnGrade::bare(CaseState::Failed);
    second.metrics.push(MetricResult {
        threshold: None,
        passed: Some(false),
        reasoning: Some("expected `7`, got `8`".to_owned()),
        ..metric("equality", Some(0.0))
    });
    let mut case = CaseReport {
        name: None,
        expected: Expected::default(),
        expected_turns: vec![ground_truth("7"); 3],
        ..case(4, CaseState::Error, &[])
    };
    case.unit.conversation = true;
    case.unit.turns = vec![
        answered(1, TokenUsage::new(4, 1)),
        answered(2, TokenUsage::new(8, 2)),
        TurnRecord::skipped("question 3"),
    ];
    case.grade.turns = vec![
        TurnGrade::bare(CaseState::Passed),
        second,
        TurnGrade::bare(CaseState::Error),
    ];
    case
}

/// A case in which every text tries to break out of its markup.
pub(crate) fn hostile() -> CaseReport {
    let nasty = "</script></style></details>]]>\u{0}\u{1b}[31m\u{ffff}|*_`<img src=x onerror=alert(1)>\"'&@team\r\n```\n# x";
    let mut case = named(nasty, case(5, CaseState::Failed, &[("equality", Some(0.0))]));
    case.expected = ground_truth(&format!("not {nasty}"));
    let record = &mut case.unit.turns[0];
    nasty.clone_into(&mut record.input);
    nasty.clone_into(&mut record.result.response);
    record.state = ExecutionState::AgentFailed;
    record.failures = vec![Failure::new(FailureKind::Agent, nasty)];
    case
}

/// A case of a varied run, in which most cases passed.
pub(crate) fn varied(index: usize) -> CaseReport {
    let mut case = match index % 24 {
        3 => failed(),
        5 => long_answer(),
        9 => timed_out(),
        11 => conversation(),
        14 => hostile(),
        17 => unchecked(),
        20 => passed_with_failed_call(),
        _ => {
            let score = 0.52 + (index * 37 % 47) as f64 / 100.0;
            let rouge = case(
                index,
                CaseState::Passed,
                &[("rougeL", Some(score)), ("contains", Some(1.0))],
            );
            named(&format!("answers question {} of the handbook", index + 1), rouge)
        }
    };
    case.index = index;
    for metric in case.grade.turns.iter_mut().flat_map(|turn| &mut turn.metrics) {
        metric.threshold = (metric.metric_name == "rougeL").then_some(0.5);
    }
    let record = &mut case.unit.turns[0];
    record.elapsed_ms += (index * 7919 % 4_000) as u64;
    record.cost_usd = Some(0.0008 + (index * 104_729 % 97) as f64 / 40_000.0);
    case
}

/// A failure whose answer is long and nearly correct, and whose name contains no space.
fn long_answer() -> CaseReport {
    let expected: Vec<String> = (1..=30)
        .map(|line| {
            format!("{line}. The customer signs page {line} and sends it back within fourteen days.\n")
        })
        .collect();
    let expected = expected.concat();
    let mut case = CaseReport {
        expected: ground_truth(&expected),
        ..named(
            "a_very_long_name_without_a_blank_such_as_a_generated_test_identifier_0123456789_0123456789",
            case(
                0,
                CaseState::Failed,
                &[("rougeL", Some(0.38)), ("bleu", Some(0.42))],
            ),
        )
    };
    let response = &mut case.unit.turns[0].result.response;
    *response = expected
        .replace("page 12", "page twelve")
        .replace("page 27 and", "page 27, or");
    let metrics = &mut case.grade.turns[0].metrics;
    for metric in metrics {
        metric.passed = Some(false);
        metric.threshold = Some(0.5);
        metric.reasoning = Some("two of thirty steps are not the expected ones".to_owned());
    }
    case
}

pub(crate) fn cases() -> Vec<CaseReport> {
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
    "index `kb` is incomplete: 1 source could not be indexed: `docs/a_b.pdf`: it is locked".to_owned()
}

pub(crate) fn head(cases: &[CaseReport], replayed: Option<Replayed>) -> ReportHead {
    let mut fold = SummaryFold::new();
    for case in cases {
        fold.observe(case);
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
        adapted: Vec::new(),
        warnings: if replayed.is_some() {
            vec![warning()]
        } else {
            Vec::new()
        },
        replayed,
        ended: "completed".to_owned(),
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

/// The report of a run that a budget stopped: `cases`, and two cases that were not run.
pub(crate) fn stopped_report(format: Format, cases: &[CaseReport]) -> String {
    let not_run = |index: usize, name: Option<&str>| NotRun {
        index,
        test_name: name.map(ToOwned::to_owned),
        reason: "not run: token budget used up: 40 of 40 tokens".to_owned(),
    };
    let mut head = head(cases, None);
    head.ended = "budget".to_owned();
    head.ended_because = Some("token budget used up: 40 of 40 tokens".to_owned());
    head.summary.not_run = 2;
    let finished = cases
        .iter()
        .cloned()
        .map(|case| PlannedResult::Finished(Box::new(case)));
    let missing = [not_run(8, Some("returns & refunds")), not_run(9, None)].map(PlannedResult::NotRun);
    let planned: Vec<PlannedResult> = finished.chain(missing).collect();
    write(format, &head, &planned)
}

/// The report of `cases`, as text.
pub(crate) fn report(format: Format, cases: &[CaseReport], replayed: Option<Replayed>) -> String {
    let planned: Vec<PlannedResult> = cases
        .iter()
        .cloned()
        .map(|case| PlannedResult::Finished(Box::new(case)))
        .collect();
    write(format, &head(cases, replayed), &planned)
}

fn write(format: Format, head: &ReportHead, planned: &[PlannedResult]) -> String {
    let metadata = RunMetadata {
        agent_config: json!({"name": "customer-support"}),
        prompt_version: json!({"version": "auto-12345678"}),
        holodeck_version: "0.1.0".to_owned(),
        cli_args: vec!["test".to_owned(), "agent.yaml".to_owned()],
        git_commit: None,
        mcp_servers: Vec::new(),
        managed_files: Vec::new(),
    };
    let read = || -> Results<'_> { Box::new(planned.iter().cloned().map(Ok)) };
    let mut out = Vec::new();
    write_report(
        format,
        &RunView::new(head, &metadata, "openai gpt-4o", &read),
        &mut out,
    )
    .unwrap();
    String::from_utf8(out).unwrap()
}

/// Checks that every `<` starts a tag, every `&` a reference, and that tags are closed in order.
pub(crate) fn assert_well_formed(xml: &str) {
    let body = xml
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        .unwrap();
    assert_balanced(body, &[]);
}

/// The same for HTML, where the elements `void` have no end tag.
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
