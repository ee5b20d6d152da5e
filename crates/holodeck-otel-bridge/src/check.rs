use holodeck_http::{Headers, HttpError, HttpUrl};
use holodeck_model::{Code, Diagnostic, LoadedAgent, ObservabilityConfig, OtlpExporter, Provider};

use crate::{
    claude_env,
    collector::{collector_endpoint, otlp},
    unmapped,
    wire::Wire,
};

/// gRPC's port of a collector.
const GRPC_PORT: u16 = 4317;

const GRPC_PORT_HELP: &str = if cfg!(feature = "otlp-grpc") {
    "use port 4318, or say what this port speaks: `protocol: grpc` or `protocol: http`"
} else {
    "use port 4318, or say `protocol: http` if this port speaks it"
};

/// What of an agent's `observability` can't work, or works otherwise than one may think. Nothing if it is switched
/// off.
pub fn check(agent: &LoadedAgent) -> Vec<Diagnostic> {
    let Some(config) = agent
        .config
        .observability
        .as_ref()
        .filter(|config| config.enabled)
    else {
        return Vec::new();
    };
    let mut found: Vec<Diagnostic> = otlp(config.exporters.as_ref())
        .map(check_otlp)
        .unwrap_or_default();
    found.extend(without_effect(config, agent.config.model.provider));
    for diagnostic in &mut found {
        let place = diagnostic
            .pointer
            .as_deref()
            .and_then(|pointer| agent.locate(pointer));
        diagnostic.primary = place.or_else(|| agent.locate("observability"));
    }
    found
}

fn check_otlp(otlp: &OtlpExporter) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Err(diagnostic) = Wire::of(otlp) {
        found.push(*diagnostic);
    }
    match HttpUrl::parse(collector_endpoint(otlp)) {
        Err(error) => found.push(bad_endpoint(&error)),
        Ok(_) if otlp.protocol.is_none() && is_grpc_port(collector_endpoint(otlp)) => {
            let message =
                "port 4317 of a collector speaks gRPC; without `protocol`, telemetry is sent as HTTP";
            found.push(
                Diagnostic::warning(Code::NoEffect, message)
                    .about("observability.exporters.otlp.endpoint")
                    .with_help(GRPC_PORT_HELP),
            );
        }
        Ok(_) => {}
    }
    if let Err(diagnostic) = headers(otlp) {
        found.push(*diagnostic);
    }
    found
}

/// The request headers of an exporter.
pub(crate) fn headers(otlp: &OtlpExporter) -> Result<Headers, Box<Diagnostic>> {
    let mut headers = Headers::new();
    for (name, value) in &otlp.headers {
        headers.insert_secret(name, value).map_err(|error| {
            Diagnostic::error(Code::BadFormat, error.to_string())
                .about("observability.exporters.otlp.headers")
        })?;
    }
    Ok(headers)
}

pub(crate) fn no_grpc() -> Diagnostic {
    let message = "protocol `grpc` needs the feature `otlp-grpc`, which this build does not have";
    Diagnostic::error(Code::NotYetSupported, message)
        .about("observability.exporters.otlp.protocol")
        .with_help("leave `protocol` out and use the collector's HTTP port, 4318, or build with `--features otlp-grpc`")
}

pub(crate) fn bad_endpoint(error: &HttpError) -> Diagnostic {
    Diagnostic::error(Code::BadFormat, error.to_string()).about("observability.exporters.otlp.endpoint")
}

fn is_grpc_port(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit(':').next().and_then(|port| port.parse().ok()) == Some(GRPC_PORT)
}

fn without_effect(config: &ObservabilityConfig, provider: Provider) -> Option<Diagnostic> {
    if provider == Provider::Anthropic {
        let message = claude_env(config, None).warning?;
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
