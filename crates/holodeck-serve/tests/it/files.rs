//! Files of users: uploaded, attached, listed and deleted.

use std::time::Duration;

use holodeck_documents::{Converter, Isolation};
use holodeck_serve::{
    ServeOptions,
    conversation::{FileVault, ServiceOptions, model::AttachmentsConfig},
};
use holodeck_testkit::ScriptedTurn;
use holodeck_turn::{FileReader, Prices, TurnRunner};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::world::{Reply, Setup, World, two_users};

const BOUNDARY: &str = "a-boundary";

/// A server with two users that keeps files of 1 MiB at most.
async fn office() -> (World, TempDir) {
    office_with(ServeOptions::default()).await
}

async fn office_with(options: ServeOptions) -> (World, TempDir) {
    office_with_limits(options, AttachmentsConfig::default()).await
}

async fn office_with_limits(options: ServeOptions, limits: AttachmentsConfig) -> (World, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let limits = AttachmentsConfig {
        max_file_mib: 1,
        max_total_mib: 2,
        ..limits
    };
    let setup = Setup {
        service: ServiceOptions {
            files: Some(FileVault::new(folder.path().join("files"), limits)),
            turns: Some(TurnRunner {
                files: FileReader::new(Converter::new(Isolation::None), Duration::from_mins(1)),
                prices: Prices::embedded(),
                model: "m".to_owned(),
                timeout: None,
                timeout_source: String::new(),
            }),
            ..ServiceOptions::default()
        },
        options: ServeOptions {
            access: two_users(),
            ..options
        },
        ..Setup::default()
    };
    let world = World::with(setup, |asked| ScriptedTurn::text(&asked.message)).await;
    (world, folder)
}

/// A part of a form: its name, the name of its file, and its content.
type Part<'a> = (&'a str, Option<&'a str>, &'a str);

fn form(parts: &[Part<'_>]) -> String {
    let written = parts.iter().map(|(name, file, content)| {
        let file = file.map_or(String::new(), |file| format!("; filename=\"{file}\""));
        format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{content}\r\n")
    });
    let end = format!("--{BOUNDARY}--\r\n");
    written.chain([end]).collect()
}

async fn send_form(world: &World, user: &str, path: &str, parts: &[Part<'_>]) -> Reply {
    send_form_with(world, user, path, &[], parts).await
}

async fn send_form_with(
    world: &World,
    user: &str,
    path: &str,
    more: &[(&str, &str)],
    parts: &[Part<'_>],
) -> Reply {
    let token = format!("Bearer token-of-{user}");
    let media_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", media_type.as_str()),
    ];
    let headers = [&headers[..], more].concat();
    world.send(Method::POST, path, &headers, &form(parts)).await
}

async fn upload(world: &World, user: &str, name: &str, content: &str) -> String {
    let stored = send_form(world, user, "/v1/files", &[("file", Some(name), content)]).await;
    assert_eq!(stored.status, 201, "{stored:?}");
    stored.json()["fileId"].as_str().unwrap().to_owned()
}

async fn names(world: &World, user: &str) -> Vec<String> {
    let listed = world.send_as(user, Method::GET, "/v1/files", json!({})).await;
    let files = listed.json()["files"].as_array().unwrap().clone();
    let names = files.iter().map(|file| file["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn a_file_is_uploaded_attached_and_deleted() {
    let (world, _folder) = office().await;
    let id = upload(&world, "alice", "../prices.csv", "item,price\npen,2\n").await;
    assert_eq!(names(&world, "alice").await, ["prices.csv"]);
    let message = json!({"message": "how much is a pen?", "attachments": [id]});
    let path = "/v1/sessions/s/messages?wait=true";
    let answered = world.send_as("alice", Method::POST, path, message.clone()).await;
    let response = answered.json()["response"].as_str().unwrap().to_owned();
    assert!(response.contains("pen") && response.ends_with("how much is a pen?"));
    let events = world
        .send_as("alice", Method::GET, "/v1/sessions/s/events", json!({}))
        .await;
    assert!(
        events
            .text
            .contains(&format!(r#""attachments":[{{"id":"{id}","hash":""#))
    );
    assert!(events.text.contains(&format!(
        r#""citedFiles":[{{"fileId":"{id}","name":"prices.csv"}}]"#
    )));
    let path = format!("/v1/files/{id}");
    let deleted = world.send_as("alice", Method::DELETE, &path, json!({})).await;
    assert_eq!(deleted.status, 204);
    assert!(names(&world, "alice").await.is_empty());
    let again = world
        .send_as("alice", Method::POST, "/v1/sessions/s/messages", message)
        .await;
    assert_eq!(again.problem(), (404, "FILE_NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn a_foreign_file_is_like_an_unknown_one() {
    let (world, _folder) = office().await;
    let foreign = upload(&world, "bob", "plan.txt", "secret").await;
    let unknown = "00000000-0000-4000-8000-000000000000".to_owned();
    assert!(names(&world, "alice").await.is_empty());
    for id in [&foreign, &unknown] {
        let path = format!("/v1/files/{id}");
        let deleted = world.send_as("alice", Method::DELETE, &path, json!({})).await;
        assert_eq!(deleted.problem(), (404, "FILE_NOT_FOUND".to_owned()));
        let message = json!({"message": "read it", "attachments": [id]});
        let sent = world
            .send_as("alice", Method::POST, "/v1/sessions/s/messages", message)
            .await;
        assert_eq!(sent.problem(), (404, "FILE_NOT_FOUND".to_owned()));
        assert_eq!(
            sent.json()["detail"],
            format!("Access denied or file not found: {id}")
        );
    }
    let session = world
        .send_as("alice", Method::GET, "/v1/sessions/s", json!({}))
        .await;
    assert_eq!(session.problem(), (404, "SESSION_NOT_FOUND".to_owned()));
    assert_eq!(names(&world, "bob").await, ["plan.txt"]);
}

#[tokio::test]
async fn uploads_have_limits() {
    let (world, _folder) = office().await;
    let large = "x".repeat((1 << 20) + 1);
    let cases: [(&[Part<'_>], u16, &str); 5] = [
        (&[("file", Some("a.txt"), &large)], 413, "TOO_LARGE"),
        (
            &[("file", Some("a.zip"), "PK\u{3}\u{4}....")],
            415,
            "UNSUPPORTED_FILE",
        ),
        (&[], 400, "INVALID_REQUEST"),
        (&[("file", None, "no file")], 400, "INVALID_REQUEST"),
        (
            &[("a", Some("a.txt"), "one"), ("b", Some("b.txt"), "two")],
            400,
            "INVALID_REQUEST",
        ),
    ];
    for (parts, status, code) in cases {
        let refused = send_form(&world, "alice", "/v1/files", parts).await;
        assert_eq!(refused.problem(), (status, code.to_owned()), "{refused:?}");
    }
    let json = world
        .send_as("alice", Method::POST, "/v1/files", json!({"file": "x"}))
        .await;
    assert_eq!(json.problem(), (415, "UNSUPPORTED_MEDIA_TYPE".to_owned()));
    let search = json!({"message": "find it", "enableAutoSemanticSearch": true});
    let refused = world
        .send_as("alice", Method::POST, "/v1/sessions/s/messages", search)
        .await;
    assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()));
    assert!(refused.text.contains("`embedding_provider`"), "{refused:?}");
    let option = json!({"message": "find it", "semanticThreshold": 0.5});
    let refused = world
        .send_as("alice", Method::POST, "/v1/sessions/s/messages", option)
        .await;
    assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()));
    assert!(names(&world, "alice").await.is_empty());
}

#[tokio::test]
async fn an_upload_that_is_cut_leaves_no_file() {
    let options = ServeOptions {
        upload_timeout: Duration::from_millis(200),
        ..ServeOptions::default()
    };
    let (world, _folder) = office_with(options).await;
    let body = form(&[("file", Some("a.txt"), "the first half of a text")]);
    for end in [body.len() / 2, body.len() - 4] {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST /v1/files HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer token-of-alice\r\n\
             Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {}\r\n\r\n",
            world.address,
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(&body.as_bytes()[..end]).await.unwrap();
        // The rest never arrives.
        let mut answer = vec![0; 1024];
        let length = socket.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert!(names(&world, "alice").await.is_empty());
}

#[tokio::test]
async fn clients_of_0_7_send_files_in_both_forms() {
    let (world, _folder) = office().await;
    let parts: [Part<'_>; 3] = [
        ("message", None, "what is it?"),
        ("session_id", None, "s-form"),
        ("files", Some("note.txt"), "forty-two"),
    ];
    let answered = send_form(&world, "alice", "/agent/helper/chat/multipart", &parts).await;
    let answer = answered.json();
    assert_eq!(answer["session_id"], "s-form");
    assert!(answer["content"].as_str().unwrap().contains("forty-two"));
    let streamed = send_form(&world, "alice", "/agent/helper/chat/stream/multipart", &parts).await;
    assert!(streamed.text.contains("event: message_delta") && streamed.text.contains("forty-two"));
    let body = json!({"message": "what is it?", "files": [
        {"content": "Zm9ydHktdHdv", "mime_type": "text/plain", "filename": "note.txt"},
    ]});
    let answered = world
        .send_as("alice", Method::POST, "/agent/helper/chat", body)
        .await;
    assert!(answered.json()["content"].as_str().unwrap().contains("forty-two"));
    let before = names(&world, "alice").await;
    let broken = json!({"message": "x", "files": [{"content": "???"}]});
    let refused = world
        .send_as("alice", Method::POST, "/agent/helper/chat", broken)
        .await;
    assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()));
    // The files of a message that is refused are removed.
    let foreign: [Part<'_>; 3] = [
        ("message", None, "what is it?"),
        ("session_id", None, "no id"),
        ("files", Some("other.txt"), "text"),
    ];
    let refused = send_form(&world, "bob", "/agent/helper/chat/multipart", &foreign).await;
    assert_eq!(refused.problem(), (400, "INVALID_REQUEST".to_owned()));
    assert!(names(&world, "bob").await.is_empty());
    assert_eq!(names(&world, "alice").await, before);
}

#[tokio::test]
async fn every_part_of_a_form_is_limited_by_name() {
    let (world, _folder) = office().await;
    let head = |text: &str| format!("--X\r\ncontent-disposition: form-data; {text}\r\n\r\n");
    let file =
        |name: &str, content: &str| head(&format!("name=\"file\"; filename=\"{name}\"")) + content + "\r\n";
    let text = |name: &str, content: &str| head(&format!("name=\"{name}\"")) + content + "\r\n";
    let long = "n".repeat(20_000);
    let other_headers = format!("--X\r\n{}\r\n\r\n", "x-other: y\r\n".repeat(2_000));
    for (form, status, says) in [
        (file(&long, "x"), 400, "headers of a part"),
        (text(&long, "x"), 400, "headers of a part"),
        (other_headers, 400, "headers of a part"),
        (long.clone() + &file("a.txt", "x"), 400, "headers of a part"),
        (text(&"n".repeat(201), "x"), 400, "name of a field"),
        (text("a", "").repeat(41), 400, "40 parts at most"),
        (text("a", "").repeat(21), 400, "too many fields"),
        (text("a", &"x".repeat(600_000)).repeat(2), 413, ""),
    ] {
        let form = form + "--X--\r\n";
        let headers = [
            ("authorization", "Bearer token-of-alice"),
            ("content-type", "multipart/form-data; boundary=X"),
        ];
        let refused = world.send(Method::POST, "/v1/files", &headers, &form).await;
        assert_eq!(refused.problem().0, status, "{says}: {refused:?}");
        assert!(refused.text.contains(says), "{says}: {refused:?}");
    }
    assert_eq!(names(&world, "alice").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_files_of_a_user_have_a_quota() {
    let limits = AttachmentsConfig {
        max_user_files: 3,
        max_user_mib: 1,
        ..AttachmentsConfig::default()
    };
    let (world, _folder) = office_with_limits(ServeOptions::default(), limits).await;
    let refused = async |user: &str, content: &str, says: &str| {
        let part = ("file", Some("more.txt"), content);
        let refused = send_form(&world, user, "/v1/files", &[part]).await;
        assert_eq!(refused.problem(), (507, "QUOTA_EXCEEDED".to_owned()));
        assert!(refused.text.contains(says), "{refused:?}");
    };
    let ids = [
        upload(&world, "alice", "0.txt", "the same text").await,
        upload(&world, "alice", "1.txt", "the same text").await,
        upload(&world, "alice", "2.txt", "another").await,
    ];
    refused("alice", "x", "attachments.max_user_files").await;
    let path = format!("/v1/files/{}", ids[0]);
    world.send_as("alice", Method::DELETE, &path, json!({})).await;
    upload(&world, "alice", "3.txt", "x").await;
    // The quota is each user's own. The same bytes are kept once.
    let large = "y".repeat(700_000);
    upload(&world, "bob", "a.txt", &large).await;
    upload(&world, "bob", "b.txt", &large).await;
    refused("bob", &large.replace('y', "z"), "attachments.max_user_mib").await;
}

#[tokio::test]
async fn a_form_with_a_key_is_one_run_and_one_with_another_file_is_refused() {
    for path in [
        "/agent/helper/chat/multipart",
        "/agent/helper/chat/stream/multipart",
    ] {
        for session in [None, Some("s-form")] {
            let (world, _folder) = office().await;
            let send = async |user: &str, key: &str, message: &str, content: &str| {
                let mut parts = vec![("message", None, message), ("files", Some("note.txt"), content)];
                // Each user has a conversation with this id.
                parts.extend(session.map(|id| ("session_id", None, id)));
                send_form_with(&world, user, path, &[("idempotency-key", key)], &parts).await
            };
            let runs = async || {
                let sessions = world.store.sessions(None).await.unwrap();
                sessions.iter().map(|session| session.runs).sum::<u64>()
            };
            for _ in 0..3 {
                let answered = send("alice", "k", "what is it?", "forty-two").await;
                assert_eq!(answered.status, 200, "{path} {answered:?}");
                assert!(answered.text.contains("forty-two"), "{path} {answered:?}");
            }
            assert_eq!(runs().await, 1, "{path} {session:?}");
            // The file of a request that was sent before is not kept twice.
            assert_eq!(names(&world, "alice").await, ["note.txt"]);
            for (message, content) in [("what else?", "forty-two"), ("what is it?", "forty-three")] {
                let refused = send("alice", "k", message, content).await;
                assert_eq!(refused.status, 422, "{path} {session:?} {refused:?}");
            }
            assert_eq!(names(&world, "alice").await, ["note.txt"]);
            assert_eq!(runs().await, 1, "{path} {session:?}");
            assert_eq!(send("bob", "k", "what is it?", "nothing").await.status, 200);
            assert_eq!(
                send("alice", "other", "what is it?", "forty-three").await.status,
                200
            );
            assert_eq!(runs().await, 3, "{path} {session:?}");
        }
    }
}
