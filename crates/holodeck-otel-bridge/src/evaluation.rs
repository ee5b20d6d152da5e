//! The results of metrics, as events under the span of the turn that they measure.

use std::time::SystemTime;

use opentelemetry::{
    Context, KeyValue,
    trace::{SpanContext, SpanKind, TraceContextExt as _},
};

use crate::{
    conventions::{
        AGENT_NAME, ERROR_TYPE, EVALUATION_NAME, EVALUATION_RESULT, EXPLANATION, REGRADED_RUN, SCORE_LABEL,
        SCORE_VALUE, UNIT,
    },
    running::Running,
};

/// The result of one metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct Evaluation<'a> {
    /// The metric.
    pub name: &'a str,
    /// The score; absent if it could not be computed.
    pub score: Option<f64>,
    /// Whether the gate was met; absent if the metric gates nothing or could not be computed.
    pub passed: Option<bool>,
    /// The reason for the score. It is content.
    pub explanation: Option<&'a str>,
    /// Why there is no score. It is content.
    pub error: Option<&'a str>,
}

/// The SDK drops further events of a span.
const MAX_EVENTS: usize = 128;

/// The value of `error.type`; the conventions have none for evaluations.
const NO_SCORE: &str = "evaluation_error";

/// The turn that results belong to.
pub(crate) enum EvaluatedTurn<'a> {
    /// The span of a turn of this run, which has ended: the results are events of a span under it.
    OfThisRun(SpanContext),
    /// A turn of an earlier run, whose trace is complete: the results are events of a trace of their own.
    OfEarlierRun {
        unit: &'a str,
        turn: Option<SpanContext>,
    },
}

/// Exports the results as events of a span.
pub(crate) fn export(running: &Running, turn: &EvaluatedTurn<'_>, results: &[Evaluation<'_>]) {
    for results in results.chunks(MAX_EVENTS) {
        let now = SystemTime::now();
        let mut identity = vec![KeyValue::new(AGENT_NAME, running.agent.clone())];
        let (parent, link) = match turn {
            EvaluatedTurn::OfThisRun(turn) => (Context::new().with_remote_span_context(turn.clone()), None),
            EvaluatedTurn::OfEarlierRun { unit, turn } => {
                identity.push(KeyValue::new(UNIT, running.redactor.text(unit).into_owned()));
                let run = running.regraded.clone();
                identity.extend(run.map(|run| KeyValue::new(REGRADED_RUN, run)));
                (Context::new(), turn.clone())
            }
        };
        let name = format!("evaluate {}", running.agent);
        let span = running.linked_span(name, SpanKind::Internal, &parent, now, identity, link);
        for result in results {
            span.span()
                .add_event_with_timestamp(EVALUATION_RESULT, now, attributes(running, result));
        }
        running.end(&span, now);
    }
}

fn attributes(running: &Running, result: &Evaluation<'_>) -> Vec<KeyValue> {
    let name = running.redactor.text(result.name).into_owned();
    let mut attributes = vec![KeyValue::new(EVALUATION_NAME, name)];
    attributes.extend(result.score.map(|score| KeyValue::new(SCORE_VALUE, score)));
    let label = result
        .passed
        .map(|passed| if passed { "passed" } else { "failed" });
    attributes.extend(label.map(|label| KeyValue::new(SCORE_LABEL, label)));
    if result.error.is_some() {
        attributes.push(KeyValue::new(ERROR_TYPE, NO_SCORE));
    }
    let explanation = result.error.or(result.explanation);
    let explanation = explanation.and_then(|text| running.evaluations.text(text));
    attributes.extend(explanation.map(|text| KeyValue::new(EXPLANATION, text)));
    attributes
}
