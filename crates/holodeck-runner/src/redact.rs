use std::borrow::Cow;

use holodeck_model::{Redactor, TestResult, ToolInvocation, TurnResult};

/// Takes secrets out of a result before anything is written down or shown. After grading: a check must see what the
/// agent said.
pub(crate) fn redact(redactor: &Redactor, result: &mut TestResult) {
    text(redactor, &mut result.test_input);
    optional(redactor, &mut result.agent_response);
    invocations(redactor, &mut result.tool_invocations);
    texts(redactor, &mut result.errors);
    texts(redactor, &mut result.execution_errors);
    for file in &mut result.processed_files {
        redactor.value(file);
    }
    if let Some(output) = &mut result.structured_output {
        redactor.value(output);
    }
    texts(
        redactor,
        result.retrieval_context.as_deref_mut().unwrap_or_default(),
    );
    for metric in &mut result.metric_results {
        optional(redactor, &mut metric.reasoning);
        optional(redactor, &mut metric.error);
    }
    for turn in result.turns.iter_mut().flatten() {
        redact_turn(redactor, turn);
    }
}

fn redact_turn(redactor: &Redactor, turn: &mut TurnResult) {
    text(redactor, &mut turn.input);
    optional(redactor, &mut turn.response);
    invocations(redactor, &mut turn.tool_invocations);
    texts(redactor, &mut turn.errors);
    texts(redactor, &mut turn.execution_errors);
    if let Some(output) = &mut turn.structured_output {
        redactor.value(output);
    }
    texts(
        redactor,
        turn.retrieval_context.as_deref_mut().unwrap_or_default(),
    );
    for metric in &mut turn.metric_results {
        optional(redactor, &mut metric.reasoning);
        optional(redactor, &mut metric.error);
    }
    for detail in turn.arg_match_details.iter_mut().flatten() {
        redactor.value(&mut detail.args_asserted);
        optional(redactor, &mut detail.unmatched_reason);
    }
}

fn invocations(redactor: &Redactor, invocations: &mut [ToolInvocation]) {
    for invocation in invocations {
        redactor.value(&mut invocation.args);
        invocation.details.redact(redactor);
        redactor.value(&mut invocation.result);
        optional(redactor, &mut invocation.error);
    }
}

fn texts(redactor: &Redactor, all: &mut [String]) {
    for one in all {
        text(redactor, one);
    }
}

fn optional(redactor: &Redactor, value: &mut Option<String>) {
    if let Some(value) = value {
        text(redactor, value);
    }
}

fn text(redactor: &Redactor, value: &mut String) {
    if let Cow::Owned(clean) = redactor.text(value) {
        *value = clean;
    }
}
