//! Finds the address, TLS and compression of the OTLP collector in the YAML.

use holodeck_model::{ExportersConfig, OtlpExporter, OtlpProtocol};

use crate::wire::Encoding;

/// The target of an OTLP exporter: the configured endpoint, else the default port on this machine. As in 0.7.1,
/// `insecure` selects TLS if no scheme does, and `insecure: false` enables it for every gRPC endpoint.
pub(crate) fn collector_endpoint(otlp: &OtlpExporter) -> String {
    let grpc = otlp.protocol == Some(OtlpProtocol::Grpc);
    let local = if grpc { "localhost:4317" } else { "localhost:4318" };
    let written = otlp.endpoint.as_deref().map(str::trim);
    let written = written.filter(|text| !text.is_empty()).unwrap_or(local);
    let secure = otlp.insecure == Some(false);
    match written.split_once("://") {
        Some(("http", rest)) if grpc && secure => format!("https://{rest}"),
        Some(_) => written.to_owned(),
        None if secure => format!("https://{written}"),
        None => format!("http://{written}"),
    }
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
