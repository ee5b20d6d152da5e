//! Warns about settings of `observability` that cannot work or have no effect, before anything runs.

use holodeck_http::{Headers, HttpError, HttpUrl};
use holodeck_model::{Code, Diagnostic, Env, ObservabilityConfig, OtlpExporter, Provider, ResolvedAgent};

use crate::{
    claude_env,
    collector::{collector_endpoint, insecure_ignored, is_grpc_port, otlp},
    unmapped,
    variables::{complete, is_disabled, unclear_disabled, unknown_to_claude, unread},
    wire::Signal,
};

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
            found.extend(check_variables(config, otlp, env, agent.config.provider()));
            found
        })
        .unwrap_or_default();
    let unclear = unclear_disabled(env);
    found.extend(unclear.map(|text| Diagnostic::warning(Code::NoEffect, text).about("observability")));
    found.extend(without_effect(config, agent.config.provider()));
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

/// Warns about each variable of the enabled signals that cannot be used or has no effect, by name.
fn check_variables(
    config: &ObservabilityConfig,
    otlp: &OtlpExporter,
    env: &Env,
    provider: Option<Provider>,
) -> Vec<Diagnostic> {
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
    let unread = unread(env);
    if !unread.is_empty() {
        texts.push(format!(
            "HoloDeck's telemetry does not follow {}",
            listed(&unread)
        ));
    }
    let unknown_to_claude = unknown_to_claude(otlp, env);
    if provider == Some(Provider::Anthropic) && !unknown_to_claude.is_empty() {
        texts.push(format!(
            "the telemetry of the Claude CLI does not follow {}: it gets the variables for all signals, without \
             certificates",
            listed(&unknown_to_claude)
        ));
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

/// The pointer of a field of the block.
fn pointer_to(field: &str) -> String {
    format!("observability.{field}")
}

fn without_effect(config: &ObservabilityConfig, provider: Option<Provider>) -> Option<Diagnostic> {
    if provider == Some(Provider::Anthropic) {
        let message = claude_env(config, "", None).warning?;
        let first = unmapped::by_claude(config).first().copied().unwrap_or_default();
        return Some(Diagnostic::warning(Code::NoEffect, message).about(pointer_to(first)));
    }
    let fields = unmapped::by_us(config);
    if fields.is_empty() {
        return None;
    }
    let verb = if fields.len() == 1 { "has" } else { "have" };
    let message = format!("of `observability`, {} {verb} no effect", listed(&fields));
    Some(
        Diagnostic::warning(Code::NoEffect, message)
            .about(pointer_to(fields.first().copied().unwrap_or_default()))
            .with_help("spans and metrics go to `exporters.otlp` and `exporters.console`"),
    )
}

fn listed(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
