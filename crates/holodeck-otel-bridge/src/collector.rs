use holodeck_model::{ExportersConfig, OtlpExporter, OtlpProtocol};

use crate::export::Encoding;

/// Where an OTLP exporter sends: as written, else what a collector on this machine listens on.
pub(crate) fn collector_endpoint(otlp: &OtlpExporter) -> &str {
    let written = otlp.endpoint.as_deref().map(str::trim);
    match (written.filter(|text| !text.is_empty()), otlp.protocol) {
        (Some(written), _) => written,
        (None, Some(OtlpProtocol::Grpc)) => "http://localhost:4317",
        (None, Some(OtlpProtocol::Http) | None) => "http://localhost:4318",
    }
}

/// The OTLP exporter, if there is one that is switched on.
pub(crate) fn otlp(exporters: Option<&ExportersConfig>) -> Option<&OtlpExporter> {
    exporters?.otlp.as_ref().filter(|otlp| otlp.enabled)
}

/// How bodies are compressed; `None` for a way we do not know.
pub(crate) fn compression(otlp: &OtlpExporter) -> Option<Encoding> {
    match otlp.compression.as_deref().map(str::trim) {
        None | Some("" | "none") => Some(Encoding::Plain),
        Some("gzip") => Some(Encoding::Gzip),
        Some(_) => None,
    }
}
