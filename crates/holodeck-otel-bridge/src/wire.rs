//! In what form a collector is spoken to.

use holodeck_http::HttpUrl;
use holodeck_model::{Diagnostic, OtlpExporter, OtlpProtocol};

use crate::{check::no_grpc, export::Encoding};

/// A form of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Http,
    #[cfg(feature = "otlp-grpc")]
    Grpc,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

#[cfg(feature = "otlp-grpc")]
const GRPC: Option<Wire> = Some(Wire::Grpc);
#[cfg(not(feature = "otlp-grpc"))]
const GRPC: Option<Wire> = None;

impl Wire {
    /// HTTP, if the YAML does not say otherwise.
    pub(crate) fn of(otlp: &OtlpExporter) -> Result<Self, Box<Diagnostic>> {
        match otlp.protocol {
            Some(OtlpProtocol::Http) | None => Ok(Self::Http),
            Some(OtlpProtocol::Grpc) => GRPC.ok_or_else(|| Box::new(no_grpc())),
        }
    }

    /// The headers that tell what a request is.
    pub(crate) fn headers(self, encoding: Encoding) -> Vec<(&'static str, &'static str)> {
        let (mut headers, coding) = match self {
            Self::Http => (
                vec![("content-type", "application/x-protobuf")],
                "content-encoding",
            ),
            #[cfg(feature = "otlp-grpc")]
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
            #[cfg(feature = "otlp-grpc")]
            (Self::Grpc, Signal::Traces) => endpoint
                .origin()
                .join("opentelemetry.proto.collector.trace.v1.TraceService/Export"),
            #[cfg(feature = "otlp-grpc")]
            (Self::Grpc, Signal::Metrics) => endpoint
                .origin()
                .join("opentelemetry.proto.collector.metrics.v1.MetricsService/Export"),
        }
    }
}
