//! Tests that requests without retries return refusals and stream bodies.

use futures::StreamExt;
use holodeck_http::{Headers, HttpError, Verb};
use pretty_assertions::assert_eq;

use crate::client;
use crate::server::{Answer, Server, ok_json, status};

#[tokio::test]
async fn a_refusal_is_an_answer_and_is_not_asked_for_twice() {
    let server = Server::start(vec![status("503 Service Unavailable", "", ""), ok_json("{}")]).await;
    let mut headers = Headers::new();
    headers.insert_secret("x-key", &"hush-hush".into()).unwrap();
    let answer = client()
        .exchange(Verb::Delete, &server.url, &headers, None)
        .await
        .unwrap();
    assert_eq!((answer.status(), answer.is_success()), (503, false));
    assert!(matches!(
        answer.refusal().await,
        HttpError::Status { status: 503, .. }
    ));
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].starts_with("DELETE "), "{}", requests[0]);
    assert!(requests[0].contains("x-key: hush-hush"), "{}", requests[0]);
}

#[tokio::test]
async fn the_head_is_there_before_the_body_and_events_go_on() {
    let answer =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Session: 7\r\n\r\nid: 1\ndata: a\n\n";
    let server = Server::start(vec![Answer::Raw(answer.into())]).await;
    let body = Some("{}".into());
    let answer = client()
        .exchange(Verb::Post, &server.url, &Headers::new(), body)
        .await
        .unwrap();
    assert_eq!(answer.header("x-session"), Some("7"));
    assert!(answer.is_event_stream());
    let mut events = answer.events();
    let event = events.next().await.unwrap().unwrap();
    assert_eq!((event.data.as_str(), event.id.as_deref()), ("a", Some("1")));
}
