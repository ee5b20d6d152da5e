//! Tests of reading responses: JSON, event streams, cut streams and bodies beyond the limits.

use futures::{StreamExt, TryStreamExt};
use holodeck_http::{BodyKind, Headers, HttpError, HttpOptions, SseEvent};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::server::{Answer, Server, ok_json, status};
use crate::{client, quick};

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";

fn event(data: &str) -> SseEvent {
    SseEvent {
        event: String::new(),
        data: data.to_owned(),
        id: None,
        retry: None,
    }
}

#[tokio::test]
async fn json_goes_out_and_comes_back() {
    let server = Server::start(vec![ok_json(r#"{"answer":42}"#)]).await;
    let mut headers = Headers::new();
    headers.bearer(&"key-12345".into()).unwrap();
    let response = client()
        .post_json(&server.url, &headers, &json!({"q": "é"}), &quick())
        .await
        .unwrap();
    assert_eq!((response.status(), response.attempts()), (200, 1));
    assert_eq!(response.json().await.unwrap(), json!({"answer": 42}));
    let request = &server.requests()[0];
    assert!(
        request.starts_with("POST /v1?key=query-secret HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("authorization: Bearer key-12345\r\n"),
        "{request}"
    );
    assert!(
        request.contains("content-type: application/json\r\n"),
        "{request}"
    );
    assert!(request.ends_with("\r\n\r\n{\"q\":\"é\"}"), "{request}");
}

#[tokio::test]
async fn events_arrive_before_the_answer_ends() {
    let server = Server::start(vec![Answer::RawThenHang(
        format!("{STREAM}data: 1\n\ndata: 2\n\nda").into(),
    )])
    .await;
    let response = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap();
    let events = response
        .events()
        .await
        .unwrap()
        .take(2)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    assert_eq!(events, [event("1"), event("2")]);
}

#[tokio::test]
async fn a_stream_cut_within_keeps_its_events_and_ends_in_an_error() {
    let cut = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        "9\r\ndata: 1\n\n\r\n8\r\ndat"
    );
    let server = Server::start(vec![Answer::Raw(cut.into())]).await;
    let response = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap();
    let mut events = response.events().await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap(), event("1"));
    assert!(matches!(events.next().await, Some(Err(HttpError::Body { .. }))));
    assert!(events.next().await.is_none());
    assert_eq!(
        server.requests().len(),
        1,
        "not sent again after bytes were handed out"
    );
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let server = Server::start(vec![Answer::Endless(
        format!("{STREAM}data: ok\n\ndata: ").into(),
    )])
    .await;
    let options = HttpOptions {
        max_event_bytes: 100_000,
        ..HttpOptions::default()
    };
    let client = holodeck_http::HttpClient::new(&options).unwrap();
    let response = client
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap();
    let mut events = response.events().await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap(), event("ok"));
    assert!(matches!(
        events.next().await,
        Some(Err(HttpError::TooLarge { limit: 100_000, .. }))
    ));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_huge_answer_is_refused_announced_or_not() {
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n";
    let silent = "HTTP/1.1 200 OK\r\n\r\n";
    for head in [announced, silent] {
        let server = Server::start(vec![Answer::Endless(head.into())]).await;
        let answer = client()
            .post_json(&server.url, &Headers::new(), &json!({}), &quick())
            .await;
        let error = match answer {
            Ok(response) => response.bytes().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(
            matches!(
                error,
                HttpError::TooLarge {
                    limit: 16_777_216,
                    ..
                }
            ),
            "{error:?}"
        );
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn html_and_other_things_are_named() {
    let html = "<!doctype html><html><head><title>Sign in</title></head></html>";
    for (content_type, body, expected) in [
        ("text/html", html, BodyKind::Html),
        ("application/json", html, BodyKind::Html),
        ("text/plain", "hello", BodyKind::Text),
        ("application/json", "", BodyKind::Empty),
        ("application/json", "{\"cut\":", BodyKind::Text),
    ] {
        let answer = status("200 OK", &format!("Content-Type: {content_type}\r\n"), body);
        let server = Server::start(vec![answer]).await;
        let response = client()
            .post_json(&server.url, &Headers::new(), &json!({}), &quick())
            .await
            .unwrap();
        let error = response.json().await.unwrap_err();
        assert!(
            matches!(&error, HttpError::Unexpected { found, .. } if *found == expected),
            "{body}: {error:?}"
        );
    }
    for (content_type, body, expected) in [
        (
            "text/html",
            html,
            "an HTML page titled `Sign in` instead of a stream of events",
        ),
        (
            "application/json",
            r#"{"error":"no stream"}"#,
            "JSON instead of a stream of events: no stream",
        ),
    ] {
        let answer = status("200 OK", &format!("Content-Type: {content_type}\r\n"), body);
        let server = Server::start(vec![answer]).await;
        let response = client()
            .post_json(&server.url, &Headers::new(), &json!({}), &quick())
            .await
            .unwrap();
        let error = response.events().await.unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_stream_without_a_content_type_is_taken_as_one() {
    let server = Server::start(vec![Answer::Raw(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n".to_vec())]).await;
    let response = client()
        .get(&server.url, &Headers::new(), &quick())
        .await
        .unwrap();
    let events: Vec<_> = response.events().await.unwrap().try_collect().await.unwrap();
    assert_eq!(events, [event("1")]);
}
