//! Results for tests of everything that reads them.

use holodeck_model::{CaseState, ExecutionState, MetricResult, TestResult, TokenUsage};

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
        timestamp: "2026-11-21T20:11:03.000Z".to_owned(),
        token_usage: Some(TokenUsage::new(12, 3)),
        cost_usd: None,
        num_turns: 1,
        model: Some("m".to_owned()),
        structured_output: None,
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
