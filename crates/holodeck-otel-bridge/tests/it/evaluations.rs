//! Results of evaluations, as events under the span of the turn.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_otel_bridge::{Evaluation, Telemetry, TelemetryOptions};
use opentelemetry_proto::tonic::trace::v1::Span;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    agent::{Scripted, agent, export_all, options, otlp, request, start, with_a_tool, wrap},
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
    let backend = wrap(telemetry, Scripted::backend([with_a_tool()]));
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

/// The trace of an earlier run is complete, so that nothing is added to it.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_turn_that_is_graded_again_is_linked() {
    let collector = Collector::start().await;
    let options = TelemetryOptions {
        run: "holodeck test regrade".to_owned(),
        regraded: Some("20261123T150405123-a1b2c3".to_owned()),
        ..options()
    };
    let agent = agent("openai", &otlp(&collector.url, &json!({})));
    let telemetry = Telemetry::start(&agent, &options);
    let earlier = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    telemetry.evaluated_again("refunds sk-very-secret-key", Some(earlier), &RESULTS[..1]);
    // That turn was not traced.
    telemetry.evaluated_again("refunds", None, &RESULTS[1..]);
    telemetry.evaluated_again("refunds", Some("nonsense"), &[]);
    export_all(&telemetry).await;
    let run = collector.span("holodeck test regrade");
    let marked = |span: &Span| attributes(&span.attributes)["holodeck.regraded_run"].clone();
    assert_eq!(marked(&run), "20261123T150405123-a1b2c3");
    let spans = collector.spans().into_iter();
    let spans: Vec<_> = spans.filter(|span| span.name == "evaluate helper").collect();
    let [linked, plain] = &spans[..] else {
        panic!("{spans:?}")
    };
    for span in &spans {
        assert_eq!(marked(span), "20261123T150405123-a1b2c3");
        assert!(span.parent_span_id.is_empty() && span.trace_id != run.trace_id);
        assert_eq!(span.links[0].span_id, run.span_id);
    }
    assert_eq!(attributes(&linked.attributes)["holodeck.unit"], "refunds ***");
    let of_turn = &linked.links[1];
    let trace: [u8; 16] = of_turn.trace_id[..].try_into().unwrap();
    let span: [u8; 8] = of_turn.span_id[..].try_into().unwrap();
    assert_eq!(
        u128::from_be_bytes(trace),
        0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736
    );
    assert_eq!(u64::from_be_bytes(span), 0x00f0_67aa_0ba9_02b7);
    assert_eq!((linked.events.len(), plain.events.len()), (1, 3));
    assert_eq!((linked.links.len(), plain.links.len()), (2, 1));
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
