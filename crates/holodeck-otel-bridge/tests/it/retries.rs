//! Tests that a busy collector is asked again, within the time that the end of a run allows.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    agent::{Scripted, otlp, plain, start, wrap},
    collector::{BREAKS, Collector, Status},
    spans::run,
};

/// Long enough that no test reaches it.
const LONG: Duration = Duration::from_secs(30);

/// The warning of a run against a collector with these statuses.
async fn warning(status: fn(usize) -> Status, limit: Duration) -> (Option<String>, Collector) {
    let collector = Collector::refusing(status).await;
    let mut observability = otlp(&collector.url, &json!({"schedule_delay_millis": 100_000}));
    observability["metrics"] = json!({"export_interval_ms": 100_000});
    let telemetry = start(&observability);
    let backend = wrap(&telemetry, Scripted::backend([plain("one")]));
    assert!(run(&backend).await.last().unwrap().is_ok());
    (telemetry.shutdown(limit).await, collector)
}

fn count(collector: &Collector, path: &str) -> usize {
    let received = collector.received();
    received.iter().filter(|received| received.path == path).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_batch_arrives_at_a_collector_that_was_busy() {
    let statuses: [fn(usize) -> Status; 7] = [
        |number| if number == 0 { (BREAKS, None) } else { (200, None) },
        |number| if number == 0 { (429, None) } else { (200, None) },
        |number| {
            if number == 0 {
                (429, Some("0"))
            } else {
                (200, None)
            }
        },
        |number| if number == 0 { (502, None) } else { (200, None) },
        |number| if number < 3 { (503, None) } else { (200, None) },
        |number| if number == 0 { (504, None) } else { (200, None) },
        |number| {
            if number == 0 {
                (503, Some("0.1"))
            } else {
                (200, None)
            }
        },
    ];
    for status in statuses {
        let (warning, collector) = warning(status, LONG).await;
        assert_eq!(warning, None);
        let attempts = if status(1).0 == 200 { 2 } else { 4 };
        for path in ["/v1/traces", "/v1/metrics"] {
            assert_eq!(count(&collector, path), attempts, "{path}");
            let received = collector.received();
            let mut bodies = received.iter().filter(|received| received.path == path);
            let first = &bodies.next().unwrap().body;
            assert!(bodies.all(|other| other.body == *first), "the same batch");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_stays_busy_is_one_warning_with_its_status() {
    // The last answer asks for a wait that the end of the run does not allow.
    let statuses: [fn(usize) -> Status; 4] = [
        |number| (429, (number == 2).then_some("25")),
        |number| (502, (number == 2).then_some("3600")),
        |number| (503, (number == 2).then_some("Tue, 31 Dec 2999 23:59:59 GMT")),
        |number| (504, (number == 2).then_some("1e18")),
    ];
    for status in statuses {
        let (warning, collector) = warning(status, Duration::from_secs(25)).await;
        let warning = warning.unwrap();
        let start = format!("telemetry was not exported: {}/v1/", collector.url);
        assert!(warning.starts_with(&start), "{warning}");
        assert!(
            warning.contains(&format!(" answered {} ", status(0).0)),
            "{warning}"
        );
        for path in ["/v1/traces", "/v1/metrics"] {
            assert_eq!(count(&collector, path), 3, "{warning}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_status_is_not_sent_again() {
    let statuses: [fn(usize) -> Status; 5] = [
        |_| (400, Some("0")),
        |_| (401, Some("0")),
        |_| (404, Some("0")),
        |_| (408, Some("0")),
        |_| (500, Some("0")),
    ];
    for status in statuses {
        let (warning, collector) = warning(status, LONG).await;
        let warning = warning.unwrap();
        assert!(warning.contains(&status(0).0.to_string()), "{warning}");
        assert_eq!(count(&collector, "/v1/traces"), 1);
        assert_eq!(count(&collector, "/v1/metrics"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_during_the_run_ends_with_the_run() {
    let collector = Collector::refusing(|_| (503, Some("25"))).await;
    let telemetry = start(&otlp(&collector.url, &json!({"schedule_delay_millis": 100})));
    let backend = wrap(&telemetry, Scripted::backend([plain("one")]));
    run(&backend).await;
    // The export waits by now.
    while count(&collector, "/v1/traces") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let warning = telemetry.shutdown(Duration::from_secs(20)).await.unwrap();
    assert!(warning.contains("503"), "{warning}");
}
