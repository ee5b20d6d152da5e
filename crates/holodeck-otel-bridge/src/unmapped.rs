//! Settings that one of the exports does not support.

use holodeck_model::{LogLevel, LogsConfig, ObservabilityConfig};

use secrecy::{ExposeSecret as _, SecretString};

use crate::collector::{compression, otlp};

/// Whether the CLI accepts the value of a header: it splits the list at each comma.
pub(crate) fn can_be_listed(value: &SecretString) -> bool {
    !value.expose_secret().contains([',', '\n', '\r'])
}

/// Settings without a variable of the Claude CLI, in the order of the contract, followed by those missing in it.
pub(crate) fn by_claude(config: &ObservabilityConfig) -> Vec<&'static str> {
    let exporters = config.exporters.as_ref();
    let traces = config.traces.as_ref();
    let logs = config.logs.as_ref();
    let mut fields = Vec::new();
    let mut add = |field, is_set: Option<bool>| {
        if is_set == Some(true) {
            fields.push(field);
        }
    };
    add(
        "exporters.azure_monitor",
        exporters.and_then(|exporters| Some(exporters.azure_monitor.as_ref()?.enabled)),
    );
    add(
        "exporters.prometheus",
        exporters.and_then(|exporters| Some(exporters.prometheus.as_ref()?.enabled)),
    );
    add(
        "traces.redaction_patterns",
        traces.map(|traces| !traces.redaction_patterns.is_empty()),
    );
    add(
        "traces.sample_rate",
        traces.map(|traces| traces.sample_rate < 1.0),
    );
    add(
        "logs.filter_namespaces",
        logs.map(|logs| logs.filter_namespaces != LogsConfig::default().filter_namespaces),
    );
    add("logs.level", logs.map(|logs| logs.level != LogLevel::default()));
    add(
        "logs.include_trace_context",
        logs.map(|logs| !logs.include_trace_context),
    );
    add(
        "traces.capture_evaluation_content",
        traces.map(|traces| traces.capture_evaluation_content),
    );
    add(
        "exporters.otlp.headers",
        otlp(exporters).map(|otlp| !otlp.headers.values().all(can_be_listed)),
    );
    fields
}

/// Settings that HoloDeck's own export does not support.
pub(crate) fn by_us(config: &ObservabilityConfig) -> Vec<&'static str> {
    let exporters = config.exporters.as_ref();
    let logs = config.logs.as_ref().is_some_and(|logs| logs.enabled);
    let compression = otlp(exporters).is_some_and(|otlp| compression(otlp).is_none());
    [
        (
            "exporters.azure_monitor",
            exporters.and_then(|exporters| Some(exporters.azure_monitor.as_ref()?.enabled)) == Some(true),
        ),
        (
            "exporters.prometheus",
            exporters.and_then(|exporters| Some(exporters.prometheus.as_ref()?.enabled)) == Some(true),
        ),
        ("exporters.otlp.compression", compression),
        ("logs", logs),
    ]
    .into_iter()
    .filter_map(|(field, is_set)| is_set.then_some(field))
    .collect()
}
