//! The result of a case as reports show it, in 0.7.1's fields, made from its record and its grade.

use holodeck_backend_api::ExecutionResult;
use holodeck_model::{
    ArgMatchDetail, CaseState, ExecutionState, ExpectedTool, Failure, MetricResult, Redactor, TestCase,
    TestResult, ToolInvocation, TurnResult,
};
use holodeck_turn::TurnRecord;
use serde_json::Value;

use crate::record::{Grade, TurnGrade, UnitRecord};

/// The result of `case`, which is at `index` in its file. Records and grades are masked already, what the file expects is
/// not.
pub(crate) fn project(
    case: &TestCase,
    index: usize,
    unit: UnitRecord,
    grade: Grade,
    redactor: &Redactor,
) -> TestResult {
    let mut result = TestResult {
        index,
        case_id: unit.key.case.to_string(),
        test_name: case.name.clone(),
        test_input: String::new(),
        processed_files: Vec::new(),
        agent_response: None,
        tool_calls: Vec::new(),
        tool_invocations: Vec::new(),
        expected_tools: as_written(case.expected_tools.as_deref(), redactor),
        tools_matched: None,
        metric_results: Vec::new(),
        ground_truth: masked(case.ground_truth.as_deref(), redactor),
        passed: grade.state == CaseState::Passed,
        state: grade.state,
        execution: unit.execution(),
        execution_time_ms: 0,
        latency_ms: None,
        errors: Vec::new(),
        failures: Vec::new(),
        timestamp: unit.at.clone(),
        token_usage: unit.usage(),
        cost_usd: unit.cost_usd(),
        num_turns: unit.model_calls(),
        model: None,
        truncated: false,
        redacted: false,
        structured_output: None,
        retrieval_context: None,
        turns: None,
    };
    result.failures = unit.failures;
    let conversation = unit.conversation;
    let mut turns = Vec::new();
    for (place, (turn, grade)) in unit.turns.into_iter().zip(grade.turns).enumerate() {
        result.processed_files.extend(turn.files.iter().cloned());
        result.execution_time_ms += turn.elapsed_ms;
        if let Some(latency) = turn.latency_ms {
            *result.latency_ms.get_or_insert(0) += latency;
        }
        let number = conversation.then_some(place + 1);
        let own = turn.failures.iter().chain(&grade.failures).cloned();
        result.failures.extend(own.map(|failure| Failure {
            turn: number,
            ..failure
        }));
        turns.push(turn_result(place, turn, grade));
    }
    if conversation {
        let input = match turns.as_slice() {
            // It never came to its first turn.
            [] => case.turns.iter().map(|turn| turn.input.as_str()).collect(),
            turns => turns.iter().map(|turn| turn.input.as_str()).collect::<Vec<_>>(),
        };
        result.test_input = redactor.text(&input.join("\n---\n")).into_owned();
        for (turn, case) in turns.iter_mut().zip(&case.turns) {
            turn.ground_truth = masked(case.ground_truth.as_deref(), redactor);
            turn.expected_tools = as_written(case.expected_tools.as_deref(), redactor);
        }
        roll_up(&mut result, turns);
    } else if let Some(turn) = turns.pop() {
        single(&mut result, turn);
    } else {
        result.test_input = masked(case.input.as_deref(), redactor).unwrap_or_default();
    }
    result.errors = result.failures.iter().map(Failure::line).collect();
    result
}

/// A case without turns has the fields of its only turn.
fn single(result: &mut TestResult, turn: TurnResult) {
    result.test_input = turn.input;
    result.agent_response = turn.response;
    result.tool_calls = turn.tool_calls;
    result.tool_invocations = turn.tool_invocations;
    result.tools_matched = turn.tools_matched;
    result.metric_results = turn.metric_results;
    result.structured_output = turn.structured_output;
    result.retrieval_context = turn.retrieval_context;
    result.model = turn.model;
    result.truncated = turn.truncated;
    result.redacted = turn.redacted;
}

/// What the turns of a conversation together come to.
fn roll_up(result: &mut TestResult, turns: Vec<TurnResult>) {
    for turn in &turns {
        result.tool_calls.extend(turn.tool_calls.iter().cloned());
        result
            .tool_invocations
            .extend(turn.tool_invocations.iter().cloned());
        result.truncated |= turn.truncated;
        result.redacted |= turn.redacted;
    }
    let last = |of: fn(&TurnResult) -> Option<&String>| turns.iter().rev().find_map(of).cloned();
    result.agent_response = last(|turn| turn.response.as_ref());
    result.model = last(|turn| turn.model.as_ref());
    let matched: Vec<bool> = turns.iter().filter_map(|turn| turn.tools_matched).collect();
    result.tools_matched = (!matched.is_empty()).then(|| matched.iter().all(|&matched| matched));
    result.metric_results = mean_metrics(&turns);
    result.turns = Some(turns);
}

fn turn_result(place: usize, turn: TurnRecord, grade: TurnGrade) -> TurnResult {
    let response = turn.answer().map(ToOwned::to_owned);
    let failures = turn.failures.iter().chain(&grade.failures);
    TurnResult {
        turn_index: place,
        response,
        ground_truth: None,
        expected_tools: None,
        tool_calls: turn
            .result
            .tool_calls
            .iter()
            .map(|call| call.name.clone())
            .collect(),
        tool_invocations: invocations(&turn.result),
        tools_matched: grade.tools_matched,
        arg_match_details: Some(grade.arg_match_details)
            .filter(|details: &Vec<ArgMatchDetail>| !details.is_empty()),
        passed: grade.state == CaseState::Passed,
        state: grade.state,
        execution: turn.state,
        execution_time_ms: turn.elapsed_ms,
        latency_ms: turn.latency_ms,
        token_usage: turn.usage,
        cost_usd: turn.cost_usd,
        num_turns: turn.result.num_turns,
        retrieval_context: grade.retrieval_context,
        errors: failures.map(Failure::line).collect(),
        skipped: turn.state == ExecutionState::Skipped,
        grader_details: None,
        truncated: turn.truncated,
        redacted: !turn.redacted.is_nothing(),
        metric_results: grade.metrics,
        input: turn.input,
        structured_output: turn.result.structured_output,
        model: turn.result.model,
    }
}

/// Calls with their results.
fn invocations(result: &ExecutionResult) -> Vec<ToolInvocation> {
    result
        .calls()
        .map(|(call, answer)| {
            let value = answer.map_or(Value::Null, |answer| Value::String(answer.result.clone()));
            ToolInvocation {
                name: call.name.clone(),
                args: call.arguments.clone(),
                bytes: value.to_string().len(),
                duration_ms: answer.and_then(|answer| answer.duration_ms),
                error: match answer {
                    None => Some("no result received".to_owned()),
                    Some(answer) => answer.is_error.then(|| answer.result.clone()),
                },
                result: value,
                details: answer.map(|answer| answer.details.clone()).unwrap_or_default(),
            }
        })
        .collect()
}

/// Each metric's mean over the turns that ran it. The n-th metric of a name is one metric: a name may appear twice with
/// different options.
fn mean_metrics(turns: &[TurnResult]) -> Vec<MetricResult> {
    let mut groups: Vec<((String, usize), Vec<&MetricResult>)> = Vec::new();
    for turn in turns {
        let mut seen: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
        for metric in &turn.metric_results {
            let nth = seen.entry(&metric.metric_name).or_default();
            let key = (metric.metric_name.clone(), *nth);
            *nth += 1;
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, group)) => group.push(metric),
                None => groups.push((key, vec![metric])),
            }
        }
    }
    groups.into_iter().filter_map(|(_, group)| mean(&group)).collect()
}

fn mean(group: &[&MetricResult]) -> Option<MetricResult> {
    let mut result = (*group.first()?).clone();
    let scores: Vec<f64> = group.iter().filter_map(|metric| metric.score).collect();
    let error = group.iter().find_map(|metric| metric.error.clone());
    // A mean over the turns that could be graded would hide the others.
    result.score =
        (error.is_none() && !scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64);
    result.error = error;
    let verdicts: Vec<bool> = group.iter().filter_map(|metric| metric.passed).collect();
    result.passed = if verdicts.contains(&false) {
        Some(false)
    } else if result.error.is_some() || verdicts.is_empty() {
        None
    } else {
        Some(true)
    };
    result.evaluation_time_ms = Some(group.iter().filter_map(|metric| metric.evaluation_time_ms).sum());
    result.reasoning = None;
    Some(result)
}

fn as_written(tools: Option<&[ExpectedTool]>, redactor: &Redactor) -> Option<Value> {
    let mut tools = serde_json::to_value(tools?).ok()?;
    redactor.mask_value(&mut tools);
    Some(tools)
}

fn masked(text: Option<&str>, redactor: &Redactor) -> Option<String> {
    text.map(|text| redactor.text(text).into_owned())
}
