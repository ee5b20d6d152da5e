//! Tests of conversations over a WebSocket with an independent client.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use holodeck_serve::{ServeOptions, conversation::api::ToolCall};
use holodeck_testkit::{Gate, ScriptedBackend, ScriptedTools, ScriptedTurn};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{self, Message, client::IntoClientRequest as _, protocol::CloseFrame},
};

use crate::world::{Setup, World, two_users};

/// A WebSocket client that this project did not write.
struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn open(world: &World, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let stream = TcpStream::connect(world.address).await.unwrap();
        let mut request = format!("ws://{}/v1/ws", world.address)
            .into_client_request()
            .unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn new(world: &World) -> Self {
        Self::open(world, &[]).await.unwrap()
    }

    async fn send(&mut self, event: &str, data: Value) {
        let text = json!({"event": event, "data": data}).to_string();
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// The next frame: its event and its data.
    async fn next(&mut self) -> (String, Value) {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Text(text) => {
                    let mut frame: Value = serde_json::from_str(&text).unwrap();
                    return (frame["event"].as_str().unwrap().to_owned(), frame["data"].take());
                }
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The events until one of this type.
    async fn events_until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let (event, data) = self.next().await;
            if event != "agent:event" {
                continue;
            }
            let is_last = data["type"] == kind;
            events.push(data);
            if is_last {
                return events;
            }
        }
    }

    async fn error(&mut self) -> (String, String) {
        let (event, data) = loop {
            let (event, data) = self.next().await;
            if event != "session:ready" {
                break (event, data);
            }
        };
        (
            event,
            data["code"]
                .as_str()
                .unwrap_or_else(|| panic!("{data}"))
                .to_owned(),
        )
    }

    async fn close_code(&mut self) -> Option<u16> {
        while let Some(Ok(message)) = self.0.next().await {
            if let Message::Close(close) = message {
                return close.map(|CloseFrame { code, .. }| code.into());
            }
        }
        None
    }
}

#[tokio::test]
async fn a_conversation_over_one_connection() {
    let world = World::new(|asked| ScriptedTurn::text(&format!("{}!", asked.message))).await;
    let mut socket = Socket::new(&world).await;
    socket
        .send(
            "chat:message",
            json!({"sessionId": "s", "message": "hi", "clientMessageId": "c-1"}),
        )
        .await;
    let events = socket.events_until("complete").await;
    assert_eq!(
        (&events[0]["type"], &events[0]["clientMessageId"]),
        (&json!("user_message_confirmed"), &json!("c-1"))
    );
    // What a client gets are the stored bytes.
    let stored = world.stored("s").await;
    let stored: Vec<Value> = stored[1..]
        .iter()
        .map(|(_, json)| serde_json::from_str(json).unwrap())
        .collect();
    assert_eq!(events, stored);
    // A second connection has all of it, then knows that it is up to date, and both get what follows.
    let mut other = Socket::new(&world).await;
    other.send("session:join", json!({"sessionId": "s"})).await;
    let (joined, data) = other.next().await;
    assert_eq!(
        (joined.as_str(), &data["headIndex"]),
        ("session:joined", &stored.last().unwrap()["eventIndex"])
    );
    for index in 0..=stored.len() {
        let (event, data) = other.next().await;
        assert_eq!(
            (event.as_str(), &data["eventIndex"]),
            ("agent:event", &json!(index))
        );
    }
    assert_eq!(other.next().await.0, "session:ready");
    other
        .send("chat:message", json!({"sessionId": "s", "message": "again"}))
        .await;
    assert_eq!(
        socket.events_until("complete").await,
        other.events_until("complete").await
    );
    other.send("session:leave", json!({"sessionId": "s"})).await;
    assert_eq!(other.next().await.0, "session:left");
    // It resumes after an event.
    other
        .send("session:join", json!({"sessionId": "s", "lastEventIndex": 2}))
        .await;
    assert_eq!(other.next().await.0, "session:joined");
    assert_eq!(other.next().await.1["eventIndex"], 3);
}

#[tokio::test]
async fn a_run_is_stopped() {
    let gate = Gate::new();
    let inner = gate.clone();
    let world = World::new(move |_| ScriptedTurn::nothing().and_text("so far").and_wait_for(&inner)).await;
    let mut socket = Socket::new(&world).await;
    socket
        .send("chat:message", json!({"sessionId": "s", "message": "hi"}))
        .await;
    socket.events_until("message_chunk").await;
    socket
        .send("chat:stop", json!({"sessionId": "s", "runId": "another"}))
        .await;
    socket
        .send("chat:message", json!({"sessionId": "s", "message": "more"}))
        .await;
    assert_eq!(
        socket.error().await,
        ("agent:error".to_owned(), "RUN_IN_PROGRESS".to_owned())
    );
    socket.send("chat:stop", json!({"sessionId": "s"})).await;
    let events = socket.events_until("complete").await;
    assert_eq!(events.last().unwrap()["reason"], "user_cancelled");
}

#[tokio::test]
async fn questions_are_answered_and_only_by_their_user() {
    let tools = std::sync::Arc::new(ScriptedTools::default());
    let backend = ScriptedBackend::answering(|asked| {
        let call = ToolCall {
            name: "echo".to_owned(),
            arguments: json!({"text": asked.message}),
            call_id: "call-1".to_owned(),
            provider_fields: None,
        };
        ScriptedTurn::nothing().and_call(vec![call]).and_text("done")
    });
    let setup = Setup {
        backend: Some(backend.with_tools(tools.clone())),
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, |_| unreachable!()).await;
    let as_user = async |user: &str| {
        let protocols = format!("holodeck, holodeck.token.token-of-{user}");
        Socket::open(&world, &[("sec-websocket-protocol", &protocols)])
            .await
            .unwrap()
    };
    let (mut alice, mut bob) = (as_user("alice").await, as_user("bob").await);
    alice
        .send("chat:message", json!({"sessionId": "s", "message": "hi"}))
        .await;
    let events = alice.events_until("approval_requested").await;
    let id = events.last().unwrap()["approvalId"].clone();
    // What is not one's own does not exist.
    bob.send("session:join", json!({"sessionId": "s"})).await;
    assert_eq!(
        bob.error().await,
        ("session:error".to_owned(), "SESSION_NOT_FOUND".to_owned())
    );
    bob.send("chat:stop", json!({"sessionId": "s"})).await;
    assert_eq!(
        bob.error().await,
        ("agent:error".to_owned(), "SESSION_NOT_FOUND".to_owned())
    );
    bob.send(
        "approval:response",
        json!({"approvalId": id, "decision": "approve"}),
    )
    .await;
    assert_eq!(
        bob.error().await,
        ("agent:error".to_owned(), "APPROVAL_NOT_FOUND".to_owned())
    );
    // For him the id is free, and names a conversation of his own.
    bob.send("chat:message", json!({"sessionId": "s", "message": "hi"}))
        .await;
    for event in bob.events_until("approval_requested").await {
        assert_eq!(event["sessionId"], "s", "{event}");
        assert_ne!(event["approvalId"], id);
    }
    assert_eq!(tools.called().len(), 0);
    alice
        .send(
            "approval:response",
            json!({"approvalId": id, "decision": "approve"}),
        )
        .await;
    alice.events_until("complete").await;
    assert_eq!(tools.called().len(), 1);
    alice
        .send(
            "approval:response",
            json!({"approvalId": id, "decision": "reject"}),
        )
        .await;
    assert_eq!(alice.error().await.1, "ALREADY_RESOLVED");
}

#[tokio::test]
async fn strangers_and_other_pages_get_no_connection() {
    let setup = Setup {
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, |_| ScriptedTurn::text("x")).await;
    let open = async |headers: &[(&'static str, &str)]| Socket::open(&world, headers).await.err();
    assert_eq!(open(&[]).await, Some(401));
    assert_eq!(
        open(&[("sec-websocket-protocol", "holodeck, holodeck.token.wrong")]).await,
        Some(401)
    );
    let good = ("authorization", "Bearer token-of-alice");
    assert_eq!(open(&[good]).await, None);
    assert_eq!(open(&[good, ("origin", "https://evil.example")]).await, Some(403));
    let own = format!("http://{}", world.address);
    assert_eq!(open(&[good, ("origin", &own)]).await, None);
    // Without tokens, another name of this machine.
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    assert_eq!(
        Socket::open(&world, &[("host", "evil.example")]).await.err(),
        Some(403)
    );
}

#[tokio::test]
async fn frames_that_cannot_be_read_end_nothing() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let mut socket = Socket::new(&world).await;
    for text in [
        "",
        "{",
        "[]",
        r#"["chat:message", {"message": "x"}]"#,
        r#"{"data": {}}"#,
        r#"{"event": 7}"#,
        r#"{"event": "nothing"}"#,
    ] {
        socket.0.send(Message::text(text)).await.unwrap();
        assert_eq!(
            socket.error().await,
            ("agent:error".to_owned(), "INVALID_REQUEST".to_owned()),
            "{text}"
        );
    }
    socket.0.send(Message::binary(vec![0xff])).await.unwrap();
    assert_eq!(socket.error().await.1, "INVALID_REQUEST");
    for (event, data) in [
        ("session:join", json!({})),
        ("session:join", json!({"sessionId": "s", "userId": "bob"})),
        ("chat:message", json!({"sessionId": 7, "message": "x"})),
        (
            "chat:message",
            json!({"sessionId": "s", "message": "x", "userId": "bob"}),
        ),
        ("chat:message", json!([])),
        ("chat:message", json!(["x"])),
        ("session:join", json!(["s"])),
        ("approval:response", json!({"decision": "approve"})),
    ] {
        socket.send(event, data.clone()).await;
        assert_eq!(socket.error().await.1, "INVALID_REQUEST", "{event} {data}");
    }
    socket.send("session:join", json!({"sessionId": "none"})).await;
    assert_eq!(socket.error().await.1, "SESSION_NOT_FOUND");
    socket.send("chat:message", json!({"message": "hi"})).await;
    socket.events_until("complete").await;
    // A frame that is too large ends the connection, and only that.
    let _ = socket.0.send(Message::text("x".repeat(2 << 20))).await;
    while let Some(Ok(_)) = socket.0.next().await {}
    Socket::new(&world).await;
}

#[tokio::test]
async fn a_connection_that_takes_nothing_is_closed() {
    let setup = Setup {
        options: ServeOptions {
            slow_consumer: Duration::from_millis(200),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let large = "x".repeat(1 << 20);
    let world = World::with(setup, move |_| {
        (0..12).fold(ScriptedTurn::nothing(), |turn, _| turn.and_text(&large))
    })
    .await;
    let mut socket = Socket::new(&world).await;
    socket
        .send("chat:message", json!({"sessionId": "s", "message": "hi"}))
        .await;
    while !world
        .get("/metrics")
        .await
        .text
        .contains("holodeck_slow_consumers_closed_total 1\n")
    {
        tokio::task::yield_now().await;
    }
    let mut last = None;
    while let Some(Ok(message)) = socket.0.next().await {
        let Message::Text(text) = message else { break };
        let frame: Value = serde_json::from_str(&text).unwrap();
        last = frame["data"]["eventIndex"].as_u64().or(last);
    }
    world.service.drain().await;
    let head = world.stored("s").await.last().unwrap().0;
    assert!(last < Some(head));
    let mut socket = Socket::new(&world).await;
    socket
        .send("session:join", json!({"sessionId": "s", "lastEventIndex": last}))
        .await;
    let events = socket.events_until("complete").await;
    assert_eq!(events.len() as u64, head - last.unwrap());
}

#[tokio::test]
async fn an_idle_connection_is_kept_open() {
    let setup = Setup {
        options: ServeOptions {
            heartbeat: Duration::from_millis(5),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, |_| ScriptedTurn::text("x")).await;
    let mut socket = Socket::new(&world).await;
    let mut pings = 0;
    while pings < 3 {
        pings += usize::from(socket.0.next().await.unwrap().unwrap().is_ping());
    }
    socket.send("chat:message", json!({"message": "hi"})).await;
    socket.events_until("complete").await;
}

#[tokio::test]
async fn a_client_that_closes_is_answered() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let mut socket = Socket::new(&world).await;
    let close = CloseFrame {
        code: 1000.into(),
        reason: "done".into(),
    };
    socket.0.close(Some(close)).await.unwrap();
    assert_eq!(socket.close_code().await, Some(1000));
}

#[tokio::test]
async fn the_end_of_the_server_is_said() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let mut socket = Socket::new(&world).await;
    socket
        .send("chat:message", json!({"sessionId": "s", "message": "hi"}))
        .await;
    socket.events_until("complete").await;
    world.stop();
    assert_eq!(socket.close_code().await, Some(1001));
    world.ended.await.unwrap();
}

#[tokio::test]
async fn a_conversation_that_ended_leaves_its_room() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let mut socket = Socket::new(&world).await;
    let join = async |socket: &mut Socket, id: &str| {
        world.post("/v1/sessions", json!({"sessionId": id})).await;
        socket.send("session:join", json!({"sessionId": id})).await;
        loop {
            let (event, data) = socket.next().await;
            assert!(!event.ends_with(":error"), "{id}: {data}");
            if event == "session:ready" && data["sessionId"] == id {
                break;
            }
        }
    };
    // Three times as many as there are rooms, all of which are in use each time.
    for round in 0..3 {
        for number in 0..64 {
            join(&mut socket, &format!("s-{round}-{number}")).await;
        }
        for number in 0..64 {
            let path = format!("/v1/sessions/s-{round}-{number}");
            let deleted = world.send(http::Method::DELETE, &path, &[], "").await;
            assert_eq!(deleted.status, 204);
            while socket.next().await.0 != "session:left" {}
        }
    }
    // A message in a conversation that ended is refused, and one in a new one is followed.
    socket
        .send("chat:message", json!({"sessionId": "s-0-0", "message": "hi"}))
        .await;
    assert_eq!(socket.error().await.1, "SESSION_DELETED");
    socket.send("chat:message", json!({"message": "hi"})).await;
    socket.events_until("complete").await;
}

#[tokio::test]
async fn a_message_that_finds_no_room_is_refused_before_it_runs() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let mut socket = Socket::new(&world).await;
    for number in 0..64 {
        world
            .post("/v1/sessions", json!({"sessionId": format!("s-{number}")}))
            .await;
        socket
            .send("session:join", json!({"sessionId": format!("s-{number}")}))
            .await;
    }
    for data in [
        json!({"sessionId": "one-more", "message": "hi", "clientMessageId": "c-1"}),
        json!({"message": "hi", "clientMessageId": "c-2"}),
        json!({"sessionId": null, "message": "hi"}),
    ] {
        socket.send("chat:message", data.clone()).await;
        let refused = loop {
            let (event, frame) = socket.next().await;
            if event == "agent:error" {
                break frame;
            }
            assert!(
                event.starts_with("session:") || frame["type"] == "session_start",
                "{event} {frame}"
            );
        };
        assert_eq!(refused["code"], "TOO_MANY_ROOMS");
        assert_eq!(refused.get("clientMessageId"), data.get("clientMessageId"));
    }
    let sessions = world.store.sessions(None).await.unwrap();
    assert_eq!(sessions.len(), 64);
    assert!(sessions.iter().all(|session| session.runs == 0));
    // One that it follows is answered, and one after it left another.
    socket
        .send("chat:message", json!({"sessionId": "s-0", "message": "hi"}))
        .await;
    socket.events_until("complete").await;
    socket.send("session:leave", json!({"sessionId": "s-1"})).await;
    socket
        .send("chat:message", json!({"sessionId": "one-more", "message": "hi"}))
        .await;
    socket.events_until("complete").await;
}

#[tokio::test]
async fn a_frame_that_is_too_large_closes_the_connection_with_a_reason() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    for size in [(1 << 20) + 1, 3 << 20] {
        let socket = Socket::new(&world).await;
        let (mut sink, stream) = socket.0.split();
        // The server may not take all of it.
        let sending = tokio::spawn(async move {
            let _ = sink.send(Message::text("x".repeat(size))).await;
            sink
        });
        let mut stream = stream;
        let mut code = None;
        while let Some(Ok(message)) = stream.next().await {
            if let Message::Close(close) = message {
                code = close.map(|CloseFrame { code, .. }| u16::from(code));
                break;
            }
        }
        assert_eq!(code, Some(1009), "{size}");
        sending.abort();
    }
}

#[tokio::test]
async fn no_frame_repeats_a_token_that_a_client_sent_as_an_id() {
    let setup = Setup {
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, |_| ScriptedTurn::text("x")).await;
    let bearer = [("authorization", "Bearer token-of-bob")];
    let mut socket = Socket::open(&world, &bearer).await.unwrap();
    let token = "token-of-alice";
    for event in [
        token,
        "session:join",
        "session:leave",
        "chat:message",
        "chat:stop",
        "approval:response",
    ] {
        for field in [
            "sessionId",
            "clientMessageId",
            "approvalId",
            "runId",
            "decision",
            "agent",
        ] {
            let mut data = json!({"message": "go"});
            data[field] = json!(token);
            socket.send(event, data).await;
        }
    }
    // The answer to this one comes after all others.
    socket
        .send("session:leave", json!({"sessionId": "the-end"}))
        .await;
    let mut errors = 0;
    loop {
        let (event, data) = socket.next().await;
        assert!(!data.to_string().contains(token), "{event} {data}");
        errors += usize::from(event.ends_with("error"));
        if event == "session:left" {
            break;
        }
    }
    assert!(errors > 10, "{errors}");
}
