//! Tests of which failures are sent again, and that credentials never follow a redirect.

use std::num::NonZeroU32;
use std::time::Duration;

use holodeck_http::{CallOptions, Headers, HttpError, Pacer, RetryPolicy};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::server::{Answer, Server, ok_json, status};
use crate::{client, once, quick};

async fn attempts(answers: Vec<Answer>) -> (Result<u32, HttpError>, usize) {
    let server = Server::start(answers).await;
    let result = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await;
    (
        result.map(|response| response.attempts()),
        server.requests().len(),
    )
}

#[tokio::test]
async fn passing_trouble_is_retried() {
    for trouble in [
        status("500 Internal Server Error", "", "oops"),
        status("503 Service Unavailable", "Retry-After: 0\r\n", ""),
        status(
            "429 Too Many Requests",
            "retry-after-ms: 3\r\nRetry-After: 50\r\n",
            "",
        ),
        Answer::Raw(Vec::new()),
        Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n".to_vec()),
    ] {
        let (result, requests) = attempts(vec![trouble.clone(), trouble, ok_json("{}")]).await;
        assert_eq!((result.unwrap(), requests), (3, 3));
    }
}

#[tokio::test]
async fn too_many_requests_for_ever_ends_in_the_last_error() {
    let answer = status(
        "429 Too Many Requests",
        "Retry-After: 0\r\n",
        r#"{"error":{"message":"slow down"}}"#,
    );
    let (result, requests) = attempts(vec![answer]).await;
    let error = result.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("/v1 answered 429 Too Many Requests: slow down"),
        "{error}"
    );
    assert_eq!(error.retry_after(), Some(Duration::ZERO));
    assert_eq!(requests, 4);
}

/// The clock of a server may be years away from ours, in either direction.
#[tokio::test]
async fn a_date_to_retry_after_is_measured_by_the_clock_of_the_server() {
    for (date, after, wait) in [
        (
            "Tue, 02 Jan 2001 03:04:05 GMT",
            "Tue, 02 Jan 2001 03:04:47 GMT",
            Some(42),
        ),
        (
            "Fri, 01 Jan 2100 00:00:50 GMT",
            "Fri, 01 Jan 2100 00:01:07 GMT",
            Some(17),
        ),
        (
            "Tue, 02 Jan 2001 03:04:05 GMT",
            "Tue, 02 Jan 2001 03:04:01 GMT",
            Some(0),
        ),
        ("Tue, 02 Jan 2001 03:04:05 GMT", "soon", None),
        ("Tue, 02 Jan 2001 03:04:05 GMT", "2.5", None),
    ] {
        let expected = if after == "2.5" {
            Some(Duration::from_millis(2500))
        } else {
            wait.map(Duration::from_secs)
        };
        for line in ["429 Too Many Requests", "503 Service Unavailable"] {
            for headers in [
                format!("Date: {date}\r\nRetry-After: {after}\r\n"),
                format!("retry-after: {after}\r\ndate: {date}\r\n"),
            ] {
                let server = Server::start(vec![status(line, &headers, "")]).await;
                let asked = client()
                    .post_json(&server.url, &Headers::new(), &json!({}), &once())
                    .await;
                assert_eq!(asked.unwrap_err().retry_after(), expected, "{line}: {headers}");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_key_stops_at_once_and_is_not_repeated() {
    let answer = status(
        "401 Unauthorized",
        "Retry-After: 0\r\n",
        r#"{"error":{"message":"no such key: key-12345 query-secret"}}"#,
    );
    let server = Server::start(vec![answer]).await;
    let mut headers = Headers::new();
    headers.bearer(&"key-12345".into()).unwrap();
    let error = client()
        .post_json(&server.url, &headers, &json!({}), &quick())
        .await
        .unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(
        shown.contains("401") && shown.contains("no such key: *** ***"),
        "{shown}"
    );
    assert!(
        !shown.contains("key-12345") && !shown.contains("query-secret"),
        "{shown}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_the_key_stays_here() {
    let (result, requests) = attempts(vec![status(
        "307 Temporary Redirect",
        "Location: http://127.0.0.1:1/\r\n",
        "",
    )])
    .await;
    assert_eq!(result.unwrap_err().status(), Some(307));
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn each_attempt_takes_a_turn_of_the_pacer() {
    let pacer = Pacer::per_minute(NonZeroU32::new(60_000).unwrap());
    let server = Server::start(vec![status("500 Internal Server Error", "", ""), ok_json("{}")]).await;
    let options = CallOptions {
        pacer: Some(pacer),
        retry: RetryPolicy {
            first_wait: Duration::ZERO,
            ..RetryPolicy::default()
        },
        ..CallOptions::default()
    };
    let response = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &options)
        .await
        .unwrap();
    assert_eq!(response.attempts(), 2);
    assert!(response.paced() < Duration::from_mins(1));
}

#[tokio::test]
async fn a_key_is_not_shown_where_an_answer_is_cut_or_escaped() {
    const KEY: &str = "Zk8d/f0Gh+iJkLmNoPqRsTuV";
    let escaped = r"Zk8d\/f0Gh\u002BiJkLmNoPqRsTuV";
    for spelled in [KEY, escaped] {
        for before in (8 * 1024 - spelled.len() - 2)..=8 * 1024 {
            if before % 5 != 0 && before != 8180 {
                continue;
            }
            let body = format!("{}{spelled} end", " ".repeat(before));
            for (line, kind) in [("500 Oops", "text/plain"), ("200 OK", "application/json")] {
                let answer = status(line, &format!("Content-Type: {kind}\r\n"), &body);
                assert_key_is_hidden(answer, KEY, &format!("{spelled} {before} {line}")).await;
            }
        }
        let body = format!(r#"{{"error":{{"message":"no such key: {spelled}"}}}}"#);
        let answer = status("401 Unauthorized", "Content-Type: application/json\r\n", &body);
        assert_key_is_hidden(answer, KEY, spelled).await;
    }
    // The connection breaks within the key.
    let broken = b"HTTP/1.1 401 No\r\nContent-Length: 100\r\n\r\nno such key: Zk8d/f0Gh+iJ".to_vec();
    assert_key_is_hidden(Answer::Raw(broken), KEY, "broken").await;
}

async fn assert_key_is_hidden(answer: Answer, key: &str, case: &str) {
    let server = Server::start(vec![answer]).await;
    let mut headers = Headers::new();
    headers.bearer(&key.into()).unwrap();
    let answer = client()
        .post_json(&server.url, &headers, &json!({}), &once())
        .await;
    let error = match answer {
        Ok(response) => response.json().await.unwrap_err(),
        Err(error) => error,
    };
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("Zk8"), "{case}: {shown}");
}
