//! A collector that decodes what it receives.

use std::{
    io::{self, Read as _},
    sync::{Arc, Mutex},
};

use flate2::read::GzDecoder;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, KeyValue, any_value},
    metrics::v1::{Metric, metric},
    trace::v1::Span,
};
use prost::Message as _;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

/// A status and a `Retry-After`. With the status [`BREAKS`], the connection ends without an answer.
pub(crate) type Status = (u16, Option<&'static str>);

pub(crate) const BREAKS: u16 = 0;

/// With this status, the answer has a content type with a parameter, and is a success.
pub(crate) const WITH_PARAMETER: u16 = 1;

pub(crate) struct Collector {
    pub(crate) url: String,
    pub(crate) received: Arc<Mutex<Vec<Received>>>,
}

#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        Self::refusing(|_| (200, None)).await
    }

    /// Answers the request with this number of each path, from 0, with a status and a `Retry-After`.
    pub(crate) async fn refusing(status: fn(usize) -> Status) -> Self {
        Self::start_with(Vec::new(), status).await
    }

    /// As [`refusing`](Self::refusing), with this protobuf message.
    pub(crate) async fn start_with(answer: Vec<u8>, status: fn(usize) -> Status) -> Self {
        let answer = bytes::Bytes::from(answer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let kept = Arc::clone(&kept);
                let answer = answer.clone();
                let service =
                    service_fn(move |request| keep(request, Arc::clone(&kept), answer.clone(), status));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Every span, in the order in which they began.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for received in self
            .received()
            .iter()
            .filter(|received| received.path == "/v1/traces")
        {
            let request = ExportTraceServiceRequest::decode(received.plain().as_slice()).unwrap();
            for resource in request.resource_spans {
                spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    pub(crate) fn span(&self, name: &str) -> Span {
        let mut spans = self.spans().into_iter().filter(|span| span.name == name);
        let span = spans.next().unwrap_or_else(|| panic!("no span `{name}`"));
        assert!(spans.next().is_none(), "two spans `{name}`");
        span
    }

    /// The attributes of the resource of the first request.
    pub(crate) fn resource(&self) -> Value {
        let received = self.received();
        let traces = received
            .iter()
            .find(|received| received.path == "/v1/traces")
            .unwrap();
        let request = ExportTraceServiceRequest::decode(traces.plain().as_slice()).unwrap();
        attributes(&request.resource_spans[0].resource.as_ref().unwrap().attributes)
    }

    /// Name and attributes of each measured series with count and sum, as of the last export.
    pub(crate) fn series(&self) -> Vec<Value> {
        let received = self.received();
        let metrics = received
            .iter()
            .rfind(|received| received.path == "/v1/metrics")
            .unwrap();
        let request = ExportMetricsServiceRequest::decode(metrics.plain().as_slice()).unwrap();
        let metrics = request
            .resource_metrics
            .into_iter()
            .flat_map(|resource| resource.scope_metrics);
        let mut series: Vec<Value> = metrics
            .flat_map(|scope| scope.metrics)
            .flat_map(of_metric)
            .collect();
        series.sort_by_key(Value::to_string);
        series
    }

    /// The temporality of every histogram of the last export, as OTLP numbers it.
    pub(crate) fn temporality(&self) -> i32 {
        let received = self.received();
        let metrics = received.iter().rfind(|received| received.path == "/v1/metrics");
        let request = ExportMetricsServiceRequest::decode(metrics.unwrap().plain().as_slice()).unwrap();
        let scopes = request
            .resource_metrics
            .into_iter()
            .flat_map(|resource| resource.scope_metrics);
        let kinds = scopes
            .flat_map(|scope| scope.metrics)
            .map(|metric| match metric.data {
                Some(metric::Data::Histogram(histogram)) => histogram.aggregation_temporality,
                other => panic!("{other:?}"),
            });
        let mut kinds: Vec<i32> = kinds.collect();
        kinds.dedup();
        assert_eq!(kinds.len(), 1, "{kinds:?}");
        kinds[0]
    }

    /// Whether these words occur anywhere in the received data.
    pub(crate) fn received_text(&self, words: &str) -> bool {
        self.received().iter().any(|received| {
            let body = received.plain();
            body.windows(words.len()).any(|window| window == words.as_bytes())
        })
    }
}

impl Received {
    fn plain(&self) -> Vec<u8> {
        if self.header("content-encoding") != Some("gzip") {
            return self.body.clone();
        }
        let mut plain = Vec::new();
        GzDecoder::new(self.body.as_slice())
            .read_to_end(&mut plain)
            .unwrap();
        plain
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(other, _)| other == name)?;
        Some(value)
    }
}

async fn keep(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Received>>>,
    answer: bytes::Bytes,
    status: fn(usize) -> Status,
) -> Result<Response<Full<bytes::Bytes>>, io::Error> {
    let path = request.uri().path().to_owned();
    let headers = request.headers().iter();
    let headers = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let body = request.into_body().collect().await.unwrap().to_bytes().to_vec();
    let number = {
        let mut kept = kept.lock().unwrap();
        let number = kept.iter().filter(|received| received.path == path).count();
        kept.push(Received { path, headers, body });
        number
    };
    let (status, retry_after) = status(number);
    let (status, kind) = match status {
        BREAKS => return Err(io::Error::other("broken")),
        WITH_PARAMETER => (200, "Application/x-protobuf; charset=utf-8"),
        status => (status, "application/x-protobuf"),
    };
    let mut response = Response::builder().status(status).header("content-type", kind);
    if let Some(retry_after) = retry_after {
        response = response.header("retry-after", retry_after);
    }
    Ok(response.body(Full::new(answer)).unwrap())
}

pub(crate) fn attributes(attributes: &[KeyValue]) -> Value {
    let mut pairs: Vec<&KeyValue> = attributes.iter().collect();
    pairs.sort_by_key(|pair| pair.key.clone());
    pairs
        .into_iter()
        .map(|pair| (pair.key.clone(), value(pair.value.as_ref().unwrap())))
        .collect::<Map<_, _>>()
        .into()
}

fn value(value: &AnyValue) -> Value {
    match value.value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => json!(text),
        any_value::Value::IntValue(number) => json!(number),
        any_value::Value::DoubleValue(number) => json!(number),
        any_value::Value::BoolValue(flag) => json!(flag),
        any_value::Value::ArrayValue(items) => items.values.iter().map(self::value).collect(),
        other => panic!("{other:?}"),
    }
}

fn of_metric(metric: Metric) -> Vec<Value> {
    let Some(metric::Data::Histogram(histogram)) = metric.data else {
        panic!("{} is not a histogram", metric.name);
    };
    let points = histogram.data_points.into_iter();
    points
        .map(|point| {
            json!({"name": metric.name, "unit": metric.unit, "count": point.count,
                // Durations vary between runs.
                "sum": if metric.unit == "s" { None } else { point.sum },
                "attributes": attributes(&point.attributes)})
        })
        .collect()
}
