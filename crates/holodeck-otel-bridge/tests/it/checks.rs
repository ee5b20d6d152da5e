//! Tests of the warnings about settings that cannot work.

use std::time::Duration;

use holodeck_model::{Env, Severity};
use holodeck_otel_bridge::{Telemetry, check};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::agent::{agent, options};

fn found(provider: &str, observability: &Value) -> Vec<(Severity, String)> {
    let found = check(&agent(provider, observability), &Env::empty());
    for diagnostic in &found {
        assert!(diagnostic.pointer.is_some(), "{diagnostic:?}");
    }
    let found = found.into_iter();
    found
        .map(|diagnostic| (diagnostic.severity, diagnostic.message))
        .collect()
}

fn otlp(fields: &Value) -> Value {
    json!({"enabled": true, "exporters": {"otlp": fields}})
}

#[test]
fn what_works_is_silent() {
    for observability in [
        json!(null),
        json!({"enabled": false, "exporters": {"prometheus": {"enabled": true}}}),
        json!({"enabled": true}),
        otlp(&json!({})),
        otlp(&json!({"endpoint": "http://c:4318", "compression": "gzip"})),
        otlp(&json!({"endpoint": "http://c:4317/x", "protocol": "http"})),
        json!({"enabled": true, "traces": {"sample_rate": 0.1, "redaction_patterns": ["x"]}}),
    ] {
        assert_eq!(found("openai", &observability), [], "{observability}");
    }
}

#[test]
fn a_grpc_port_without_a_protocol_is_doubtful() {
    for endpoint in ["http://localhost:4317", "https://me:hush@c:4317/v1?x=1"] {
        let found = found("openai", &otlp(&json!({"endpoint": endpoint})));
        assert_eq!(
            found,
            [(
                Severity::Warning,
                "port 4317 of a collector speaks gRPC; without `protocol`, telemetry is sent as HTTP"
                    .to_owned()
            )]
        );
    }
}

#[tokio::test]
async fn grpc_is_always_available() {
    for fields in [
        json!({"protocol": "grpc"}),
        json!({"protocol": "grpc", "endpoint": "http://localhost:4317", "insecure": true}),
        json!({"protocol": "grpc", "endpoint": "http://collector:4317", "insecure": false}),
        json!({"protocol": "grpc", "endpoint": "collector:4317"}),
    ] {
        for provider in ["openai", "anthropic"] {
            let observability = otlp(&fields);
            assert_eq!(found(provider, &observability), [], "{fields}");
            let started = Telemetry::start(&agent(provider, &observability), &options());
            assert!(started.is_on());
        }
    }
}

#[test]
fn insecure_without_effect_is_a_warning() {
    for fields in [
        json!({"endpoint": "http://collector:4318", "insecure": false}),
        json!({"endpoint": "https://collector:4318", "insecure": true}),
        json!({"endpoint": "https://collector:4317", "insecure": true, "protocol": "grpc"}),
    ] {
        assert_eq!(
            found("openai", &otlp(&fields)),
            [(
                Severity::Warning,
                "`insecure` has no effect: the endpoint's scheme decides about TLS".to_owned()
            )],
            "{fields}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_exported_is_a_warning_at_load_and_at_the_end() {
    for (fields, message) in [
        (
            json!({"endpoint": "ftp://collector:4318"}),
            "invalid URL `ftp://collector:4318`: scheme `ftp` is neither http nor https",
        ),
        (
            json!({"headers": {"a b": "hush"}}),
            "the value for header `a b` contains characters that are not allowed in a header",
        ),
    ] {
        let observability = otlp(&fields);
        assert_eq!(
            found("openai", &observability),
            [(
                Severity::Warning,
                format!("telemetry will not be exported: {message}")
            )]
        );
        let telemetry = Telemetry::start(&agent("openai", &observability), &options());
        assert_eq!(
            telemetry.shutdown(Duration::from_secs(30)).await,
            Some(format!("telemetry was not exported: {message}"))
        );
    }
}

#[test]
fn what_has_no_effect_is_one_warning() {
    let observability = json!({"enabled": true, "logs": {},
        "exporters": {"prometheus": {"enabled": true}, "otlp": {"compression": "zstd"},
            "azure_monitor": {"enabled": true, "connection_string": "c"}}});
    assert_eq!(
        found("ollama", &observability),
        [(
            Severity::Warning,
            "of `observability`, `exporters.azure_monitor`, `exporters.prometheus`, `exporters.otlp.compression`, \
             `logs` have no effect"
                .to_owned()
        )]
    );
    let found = found(
        "anthropic",
        &json!({"enabled": true, "exporters": {"prometheus": {"enabled": true}}}),
    );
    assert_eq!(
        found,
        [(
            Severity::Warning,
            "The following observability settings are not supported by the Claude-native backend and will be \
             ignored: exporters.prometheus. Use a non-Anthropic provider or remove these fields."
                .to_owned()
        )]
    );
}
