//! Tests of tokens, foreign origins and other users' conversations, and of bodies that do not arrive.

use std::time::Duration;

use holodeck_model::AllowedOrigin;
use holodeck_serve::ServeOptions;
use holodeck_testkit::{Gate, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::world::{Setup, World, two_users};

async fn of_two_users(script: impl Fn() -> ScriptedTurn + Send + Sync + 'static) -> World {
    let setup = Setup {
        options: ServeOptions {
            access: two_users(),
            cors_origins: vec![AllowedOrigin::parse("https://app.example").unwrap()],
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    World::with(setup, move |_| script()).await
}

#[tokio::test]
async fn only_pages_and_probes_need_no_token() {
    let world = of_two_users(|| ScriptedTurn::text("x")).await;
    for path in ["/", "/docs", "/health", "/ready"] {
        assert_eq!(world.get(path).await.status, 200, "{path}");
    }
    for path in [
        "/health/agent",
        "/metrics",
        "/openapi.json",
        "/docs/",
        "/tools",
        "/v1/sessions",
        "/v1/runs/none/events",
        "/nothing",
        "//",
    ] {
        let refused = world.get(path).await;
        assert_eq!(refused.problem(), (401, "UNAUTHORIZED".to_owned()), "{path}");
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
    }
    for header in [
        "Bearer token-of-eve",
        "Bearer ",
        "Basic token-of-alice",
        "token-of-alice",
        "bearer token-of-alice2",
    ] {
        let headers = [("authorization", header)];
        let refused = world.send(Method::GET, "/v1/sessions", &headers, "").await;
        assert_eq!(refused.status, 401, "{header}");
    }
    // A wrong header is not made good by another place.
    let headers = [
        ("authorization", "Bearer wrong"),
        ("sec-websocket-protocol", "holodeck.token.token-of-alice"),
    ];
    assert_eq!(
        world.send(Method::GET, "/v1/sessions", &headers, "").await.status,
        401
    );
    for header in ["Bearer token-of-alice", "bearer token-of-bob"] {
        let headers = [("authorization", header)];
        assert_eq!(
            world.send(Method::GET, "/v1/sessions", &headers, "").await.status,
            200
        );
    }
}

#[tokio::test]
async fn what_belongs_to_another_user_does_not_exist() {
    let gate = Gate::new();
    let inner = gate.clone();
    let world = of_two_users(move || ScriptedTurn::nothing().and_text("x").and_wait_for(&inner)).await;
    let body = json!({"message": "secret"});
    let run = world
        .send_as("alice", Method::POST, "/v1/sessions/s/messages", body.clone())
        .await
        .json();
    let run = run["runId"].as_str().unwrap();
    let as_bob = async |method: Method, path: &str| {
        let reply = world.send_as("bob", method, path, json!({"message": "hi"})).await;
        assert!(!reply.text.contains("secret"), "{}", reply.text);
        reply.problem()
    };
    for path in [
        "/v1/sessions/s",
        "/v1/sessions/s/events",
        "/v1/approvals?sessionId=s",
    ] {
        assert_eq!(
            as_bob(Method::GET, path).await,
            (404, "SESSION_NOT_FOUND".to_owned()),
            "{path}"
        );
    }
    assert_eq!(as_bob(Method::DELETE, "/v1/sessions/s?force=true").await.0, 404);
    let fork = world
        .send_as("bob", Method::POST, "/v1/sessions/s/fork", json!({}))
        .await;
    assert_eq!(fork.problem().0, 404);
    for path in [format!("/v1/runs/{run}/events"), format!("/v1/runs/{run}/cancel")] {
        let method = if path.ends_with("cancel") {
            Method::POST
        } else {
            Method::GET
        };
        assert_eq!(
            as_bob(method, &path).await,
            (404, "RUN_NOT_FOUND".to_owned()),
            "{path}"
        );
    }
    let list = world
        .send_as("bob", Method::GET, "/v1/sessions", json!({}))
        .await
        .json();
    assert_eq!(list["sessions"], json!([]));
    // The same texts as for what never existed.
    let foreign = world
        .send_as("bob", Method::GET, "/v1/sessions/s", json!({}))
        .await
        .text;
    let unknown = world
        .send_as("bob", Method::GET, "/v1/sessions/t", json!({}))
        .await
        .text;
    assert_eq!(foreign.replace("`s`", "`t`"), unknown);
    // For him the id is free: he gets a conversation of his own.
    let create = world
        .send_as("bob", Method::POST, "/v1/sessions", json!({"sessionId": "s"}))
        .await;
    assert_eq!(
        (create.status.as_u16(), &create.json()["sessionId"]),
        (201, &json!("s"))
    );
    gate.open();
    world.service.drain().await;
    for (user, runs) in [("alice", 1), ("bob", 0)] {
        let own = world
            .send_as(user, Method::GET, "/v1/sessions/s", json!({}))
            .await
            .json();
        assert_eq!((&own["owner"], &own["runs"]), (&json!(user), &json!(runs)));
    }
}

#[tokio::test]
async fn a_request_cannot_name_another_user() {
    let world = of_two_users(|| ScriptedTurn::text("x")).await;
    let as_bob = async |path: &str, body: serde_json::Value| {
        let headers = [
            ("authorization", "Bearer token-of-bob"),
            ("x-user-id", "alice"),
            ("x-forwarded-user", "alice"),
        ];
        world.send(Method::POST, path, &headers, &body.to_string()).await
    };
    // Where a field is not known, it is refused.
    for name in ["userId", "user_id", "user", "owner"] {
        for (path, mut body) in [
            ("/v1/sessions", json!({})),
            ("/v1/sessions/s/messages", json!({"message": "hi"})),
            ("/v1/approvals/a", json!({"decision": "approve"})),
        ] {
            body[name] = json!("alice");
            let refused = as_bob(path, body).await;
            assert_eq!(
                refused.problem(),
                (400, "INVALID_REQUEST".to_owned()),
                "{path} {name}"
            );
        }
        let path = format!("/v1/sessions?{name}=alice");
        let listed = world.send_as("bob", Method::GET, &path, json!({})).await;
        assert_eq!(listed.problem().0, 400, "{path}");
    }
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
    // Protocols of others have such fields; they mean nothing here.
    let message = json!({"id": "m", "role": "user", "content": "hi", "name": "alice"});
    let run = json!({
        "threadId": "t", "runId": "r", "state": {"userId": "alice"}, "messages": [message], "tools": [],
        "context": [], "forwardedProps": {"userId": "alice", "user": "alice"},
    });
    assert_eq!(as_bob("/awp", run).await.status, 200);
    let chat = json!({"message": "hi", "session_id": "c", "user_id": "alice"});
    assert_eq!(as_bob("/agent/helper/chat", chat).await.status, 200);
    for session in ["t", "c"] {
        let session = world.store.session(session).await.unwrap().unwrap();
        assert_eq!(session.owner.as_deref(), Some("bob"));
    }
    let events = world.stored("t").await;
    assert!(events.iter().any(|(_, json)| json.contains(r#""userId":"bob""#)));
    assert!(events.iter().all(|(_, json)| !json.contains("alice")));
    let completion = json!({"model": "helper", "messages": [message], "user": "alice"});
    assert_eq!(as_bob("/v1/chat/completions", completion).await.status, 200);
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let world = of_two_users(|| ScriptedTurn::text("x")).await;
    let own = format!("http://{}", world.address);
    let with = async |origin: &str| {
        let headers = [("origin", origin), ("authorization", "Bearer token-of-alice")];
        world.send(Method::GET, "/v1/sessions", &headers, "").await
    };
    assert_eq!(with(&own).await.status, 200);
    let allowed = with("https://app.example").await;
    assert_eq!(allowed.status, 200);
    assert_eq!(
        allowed.headers["access-control-allow-origin"],
        "https://app.example"
    );
    for origin in [
        "https://evil.example",
        "null",
        "https://app.example.evil.example",
        "http://app.example",
        &format!("{own}.evil.example"),
    ] {
        let refused = with(origin).await;
        assert_eq!(
            refused.problem(),
            (403, "ORIGIN_NOT_ALLOWED".to_owned()),
            "{origin}"
        );
        assert!(!refused.headers.contains_key("access-control-allow-origin"));
    }
    // Also on the paths that need no token, and before a request with a body.
    let evil = [
        ("origin", "https://evil.example"),
        ("access-control-request-method", "POST"),
    ];
    assert_eq!(world.send(Method::GET, "/health", &evil, "").await.status, 403);
    assert_eq!(
        world
            .send(Method::OPTIONS, "/v1/sessions", &evil, "")
            .await
            .status,
        403
    );
    let good = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
    ];
    let preflight = world.send(Method::OPTIONS, "/v1/sessions", &good, "").await;
    assert_eq!(preflight.status, 204);
    assert_eq!(
        preflight.headers["access-control-allow-methods"],
        "GET, POST, DELETE"
    );
    // Without the question of a browser, it is a request like any other.
    assert_eq!(
        world.send(Method::OPTIONS, "/v1/sessions", &[], "").await.status,
        401
    );
}

#[tokio::test]
async fn without_tokens_another_name_of_this_machine_is_refused() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let evil = format!("evil.example:{}", world.address.port());
    let origin = format!("http://{evil}");
    let headers = [("host", evil.as_str()), ("origin", origin.as_str())];
    let refused = world
        .send(
            Method::POST,
            "/v1/sessions/s/messages",
            &headers,
            r#"{"message": "x"}"#,
        )
        .await;
    assert_eq!(refused.problem(), (403, "ORIGIN_NOT_ALLOWED".to_owned()));
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
    assert_eq!(
        world.send(Method::GET, "/health", &headers[..1], "").await.status,
        403
    );
    assert_eq!(
        world
            .send(Method::GET, "/health", &[("host", "localhost")], "")
            .await
            .status,
        200
    );
    let session = world
        .post("/v1/sessions/s/messages?wait=true", json!({"message": "x"}))
        .await;
    assert_eq!(session.status, 200);
    assert_eq!(world.get("/v1/sessions/s").await.json()["owner"], "local");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_ends_the_request() {
    let setup = Setup {
        options: ServeOptions {
            body_timeout: Duration::from_millis(20),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, |_| ScriptedTurn::text("x")).await;
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let head =
        "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("TIMEOUT"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_not_awaited() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\nconnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

/// More connections than the server has, which send nothing.
async fn idle_connections(world: &World, count: usize) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for _ in 0..count {
        idle.push(TcpStream::connect(world.address).await.unwrap());
    }
    idle
}

#[tokio::test]
async fn probes_are_answered_when_all_connections_are_in_use() {
    let setup = Setup {
        options: ServeOptions {
            max_connections: 3,
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, |_| ScriptedTurn::text("x")).await;
    let mut streams = Vec::new();
    world.post("/v1/sessions", json!({"sessionId": "s"})).await;
    for _ in 0..2 {
        streams.push(world.stream("/v1/sessions/s/events?follow=true", None).await);
    }
    let idle = idle_connections(&world, 1).await;
    for _ in 0..50 {
        for path in ["/health", "/ready"] {
            assert_eq!(world.get(path).await.status, 200, "{path}");
        }
    }
    let refused = world.get("/v1/sessions").await;
    assert_eq!(refused.problem(), (503, "TOO_MANY_CONNECTIONS".to_owned()));
    assert_eq!(refused.headers["retry-after"], "5");
    drop((streams, idle));
    while world.get("/v1/sessions").await.status != 200 {
        tokio::task::yield_now().await;
    }
}
