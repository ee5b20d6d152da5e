use holodeck_model::Severity;
use holodeck_otel_bridge::{Telemetry, check};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::agent::{agent, options};

fn found(provider: &str, observability: &Value) -> Vec<(Severity, String)> {
    let found = check(&agent(provider, observability));
    for diagnostic in &found {
        assert!(diagnostic.primary.is_some(), "{diagnostic:?}");
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
async fn grpc_is_an_error_that_names_the_feature_unless_it_is_there() {
    let observability = otlp(&json!({"protocol": "grpc"}));
    for provider in ["openai", "anthropic"] {
        let found = found(provider, &observability);
        let started = Telemetry::start(&agent(provider, &observability), &options());
        if cfg!(feature = "otlp-grpc") {
            assert_eq!(found, []);
            assert!(started.unwrap().is_on());
        } else {
            let message = "protocol `grpc` needs the feature `otlp-grpc`, which this build does not have";
            assert_eq!(found, [(Severity::Error, message.to_owned())]);
            assert_eq!(started.unwrap_err().message, message);
        }
    }
}

#[tokio::test]
async fn what_cannot_work_is_an_error_before_and_at_the_start() {
    for (fields, message) in [
        (
            json!({"endpoint": "collector:4318"}),
            "invalid URL `collector:4318`: scheme `collector` is neither http nor https",
        ),
        (
            json!({"headers": {"a b": "hush"}}),
            "the value for header `a b` has characters that a header can't carry",
        ),
    ] {
        let observability = otlp(&fields);
        assert_eq!(
            found("openai", &observability),
            [(Severity::Error, message.to_owned())]
        );
        let error = Telemetry::start(&agent("openai", &observability), &options()).unwrap_err();
        assert_eq!(error.message, message);
    }
}

#[test]
fn what_has_no_effect_is_one_warning() {
    let observability = json!({"enabled": true, "logs": {}, "traces": {"capture_evaluation_content": true},
        "exporters": {"prometheus": {"enabled": true}, "otlp": {"compression": "zstd"},
            "azure_monitor": {"enabled": true, "connection_string": "c"}}});
    assert_eq!(
        found("ollama", &observability),
        [(
            Severity::Warning,
            "of `observability`, `exporters.azure_monitor`, `exporters.prometheus`, `exporters.otlp.compression`, \
             `traces.capture_evaluation_content`, `logs` have no effect"
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
