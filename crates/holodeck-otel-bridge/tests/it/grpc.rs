//! Tests of export to a collector over gRPC, including refusals and partial success.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Frame, Incoming},
    header::{HeaderName, HeaderValue},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    agent::{Scripted, plain, start, with_a_tool, wrap},
    collector::{Collector, Received},
    spans::run,
};

/// Long enough that no test reaches it.
const LONG: Duration = Duration::from_secs(30);

const PREFIX: usize = 5;

type Fields = &'static [(&'static str, &'static str)];

/// Headers and trailers of an answer, whose message is empty.
#[derive(Clone, Copy)]
pub(crate) struct Answer(Fields, Fields);

/// `partial_success` of a response: two rejected of either kind, and a text that echoes a header.
pub(crate) const PARTIAL: &[u8] = b"\x0a\x15\x08\x02\x12\x11quota  of xx-hush";

/// With this header, the message is [`PARTIAL`].
const REJECTS: (&str, &str) = ("x-rejects", "2");

const OK: Answer = Answer(
    &[("content-type", "application/grpc")],
    &[("grpc-status", "0"), ("grpc-message", "")],
);

pub(crate) async fn accepting() -> Collector {
    collector(OK).await
}

async fn collector(answer: Answer) -> Collector {
    answering(move |_| answer).await
}

/// Answers the request with this number of each path, from 0.
async fn answering(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Collector {
    let answer: Arc<dyn Fn(usize) -> Answer + Send + Sync> = Arc::new(answer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let kept = Arc::clone(&kept);
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request| serve(request, Arc::clone(&kept), Arc::clone(&answer)));
            let server = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    Collector { url, received }
}

type Body = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

async fn serve(
    request: Request<Incoming>,
    kept: Arc<Mutex<Vec<Received>>>,
    answer: Arc<dyn Fn(usize) -> Answer + Send + Sync>,
) -> Result<Response<Body>, Infallible> {
    // Recorded in the form of a request over HTTP.
    let path = match request.uri().path() {
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => "/v1/traces",
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => "/v1/metrics",
        other => other,
    };
    let path = path.to_owned();
    let mut seen: Vec<(String, String)> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let (prefix, message) = body.split_at(PREFIX);
    assert_eq!(
        prefix[1..],
        u32::try_from(message.len()).unwrap().to_be_bytes(),
        "one message"
    );
    if prefix[0] == 1 {
        let (_, coding) = seen.iter().find(|(name, _)| name == "grpc-encoding").unwrap();
        let coding = coding.clone();
        seen.push(("content-encoding".to_owned(), coding));
    }
    let number = {
        let mut kept = kept.lock().unwrap();
        let number = kept.iter().filter(|received| received.path == path).count();
        kept.push(Received {
            path,
            headers: seen,
            body: message.to_vec(),
        });
        number
    };
    let Answer(headers, trailers) = answer(number);
    let mut frames = Vec::new();
    if !trailers.is_empty() {
        let message = if headers.contains(&REJECTS) { PARTIAL } else { b"" };
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let data = [&[0], length.as_slice(), message].concat();
        frames.push(Ok(Frame::data(Bytes::from(data))));
        frames.push(Ok(Frame::trailers(fields(trailers))));
    }
    let mut response = Response::new(StreamBody::new(stream::iter(frames)));
    *response.headers_mut() = fields(headers);
    Ok(response)
}

fn fields(fields: Fields) -> HeaderMap {
    let pairs = fields.iter();
    pairs
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

/// `observability` for a collector, with additional fields of the exporter.
fn grpc(url: &str, more: &Value) -> Value {
    let mut exporter = json!({"endpoint": url, "protocol": "grpc"});
    let more = more.as_object().unwrap().clone();
    exporter.as_object_mut().unwrap().extend(more);
    json!({"enabled": true, "exporters": {"otlp": exporter}})
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_and_metrics_arrive_with_the_yamls_headers() {
    for more in [json!({}), json!({"compression": "gzip"})] {
        let collector = collector(OK).await;
        let mut more = more;
        more["headers"] = json!({"X-Team": "blue", "authorization": "Bearer hush", "te": "mine"});
        // As with other exporters, the path of an endpoint is ignored.
        let telemetry = start(&grpc(&format!("{}/v1/traces?x=1", collector.url), &more));
        let backend = wrap(&telemetry, Scripted::backend([with_a_tool()]));
        run(&backend).await;
        assert_eq!(telemetry.shutdown(LONG).await, None, "{more}");
        let spans: Vec<String> = collector.spans().into_iter().map(|span| span.name).collect();
        assert_eq!(spans.len(), 5, "{spans:?}");
        collector.span("execute_tool search");
        assert!(!collector.series().is_empty());
        assert_eq!(collector.resource()["service.name"], "holodeck-helper");
        for received in collector.received() {
            assert!(received.path.starts_with("/v1/"), "{}", received.path);
            let header = |name| received.header(name);
            assert_eq!(header("content-type"), Some("application/grpc"));
            assert_eq!(header("te"), Some("trailers"));
            assert_eq!(header("x-team"), Some("blue"));
            assert_eq!(header("authorization"), Some("Bearer hush"));
            let coding = more.get("compression").and_then(Value::as_str);
            assert_eq!(header("grpc-encoding"), coding);
        }
    }
}

/// The single warning of a run.
async fn warning(observability: &Value, limit: Duration) -> String {
    let telemetry = start(observability);
    let backend = wrap(&telemetry, Scripted::backend([plain("one")]));
    assert!(run(&backend).await.last().unwrap().is_ok());
    telemetry.shutdown(limit).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_other_than_ok_is_the_one_warning() {
    const GRPC: (&str, &str) = ("content-type", "application/grpc");
    for (answer, end) in [
        (
            Answer(
                &[GRPC],
                &[
                    ("grpc-status", "8"),
                    ("grpc-message", "quota of %22a%22%0Aused up"),
                ],
            ),
            "/Export answered gRPC status 8 RESOURCE_EXHAUSTED: quota of \"a\" used up",
        ),
        (
            Answer(&[GRPC, REJECTS], OK.1),
            // Of spans or of metrics, whichever was exported first.
            ": quota of ***",
        ),
        (
            Answer(
                &[
                    GRPC,
                    ("grpc-status", "16"),
                    ("grpc-message", "who is hush%2dhush?"),
                ],
                &[],
            ),
            "/Export answered gRPC status 16 UNAUTHENTICATED: who is ***?",
        ),
        (
            Answer(&[GRPC, ("grpc-status", "0")], &[("grpc-status", "99")]),
            "/Export answered gRPC status 99",
        ),
        (
            Answer(&[("content-type", "text/html")], &[]),
            "/Export answered without a gRPC status",
        ),
    ] {
        let collector = collector(answer).await;
        let more = json!({"headers": {"x-key": "hush-hush", "x-other": "xx-hush"}});
        let warning = warning(&grpc(&collector.url, &more), LONG).await;
        let start = format!("telemetry was not exported: {}/opentelemetry.", collector.url);
        assert!(warning.starts_with(&start) && warning.ends_with(end), "{warning}");
        assert!(!warning.contains("hush"), "{warning}");
    }
}

/// Details with a `RetryInfo`: without a wait, with one of a millisecond, and with one of an hour.
const OFFERS: [&str; 3] = [
    "CAgSBGZ1bGwaKgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbw==",
    "GjIKKHR5cGUuZ29vZ2xlYXBpcy5jb20vZ29vZ2xlLnJwYy5SZXRyeUluZm8SBgoEEMCEPQ",
    "GjEKKHR5cGUuZ29vZ2xlYXBpcy5jb20vZ29vZ2xlLnJwYy5SZXRyeUluZm8SBQoDCJAc",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_collector_gets_the_same_batch_again() {
    const BUSY: [Fields; 8] = [
        &[("grpc-status", "1")],
        &[("grpc-status", "4")],
        &[("grpc-status", "10")],
        &[("grpc-status", "11")],
        &[("grpc-status", "14")],
        &[("grpc-status", "15")],
        &[("grpc-status", "8"), ("grpc-status-details-bin", OFFERS[0])],
        &[("grpc-status", "8"), ("grpc-status-details-bin", OFFERS[1])],
    ];
    for busy in BUSY {
        // In the headers as in the trailers.
        for refusal in [Answer(OK.0, busy), Answer(busy, &[])] {
            let collector = answering(move |number| if number < 2 { refusal } else { OK }).await;
            let telemetry = start(&grpc(&collector.url, &json!({})));
            let backend = wrap(&telemetry, Scripted::backend([plain("one")]));
            assert!(run(&backend).await.last().unwrap().is_ok());
            assert_eq!(telemetry.shutdown(LONG).await, None, "{busy:?}");
            let received = collector.received();
            for path in ["/v1/traces", "/v1/metrics"] {
                let of_path = received.iter().filter(|received| received.path == path);
                let bodies: Vec<&Vec<u8>> = of_path.map(|received| &received.body).collect();
                assert_eq!(bodies.len(), 3, "{busy:?} {path}");
                assert!(bodies.iter().all(|body| *body == bodies[0]), "{busy:?} {path}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_status_and_a_wait_that_is_too_long_are_not_tried_again() {
    const FINAL: [Fields; 5] = [
        &[("grpc-status", "8")],
        &[("grpc-status", "8"), ("grpc-status-details-bin", "nonsense!")],
        &[("grpc-status", "8"), ("grpc-status-details-bin", OFFERS[2])],
        &[("grpc-status", "14"), ("grpc-status-details-bin", OFFERS[2])],
        &[("grpc-status", "3"), ("grpc-status-details-bin", OFFERS[1])],
    ];
    for status in FINAL {
        let collector = collector(Answer(OK.0, status)).await;
        let warning = warning(&grpc(&collector.url, &json!({})), LONG).await;
        assert!(
            warning.contains(&format!(" answered gRPC status {} ", status[0].1)),
            "{warning}"
        );
        assert_eq!(collector.received().len(), 2, "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_collector_is_one_warning_and_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let limit = Duration::from_millis(20);
    assert_eq!(
        warning(&grpc(&url, &json!({})), limit).await,
        "telemetry was not exported: the collector did not answer within 0.02 s"
    );
    let short = json!({"timeout_ms": 1000});
    let warning_text = warning(&grpc(&url, &short), LONG).await;
    assert!(warning_text.ends_with("/Export within 1 s"), "{warning_text}");
    drop(listener);
    let warning_text = warning(&grpc(&url, &json!({})), LONG).await;
    assert!(
        warning_text.starts_with("telemetry was not exported: can't connect to "),
        "{warning_text}"
    );
    assert!(
        warning_text.ends_with("/Export: connection refused"),
        "{warning_text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_speaks_only_http_1_is_one_warning() {
    let collector = Collector::start().await;
    let warning_text = warning(&grpc(&collector.url, &json!({})), LONG).await;
    assert!(
        warning_text.starts_with("telemetry was not exported: the answer from "),
        "{warning_text}"
    );
    assert!(
        warning_text.ends_with(" (does this port speak gRPC?)"),
        "{warning_text}"
    );
}
