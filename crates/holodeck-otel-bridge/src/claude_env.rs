//! Translates `observability` into the environment that makes the Claude CLI export its own telemetry.

use std::fmt::{self, Write as _};

use holodeck_http::HttpUrl;
use holodeck_model::{ObservabilityConfig, OtlpExporter, OtlpProtocol};
use secrecy::ExposeSecret as _;

use crate::{
    collector::{collector_endpoint, otlp, timeout_ms},
    conventions::service_name,
    unmapped,
};

/// Variables of [`claude_env`] with secret values: children of the CLI must not inherit them.
pub const CLAUDE_SECRET_VARIABLES: &[&str] = &["OTEL_EXPORTER_OTLP_HEADERS"];

/// The environment that makes the Claude CLI export its own telemetry as the YAML configures it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClaudeTelemetry {
    /// Variables for the CLI's environment; empty if nothing is exported.
    pub vars: Vec<(String, String)>,
    /// One warning that names all settings the CLI does not support.
    pub warning: Option<String>,
}

impl fmt::Debug for ClaudeTelemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.vars.iter().map(|(name, _)| name).collect();
        f.debug_struct("ClaudeTelemetry")
            .field("vars", &names)
            .field("warning", &self.warning)
            .finish()
    }
}

/// Translates `observability` for the Claude CLI. Prompts, answers and tool arguments are exported only if
/// `traces.capture_content` is set. `agent` names the service if the YAML does not; `traceparent` is the parent of the
/// CLI's own spans.
pub fn claude_env(config: &ObservabilityConfig, agent: &str, traceparent: Option<&str>) -> ClaudeTelemetry {
    if !config.enabled {
        return ClaudeTelemetry::default();
    }
    let mut vars = Variables(Vec::new());
    let otlp =
        otlp(config.exporters.as_ref()).filter(|otlp| HttpUrl::parse(&collector_endpoint(otlp)).is_ok());
    let traces = config.traces.clone().unwrap_or_default();
    let metrics = config.metrics.clone().unwrap_or_default();
    let logs = config.logs.clone().unwrap_or_default();
    // Any exporter but OTLP would write to the CLI's standard output, which carries the protocol.
    let exporter = |enabled: bool| {
        if enabled && otlp.is_some() { "otlp" } else { "none" }
    };
    vars.set("CLAUDE_CODE_ENABLE_TELEMETRY", "1");
    vars.set("OTEL_SERVICE_NAME", &service_name(config, agent));
    vars.set("OTEL_METRICS_EXPORTER", exporter(metrics.enabled));
    vars.set("OTEL_LOGS_EXPORTER", exporter(logs.enabled));
    vars.set("OTEL_TRACES_EXPORTER", exporter(traces.enabled));
    if let Some(otlp) = otlp {
        vars.exporter(otlp);
        let interval = metrics.export_interval_ms.to_string();
        vars.set("OTEL_METRIC_EXPORT_INTERVAL", &interval);
        vars.set("OTEL_LOGS_EXPORT_INTERVAL", &interval);
        if traces.enabled {
            vars.set("CLAUDE_CODE_ENHANCED_TELEMETRY_BETA", "1");
            if let Some(traceparent) = traceparent {
                vars.set("TRACEPARENT", traceparent);
            }
        }
    }
    if traces.capture_content {
        vars.set("OTEL_LOG_USER_PROMPTS", "1");
        vars.set("OTEL_LOG_TOOL_DETAILS", "1");
    }
    if !config.resource_attributes.is_empty() {
        let attributes = config.resource_attributes.iter();
        let attributes = attributes.map(|(name, value)| (name.as_str(), value.as_str()));
        vars.set("OTEL_RESOURCE_ATTRIBUTES", &baggage(attributes));
    }
    ClaudeTelemetry {
        vars: vars.0,
        warning: warning(config),
    }
}

struct Variables(Vec<(String, String)>);

impl Variables {
    fn set(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }

    fn exporter(&mut self, otlp: &OtlpExporter) {
        let protocol = match otlp.protocol {
            Some(OtlpProtocol::Grpc) => "grpc",
            Some(OtlpProtocol::Http) | None => "http/protobuf",
        };
        self.set("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        self.set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector_endpoint(otlp));
        self.set("OTEL_EXPORTER_OTLP_TIMEOUT", &timeout_ms(otlp).to_string());
        if let Some(compression) = &otlp.compression {
            self.set("OTEL_EXPORTER_OTLP_COMPRESSION", compression);
        }
        // The CLI uses values literally, although the specification requires percent-encoding.
        let headers: Vec<String> = (otlp.headers.iter())
            .filter(|(_, value)| unmapped::can_be_listed(value))
            .map(|(name, value)| format!("{}={}", name.trim(), value.expose_secret().trim()))
            .collect();
        if !headers.is_empty() {
            self.set("OTEL_EXPORTER_OTLP_HEADERS", &headers.join(","));
        }
    }
}

/// The wording is fixed by the contract, including the full stop.
fn warning(config: &ObservabilityConfig) -> Option<String> {
    let fields = unmapped::by_claude(config);
    (!fields.is_empty()).then(|| {
        format!(
            "The following observability settings are not supported by the Claude-native backend and will be \
             ignored: {}. Use a non-Anthropic provider or remove these fields.",
            fields.join(", ")
        )
    })
}

/// `name=value,name=value` with percent-encoded values, the format of `OTEL_RESOURCE_ATTRIBUTES`.
fn baggage<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name.trim());
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_graphic() && !b",;=%\"\\".contains(&byte) {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn translate(config: Value) -> ClaudeTelemetry {
        claude_env(
            &serde_json::from_value(config).unwrap(),
            "helper",
            Some("00-aa-bb-01"),
        )
    }

    fn lines(telemetry: &ClaudeTelemetry) -> Vec<String> {
        telemetry
            .vars
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn every_variable_of_the_contract() {
        let telemetry = translate(json!({"enabled": true, "traces": {"capture_content": true},
            "metrics": {"export_interval_ms": 1500}, "logs": {},
            "resource_attributes": {"team": "blue sky", "deployment.environment": "ci"},
            "exporters": {"otlp": {"endpoint": "http://collector:4318", "compression": "gzip", "timeout_ms": 2000,
                "headers": {"authorization": "Bearer a=b==", "x-team": "blue"}}}}));
        assert_eq!(
            lines(&telemetry),
            [
                "CLAUDE_CODE_ENABLE_TELEMETRY=1",
                "OTEL_SERVICE_NAME=holodeck-helper",
                "OTEL_METRICS_EXPORTER=otlp",
                "OTEL_LOGS_EXPORTER=otlp",
                "OTEL_TRACES_EXPORTER=otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318",
                "OTEL_EXPORTER_OTLP_TIMEOUT=2000",
                "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
                "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer a=b==,x-team=blue",
                "OTEL_METRIC_EXPORT_INTERVAL=1500",
                "OTEL_LOGS_EXPORT_INTERVAL=1500",
                "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1",
                "TRACEPARENT=00-aa-bb-01",
                "OTEL_LOG_USER_PROMPTS=1",
                "OTEL_LOG_TOOL_DETAILS=1",
                "OTEL_RESOURCE_ATTRIBUTES=team=blue%20sky,deployment.environment=ci",
            ]
        );
        assert_eq!(telemetry.warning, None);
        assert!(!format!("{telemetry:?}").contains("Bearer"));
    }

    #[test]
    fn the_service_has_the_name_of_the_configuration() {
        let named = translate(json!({"enabled": true, "service_name": "shop, frontend"}));
        assert!(lines(&named).contains(&"OTEL_SERVICE_NAME=shop, frontend".to_owned()));
    }

    #[test]
    fn content_is_off_unless_asked_for() {
        for config in [
            json!({"enabled": true, "exporters": {"otlp": {}}}),
            json!({"enabled": true, "exporters": {"otlp": {}}, "traces": {}, "logs": {"level": "DEBUG"}}),
        ] {
            let telemetry = translate(config);
            assert!(!telemetry.vars.is_empty());
            assert!(
                !lines(&telemetry).iter().any(|line| line.starts_with("OTEL_LOG_")),
                "{telemetry:?}"
            );
        }
    }

    #[test]
    fn nothing_is_exported_that_is_switched_off() {
        assert_eq!(translate(json!({})), ClaudeTelemetry::default());
        assert_eq!(
            translate(json!({"exporters": {"otlp": {}, "prometheus": {"enabled": true}}})),
            ClaudeTelemetry::default()
        );
        let quiet = [
            "OTEL_METRICS_EXPORTER=none",
            "OTEL_LOGS_EXPORTER=none",
            "OTEL_TRACES_EXPORTER=none",
        ];
        for config in [
            json!({"enabled": true}),
            json!({"enabled": true, "exporters": {"console": {}}}),
            json!({"enabled": true, "exporters": {"otlp": {"enabled": false}}}),
            json!({"enabled": true, "exporters": {"otlp": {"endpoint": "ftp://c"}}}),
            json!({"enabled": true, "exporters": {"otlp": {}}, "traces": {"enabled": false},
                "metrics": {"enabled": false}, "logs": {"enabled": false}}),
        ] {
            let lines = lines(&translate(config));
            assert_eq!(lines.get(2..5).unwrap(), quiet);
            assert!(
                !lines.iter().any(|line| line.starts_with("TRACEPARENT")),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn the_protocol_is_http_unless_it_says_grpc() {
        let lines_of = |otlp: Value| lines(&translate(json!({"enabled": true, "exporters": {"otlp": otlp}})));
        for (otlp, protocol, endpoint) in [
            (json!({}), "http/protobuf", "http://localhost:4318"),
            (
                json!({"protocol": "http"}),
                "http/protobuf",
                "http://localhost:4318",
            ),
            (json!({"protocol": "grpc"}), "grpc", "http://localhost:4317"),
            (
                json!({"protocol": "grpc", "endpoint": "http://c:1"}),
                "grpc",
                "http://c:1",
            ),
            (
                json!({"protocol": "grpc", "endpoint": "c:1"}),
                "grpc",
                "http://c:1",
            ),
            (
                json!({"protocol": "grpc", "endpoint": "c:1", "insecure": false}),
                "grpc",
                "https://c:1",
            ),
            (
                json!({"protocol": "grpc", "endpoint": "http://c:1", "insecure": false}),
                "grpc",
                "https://c:1",
            ),
            (
                json!({"endpoint": "http://c:1", "insecure": false}),
                "http/protobuf",
                "http://c:1",
            ),
        ] {
            let lines = lines_of(otlp);
            assert!(
                lines.contains(&format!("OTEL_EXPORTER_OTLP_PROTOCOL={protocol}")),
                "{lines:?}"
            );
            assert!(
                lines.contains(&format!("OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}")),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn one_warning_names_all_that_is_ignored() {
        let telemetry = translate(json!({"enabled": true,
            "traces": {"sample_rate": 0.5, "redaction_patterns": ["x"]}, "logs": {"filter_namespaces": ["a"]},
            "exporters": {"azure_monitor": {"enabled": true, "connection_string": "c"},
                "prometheus": {"enabled": true}, "otlp": {}}}));
        assert_eq!(
            telemetry.warning.as_deref(),
            Some(
                "The following observability settings are not supported by the Claude-native backend and will be \
                 ignored: exporters.azure_monitor, exporters.prometheus, traces.redaction_patterns, \
                 traces.sample_rate, logs.filter_namespaces. Use a non-Anthropic provider or remove these fields."
            )
        );
        assert!(lines(&telemetry).contains(&"OTEL_METRICS_EXPORTER=otlp".to_owned()));
        let one = translate(json!({"enabled": true, "traces": {"sample_rate": 0}}));
        assert!(one.warning.unwrap().contains("ignored: traces.sample_rate. Use"));
        let listed = translate(json!({"enabled": true,
            "exporters": {"otlp": {"headers": {"x-list": "a,b", "x-team": "blue"}}}}));
        assert!(lines(&listed).contains(&"OTEL_EXPORTER_OTLP_HEADERS=x-team=blue".to_owned()));
        assert!(
            listed
                .warning
                .unwrap()
                .contains("ignored: exporters.otlp.headers. Use")
        );
        let defaults = json!({"enabled": true, "traces": {}, "logs": {"filter_namespaces": ["semantic_kernel"]},
            "exporters": {"prometheus": {}, "azure_monitor": {}}});
        assert_eq!(translate(defaults).warning, None);
    }
}
