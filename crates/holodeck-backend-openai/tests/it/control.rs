//! Time-outs, cancellation and sessions, as the caller controls them.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use holodeck_backend_api::{
    AgentBackend as _, BackendError, BackendEvent, ModelDelta, NoTools, SessionState, ToolCall, TurnRequest,
};
use holodeck_testkit::{ModelReply, ModelServer, Reply, ScriptedModel, ScriptedTools};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{agent_of, backend, equipped, scripted};

fn text(text: &str) -> ModelDelta {
    ModelDelta::Text(text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_callers_time_out_ends_a_slow_answer_at_once() {
    let slow = ModelReply::text("late").after(Duration::from_secs(6));
    let model = ScriptedModel::replies([slow.clone(), slow]);
    let backend = scripted("", &model, Arc::new(NoTools));
    let started = tokio::time::Instant::now();
    let limit = Duration::from_secs(2);
    assert!(
        tokio::time::timeout(limit, backend.invoke_once("hi", &[]))
            .await
            .is_err()
    );
    assert_eq!(started.elapsed(), limit);
    let mut session = backend.create_session().await.unwrap();
    assert!(tokio::time::timeout(limit, session.send("hi")).await.is_err());
    assert_eq!(session.state(), SessionState::Ready);
    assert_eq!(started.elapsed(), limit * 2);
}

#[tokio::test]
async fn stopping_the_turn_closes_a_hanging_connection() {
    let server = ModelServer::replies([Reply::hang()]);
    let backend = backend(&agent_of(&server, ""));
    let request = TurnRequest::new("hello");
    let cancel = request.cancel.clone();
    let (result, ()) = tokio::join!(holodeck_backend_api::collect(backend.start(request)), async {
        server.until_open(1).await;
        cancel.cancel();
    });
    assert!(matches!(result.unwrap_err().error, BackendError::Cancelled));
    server.until_open(0).await;
    server.finish();
}

#[tokio::test]
async fn running_tools_are_dropped_with_the_turn() {
    let call = ToolCall {
        name: "hang".to_owned(),
        arguments: json!({}),
        call_id: "c1".to_owned(),
        provider_fields: None,
    };
    let model = ScriptedModel::replies([ModelReply::tool_calls([call])]);
    let tools = Arc::new(ScriptedTools::default());
    let backend = scripted("", &model, Arc::clone(&tools) as _);
    {
        let turn = backend.invoke_once("go", &[]);
        let mut turn = std::pin::pin!(turn);
        tokio::select! {
            _ = &mut turn => panic!("the tool does not hang"),
            () = tools.until_called() => {}
        }
    }
    // The call had a reference; only the backend still has one.
    drop(backend);
    assert_eq!(Arc::strong_count(&tools), 1);
}

#[tokio::test]
async fn a_session_shows_the_whole_conversation_with_its_tools() {
    let server = ModelServer::replies([
        Reply::tool_call("c1", "echo", &json!({"text": "x"})),
        Reply::text("first"),
        Reply::text("second"),
    ]);
    let agent = agent_of(&server, "");
    let backend = equipped(&agent, Arc::new(ScriptedTools::default()));
    let mut session = backend.create_session().await.unwrap();
    session.send("one").await.unwrap();
    session.send("two").await.unwrap();
    let messages = server.finish()[2].messages().to_vec();
    assert_eq!(
        messages,
        [
            json!({"role": "system", "content": "be brief"}),
            json!({"role": "user", "content": "one"}),
            json!({"role": "assistant", "content": null, "tool_calls": [{
                "id": "c1", "type": "function", "function": {"name": "echo", "arguments": "{\"text\":\"x\"}"},
            }]}),
            json!({"role": "tool", "tool_call_id": "c1", "content": "x"}),
            json!({"role": "assistant", "content": "first"}),
            json!({"role": "user", "content": "two"}),
        ]
    );
}

#[tokio::test]
async fn a_failed_turn_leaves_nothing_in_the_history() {
    let call = |id: &str| ToolCall {
        name: "echo".to_owned(),
        arguments: json!({}),
        call_id: id.to_owned(),
        provider_fields: None,
    };
    let model = ScriptedModel::replies([
        ModelReply::tool_calls([call("c1")]),
        ModelReply::text(" "),
        ModelReply::text("fine"),
    ]);
    let rest = "openai:\n  max_turns: 1\n";
    let backend = scripted(rest, &model, Arc::new(ScriptedTools::default()));
    let mut session = backend.create_session().await.unwrap();
    assert_eq!(
        session.send("one").await.unwrap().error_reason().unwrap(),
        "max_turns limit reached"
    );
    assert_eq!(
        session.send("two").await.unwrap().error_reason().unwrap(),
        "empty response"
    );
    session.send("three").await.unwrap();
    let last = model.requests().pop().unwrap().body;
    assert_eq!(last["messages"].as_array().unwrap().len(), 2, "{last:?}");
}

#[tokio::test]
async fn interrupting_the_session_does_not_cancel_the_caller() {
    let hangs = ModelReply::hangs_after([text("so far")]);
    let model = ScriptedModel::replies([hangs]);
    let backend = scripted("", &model, Arc::new(NoTools));
    let mut session = backend.create_session().await.unwrap();
    let request = TurnRequest::new("hello");
    let caller = request.cancel.clone();
    let control = session.control();
    let mut turn = session.turn(request);
    while !matches!(turn.next().await, Some(Ok(BackendEvent::Text { .. }))) {}
    control.interrupt();
    assert!(matches!(turn.next().await, Some(Err(BackendError::Cancelled))));
    assert!(!caller.is_cancelled());
}

#[tokio::test]
async fn a_model_stream_without_an_end_is_a_partial_answer() {
    let model = ScriptedModel::replies([ModelReply::fails_after(
        [text("half")],
        BackendError::protocol("the stream ended early".to_owned()),
    )]);
    let backend = scripted("", &model, Arc::new(NoTools));
    let failed = holodeck_backend_api::collect(backend.start(TurnRequest::new("hi"))).await;
    assert_eq!(failed.unwrap_err().partial.response, "half");
}
