//! Tests of the endpoint for OpenAI clients: history, streaming, errors and disconnection.

use holodeck_serve::conversation::api::BackendError;
use holodeck_testkit::{Gate, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::World;

const PATH: &str = "/v1/chat/completions";

fn asking(messages: &Value) -> Value {
    json!({"model": "helper", "messages": messages})
}

#[tokio::test]
async fn earlier_messages_are_history_and_nothing_is_stored() {
    let world = World::new(|asked| {
        let history: Vec<_> = asked.history.iter().filter_map(|item| item.text()).collect();
        ScriptedTurn::text(&format!("{history:?} {}", asked.message))
    })
    .await;
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]},
    ]);
    let answer = world.post(PATH, asking(&messages)).await.json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], "[\"Be brief.\\n\\na\", \"b\"] c\nd");
    assert_eq!(
        (&choice["finish_reason"], &answer["object"]),
        (&json!("stop"), &json!("chat.completion"))
    );
    assert_eq!(answer["model"], "helper");
    assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!(world.store.sessions(None).await.unwrap(), []);
}

#[tokio::test]
async fn text_arrives_while_it_is_written() {
    let world = World::new(|_| ScriptedTurn::text("one ").and_text("two")).await;
    let mut body = asking(&json!([{"role": "user", "content": "a"}]));
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let stream = world.open(Method::POST, PATH, &[], &body.to_string()).await;
    let frames = stream.rest().await;
    let (done, chunks) = frames.split_last().unwrap();
    assert_eq!(done.data, "[DONE]");
    let chunks: Vec<Value> = chunks.iter().map(crate::world::Frame::json).collect();
    let texts: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(texts, "one two");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let reasons: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str())
        .collect();
    assert_eq!(reasons, ["stop"]);
    assert!(chunks.last().unwrap()["usage"]["total_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_run_that_fails_is_an_error_and_has_no_end() {
    let world = World::new(|_| {
        ScriptedTurn::nothing()
            .and_text("so far")
            .and_fail(BackendError::session("away"))
    })
    .await;
    let mut body = asking(&json!([{"role": "user", "content": "a"}]));
    let failed = world.post(PATH, body.clone()).await;
    assert_eq!(failed.status, 502);
    assert_eq!(failed.json()["error"]["type"], "server_error");
    body["stream"] = json!(true);
    let frames = world
        .open(Method::POST, PATH, &[], &body.to_string())
        .await
        .rest()
        .await;
    assert!(
        frames
            .iter()
            .all(|frame| frame.data != "[DONE]" && !frame.data.contains(r#""finish_reason":"stop""#))
    );
    assert!(
        frames.last().unwrap().json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("away")
    );
}

#[tokio::test]
async fn what_it_cannot_do_is_refused() {
    let world = World::new(|_| ScriptedTurn::text("x")).await;
    let user = json!([{"role": "user", "content": "a"}]);
    let with = |name: &str, value: Value| {
        let mut body = asking(&user);
        body[name] = value;
        body
    };
    for (body, status) in [
        (with("tools", json!([{"type": "function"}])), 400),
        (with("n", json!(2)), 400),
        (with("model", json!("gpt-4o")), 404),
        (asking(&json!([])), 400),
        (asking(&json!([{"role": "assistant", "content": "a"}])), 400),
        (
            asking(&json!([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}])),
            400,
        ),
        (asking(&json!([{"role": "tool", "content": "a"}])), 400),
        (
            asking(&json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])),
            400,
        ),
        (json!({}), 400),
    ] {
        let refused = world.post(PATH, body.clone()).await;
        assert_eq!(refused.status, status, "{body}");
        assert!(refused.json()["error"]["message"].is_string());
    }
    assert_eq!(world.post(PATH, with("tools", json!([]))).await.status, 200);
    let models = world.get("/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], "helper");
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_answer() {
    let gate = Gate::new();
    let inner = gate.clone();
    let world = World::new(move |_| ScriptedTurn::nothing().and_text("so far").and_wait_for(&inner)).await;
    let mut body = asking(&json!([{"role": "user", "content": "a"}]));
    body["stream"] = json!(true);
    let mut stream = world.open(Method::POST, PATH, &[], &body.to_string()).await;
    stream.next().await.unwrap();
    drop(stream);
    // The gate stays closed: the run ends because it is cancelled.
    while !world
        .get("/metrics")
        .await
        .text
        .contains("holodeck_runs_active 0\n")
    {
        tokio::task::yield_now().await;
    }
}
