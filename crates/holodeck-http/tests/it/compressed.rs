//! Tests of answers that come compressed although no request asks for it.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use futures::StreamExt as _;
use holodeck_http::{Headers, HttpError, HttpOptions, Verb};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::server::{Answer, Server};
use crate::{client, quick};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// The encodings that are expanded, each with a text in it.
fn forms(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(text.as_bytes()).unwrap();
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
    deflate.write_all(text.as_bytes()).unwrap();
    vec![
        ("gzip", gzip(text.as_bytes())),
        ("X-GZIP", gzip(text.as_bytes())),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", deflate.finish().unwrap()),
        // Expanded by a gateway that kept the header.
        ("gzip", text.as_bytes().to_vec()),
    ]
}

fn answer(status: &str, kind: &str, encoding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Encoding: {encoding}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn a_compressed_answer_is_read_as_if_it_were_not() {
    for (encoding, body) in forms("{\"answer\": 42}") {
        let raw = answer("200 OK", "application/json", encoding, &body);
        let server = Server::start(vec![Answer::Raw(raw)]).await;
        let sent = client()
            .post_json(&server.url, &Headers::new(), &json!({}), &quick())
            .await
            .unwrap();
        assert!(sent.first_bytes().starts_with(b"{"), "{encoding}");
        assert_eq!(sent.json().await.unwrap(), json!({"answer": 42}), "{encoding}");
        let asked = server.requests()[0].to_ascii_lowercase();
        assert!(!asked.contains("accept-encoding"), "{asked}");
        let exchanged = client()
            .exchange(Verb::Get, &server.url, &Headers::new(), None)
            .await
            .unwrap();
        assert_eq!(exchanged.bytes().await.unwrap(), "{\"answer\": 42}", "{encoding}");
    }
}

#[tokio::test]
async fn a_compressed_event_arrives_before_the_answer_ends() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(b"data: 1\n\n").unwrap();
    encoder.flush().unwrap();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n";
    let raw = [head.as_bytes(), encoder.get_ref()].concat();
    let server = Server::start(vec![Answer::RawThenHang(raw)]).await;
    let response = client()
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap();
    let mut events = response.events().await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().data, "1");
}

#[tokio::test]
async fn a_compressed_refusal_is_shown_as_text_and_without_secrets() {
    let mut headers = Headers::new();
    headers.bearer(&"key-12345".into()).unwrap();
    for (encoding, body) in forms("{\"error\": {\"message\": \"no credit for key-12345\"}}") {
        let raw = answer("402 Payment Required", "application/json", encoding, &body);
        let server = Server::start(vec![Answer::Raw(raw)]).await;
        let error = client()
            .post_json(&server.url, &headers, &json!({}), &quick())
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no credit for ***"), "{encoding}: {text}");
        let exchanged = client()
            .exchange(Verb::Get, &server.url, &headers, None)
            .await
            .unwrap();
        let text = exchanged.refusal().await.to_string();
        assert!(text.contains("no credit for ***"), "{encoding}: {text}");
    }
}

#[tokio::test]
async fn an_encoding_that_is_not_known_is_named_in_place_of_its_bytes() {
    for encoding in ["br", "zstd", "gzip, br", "compress"] {
        let named = format!("is compressed with {encoding}, which was not asked for");
        for status in ["200 OK", "400 Bad Request", "503 Service Unavailable"] {
            let raw = answer(status, "application/json", encoding, b"\x1b\x07\x00\xf8%");
            let server = Server::start(vec![Answer::Raw(raw)]).await;
            let error = client()
                .post_json(&server.url, &Headers::new(), &json!({}), &quick())
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(&named), "{error}");
            assert_eq!(error.contains(&status[..3]), status != "200 OK", "{error}");
            let exchanged = client()
                .exchange(Verb::Get, &server.url, &Headers::new(), None)
                .await
                .unwrap();
            let error = if exchanged.is_success() {
                exchanged.bytes().await.unwrap_err()
            } else {
                exchanged.refusal().await
            };
            assert!(error.to_string().contains(&named), "{error}");
        }
    }
}

/// A small body that expands to much ends at the limit of an answer.
#[tokio::test]
async fn a_body_that_expands_too_far_ends_at_the_limit() {
    let bomb = gzip(&vec![b' '; 20_000_000]);
    assert!(bomb.len() < 100_000);
    let options = HttpOptions {
        max_response_bytes: 1_000_000,
        ..HttpOptions::default()
    };
    let client = holodeck_http::HttpClient::new(&options).unwrap();
    let raw = answer("200 OK", "application/json", "gzip", &bomb);
    let server = Server::start(vec![Answer::Raw(raw)]).await;
    let sent = client
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap();
    let error = sent.bytes().await.unwrap_err();
    assert!(
        matches!(error, HttpError::TooLarge { limit: 1_000_000, .. }),
        "{error:?}"
    );
    let exchanged = client
        .exchange(Verb::Get, &server.url, &Headers::new(), None)
        .await
        .unwrap();
    let error = exchanged.bytes().await.unwrap_err();
    assert!(
        matches!(error, HttpError::TooLarge { limit: 1_000_000, .. }),
        "{error:?}"
    );
    let refused = answer("400 Bad Request", "text/plain", "gzip", &bomb);
    let server = Server::start(vec![Answer::Raw(refused)]).await;
    let error = client
        .post_json(&server.url, &Headers::new(), &json!({}), &quick())
        .await
        .unwrap_err();
    assert!(
        error.body().unwrap().len() <= 8 * 1024,
        "{}",
        error.body().unwrap().len()
    );
}
