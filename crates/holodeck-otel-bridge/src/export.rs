//! OTLP: spans and metrics as protobuf, sent to a collector.

use std::{
    io::Write as _,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
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
use tokio::{runtime::Handle, sync::watch, time::Instant};

use crate::{
    attempts::{Failure, attempt},
    grpc,
    wire::{Encoding, Signal, Wire},
};

/// The outcome of the exports, for the single warning at the end.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    problem: OnceLock<String>,
    /// The reason of a failed attempt while no other succeeded or ended the export, by signal.
    waiting: Mutex<Vec<(Signal, String)>>,
    exported: AtomicU64,
    /// When the run ends, once that is known.
    end: watch::Sender<Option<Instant>>,
}

impl Fate {
    /// Nothing can be exported.
    pub(crate) fn failed(problem: String) -> Self {
        Self {
            problem: OnceLock::from(problem),
            ..Self::default()
        }
    }

    /// The reason of the first failed export.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.get().map(String::as_str)
    }

    /// Why the collector has not taken yet what is sent to it again.
    pub(crate) fn waiting(&self) -> Option<String> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.first().map(|(_, reason)| reason.clone())
    }

    /// No attempt begins after `limit`.
    pub(crate) fn ends_within(&self, limit: Duration) {
        self.end.send_replace(Some(Instant::now() + limit));
    }

    fn set_waiting(&self, signal: Signal, reason: Option<&str>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|(other, _)| *other != signal);
        waiting.extend(reason.map(|reason| (signal, reason.to_owned())));
    }

    /// Exported spans.
    pub(crate) fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }
}

/// A collector of one signal. The exporters run on threads of the SDK; requests run on the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) wire: Wire,
    pub(crate) client: HttpClient,
    pub(crate) runtime: Handle,
    pub(crate) signal: Signal,
    pub(crate) url: HttpUrl,
    pub(crate) headers: Headers,
    pub(crate) timeout: Duration,
    pub(crate) encoding: Encoding,
    /// How metrics are counted.
    pub(crate) temporality: Temporality,
    pub(crate) fate: Arc<Fate>,
}

impl Collector {
    async fn send(&self, message: Vec<u8>) -> OTelSdkResult {
        let message = match self.encoding {
            Encoding::Plain => Bytes::from(message),
            Encoding::Gzip => gzip(&message)?,
        };
        let collector = self.clone();
        let sent = self.runtime.spawn(async move {
            let (fate, signal) = (&collector.fate, collector.signal);
            let failed = |reason: &str| fate.set_waiting(signal, Some(reason));
            let end = fate.end.subscribe();
            let sent = attempt(collector.timeout, end, failed, || {
                collector.send_once(message.clone())
            });
            let sent = sent.await;
            fate.set_waiting(signal, None);
            sent
        });
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(problem)) => Err(self.failed(problem)),
            Err(_ended) => Err(self.failed("the program exited before sending it".to_owned())),
        }
    }

    async fn send_once(&self, message: Bytes) -> Result<(), Failure> {
        let (client, url, signal, headers) = (&self.client, &self.url, self.signal, &self.headers);
        let options = CallOptions {
            timeout: Some(self.timeout),
            retry: RetryPolicy::none(),
            pacer: None,
        };
        match self.wire {
            Wire::Http => post(client, url, signal, headers, message, &options).await,
            Wire::Grpc => grpc::call(client, url, signal, headers, &message, self.encoding, &options).await,
        }
    }

    fn failed(&self, problem: String) -> OTelSdkError {
        let first = self.fate.problem.get_or_init(|| problem);
        OTelSdkError::InternalFailure(first.clone())
    }
}

/// Posts `message`. A partial rejection is a failure.
async fn post(
    client: &HttpClient,
    url: &HttpUrl,
    signal: Signal,
    headers: &Headers,
    message: Bytes,
    options: &CallOptions,
) -> Result<(), Failure> {
    let answer = client.post_bytes(url, headers, message, options).await?;
    // Some collectors answer with JSON or a page of their own.
    let kind = answer
        .header("content-type")
        .and_then(|kind| kind.split(';').next());
    if !kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-protobuf")) {
        return Ok(());
    }
    let masking = answer.masking();
    let response = answer.bytes().await?;
    signal.check_accepted(url, &response, masking)?;
    Ok(())
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
        self.collector.send(request.encode_to_vec()).await?;
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
        self.0.send(message).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        self.0.temporality
    }
}
