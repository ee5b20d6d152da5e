//! Tests of OpenAI's interface of responses: an answer is continued by its id, which only its user has.

use holodeck_serve::{ServeOptions, conversation::api::BackendError};
use holodeck_testkit::ScriptedTurn;
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Setup, World, two_users};

const PATH: &str = "/v1/responses";

async fn repeating(options: ServeOptions) -> World {
    let setup = Setup {
        options,
        ..Setup::default()
    };
    World::with(setup, |asked| {
        let history: Vec<_> = asked.history.iter().filter_map(|item| item.text()).collect();
        ScriptedTurn::text(&format!(
            "[{}]",
            [&history[..], &[asked.message.as_str()]].concat().join(",")
        ))
    })
    .await
}

fn text(response: &Value) -> &str {
    assert_eq!(response["object"], "response", "{response}");
    assert_eq!(
        response["output"][0]["content"][0]["text"],
        response["output_text"]
    );
    response["output_text"].as_str().unwrap()
}

async fn ask(world: &World, body: &Value) -> Value {
    let mut body = body.clone();
    body["model"] = json!("helper");
    let reply = world.post(PATH, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[tokio::test]
async fn a_response_continues_the_one_it_names_and_each_of_them_stays() {
    let world = repeating(ServeOptions::default()).await;
    let first = ask(&world, &json!({"input": "a", "previous_response_id": null})).await;
    assert_eq!((text(&first), &first["status"]), ("[a]", &json!("completed")));
    assert!(first["usage"]["total_tokens"].as_u64().unwrap() > 0);
    let second = ask(
        &world,
        &json!({"input": "b", "previous_response_id": first["id"]}),
    )
    .await;
    assert_eq!(text(&second), "[a,[a],b]");
    assert_eq!(second["previous_response_id"], first["id"]);
    let third = ask(
        &world,
        &json!({"input": [{"role": "user", "content": "c"}], "previous_response_id": second["id"]}),
    )
    .await;
    assert_eq!(text(&third), "[a,[a],b,[a,[a],b],c]");
    // From the first one again, and without storing it.
    let other = ask(
        &world,
        &json!({"input": "d", "previous_response_id": first["id"]}),
    )
    .await;
    assert_eq!(text(&other), "[a,[a],d]");
    let unstored = ask(
        &world,
        &json!({"input": "e", "previous_response_id": first["id"], "store": false}),
    )
    .await;
    assert_eq!(text(&unstored), "[a,[a],e]");
    let unknown = world
        .get(&format!("{PATH}/{}", unstored["id"].as_str().unwrap()))
        .await;
    assert_eq!(unknown.status, 404);
    let shown = world
        .get(&format!("{PATH}/{}", second["id"].as_str().unwrap()))
        .await
        .json();
    assert_eq!((text(&shown), &shown["id"]), (text(&second), &second["id"]));
    // Messages of the client are a history, and instructions come before the message.
    let input = json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
        {"role": "user", "content": "z"}]);
    let listed = ask(&world, &json!({"input": input})).await;
    assert_eq!(text(&listed), "[x,y,z]");
    let further = ask(
        &world,
        &json!({"input": "w", "previous_response_id": listed["id"]}),
    )
    .await;
    assert_eq!(text(&further), "[x,y,z,[x,y,z],w]");
    assert_eq!(
        text(&ask(&world, &json!({"input": "a", "instructions": "Be brief."})).await),
        "[Be brief.\n\na]"
    );
}

#[tokio::test]
async fn the_id_of_a_response_belongs_to_its_user() {
    let options = ServeOptions {
        access: two_users(),
        ..ServeOptions::default()
    };
    let world = repeating(options).await;
    let body = json!({"model": "helper", "input": "secret"});
    let first = world.send_as("alice", Method::POST, PATH, body).await.json();
    let id = first["id"].as_str().unwrap();
    let path = format!("{PATH}/{id}");
    assert_eq!(
        world.send_as("alice", Method::GET, &path, json!({})).await.status,
        200
    );
    for id in [id, "resp_none", "none", ""] {
        let body = json!({"model": "helper", "input": "b", "previous_response_id": id});
        let refused = world.send_as("bob", Method::POST, PATH, body).await;
        assert_eq!(refused.status, 404, "{id}");
        assert_eq!(refused.json()["error"]["param"], "previous_response_id");
        assert!(!refused.text.contains("secret"));
    }
    assert_eq!(
        world.send_as("bob", Method::GET, &path, json!({})).await.status,
        404
    );
    assert_eq!(world.get(&path).await.status, 401);
}

#[tokio::test]
async fn a_stream_has_the_events_of_openai_in_their_order() {
    let world = World::new(|_| ScriptedTurn::text("one ").and_text("two")).await;
    let body = json!({"model": "helper", "input": "a", "stream": true}).to_string();
    let frames = world.open(Method::POST, PATH, &[], &body).await.rest().await;
    let events: Vec<Value> = frames.iter().map(crate::world::Frame::json).collect();
    for (number, (frame, event)) in frames.iter().zip(&events).enumerate() {
        assert_eq!(
            (&*frame.event, &event["sequence_number"]),
            (event["type"].as_str().unwrap(), &json!(number))
        );
    }
    let mut types: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    types.dedup();
    assert_eq!(
        types,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let deltas: String = events
        .iter()
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(deltas, "one two");
    assert_eq!(text(&events.last().unwrap()["response"]), "one two");
    let world = World::new(|_| {
        ScriptedTurn::nothing()
            .and_text("x")
            .and_fail(BackendError::session("away"))
    })
    .await;
    let frames = world.open(Method::POST, PATH, &[], &body).await.rest().await;
    let last = frames.last().unwrap();
    assert_eq!(
        (&*last.event, &last.json()["response"]["status"]),
        ("response.failed", &json!("failed"))
    );
}

#[tokio::test]
async fn fields_that_are_null_are_as_absent_and_others_are_refused_by_name() {
    let world = repeating(ServeOptions::default()).await;
    let nulls = [
        "background",
        "conversation",
        "include",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ];
    for name in nulls {
        let reply = world
            .post(PATH, json!({"model": "helper", "input": "a", name: null}))
            .await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text);
    }
    for (changes, param) in [
        (json!({"model": null}), "model"),
        (json!({"input": null}), "input"),
        (json!({"input": []}), "input"),
        (json!({"input": 7}), "input"),
        (
            json!({"input": [{"type": "function_call_output"}]}),
            "input[0].type",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}),
            "input[0].content[0].type",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1/a.png"}]}]}),
            "input[0].content[0].image_url",
        ),
        (json!({"tools": [{"type": "web_search"}]}), "tools"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"background": true}), "background"),
        (json!({"background": "no"}), "background"),
        (json!({"conversation": "conv_1"}), "conversation"),
        (json!({"include": ["x"]}), "include"),
        (json!({"prompt": {"id": "p"}}), "prompt"),
        (json!({"max_output_tokens": 0}), "max_output_tokens"),
        (json!({"text": {"format": {"type": "grammar"}}}), "text.format"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"stream": "yes"}), "stream"),
    ] {
        let mut body = json!({"model": "helper", "input": "a"});
        for (name, value) in changes.as_object().unwrap() {
            body[name.as_str()] = value.clone();
        }
        let refused = world.post(PATH, body).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["error"]["param"]),
            (400, &json!(param)),
            "{changes}"
        );
    }
}

#[tokio::test]
async fn a_request_with_the_same_key_gets_the_same_response() {
    let world = repeating(ServeOptions::default()).await;
    let first = ask(&world, &json!({"input": "a"})).await;
    let body = json!({"model": "helper", "input": "b", "previous_response_id": first["id"]}).to_string();
    let headers = [("idempotency-key", "k")];
    let mut ids = Vec::new();
    for _ in 0..3 {
        let reply = world.send(Method::POST, PATH, &headers, &body).await.json();
        assert_eq!(text(&reply), "[a,[a],b]");
        ids.push(reply["id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let other = json!({"model": "helper", "input": "c"}).to_string();
    assert_eq!(world.send(Method::POST, PATH, &headers, &other).await.status, 422);
}
