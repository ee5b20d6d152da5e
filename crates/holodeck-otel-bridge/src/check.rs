//! Warns about settings of `observability` that cannot work or have no effect, before anything runs.

use holodeck_http::{Headers, HttpError, HttpUrl};
use holodeck_model::{Code, Diagnostic, Env, ObservabilityConfig, OtlpExporter, Provider, ResolvedAgent};

use crate::{
    claude_env,
    collector::{collector_endpoint, insecure_ignored, otlp},
    unmapped,
    variables::{complete, is_disabled, unclear_disabled},
    wire::Signal,
};

/// The default gRPC port of collectors.
const GRPC_PORT: u16 = 4317;

/// Warns about settings in `observability` that cannot work or have no effect, by field. Empty if observability is off.
pub fn check(agent: &ResolvedAgent, env: &Env) -> Vec<Diagnostic> {
    let Some(config) = agent
        .config
        .observability
        .as_ref()
        .filter(|config| config.enabled && !is_disabled(env))
    else {
        return Vec::new();
    };
    let mut found: Vec<Diagnostic> = otlp(config.exporters.as_ref())
        .map(|otlp| {
            let mut found = check_otlp(otlp);
            found.extend(check_variables(config, otlp, env));
            found
        })
        .unwrap_or_default();
    let unclear = unclear_disabled(env);
    found.extend(unclear.map(|text| Diagnostic::warning(Code::NoEffect, text).about("observability")));
    found.extend(without_effect(config, agent.config.model.provider));
    found
}

fn check_otlp(otlp: &OtlpExporter) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let endpoint = collector_endpoint(otlp);
    match HttpUrl::parse(&endpoint) {
        Err(error) => found.push(not_exported(&error.into(), "endpoint")),
        Ok(_) if otlp.protocol.is_none() && is_grpc_port(&endpoint) => {
            let message =
                "port 4317 of a collector speaks gRPC; without `protocol`, telemetry is sent as HTTP";
            found.push(
                Diagnostic::warning(Code::NoEffect, message)
                    .about("observability.exporters.otlp.endpoint")
                    .with_help(
                        "add `protocol: grpc`, or `protocol: http` if this port accepts it, or use port 4318",
                    ),
            );
        }
        Ok(_) => {}
    }
    if let Err(error) = headers(otlp) {
        found.push(not_exported(&error, "headers"));
    }
    if insecure_ignored(otlp) {
        let message = "`insecure` has no effect: the endpoint's scheme decides about TLS";
        found.push(
            Diagnostic::warning(Code::NoEffect, message).about("observability.exporters.otlp.insecure"),
        );
    }
    found
}

/// Warns about each variable of the enabled signals that cannot be used, by name.
fn check_variables(config: &ObservabilityConfig, otlp: &OtlpExporter, env: &Env) -> Vec<Diagnostic> {
    let traces = config.traces.as_ref().is_none_or(|traces| traces.enabled);
    let metrics = config.metrics.as_ref().is_none_or(|metrics| metrics.enabled);
    let signals = [(Signal::Traces, traces), (Signal::Metrics, metrics)];
    let mut texts: Vec<String> = Vec::new();
    for (signal, _) in signals.into_iter().filter(|(_, enabled)| *enabled) {
        let completed = complete(otlp, env, Some(signal));
        let problem = completed.problem;
        let problem = problem.map(|problem| format!("telemetry will not be exported: {problem}"));
        for text in completed.warnings.into_iter().chain(problem) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    let texts = texts.into_iter();
    texts
        .map(|text| Diagnostic::warning(Code::NoEffect, text).about("observability.exporters.otlp"))
        .collect()
}

/// The request headers of an exporter.
pub(crate) fn headers(otlp: &OtlpExporter) -> Result<Headers, HttpError> {
    let mut headers = Headers::new();
    for (name, value) in &otlp.headers {
        headers.insert_secret(name, value)?;
    }
    Ok(headers)
}

/// Telemetry must never stop a run.
fn not_exported(error: &HttpError, field: &str) -> Diagnostic {
    Diagnostic::warning(Code::NoEffect, format!("telemetry will not be exported: {error}"))
        .about(format!("observability.exporters.otlp.{field}"))
}

fn is_grpc_port(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit(':').next().and_then(|port| port.parse().ok()) == Some(GRPC_PORT)
}

fn without_effect(config: &ObservabilityConfig, provider: Provider) -> Option<Diagnostic> {
    if provider == Provider::Anthropic {
        let message = claude_env(config, "", None).warning?;
        return Some(Diagnostic::warning(Code::NoEffect, message).about("observability"));
    }
    let fields = unmapped::by_us(config);
    if fields.is_empty() {
        return None;
    }
    let verb = if fields.len() == 1 { "has" } else { "have" };
    let message = format!(
        "of `observability`, {} {verb} no effect",
        fields
            .iter()
            .map(|field| format!("`{field}`"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Some(
        Diagnostic::warning(Code::NoEffect, message)
            .about("observability")
            .with_help("spans and metrics go to `exporters.otlp` and `exporters.console`"),
    )
}
