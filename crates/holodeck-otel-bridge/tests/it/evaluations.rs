//! Results of evaluations, as events under the span of the turn.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_otel_bridge::{Evaluation, Telemetry};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    agent::{Scripted, export_all, otlp, request, start, with_a_tool},
    collector::{Collector, attributes},
};

const RESULTS: [Evaluation<'static>; 4] = [
    Evaluation {
        name: "Correctness",
        score: Some(0.75),
        passed: Some(true),
        explanation: Some("PRIVATE-REASON with sk-very-secret-key and 555-1234"),
        error: None,
    },
    Evaluation {
        name: "bleu sk-very-secret-key",
        score: Some(0.0),
        passed: None,
        explanation: None,
        error: None,
    },
    Evaluation {
        name: "contains",
        score: Some(0.0),
        passed: Some(false),
        explanation: None,
        error: None,
    },
    Evaluation {
        name: "fluency",
        score: None,
        passed: None,
        explanation: None,
        error: Some("the judge said PRIVATE-NONSENSE"),
    },
];

/// Runs one turn and returns its `traceparent`.
async fn run_turn(telemetry: &Telemetry) -> Option<String> {
    let backend = telemetry.wrap(Scripted::backend([with_a_tool()]));
    let request = request("PRIVATE-PROMPT");
    let slot = Arc::clone(&request.traceparent);
    let events = backend.start(request).count().await;
    assert!(events > 0);
    slot.get().cloned()
}

/// The events of all spans `evaluate`, which belong to the span of the turn.
fn events(collector: &Collector) -> Vec<Value> {
    let turn = collector.span("invoke_agent helper");
    let spans = collector.spans().into_iter();
    let spans: Vec<_> = spans.filter(|span| span.name == "evaluate helper").collect();
    for span in &spans {
        assert_eq!(
            (&span.trace_id, &span.parent_span_id),
            (&turn.trace_id, &turn.span_id)
        );
    }
    let events = spans.iter().flat_map(|span| &span.events);
    events
        .map(|event| json!({"name": event.name, "attributes": attributes(&event.attributes)}))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_result_is_an_event_without_its_texts() {
    let collector = Collector::start().await;
    // The content of the turn is captured, but not that of its evaluation.
    let telemetry = start(&otlp(&collector.url, &json!({"capture_content": true})));
    let turn = run_turn(&telemetry).await.unwrap();
    telemetry.evaluated(&turn, &RESULTS);
    telemetry.evaluated("nonsense", &RESULTS);
    export_all(&telemetry).await;
    let event = |attributes: Value| json!({"name": "gen_ai.evaluation.result", "attributes": attributes});
    assert_eq!(
        events(&collector),
        [
            event(
                json!({"gen_ai.evaluation.name": "Correctness", "gen_ai.evaluation.score.value": 0.75,
                         "gen_ai.evaluation.score.label": "passed"})
            ),
            event(json!({"gen_ai.evaluation.name": "bleu ***", "gen_ai.evaluation.score.value": 0.0})),
            event(
                json!({"gen_ai.evaluation.name": "contains", "gen_ai.evaluation.score.value": 0.0,
                         "gen_ai.evaluation.score.label": "failed"})
            ),
            event(json!({"gen_ai.evaluation.name": "fluency", "error.type": "evaluation_error"})),
        ]
    );
    for words in ["PRIVATE-REASON", "PRIVATE-NONSENSE", "sk-very-secret-key"] {
        assert!(!collector.received_text(words), "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn captured_reasons_are_redacted() {
    let collector = Collector::start().await;
    let traces = json!({"capture_evaluation_content": true, "redaction_patterns": [r"\d{3}-\d{4}"]});
    let telemetry = start(&otlp(&collector.url, &traces));
    let turn = run_turn(&telemetry).await.unwrap();
    telemetry.evaluated(&turn, &RESULTS);
    export_all(&telemetry).await;
    let events = events(&collector);
    let explanation = |place: usize| &events[place]["attributes"]["gen_ai.evaluation.explanation"];
    assert_eq!(explanation(0), "PRIVATE-REASON with *** and ***");
    assert_eq!(explanation(3), "the judge said PRIVATE-NONSENSE");
    // The content of the turn is still private.
    for words in ["PRIVATE-PROMPT", "sk-very-secret-key"] {
        assert!(!collector.received_text(words), "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_has_as_many_events_as_metrics() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let turn = run_turn(&telemetry).await.unwrap();
    let results = vec![RESULTS[0]; 300];
    telemetry.evaluated(&turn, &results);
    telemetry.evaluated(&turn, &[]);
    export_all(&telemetry).await;
    assert_eq!(events(&collector).len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_not_sampled_has_no_events() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({"sample_rate": 0.0})));
    assert_eq!(run_turn(&telemetry).await, None);
    let off = Telemetry::off();
    off.evaluated(
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        &RESULTS,
    );
    assert_eq!(run_turn(&off).await, None);
    export_all(&telemetry).await;
    assert!(!collector.received_text("gen_ai.evaluation"));
}
