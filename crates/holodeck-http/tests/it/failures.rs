//! Tests of failing servers: unreachable, silent, cut, hanging, or not HTTP at all.

use std::time::Duration;

use futures::StreamExt;
use holodeck_http::{CallOptions, ConnectReason, Headers, HttpError, HttpUrl};
use serde_json::json;

use crate::server::{Answer, Server, status};
use crate::{client, once, quick};

fn brief() -> CallOptions {
    CallOptions {
        timeout: Some(Duration::from_millis(100)),
        ..quick()
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = HttpUrl::parse(&format!("http://{}/v1", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = client()
        .post_json(&url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            HttpError::Connect {
                reason: ConnectReason::Refused,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        format!("can't connect to {url}: connection refused")
    );
}

#[tokio::test]
async fn no_such_host() {
    // RFC 6761: `.invalid` never resolves.
    let url = HttpUrl::parse("http://nowhere.invalid/").unwrap();
    let error = client().get(&url, &Headers::new(), &once()).await.unwrap_err();
    assert!(
        matches!(&error, HttpError::Connect { reason: ConnectReason::Dns(host), .. } if host == "nowhere.invalid"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_that_never_answers_times_out() {
    let server = Server::start(vec![Answer::RawThenHang(Vec::new())]).await;
    let error = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &brief())
        .await
        .unwrap_err();
    assert!(matches!(error, HttpError::Timeout { .. }), "{error:?}");
    assert!(error.to_string().ends_with("within 0.1 s"), "{error}");
    assert!(!error.retryable());
}

#[tokio::test]
async fn an_answer_that_stops_half_way_times_out() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let server = Server::start(vec![Answer::RawThenHang(head.into())]).await;
    let response = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &brief())
        .await
        .unwrap();
    let mut events = response.events().await.unwrap();
    assert!(events.next().await.unwrap().is_ok());
    assert!(matches!(
        events.next().await,
        Some(Err(HttpError::Timeout { .. }))
    ));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_cut_body_is_an_error() {
    let server = Server::start(vec![Answer::Raw(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a\"".to_vec(),
    )])
    .await;
    let response = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap();
    let error = response.json().await.unwrap_err();
    assert!(matches!(error, HttpError::Body { .. }), "{error:?}");
}

#[tokio::test]
async fn something_other_than_http_is_named() {
    let server = Server::start(vec![Answer::Raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec())]).await;
    let error = client()
        .get(&server.url, &Headers::new(), &quick())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, HttpError::Request { reason, .. } if reason.contains("HTTP")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_huge_error_page_is_read_only_at_its_start() {
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Length: 52428800\r\n\r\n<html><title>Bad";
    let server = Server::start(vec![Answer::Endless(head.into())]).await;
    let error = client()
        .get(&server.url, &Headers::new(), &quick())
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(400));
    assert_eq!(error.body().unwrap().len(), 8 * 1024);
    assert!(
        error
            .to_string()
            .ends_with("answered 400 Bad Request: an HTML page"),
        "{error}"
    );
}

#[tokio::test]
async fn an_error_page_that_hangs_times_out() {
    let head = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 50\r\n\r\n";
    let server = Server::start(vec![Answer::RawThenHang(head.into())]).await;
    let error = client()
        .get(&server.url, &Headers::new(), &brief())
        .await
        .unwrap_err();
    assert!(matches!(error, HttpError::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn unusual_statuses_are_shown() {
    let server = Server::start(vec![status("599 Whatever", "", "")]).await;
    let error = client()
        .get(&server.url, &Headers::new(), &once())
        .await
        .unwrap_err();
    assert!(error.to_string().ends_with("answered 599"), "{error}");
}
