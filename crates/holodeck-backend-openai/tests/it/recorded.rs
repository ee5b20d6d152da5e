//! Recorded events of the endpoint's answers.

use std::sync::Arc;

use futures::StreamExt as _;
use holodeck_backend_api::{AgentBackend as _, BackendEvent, ModelDelta, Opening, ToolCall, TurnRequest};
use holodeck_model::events::{AgentEvent, EventBody};
use holodeck_testkit::{ModelReply, ModelServer, RecordedTurn, Reply, ScriptedModel, ScriptedTools};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{agent_of, equipped, scripted};

async fn record(replies: impl IntoIterator<Item = Reply>, rest: &str) -> RecordedTurn {
    let server = ModelServer::replies(replies);
    let backend = equipped(&agent_of(&server, rest), Arc::new(ScriptedTools::default()));
    let events: Vec<_> = backend.start(TurnRequest::new("go")).collect().await;
    let turn = RecordedTurn::of(events).await;
    turn.assert();
    turn
}

fn totals(turn: &RecordedTurn) -> Option<u64> {
    let usage = |event: &AgentEvent| match &event.body {
        EventBody::Complete(end) => end.totals.usage,
        _ => None,
    };
    turn.events()
        .last()
        .and_then(usage)
        .map(|usage| usage.total_tokens)
}

fn echo(id: &str) -> Reply {
    Reply::nothing().and_tool_call(id, "echo", "{\"text\": \"äöü 🦀\"}")
}

#[tokio::test]
async fn arguments_in_pieces() {
    let turn = record([echo("call_a").in_pieces(7), Reply::text("done")], "").await;
    assert_eq!(
        turn.lines(),
        [
            "user_message_confirmed",
            "tool_use call_a echo {\"text\":\"äöü 🦀\"}",
            "tool_result call_a ok \"äöü 🦀\"",
            "message end_turn \"done\"",
            "complete success",
        ]
    );
}

#[tokio::test]
async fn two_calls_at_the_same_time() {
    let both = echo("call_a").and_tool_call("call_b", "fails", "{}");
    let turn = record([both, Reply::text("done")], "").await;
    assert_eq!(
        turn.kinds(),
        [
            "user_message_confirmed",
            "tool_use",
            "tool_result",
            "message_chunk",
            "message",
            "complete",
        ]
    );
    assert!(
        turn.lines()[3].starts_with("tool_result call_a ok"),
        "{:?}",
        turn.lines()
    );
    assert!(
        turn.lines()[4].starts_with("tool_result call_b failed"),
        "{:?}",
        turn.lines()
    );
}

#[tokio::test]
async fn missing_usage_stays_missing() {
    let turn = record([Reply::text("hi").without_usage()], "").await;
    assert_eq!(totals(&turn), None);
    let turn = record(
        [Reply::text("hi").usage(json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}))],
        "",
    );
    assert_eq!(totals(&turn.await), Some(10));
}

#[tokio::test]
async fn missing_done_is_no_error_and_a_missing_end_is_one() {
    let turn = record([Reply::text("hi").without_done()], "").await;
    assert_eq!(turn.lines().pop().unwrap(), "complete success");
    let turn = record([Reply::text("hi").without_finish_reason().without_done()], "").await;
    let mut lines = turn.lines();
    let error = lines.pop().unwrap();
    assert!(
        error.starts_with("error STREAM_TRUNCATED: the stream ended early: "),
        "{error}"
    );
    assert_eq!(
        lines,
        ["user_message_confirmed", "message pause_turn \"hi\" partial"]
    );
}

#[tokio::test]
async fn an_id_that_is_missing_is_minted_and_says_so() {
    let turn = record(
        [
            echo("").and_tool_call("call_b", "fails", "{}"),
            Reply::text("done"),
        ],
        "",
    )
    .await;
    let calls: Vec<_> = turn
        .lines()
        .into_iter()
        .filter(|line| line.starts_with("tool_use"))
        .collect();
    assert_eq!(
        calls,
        [
            "tool_use hd_call_1 echo {\"text\":\"äöü 🦀\"} minted",
            "tool_use call_b fails {}",
        ]
    );
}

#[tokio::test]
async fn arguments_that_are_not_json_are_a_failed_result() {
    let broken = Reply::nothing().and_tool_call("call_a", "echo", "{\"text\": ");
    let turn = record([broken, Reply::text("sorry")], "").await;
    assert!(
        turn.lines()[2].starts_with("tool_result call_a failed"),
        "{:?}",
        turn.lines()
    );
}

#[tokio::test]
async fn bytes_split_anywhere_are_the_same_events() {
    let replies = || {
        [
            echo("call_a"),
            Reply::text("für 30 Tage – 日本語 🦀").and_reasoning("größer?"),
        ]
    };
    let whole = record(replies(), "").await.lines();
    for bytes in [1, 2, 3, 5, 64] {
        let split = replies().map(|reply| reply.split_every(bytes));
        assert_eq!(record(split, "").await.lines(), whole, "{bytes}");
    }
}

#[tokio::test]
async fn the_turn_limit_closes_the_calls_that_were_not_run() {
    let turn = record([echo("call_a")], "openai:\n  max_turns: 1\n").await;
    assert_eq!(
        turn.lines()[2..],
        [
            "tool_result call_a closed \"not answered: max_turns limit reached\"",
            "complete max_turns",
        ]
    );
}

/// After an answer with a call, and after a turn that was stopped.
#[tokio::test]
async fn a_conversation_opened_from_its_record_is_that_of_the_live_session() {
    let call = ToolCall {
        name: "echo".to_owned(),
        arguments: json!({"text": "x"}),
        call_id: "c1".to_owned(),
        provider_fields: None,
    };
    let model = ScriptedModel::replies([
        ModelReply::tool_calls([call]),
        ModelReply::text("first"),
        ModelReply::hangs_after([ModelDelta::Text("so far".to_owned())]),
        ModelReply::text("third"),
        ModelReply::text("third"),
    ]);
    let backend = scripted("", &model, Arc::new(ScriptedTools::default()));
    let mut session = backend.create_session().await.unwrap();
    let answered: Vec<_> = session.turn(TurnRequest::new("go")).collect().await;
    let mut stopped = Vec::new();
    let control = session.control();
    let mut turn = session.turn(TurnRequest::new("go"));
    while let Some(event) = turn.next().await {
        if matches!(event, Ok(BackendEvent::Text { .. })) {
            control.interrupt();
        }
        stopped.push(event);
    }
    drop(turn);
    session.send("then").await.unwrap();
    let mut history = RecordedTurn::of(answered).await.history();
    history.extend(RecordedTurn::of(stopped).await.history());
    let mut again = backend.open_session(Opening::after(history)).await.unwrap();
    again.send("then").await.unwrap();
    let requests = model.requests();
    let [.., live, opened] = &requests[..] else {
        panic!("{} requests", requests.len());
    };
    assert_eq!(live.body["messages"], opened.body["messages"]);
    // The instructions, two messages and what was answered, the last message.
    assert_eq!(live.body["messages"].as_array().unwrap().len(), 8);
}
