//! Metrics that a function or a program of the user computes.

use async_trait::async_trait;
use holodeck_model::{CodeMetric, GraderFailure, json_kind};
use serde_json::{Map, Value, json};

use crate::{Asked, AskingMetric, CalledTool, ConversationTurn, EvalInput, InputText, MetricError, Score};

/// The score that passes if the grader decides nothing and has no threshold.
const PASSING: f64 = 0.5;

/// A metric that runs a grader of the user.
pub(crate) struct CodeGrader {
    config: CodeMetric,
}

impl CodeGrader {
    pub(crate) fn new(config: &CodeMetric) -> Self {
        Self {
            config: config.clone(),
        }
    }

    /// Reads a result: a number, a boolean, or an object with `score` and optionally `passed`, `reason` and `details`.
    fn read(&self, result: Value) -> Result<Score, GraderFailure> {
        let mut score = match result {
            Value::Bool(true) => Score::met(),
            Value::Bool(false) => Score {
                reason: None,
                ..Score::missed("")
            },
            Value::Number(number) => Score::graded(number.as_f64().unwrap_or(f64::NAN)),
            Value::Object(fields) => read_object(fields)?,
            other => {
                return Err(GraderFailure::NotAScore(format!(
                    "the result is {}, not a number, a boolean or an object with `score`",
                    json_kind(&other)
                )));
            }
        };
        if score.passed.is_none() && self.config.threshold.is_none() {
            score.passed = Some(score.value >= PASSING);
        }
        Ok(score)
    }
}

#[async_trait]
impl AskingMetric for CodeGrader {
    fn name(&self) -> &str {
        self.config.name()
    }

    fn reads(&self, input: &EvalInput<'_>) -> Vec<InputText> {
        use InputText as T;
        let mut reads = vec![
            T::Question,
            T::Answer,
            T::GroundTruth,
            T::Arguments,
            T::ToolResult,
        ];
        reads.extend([T::CaseName, T::TurnConfig, T::Vars]);
        reads.extend(input.retrieval_context.map(|_| input.kind_of_passages()));
        reads.extend(input.conversation.map(|_| T::TurnPassages));
        reads
    }

    async fn score(&self, input: &EvalInput<'_>, asked: &Asked<'_>) -> Result<Score, MetricError> {
        let result = asked.programs.run(&self.config, context(input)).await;
        result
            .and_then(|result| self.read(result))
            .map_err(|failure| match failure {
                GraderFailure::NotAScore(problem) => MetricError::NotAScore {
                    metric: self.name().to_owned(),
                    problem,
                },
                GraderFailure::Failed(reason) => MetricError::NotGraded {
                    name: self.name().to_owned(),
                    reason,
                },
            })
    }
}

fn read_object(mut fields: Map<String, Value>) -> Result<Score, GraderFailure> {
    let failed = |reason: String| Err(GraderFailure::Failed(reason));
    let Some(score) = fields.remove("score") else {
        return Err(GraderFailure::NotAScore("the result has no `score`".to_owned()));
    };
    let passed = match fields.remove("passed").unwrap_or_default() {
        Value::Null => None,
        Value::Bool(passed) => Some(passed),
        other => return failed(format!("`passed` is {}, not a boolean", json_kind(&other))),
    };
    let reason = match fields.remove("reason").unwrap_or_default() {
        Value::Null => None,
        Value::String(reason) => Some(reason),
        other => return failed(format!("`reason` is {}, not a text", json_kind(&other))),
    };
    let evidence = fields.remove("details").filter(|details| !details.is_null());
    if let Some(unknown) = fields.keys().next() {
        return failed(format!(
            "the result has the unknown field `{unknown}`; there are `score`, `passed`, `reason` and `details`"
        ));
    }
    let value = score
        .as_f64()
        .ok_or_else(|| GraderFailure::NotAScore(format!("`score` is {}, not a number", json_kind(&score))))?;
    let mut result = Score::graded(value);
    (result.passed, result.reason, result.evidence) = (passed, reason, evidence);
    Ok(result)
}

/// The context that a grader receives: the fields of 0.7.1's `GraderContext`, and the turns of a conversation.
fn context(input: &EvalInput<'_>) -> Value {
    let last = input.conversation.and_then(<[_]>::last);
    let mut context = json!({
        "turn_input": last.map_or(input.input, |turn| turn.input),
        "agent_response": last.map_or(input.response, |turn| turn.answer),
        "ground_truth": input.ground_truth,
        "tool_invocations": input.tool_calls.iter().map(invocation).collect::<Vec<_>>(),
        "retrieval_context": input.retrieval_context,
        "turn_index": input.turn_index,
        "test_case_name": input.test_case_name,
        "turn_config": input.turn_config.cloned().unwrap_or_default(),
    });
    if let (Some(vars), Some(fields)) = (input.vars, context.as_object_mut()) {
        fields.insert("vars".to_owned(), Value::Object(vars.clone()));
    }
    if let (Some(turns), Some(fields)) = (input.conversation, context.as_object_mut()) {
        let turns: Vec<Value> = turns.iter().enumerate().map(turn).collect();
        fields.insert("turns".to_owned(), Value::Array(turns));
    }
    context
}

fn turn((place, turn): (usize, &ConversationTurn<'_>)) -> Value {
    json!({
        "turn_input": turn.input,
        "agent_response": turn.answer,
        "tool_invocations": turn.tool_calls.iter().map(invocation).collect::<Vec<_>>(),
        "retrieval_context": turn.retrieval_context,
        "turn_index": place,
    })
}

fn invocation(call: &CalledTool<'_>) -> Value {
    let result = json!(call.result);
    json!({
        "name": call.name,
        "args": call.arguments,
        "bytes": result.to_string().len(),
        "duration_ms": call.duration_ms,
        "error": call.result.filter(|_| call.failed),
        "result": result,
    })
}
