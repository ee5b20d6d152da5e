//! Tests of clients that take nothing of a large answer: they hold a bounded memory, and others are answered.

use std::time::Duration;

use holodeck_serve::ServeOptions;
use holodeck_testkit::ScriptedTurn;
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Setup, World, two_users};

/// Bytes of the answer: more than sockets hold. Three of them fit into the memory for all clients.
const LARGE: usize = 8 << 20;

/// A server whose agent gives a large answer, with this patience.
async fn world(slow_consumer: Duration) -> World {
    let setup = Setup {
        options: ServeOptions {
            slow_consumer,
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let large = "x".repeat(LARGE);
    World::with(setup, move |_| ScriptedTurn::text(&large)).await
}

/// The streams of answers that can be asked for again, with their requests.
fn streams() -> [(&'static str, Value); 4] {
    let said = json!([{"id": "m", "role": "user", "content": "go"}]);
    [
        (
            "/v1/chat/completions",
            json!({"model": "helper", "messages": [{"role": "user", "content": "go"}], "stream": true}),
        ),
        (
            "/v1/responses",
            json!({"model": "helper", "input": "go", "stream": true}),
        ),
        ("/agent/helper/chat/stream", json!({"message": "go"})),
        ("/awp", json!({"threadId": "t", "runId": "r", "messages": said})),
    ]
}

/// Waits until this number of clients was disconnected.
async fn wait_for_slow(world: &World, count: usize) {
    let wanted = format!("holodeck_slow_consumers_closed_total {count}\n");
    while !world.get("/metrics").await.text.contains(&wanted) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn clients_of_every_stream_that_take_nothing_are_disconnected_and_others_get_everything() {
    for (path, body) in streams() {
        let world = world(Duration::from_millis(300)).await;
        let body = body.to_string();
        let headers = [("idempotency-key", "k")];
        let first = world.open(Method::POST, path, &headers, &body).await;
        let all = first.length().await.unwrap();
        assert!(all > LARGE, "{path}");
        let mut stalled = Vec::new();
        for _ in 0..3 {
            stalled.push(world.open(Method::POST, path, &headers, &body).await);
        }
        wait_for_slow(&world, 3).await;
        for client in stalled {
            let length = client.length().await;
            assert!(
                length.is_none_or(|length| length < all),
                "{path} {length:?} {all}"
            );
        }
        let again = world.open(Method::POST, path, &headers, &body).await;
        assert_eq!(again.length().await, Some(all), "{path}");
    }
}

/// Nothing but the memory that another client waits for makes this client slow here.
const PATIENT: Duration = Duration::from_hours(1);

#[tokio::test]
async fn a_client_that_takes_nothing_of_an_answer_in_pieces_holds_up_no_other() {
    for (path, body) in streams() {
        let setup = Setup {
            options: ServeOptions {
                slow_consumer: PATIENT,
                ..ServeOptions::default()
            },
            ..Setup::default()
        };
        let piece = "x".repeat(8 << 10);
        let world = World::with(setup, move |_| {
            let pieces = 0..LARGE / (8 << 10);
            pieces.fold(ScriptedTurn::nothing(), |turn, _| turn.and_text(&piece))
        })
        .await;
        let open = |key| {
            let mut body = body.clone();
            for field in ["threadId", "runId"] {
                if let Some(id) = body.get_mut(field) {
                    *id = json!(format!("{key}-{field}"));
                }
            }
            let world = &world;
            async move {
                let headers = [("idempotency-key", key)];
                world.open(Method::POST, path, &headers, &body.to_string()).await
            }
        };
        let stalled = open("stalled").await;
        let read = open("read").await;
        assert!(read.length().await.unwrap() > LARGE, "{path}");
        drop(stalled);
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_a_whole_answer_is_disconnected_and_others_get_everything() {
    let world = world(Duration::from_millis(300)).await;
    let path = "/agent/helper/chat";
    let body = json!({"message": "go"}).to_string();
    let headers = [("idempotency-key", "k")];
    let open = || world.open(Method::POST, path, &headers, &body);
    let stalled = [open().await, open().await, open().await];
    wait_for_slow(&world, 3).await;
    for client in stalled {
        assert_eq!(client.length().await, None);
    }
    assert!(open().await.length().await.unwrap() > LARGE);
}

#[tokio::test]
async fn ids_and_letters_arrive_whole_wherever_a_large_frame_is_cut() {
    let large = "é😀".repeat(20_000);
    let text = large.clone();
    let setup = Setup {
        options: ServeOptions {
            access: two_users(),
            ..ServeOptions::default()
        },
        ..Setup::default()
    };
    let world = World::with(setup, move |_| ScriptedTurn::text(&text)).await;
    let path = "/v1/sessions/s/messages?wait=true";
    for user in ["alice", "bob"] {
        let said = world
            .send_as(user, Method::POST, path, json!({"message": "go"}))
            .await;
        assert_eq!(said.json()["response"], large, "{user}");
    }
    let events = world
        .send_as("bob", Method::GET, "/v1/sessions/s/events", json!({}))
        .await;
    assert!(events.text.contains(&large) && events.text.contains(r#""sessionId":"s""#));
    assert!(!events.text.contains("own:"));
}
