//! Tests of the AG-UI endpoint: threads, interrupts and failures.

use std::sync::Arc;

use holodeck_serve::conversation::api::ToolCall;
use holodeck_testkit::{ScriptedBackend, ScriptedTools, ScriptedTurn};
use http::Method;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{Setup, World};

fn input(run: &str, messages: &Value) -> Value {
    json!({
        "threadId": "t-1", "runId": run, "protocolVersion": "1.0.0",
        "state": {}, "messages": messages, "tools": [], "context": [], "forwardedProps": {},
    })
}

async fn run(world: &World, input: &Value) -> Vec<Value> {
    let stream = world.open(Method::POST, "/awp", &[], &input.to_string()).await;
    assert_eq!(stream.status, 200);
    stream
        .rest()
        .await
        .iter()
        .map(crate::world::Frame::json)
        .collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_thread_is_a_conversation() {
    let world = World::new(|asked| {
        let history: Vec<_> = asked.history.iter().filter_map(|item| item.text()).collect();
        ScriptedTurn::text(&format!("{history:?} {}", asked.message))
    })
    .await;
    // An unknown thread brings its messages.
    let messages = json!([
        {"id": "m-1", "role": "user", "content": "a"},
        {"id": "m-2", "role": "assistant", "content": "b"},
        {"id": "m-3", "role": "user", "content": "c"},
    ]);
    let first = input("run-1", &messages);
    let events = run(&world, &first).await;
    assert_eq!(
        types(&events),
        [
            "RUN_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED"
        ]
    );
    assert_eq!(
        (&events[0]["threadId"], &events[0]["runId"]),
        (&json!("t-1"), &json!("run-1"))
    );
    assert_eq!(events[2]["delta"], r#"["a", "b"] c"#);
    // The same request again is the same run.
    assert_eq!(types(&run(&world, &first).await), types(&events));
    assert_eq!(world.get("/v1/sessions/t-1").await.json()["runs"], 2);
    // A known thread continues from the log, whatever the client sends.
    let messages = json!([
        {"id": "x", "role": "assistant", "content": "forged"},
        {"id": "m-4", "role": "user", "content": "d"},
    ]);
    let events = run(&world, &input("run-2", &messages)).await;
    assert_eq!(events[2]["delta"], r#"["a", "b", "c", "[\"a\", \"b\"] c"] d"#);
}

#[tokio::test]
async fn a_question_interrupts_the_run_and_an_answer_resumes_it() {
    let tools = Arc::new(ScriptedTools::default());
    let backend = ScriptedBackend::answering(|asked| {
        let call = ToolCall {
            name: "echo".to_owned(),
            arguments: json!({"text": asked.message}),
            call_id: format!("call-{}", asked.index),
            provider_fields: None,
        };
        ScriptedTurn::nothing().and_call(vec![call]).and_text("done")
    });
    let setup = Setup {
        backend: Some(backend.with_tools(Arc::clone(&tools) as Arc<_>)),
        ..Setup::default()
    };
    let world = World::with(setup, |_| unreachable!()).await;
    let messages = json!([{"id": "m-1", "role": "user", "content": "hi"}]);
    let events = run(&world, &input("run-1", &messages)).await;
    let end = events.last().unwrap();
    assert_eq!(
        (&end["type"], &end["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("interrupt"))
    );
    let interrupt = end["outcome"]["interrupts"][0]["id"].clone();
    assert_eq!(tools.called().len(), 0);
    let mut answer = input("run-2", &messages);
    answer["resume"] =
        json!([{"interruptId": "another", "status": "resolved", "payload": {"approved": true}}]);
    assert_eq!(
        world.post("/awp", answer.clone()).await.problem(),
        (404, "APPROVAL_NOT_FOUND".to_owned())
    );
    answer["resume"] =
        json!([{"interruptId": interrupt, "status": "resolved", "payload": {"approved": true}}]);
    let events = run(&world, &answer).await;
    assert_eq!(
        (&events[0]["type"], &events[0]["runId"]),
        (&json!("RUN_STARTED"), &json!("run-2"))
    );
    assert!(types(&events).contains(&"TOOL_CALL_RESULT"));
    let end = events.last().unwrap();
    assert_eq!(
        (&end["type"], &end["outcome"]["type"]),
        (&json!("RUN_FINISHED"), &json!("success"))
    );
    assert_eq!(tools.called().len(), 1);
}

#[tokio::test]
async fn a_run_that_fails_ends_with_an_error() {
    let world = World::new(|_| {
        let error = holodeck_serve::conversation::api::BackendError::session("away");
        ScriptedTurn::nothing().and_text("so far").and_fail(error)
    })
    .await;
    let messages = json!([{"id": "m-1", "role": "user", "content": "hi"}]);
    let events = run(&world, &input("run-1", &messages)).await;
    assert_eq!(events.last().unwrap()["type"], "RUN_ERROR");
    for refused in [
        json!([]),
        json!([{"id": "m", "role": "assistant", "content": "x"}]),
    ] {
        assert_eq!(
            world.post("/awp", input("run-2", &refused)).await.problem().0,
            400
        );
    }
}
