//! Tests of reading answers: usage, reasoning, finish reasons, refusals, and streams that break off.

use std::sync::atomic::{AtomicUsize, Ordering};

use holodeck_backend_api::{AgentBackend as _, BackendError, BackendEvent, Outcome, TokenUsage};
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{agent_of, ask, backend, run_turn, text};

async fn result_of(reply: Reply) -> holodeck_backend_api::ExecutionResult {
    let server = ModelServer::replies([reply]);
    let result = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap();
    server.finish();
    result
}

#[tokio::test]
async fn usage_with_its_parts() {
    let result = result_of(Reply::text("hi").usage(json!({
        "prompt_tokens": 10, "completion_tokens": 6, "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 4},
        "cost": 0.001,
    })))
    .await;
    let expected = TokenUsage {
        cache_read_tokens: 8,
        reasoning_tokens: 4,
        ..TokenUsage::new(10, 6)
    };
    assert_eq!(result.token_usage, Some(expected));
    assert_eq!(result.model.as_deref(), Some("scripted-1"));
}

#[tokio::test]
async fn an_answer_in_one_piece_of_json() {
    let result = result_of(Reply::text("hi").and_reasoning("hm").as_json()).await;
    assert_eq!(result.response, "hi");
    assert_eq!(result.thinking.as_deref(), Some("hm"));
    assert_eq!(result.token_usage, Some(TokenUsage::new(10, 5)));
}

#[tokio::test]
async fn reasoning_by_its_other_name() {
    let reply = Reply::text("hi").and_reasoning("hm").reasoning_field("reasoning");
    assert_eq!(result_of(reply).await.thinking.as_deref(), Some("hm"));
}

#[tokio::test]
async fn unknown_finish_reasons_and_fields_are_ignored() {
    let result = result_of(Reply::text("hi").finish_reason("eos_token")).await;
    assert_eq!(
        (result.response.as_str(), result.outcome),
        ("hi", Outcome::Completed)
    );
    let strange = [
        r#"{"type": "ping"}"#,
        r#"{"choices": [{"delta": {"content": "hi", "mood": {"x": [1]}}, "vibe": 7}], "service_tier": {}}"#,
        r#"{"choices": [{"finish_reason": "stop", "index": "zero"}], "usage": false}"#,
    ];
    let result = result_of(Reply::events(strange)).await;
    assert_eq!((result.response.as_str(), result.token_usage), ("hi", None));
}

#[tokio::test]
async fn the_end_mark_may_be_missing_when_the_model_said_that_it_is_done() {
    let reply = Reply::text("hi").without_done();
    assert_eq!(result_of(reply.clone()).await.response, "hi");
    // The answer is complete; only the end of the connection is missing.
    assert_eq!(result_of(reply.cut_after(3)).await.response, "hi");
}

#[tokio::test]
async fn a_filtered_answer_is_a_refusal() {
    let result = result_of(Reply::text("I").finish_reason("content_filter")).await;
    assert_eq!(
        (result.response.as_str(), result.outcome),
        ("I", Outcome::Refused)
    );
}

#[tokio::test]
async fn a_body_split_every_few_bytes_gives_the_same_answer() {
    for bytes in [1, 2, 3, 7, 64] {
        let reply = Reply::text("härtefall 🎉")
            .and_reasoning("hm")
            .in_pieces(4)
            .split_every(bytes);
        let result = result_of(reply).await;
        assert_eq!(result.response, "härtefall 🎉", "{bytes}");
        assert_eq!(result.token_usage, Some(TokenUsage::new(10, 5)));
    }
}

#[tokio::test]
async fn text_is_streamed() {
    let server = ModelServer::replies([Reply::text("abcdef").in_pieces(3).hang_after(3)]);
    let backend = backend(&agent_of(&server, ""));
    let mut stream = backend.start(holodeck_backend_api::TurnRequest::new("hello"));
    let mut streamed = String::new();
    while streamed != "abcd" {
        use futures::StreamExt as _;
        if let Some(Ok(holodeck_backend_api::BackendEvent::Text { text })) = stream.next().await {
            streamed.push_str(&text);
        }
    }
    drop(stream);
    // Dropping the stream closes the connection.
    server.until_open(0).await;
    server.finish();
}

#[tokio::test]
async fn half_a_stream_in_its_three_forms() {
    for (reply, error) in [
        (Reply::text("half").stop_after(2), "the stream ended early"),
        (
            Reply::text("half").without_finish_reason().without_done(),
            "the stream ended early",
        ),
        (Reply::text("half").cut_after(2), "the stream ended early: "),
    ] {
        let server = ModelServer::replies([reply]);
        let (events, failed) = run_turn(&backend(&agent_of(&server, ""))).await;
        assert_eq!(text(&events), "half");
        let failed = failed.unwrap();
        assert!(matches!(
            failed,
            holodeck_backend_api::BackendError::Protocol { .. }
        ));
        assert!(failed.to_string().starts_with(error), "{failed}");
        server.finish();
    }
}

/// A failure that the endpoint reports is a provider's error, even if it also sends text.
#[tokio::test]
async fn an_answer_that_reports_its_own_failure_is_an_error() {
    let text = r#"{"choices": [{"index": 0, "delta": {"content": "30 days"}}]}"#;
    let stop = r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}"#;
    let in_choice =
        r#"{"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "upstream broke"}}]}"#;
    let object = r#"{"object": "error", "message": "engine died", "code": 500}"#;
    let mut replies = vec![
        (Reply::text("30 days").finish_reason("tool_calls"), "sent none"),
        (Reply::text("30 days").finish_reason("function_call"), "sent none"),
        (Reply::events([text, in_choice, stop, "[DONE]"]), "upstream broke"),
        (Reply::events([text, object, stop, "[DONE]"]), "engine died"),
        (Reply::raw(200, "application/json", object), "engine died"),
    ];
    for reason in ["error", "abort", "cancelled"] {
        replies.push((Reply::text("30 days").finish_reason(reason), reason));
        replies.push((Reply::text("30 days").finish_reason(reason).as_json(), reason));
    }
    for (reply, cause) in replies {
        // An error that passes is asked about again.
        let server = ModelServer::answering(move |_| reply.clone());
        let (events, failed) = run_turn(&backend(&agent_of(&server, ""))).await;
        let failed = failed.unwrap_or_else(|| panic!("{cause}: accepted: {events:?}"));
        assert!(matches!(failed, BackendError::Provider { .. }), "{failed:?}");
        assert!(failed.to_string().contains(cause), "{failed}");
        server.finish();
    }
}

/// Whatever its first bytes and its address say, a failed answer refuses no part of the request.
#[tokio::test]
async fn a_failed_answer_is_not_asked_again_in_another_form() {
    let call = |index: u64, name: &str| {
        json!({"index": index, "delta": {"tool_calls": [{"index": 0, "id": format!("c{index}"),
            "function": {"name": name, "arguments": "{}"}}]}, "finish_reason": "tool_calls"})
    };
    let two = json!({"choices": [call(0, "clock"), call(1, "weather")]}).to_string();
    let mut replies = vec![Reply::events([two.as_str(), "[DONE]"])];
    for reason in ["error", "abort", "insufficient_system_resource", "tool_calls"] {
        let choice =
            json!({"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": reason});
        let whole =
            json!({"stream": true, "response_format": 1, "max_tokens": "unknown", "choices": [choice]});
        replies.push(Reply::raw(200, "application/json", whole.to_string()));
        let delta = json!({"index": 0, "delta": {"content": ""}, "finish_reason": reason});
        let chunk = json!({"stream": "not supported", "choices": [delta]}).to_string();
        replies.push(Reply::events([chunk.as_str(), "[DONE]"]));
    }
    let beside = r#"{"error": {}, "object": "x", "note": "stream"}"#;
    replies.push(Reply::events([beside, "[DONE]"]));
    for reply in replies {
        let asked = AtomicUsize::new(0);
        let server = ModelServer::answering(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => reply.clone(),
            _ => Reply::text("sunny"),
        });
        let (events, failed) = run_turn(&backend(&agent_of(&server, ""))).await;
        assert!(failed.is_some(), "{events:?}");
        assert_eq!(server.finish().len(), 1, "{failed:?}");
    }
}

#[tokio::test]
async fn an_unknown_finish_reason_is_a_cut_with_one_notice() {
    let server = ModelServer::replies([
        Reply::text("30 days").finish_reason("OTHER"),
        Reply::text("30 days"),
        Reply::nothing().finish_reason("OTHER"),
    ]);
    let backend = backend(&agent_of(&server, ""));
    let mut turns = Vec::new();
    for _ in 0..3 {
        let (events, failed) = run_turn(&backend).await;
        assert!(failed.is_none(), "{failed:?}");
        let notices = events.iter().filter_map(|event| match event {
            BackendEvent::Notice { message } => Some(message.clone()),
            _ => None,
        });
        let notices: Vec<_> = notices.collect();
        let Some(BackendEvent::End(result)) = events.last() else {
            panic!("{events:?}");
        };
        let reason = result.truncated_by.as_ref().map(ToString::to_string);
        turns.push((notices, reason, result.outcome.clone()));
    }
    server.finish();
    let notice =
        "the endpoint ended an answer with the unknown finish_reason `OTHER`; the answer counts as truncated";
    let other = || Some("OTHER".to_owned());
    assert_eq!(
        turns,
        [
            (vec![notice.to_owned()], other(), Outcome::Completed),
            (Vec::new(), None, Outcome::Completed),
            (Vec::new(), other(), Outcome::EmptyResponse),
        ]
    );
}

#[tokio::test]
async fn a_complete_stream_without_a_finish_reason_is_an_answer_with_a_notice() {
    let server = ModelServer::replies([Reply::text("30 days").without_finish_reason()]);
    let (events, failed) = run_turn(&backend(&agent_of(&server, ""))).await;
    server.finish();
    assert!(failed.is_none(), "{failed:?}");
    assert_eq!(text(&events), "30 days");
    let notice = "the endpoint sent no finish_reason; the answer counts as complete";
    let is_notice =
        |event: &BackendEvent| matches!(event, BackendEvent::Notice { message } if message == notice);
    assert_eq!(events.iter().filter(|event| is_notice(event)).count(), 1);
}
