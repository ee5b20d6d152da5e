//! Tests of a server whose disk is full: it says so, shows what is stored, and takes what frees space.

use std::sync::Arc;

use holodeck_serve::events::{SqliteOptions, SqliteStore};
use holodeck_testkit::ScriptedTurn;
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{Setup, World};

/// A server whose store has little space, and the number of messages that fitted into its conversation `s`.
async fn full(folder: &std::path::Path) -> (World, usize) {
    let mut options = SqliteOptions::default();
    options.max_pages = Some(96);
    let store = SqliteStore::open(folder.join("events.db"), options)
        .await
        .unwrap();
    let setup = Setup {
        store: Arc::new(store),
        ..Setup::default()
    };
    let world = World::with(setup, |_| ScriptedTurn::text(&"x".repeat(4_000))).await;
    let mut count = 0;
    loop {
        let said = world
            .post("/v1/sessions/s/messages?wait=true", json!({"message": "go"}))
            .await;
        if said.status == 507 {
            assert_eq!(said.problem(), (507, "PERSISTENCE_FAILED".to_owned()));
            return (world, count);
        }
        // The end of the last one may be what does not fit.
        assert_eq!(said.status, 200, "{said:?}");
        count += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_507_on_every_address_that_answers_until_a_conversation_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (world, count) = full(folder.path()).await;
    assert!(count > 2, "{count}");
    let ready = world.get("/ready").await;
    assert_eq!(
        (ready.status.as_u16(), ready.json()),
        (503, json!({"status": "the store cannot be written"}))
    );
    assert_eq!(world.get("/health").await.status, 200);
    let large = "y".repeat(20_000);
    let said = json!([{"role": "user", "content": large, "id": "m"}]);
    for (path, body) in [
        ("/v1/sessions/t/messages", json!({"message": large})),
        ("/v1/sessions/t/messages?stream=true", json!({"message": large})),
        ("/agent/helper/chat", json!({"message": large})),
        ("/awp", json!({"threadId": "u", "runId": "r", "messages": said})),
        ("/v1/responses", json!({"model": "helper", "input": large})),
    ] {
        let refused = world.post(path, body).await;
        assert_eq!(refused.status, 507, "{path} {refused:?}");
    }
    // What is stored can be read, and all of it.
    let read = world.get("/v1/sessions/s/events").await;
    assert_eq!(read.status, 200);
    let ends = read.text.matches(r#""type":"complete""#).count();
    assert_eq!(ends, count);
    assert_eq!(world.get("/v1/sessions").await.status, 200);
    let deleted = world
        .send(Method::DELETE, "/v1/sessions/s?force=true", &[], "")
        .await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    assert_eq!(world.get("/ready").await.status, 200);
    let again = world
        .post("/v1/sessions/t/messages?wait=true", json!({"message": "go"}))
        .await;
    assert_eq!(again.status, 200, "{again:?}");
}
