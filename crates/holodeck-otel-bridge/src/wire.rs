//! The OTLP encodings over HTTP and gRPC: URLs, headers, and reports of partial success.

use holodeck_http::HttpUrl;
use holodeck_model::{OtlpExporter, OtlpProtocol};
use opentelemetry_proto::tonic::collector::{
    metrics::v1::ExportMetricsServiceResponse, trace::v1::ExportTraceServiceResponse,
};
use prost::Message as _;

/// Maximum displayed characters of a server's message.
const SHOWN: usize = 300;

/// An OTLP encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http,
    Grpc,
}

/// How a message is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    Gzip,
}

/// The kind of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

impl Wire {
    /// HTTP, unless the YAML sets another protocol.
    pub(crate) fn of(otlp: &OtlpExporter) -> Self {
        match otlp.protocol {
            Some(OtlpProtocol::Http) | None => Self::Http,
            Some(OtlpProtocol::Grpc) => Self::Grpc,
        }
    }

    /// The headers that describe a request.
    pub(crate) fn headers(self, encoding: Encoding) -> Vec<(&'static str, &'static str)> {
        let (mut headers, coding) = match self {
            Self::Http => (
                vec![("content-type", "application/x-protobuf")],
                "content-encoding",
            ),
            Self::Grpc => (
                vec![("content-type", "application/grpc"), ("te", "trailers")],
                "grpc-encoding",
            ),
        };
        if encoding == Encoding::Gzip {
            headers.push((coding, "gzip"));
        }
        headers
    }

    /// The request URL. gRPC ignores an endpoint's path.
    pub(crate) fn url(self, endpoint: &HttpUrl, signal: Signal) -> HttpUrl {
        match (self, signal) {
            (Self::Http, Signal::Traces) => endpoint.join("v1/traces"),
            (Self::Http, Signal::Metrics) => endpoint.join("v1/metrics"),
            (Self::Grpc, Signal::Traces) => endpoint
                .origin()
                .join("opentelemetry.proto.collector.trace.v1.TraceService/Export"),
            (Self::Grpc, Signal::Metrics) => endpoint
                .origin()
                .join("opentelemetry.proto.collector.metrics.v1.MetricsService/Export"),
        }
    }
}

impl Signal {
    /// Checks the response to an accepted request: a collector may have rejected a part of it. `masked` removes the
    /// request's secrets, which a collector may echo. A message of another form is no rejection.
    pub(crate) fn check_accepted(
        self,
        url: &HttpUrl,
        response: &[u8],
        masked: impl FnOnce(&str) -> String,
    ) -> Result<(), String> {
        let partial = match self {
            Self::Traces => ExportTraceServiceResponse::decode(response)
                .ok()
                .and_then(|response| response.partial_success)
                .map(|partial| (partial.rejected_spans, "spans", partial.error_message)),
            Self::Metrics => ExportMetricsServiceResponse::decode(response)
                .ok()
                .and_then(|response| response.partial_success)
                .map(|partial| (partial.rejected_data_points, "data points", partial.error_message)),
        };
        match partial {
            Some((rejected, unit, message)) if rejected > 0 => Err(format!(
                "{url} rejected {rejected} {unit}{}",
                reason(&masked(&message))
            )),
            _ => Ok(()),
        }
    }
}

/// A server's message on one line, after a colon; empty if there is none.
pub(crate) fn reason(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return line;
    }
    let shown: String = line.chars().take(SHOWN).collect();
    let cut = if shown.len() < line.len() { "…" } else { "" };
    format!(": {shown}{cut}")
}
