//! The answers of a conversation, as rows of `target: {type: answers}`.

use holodeck::{
    backend_api::ExecutionResult,
    events::execution_result,
    model::{
        Evidence,
        events::{AgentEvent, CompleteReason, EventBody, RunTotals, UserMessage},
    },
};
use serde_json::{Map, Value, json};

/// The rows, and how many messages have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) rows: Vec<Value>,
    pub(super) unanswered: usize,
}

impl Answers {
    /// Those of a conversation. A message whose run failed or was stopped has a row with `error`.
    pub(super) fn of(session: &str, events: &[AgentEvent]) -> Self {
        let mut answers = Self::default();
        let mut run: Vec<&AgentEvent> = Vec::new();
        for event in events {
            if matches!(event.body, EventBody::UserMessageConfirmed(_)) {
                answers.unanswered += usize::from(!run.is_empty());
                run.clear();
            } else if run.is_empty() {
                continue;
            }
            run.push(event);
            if event.body.is_terminal() {
                match row(session, &run) {
                    Some(row) => answers.rows.push(row),
                    None => answers.unanswered += 1,
                }
                run.clear();
            }
        }
        answers.unanswered += usize::from(!run.is_empty());
        answers
    }
}

fn row(session: &str, run: &[&AgentEvent]) -> Option<Value> {
    let EventBody::UserMessageConfirmed(UserMessage { content, .. }) = &run.first()?.body else {
        return None;
    };
    let (totals, was_stopped) = match &run.last()?.body {
        EventBody::Complete(end) => (&end.totals, end.reason == CompleteReason::UserCancelled),
        EventBody::Error(end) => (&end.totals, false),
        _ => return None,
    };
    let result = execution_result(run.iter().copied())?;
    let mut row = Map::new();
    row.insert("input".to_owned(), json!(content));
    row.insert("session".to_owned(), json!(session));
    let error = match result.outcome.reason() {
        Some(reason) => Some(reason.into_owned()),
        None => was_stopped.then(|| "stopped by the user".to_owned()),
    };
    match error {
        Some(error) => {
            row.insert("error".to_owned(), json!(error));
        }
        None => add_answer(&mut row, result, totals),
    }
    Some(Value::Object(row))
}

/// Adds what is known. What is left out counts as not reported, and never as none.
fn add_answer(row: &mut Map<String, Value>, result: ExecutionResult, totals: &RunTotals) {
    let mut add = |name: &str, value: Value| {
        row.insert(name.to_owned(), value);
    };
    add("text", json!(result.response));
    if !result.unreported.contains(&Evidence::ToolCalls) {
        let calls = result.tool_calls.iter();
        let calls =
            calls.map(|call| json!({"id": call.call_id, "name": call.name, "arguments": call.arguments}));
        add("tool_calls", calls.collect());
        let results = result.tool_results.iter();
        let results = results.map(
            |result| json!({"call_id": result.call_id, "result": result.result, "is_error": result.is_error}),
        );
        add("tool_results", results.collect());
    }
    if let Some(passages) = result.passages {
        add("retrieval_context", json!(passages));
    }
    if let Some(usage) = result.token_usage {
        let usage = json!({
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        });
        add("usage", usage);
    }
    if let Some(cost) = result.cost_usd {
        add("cost", json!(cost));
    }
    // The events keep the reason only of an answer that is cut off.
    if let Some(reason) = result.truncated_by {
        add("finish_reason", json!(reason));
    }
    if let Some(duration) = totals.duration_ms {
        add("latency_ms", json!(duration));
    }
}
