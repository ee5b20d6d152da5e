//! OTLP: spans and metrics as protobuf, sent to a collector.

use std::{
    io::Write as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use holodeck_http::{CallOptions, Headers, HttpClient, HttpUrl, RetryPolicy};
use opentelemetry_proto::{
    tonic::collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    transform::{
        common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    metrics::{Temporality, data::ResourceMetrics, exporter::PushMetricExporter},
    trace::{SpanData, SpanExporter},
};
use prost::Message;
use tokio::runtime::Handle;

use crate::{
    grpc,
    wire::{Encoding, Signal, Wire},
};

/// The outcome of the exports, for the single warning at the end.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    problem: OnceLock<String>,
    exported: AtomicU64,
}

impl Fate {
    /// Nothing can be exported.
    pub(crate) fn failed(problem: String) -> Self {
        Self {
            problem: OnceLock::from(problem),
            exported: AtomicU64::default(),
        }
    }

    /// The reason of the first failed export.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.get().map(String::as_str)
    }

    /// Exported spans.
    pub(crate) fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }
}

/// A collector. The exporters run on threads of the SDK; requests run on the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) wire: Wire,
    pub(crate) client: HttpClient,
    pub(crate) runtime: Handle,
    pub(crate) endpoint: HttpUrl,
    pub(crate) headers: Headers,
    pub(crate) timeout: Duration,
    pub(crate) encoding: Encoding,
    pub(crate) fate: Arc<Fate>,
}

impl Collector {
    async fn send(&self, signal: Signal, message: Vec<u8>) -> OTelSdkResult {
        let url = self.wire.url(&self.endpoint, signal);
        let message = match self.encoding {
            Encoding::Plain => Bytes::from(message),
            Encoding::Gzip => gzip(&message)?,
        };
        let (wire, client, headers) = (self.wire, self.client.clone(), self.headers.clone());
        let options = CallOptions {
            timeout: Some(self.timeout),
            retry: RetryPolicy::none(),
            pacer: None,
        };
        let encoding = self.encoding;
        let sent = self.runtime.spawn(async move {
            match wire {
                Wire::Http => post(&client, &url, signal, &headers, message, &options).await,
                Wire::Grpc => grpc::call(&client, &url, signal, &headers, &message, encoding, &options).await,
            }
        });
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(problem)) => Err(self.failed(problem)),
            Err(_ended) => Err(self.failed("the program exited before sending it".to_owned())),
        }
    }

    fn failed(&self, problem: String) -> OTelSdkError {
        let first = self.fate.problem.get_or_init(|| problem);
        OTelSdkError::InternalFailure(first.clone())
    }
}

/// Posts `message`. An error is the reason as text, which includes a partial rejection.
async fn post(
    client: &HttpClient,
    url: &HttpUrl,
    signal: Signal,
    headers: &Headers,
    message: Bytes,
    options: &CallOptions,
) -> Result<(), String> {
    let answer = client.post_bytes(url, headers, message, options).await;
    let answer = answer.map_err(|error| error.to_string())?;
    // Some collectors answer with JSON or a page of their own.
    if answer.header("content-type") != Some("application/x-protobuf") {
        return Ok(());
    }
    let masking = answer.masking();
    let response = answer.bytes().await.map_err(|error| error.to_string())?;
    signal.check_accepted(url, &response, masking)
}

fn gzip(message: &[u8]) -> Result<Bytes, OTelSdkError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let encoded = encoder.write_all(message).and_then(|()| encoder.finish());
    encoded
        .map(Bytes::from)
        .map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
}

/// Sends spans.
#[derive(Debug)]
pub(crate) struct OtlpSpans {
    collector: Collector,
    resource: ResourceAttributesWithSchema,
}

impl OtlpSpans {
    pub(crate) fn new(collector: Collector) -> Self {
        Self {
            collector,
            resource: ResourceAttributesWithSchema::default(),
        }
    }
}

impl SpanExporter for OtlpSpans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &self.resource),
        };
        self.collector
            .send(Signal::Traces, request.encode_to_vec())
            .await?;
        self.collector.fate.exported.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

/// Sends metrics.
#[derive(Debug)]
pub(crate) struct OtlpMetrics(pub(crate) Collector);

impl PushMetricExporter for OtlpMetrics {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let message = ExportMetricsServiceRequest::from(metrics).encode_to_vec();
        self.0.send(Signal::Metrics, message).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}
