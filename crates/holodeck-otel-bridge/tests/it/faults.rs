//! Tests that unreachable, slow and refusing collectors cause one warning and delay nothing.

use std::{sync::Arc, time::Duration};

use holodeck_backend_api::BackendEvent;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    agent::{Scripted, options, otlp, plain, start, wrap},
    collector::{Collector, Status, WITH_PARAMETER},
    grpc::PARTIAL,
    spans::run,
};

/// Long enough that no test reaches it.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_down_is_one_warning() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let telemetry = start(&otlp(&url, &json!({"schedule_delay_millis": 100})));
    let backend = wrap(&telemetry, Scripted::backend([plain("one"), plain("two")]));
    for _ in 0..2 {
        let events = run(&backend).await;
        assert!(matches!(events.last(), Some(Ok(BackendEvent::End(_)))));
    }
    let warning = telemetry.shutdown(LONG).await.unwrap();
    let host = url.trim_start_matches("http://");
    let end = format!("can't connect to http://{host}/v1/");
    assert!(warning.starts_with("telemetry was not exported: "), "{warning}");
    assert!(
        warning.contains(&end) && warning.ends_with("connection refused"),
        "{warning}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let telemetry = start(&otlp(&url, &json!({})));
    let backend = wrap(&telemetry, Scripted::backend([plain("one")]));
    assert!(run(&backend).await.last().unwrap().is_ok());
    assert_eq!(
        telemetry.shutdown(Duration::from_millis(20)).await.unwrap(),
        "telemetry was not exported: the collector did not answer within 0.02 s"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_that_an_accepted_request_rejects_are_reported() {
    let statuses: [fn(usize) -> Status; 2] = [|_| (200, None), |_| (WITH_PARAMETER, None)];
    for status in statuses {
        let collector = Collector::start_with(PARTIAL.to_vec(), status).await;
        let mut observability = otlp(&collector.url, &json!({}));
        observability["exporters"]["otlp"]["headers"] = json!({"x-other": "xx-hush"});
        let telemetry = start(&observability);
        let backend = wrap(&telemetry, Scripted::backend([plain("one")]));
        assert!(run(&backend).await.last().unwrap().is_ok());
        let warning = telemetry.shutdown(LONG).await.unwrap();
        let start = "telemetry was not exported: ";
        // Whichever was exported first.
        let ends = [
            "/v1/traces rejected 2 spans",
            "/v1/metrics rejected 2 data points",
        ];
        let ends = ends.map(|end| format!("{end}: quota of ***"));
        assert!(
            warning.starts_with(start) && ends.iter().any(|end| warning.ends_with(end)),
            "{warning}"
        );
        assert_eq!(
            collector.received().len(),
            2,
            "a partial success is never sent again"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_run_sends_nothing() {
    let collector = Collector::start().await;
    let telemetry = start(&otlp(&collector.url, &json!({})));
    let backend = wrap(&telemetry, Scripted::backend([]));
    drop((backend, telemetry));
    // Another span that is flushed, so that shutdown has to wait.
    let telemetry = start(&otlp(&collector.url, &json!({})));
    assert_eq!(telemetry.shutdown(LONG).await, None);
    assert_eq!(collector.spans().len(), 1);
}

#[tokio::test]
async fn without_the_block_the_backend_is_the_same_one() {
    for observability in [
        json!(null),
        json!({"exporters": {"otlp": {}}}),
        json!({"enabled": false}),
        json!({"enabled": true, "exporters": {"otlp": {"enabled": false}}}),
        json!({"enabled": true, "traces": {"enabled": false}, "metrics": {"enabled": false}}),
    ] {
        let telemetry = start(&observability);
        assert!(!telemetry.is_on(), "{observability}");
        let backend = Scripted::backend([]);
        assert!(Arc::ptr_eq(&backend, &wrap(&telemetry, Arc::clone(&backend))));
        assert_eq!(
            (telemetry.traceparent(), telemetry.shutdown(LONG).await),
            (None, None)
        );
    }
    assert!(!format!("{:?}", options()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_loses_spans_and_says_so() {
    let collector = Collector::start().await;
    let traces = json!({"max_queue_size": 1, "max_export_batch_size": 1, "schedule_delay_millis": 100_000});
    let telemetry = start(&otlp(&collector.url, &traces));
    let scripts = (0..400).map(|_| plain("x"));
    let backend = wrap(&telemetry, Scripted::backend(scripts));
    for _ in 0..400 {
        run(&backend).await;
    }
    let warning = telemetry.shutdown(LONG).await.unwrap();
    assert!(
        warning.ends_with("spans were not exported: the queue was full (`traces.max_queue_size`)"),
        "{warning}"
    );
    assert!(!collector.spans().is_empty());
}
