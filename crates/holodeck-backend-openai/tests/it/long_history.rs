//! Conversations that are longer than the model's context.

use holodeck_backend_api::{
    AgentBackend as _, BackendError, CallDetails, HistoryItem, Opening, ToolCall, ToolResult, TurnRequest,
    collect,
};
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{agent_of, backend};

fn too_long() -> Reply {
    let message =
        "This model's maximum context length is 100 tokens. However, your messages resulted in 170 tokens.";
    Reply::openai_error(400, message, Some("context_length_exceeded"), Some("messages"))
}

/// Four turns; the second one has a call.
fn history() -> Vec<HistoryItem> {
    let answer = |text: &str| HistoryItem::Assistant {
        text: text.to_owned(),
    };
    let call = ToolCall {
        name: "look_up".to_owned(),
        arguments: json!({}),
        call_id: "c1".to_owned(),
        provider_fields: None,
    };
    let result = ToolResult {
        call_id: "c1".to_owned(),
        name: "look_up".to_owned(),
        result: "found".to_owned(),
        is_error: false,
        duration_ms: None,
        details: CallDetails::default(),
    };
    vec![
        HistoryItem::user("first"),
        answer("1"),
        HistoryItem::user("second"),
        HistoryItem::Call(call),
        HistoryItem::Result(result),
        answer("2"),
        HistoryItem::user("third"),
        answer("3"),
        HistoryItem::user("fourth"),
        answer("4"),
    ]
}

/// The messages of each request, by role and text.
fn requests(server: &ModelServer) -> Vec<Vec<String>> {
    let describe = |message: &Value| {
        let text = message["content"].as_str().unwrap_or("-");
        format!("{} {text}", message["role"].as_str().unwrap())
    };
    let bodies = server.requests().into_iter().map(|request| request.body);
    let messages = bodies.map(|body| {
        body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(describe)
            .collect()
    });
    messages.collect()
}

fn conversation(message: &str) -> TurnRequest {
    TurnRequest {
        may_forget: true,
        ..TurnRequest::new(message)
    }
}

#[tokio::test]
async fn the_oldest_turns_are_left_out_with_a_notice() {
    let server = ModelServer::replies([too_long(), too_long(), Reply::text("ok"), Reply::text("ok again")]);
    let backend = backend(&agent_of(&server, ""));
    let mut session = backend.open_session(Opening::after(history())).await.unwrap();
    let collected = collect(session.turn(conversation("fifth"))).await.unwrap();
    assert_eq!(collected.response, "ok");
    collect(session.turn(conversation("sixth"))).await.unwrap();
    let requests = requests(&server);
    assert_eq!(requests[0].len(), 12);
    let newer = [
        "user third",
        "assistant 3",
        "user fourth",
        "assistant 4",
        "user fifth",
    ];
    assert_eq!(requests[1][1..], newer);
    assert_eq!(requests[2][1..], newer[2..]);
    // What was left out stays so; the endpoint is not asked to refuse it again.
    assert_eq!(
        requests[3][1..],
        [
            "user fourth",
            "assistant 4",
            "user fifth",
            "assistant ok",
            "user sixth"
        ]
    );
}

#[tokio::test]
async fn a_message_that_is_too_long_by_itself_is_an_error() {
    let server = ModelServer::replies([too_long(), too_long(), too_long(), too_long()]);
    let backend = backend(&agent_of(&server, ""));
    let mut session = backend.open_session(Opening::after(history())).await.unwrap();
    let failed = collect(session.turn(conversation("fifth"))).await.unwrap_err();
    assert!(
        matches!(
            failed.error,
            BackendError::Provider {
                status: Some(400),
                ..
            }
        ),
        "{failed:?}"
    );
    assert_eq!(requests(&server).last().unwrap()[1..], ["user fifth"]);
    server.finish();
}

#[tokio::test]
async fn a_test_never_sees_a_shorter_conversation() {
    let server = ModelServer::replies([too_long()]);
    let backend = backend(&agent_of(&server, ""));
    let mut session = backend.open_session(Opening::after(history())).await.unwrap();
    let failed = collect(session.turn(TurnRequest::new("fifth")))
        .await
        .unwrap_err();
    assert!(
        failed.error.to_string().contains("maximum context length"),
        "{failed:?}"
    );
    server.finish();
}

#[tokio::test]
async fn another_refusal_leaves_nothing_out() {
    let refusal = Reply::openai_error(400, "`messages` has an unknown role", None, Some("messages"));
    let server = ModelServer::replies([refusal]);
    let backend = backend(&agent_of(&server, ""));
    let mut session = backend.open_session(Opening::after(history())).await.unwrap();
    assert!(collect(session.turn(conversation("fifth"))).await.is_err());
    server.finish();
}
