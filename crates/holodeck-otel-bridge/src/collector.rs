//! Finds the address, TLS and compression of the OTLP collector in the YAML.

use holodeck_model::{ExportersConfig, OtlpExporter, OtlpProtocol};

use crate::wire::Encoding;

/// The default gRPC port of collectors.
const GRPC_PORT: u16 = 4317;

/// The target of an OTLP exporter: the configured endpoint, else the default port on this machine. As in 0.7.1,
/// `insecure` selects TLS if no scheme does, and `insecure: false` enables it for every gRPC endpoint.
pub(crate) fn collector_endpoint(otlp: &OtlpExporter) -> String {
    let grpc = otlp.protocol == Some(OtlpProtocol::Grpc);
    let local = if grpc { "localhost:4317" } else { "localhost:4318" };
    let written = otlp.endpoint.as_deref().map(str::trim);
    let written = written.filter(|text| !text.is_empty()).unwrap_or(local);
    if grpc {
        with_scheme(otlp, written)
    } else {
        with_scheme(otlp, &without_signal(written))
    }
}

/// The endpoint as it is written, with a scheme.
pub(crate) fn whole_url(otlp: &OtlpExporter) -> String {
    with_scheme(otlp, otlp.endpoint.as_deref().unwrap_or_default().trim())
}

fn with_scheme(otlp: &OtlpExporter, written: &str) -> String {
    let grpc = otlp.protocol == Some(OtlpProtocol::Grpc);
    let secure = otlp.insecure == Some(false);
    match written.split_once("://") {
        Some(("http", rest)) if grpc && secure => format!("https://{rest}"),
        Some(_) => written.to_owned(),
        None if secure => format!("https://{written}"),
        None => format!("http://{written}"),
    }
}

/// An endpoint without the path of a signal, which is appended for each.
fn without_signal(endpoint: &str) -> String {
    let end = endpoint.find(['?', '#']).unwrap_or(endpoint.len());
    let (address, rest) = endpoint.split_at(end);
    let trimmed = address.trim_end_matches('/');
    let base = ["/v1/traces", "/v1/metrics", "/v1/logs"]
        .into_iter()
        .find_map(|path| trimmed.strip_suffix(path))
        .map(|base| base.trim_end_matches('/'))
        // The end may be the host.
        .filter(|base| !base.is_empty() && !base.ends_with(':'));
    base.map_or_else(|| endpoint.to_owned(), |base| format!("{base}{rest}"))
}

/// Whether the port of an endpoint is the one of gRPC.
pub(crate) fn is_grpc_port(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit(':').next().and_then(|port| port.parse().ok()) == Some(GRPC_PORT)
}

/// Whether `insecure` is set and contradicts the endpoint.
pub(crate) fn insecure_ignored(otlp: &OtlpExporter) -> bool {
    otlp.insecure
        .is_some_and(|insecure| insecure == collector_endpoint(otlp).starts_with("https://"))
}

/// The OTLP exporter, if one is enabled.
pub(crate) fn otlp(exporters: Option<&ExportersConfig>) -> Option<&OtlpExporter> {
    exporters?.otlp.as_ref().filter(|otlp| otlp.enabled)
}

/// The compression of bodies; `None` if it is unsupported.
pub(crate) fn compression(otlp: &OtlpExporter) -> Option<Encoding> {
    match otlp.compression.as_deref().map(str::trim) {
        None | Some("" | "none") => Some(Encoding::Plain),
        Some("gzip") => Some(Encoding::Gzip),
        Some(_) => None,
    }
}

/// Milliseconds that an export may take.
pub(crate) fn timeout_ms(otlp: &OtlpExporter) -> u32 {
    otlp.timeout_ms.unwrap_or(30_000)
}
