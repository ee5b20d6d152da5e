//! The protocol a collector is reached with.

use holodeck_http::HttpUrl;
use holodeck_model::{OtlpExporter, OtlpProtocol};

use crate::export::Encoding;

/// A form of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http,
    Grpc,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

impl Wire {
    /// HTTP, unless the YAML names another.
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

    /// Where a request goes. gRPC knows no path of an endpoint.
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
