//! Tests of requests over HTTP/2 with trailers, with and without TLS.

use std::convert::Infallible;

use bytes::Bytes;
use futures::future::join_all;
use holodeck_http::{ConnectReason, Headers, HttpClient, HttpError, HttpOptions, HttpUrl};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pretty_assertions::assert_eq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::tls::{acceptor, trusting};
use crate::{client, once};

/// Echoes the body and confirms it in a trailer.
async fn echo(
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    assert_eq!(request.version(), Version::HTTP_2);
    assert_eq!(
        request.headers().get("accept"),
        Some(&HeaderValue::from_static("*/*"))
    );
    let status = match request.uri().path() {
        "/refused" => StatusCode::FORBIDDEN,
        _ => StatusCode::OK,
    };
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", HeaderValue::from_static("sound"));
    let body = Full::new(body).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert("x-start", HeaderValue::from_static("here"));
    Ok(response)
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
    let served =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service_fn(echo));
    // The client goes away when the test ends.
    let _ = served.await;
}

async fn server() -> HttpUrl {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream));
        }
    });
    HttpUrl::parse(&url).unwrap()
}

async fn tls_server(protocol: &str) -> (HttpUrl, HttpClient) {
    let (acceptor, authority) = acceptor(&[protocol]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream));
            }
        }
    });
    (HttpUrl::parse(&url).unwrap(), trusting(&authority))
}

async fn post(
    client: &HttpClient,
    url: &HttpUrl,
    body: &'static [u8],
) -> Result<holodeck_http::Http2Answer, HttpError> {
    let mut headers = Headers::new();
    headers.insert_secret("x-key", &"hush-hush".into()).unwrap();
    client
        .post_http2(url, &headers, Bytes::from_static(body), &once())
        .await
}

#[tokio::test]
async fn body_and_trailers_arrive_without_and_with_tls() {
    let (secure, trusting) = tls_server("h2").await;
    for (client, url) in [(client(), server().await), (trusting, secure)] {
        for body in [&b"some words"[..], b""] {
            let answer = post(&client, &url, body).await.unwrap();
            assert_eq!(answer.body(), body);
            assert_eq!(answer.header("x-start"), Some("here"));
            assert_eq!(answer.trailer("x-end"), Some("sound"));
            assert_eq!(answer.header("x-end"), None);
            assert_eq!(answer.without_secrets("key hush-hush!"), "key ***!");
        }
    }
}

#[tokio::test]
async fn a_server_that_knows_only_http_1_is_named() {
    let (url, trusting) = tls_server("http/1.1").await;
    let error = post(&trusting, &url, b"x").await.unwrap_err();
    let HttpError::Connect {
        reason: ConnectReason::Tls(reason),
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert!(reason.contains("NoApplicationProtocol"), "{reason}");
}

#[tokio::test]
async fn a_refusal_is_an_error_with_its_words_but_no_secret() {
    let url = server().await.join("refused");
    let error = post(&client(), &url, b"not with hush-hush").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{url} answered 403 Forbidden: not with ***")
    );
}

#[tokio::test]
async fn the_answer_is_bounded() {
    let options = HttpOptions {
        max_response_bytes: 4,
        ..HttpOptions::default()
    };
    let client = HttpClient::new(&options).unwrap();
    let url = server().await;
    assert_eq!(post(&client, &url, b"four").await.unwrap().body(), "four");
    let error = post(&client, &url, b"fives").await.unwrap_err();
    assert!(matches!(error, HttpError::TooLarge { limit: 4, .. }), "{error:?}");
}

#[tokio::test]
async fn each_of_many_requests_learns_why_there_is_no_connection() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    let (url, client) = (HttpUrl::parse(&url).unwrap(), client());
    let many = join_all((0..20).map(|_| post(&client, &url, b"x"))).await;
    for answer in many {
        let error = answer.unwrap_err();
        let refused = matches!(
            &error,
            HttpError::Connect {
                reason: ConnectReason::Refused,
                ..
            }
        );
        assert!(refused, "{error:?}");
    }
}
