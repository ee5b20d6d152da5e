//! Tests of what OpenAI-compatible servers do differently: fields that go back, refusals in their own words, answers that
//! are not streams, and waits that they ask for.

use std::{path::Path, sync::Arc};

use holodeck_backend_api::{
    AgentBackend as _, BackendError, BackendEvent, CallDetails, ExecutionResult, HistoryItem, Opening,
    TokenUsage, ToolCall, ToolResult, TurnRequest, collect,
};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply, ScriptedTools};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{self, agent, agent_of, ask, backend, equipped, model_of, notices, run_turn};

const FORMAT: &str =
    "response_format: {type: object, properties: {days: {type: integer}}, required: [days]}\n";

macro_rules! fixture {
    ($file:literal) => {
        (
            $file,
            include_str!(concat!("../../../../fixtures/dialects/", $file)),
        )
    };
}

/// A body as the endpoint sends it: a stream, or a whole answer.
fn reply((file, body): (&str, &str)) -> Reply {
    let is_stream = Path::new(file).extension().is_some_and(|it| it == "sse");
    let content_type = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    // The tool of these tests.
    Reply::raw(200, content_type, body.replace("\"weather\"", "\"echo\""))
}

/// An answer of a recorded `.http` file.
fn recorded(file: &[u8]) -> Reply {
    let end = file.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&file[..end]).unwrap();
    let header = |name: &str| {
        let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.find_map(|(found, value)| (found == name).then_some(value))
    };
    let reply = Reply::raw(
        200,
        header("content-type").unwrap_or_default(),
        file[end + 4..].to_vec(),
    );
    match header("content-encoding") {
        Some(encoding) => reply.header("content-encoding", encoding),
        None => reply,
    }
}

/// The message of the assistant in the second request of an agent whose first answer is `first`.
async fn sent_back(first: (&str, &str)) -> Value {
    let server = ModelServer::replies([reply(first), Reply::text("done")]);
    let tools = Arc::new(ScriptedTools::default());
    let result = ask(&equipped(&agent_of(&server, ""), tools), "go").await.unwrap();
    assert_eq!(result.response, "done");
    assert!(
        result
            .tool_calls
            .iter()
            .all(|call| call.provider_fields.is_none())
    );
    server.finish().pop().unwrap().messages()[2].clone()
}

#[tokio::test]
async fn fields_of_an_assistant_message_go_back_as_they_came() {
    let deepseek = sent_back(fixture!("reasoning-echo/deepseek-1-answer.sse")).await;
    assert_eq!(
        deepseek,
        json!({
            "role": "assistant", "content": null, "reasoning_content": "I need the weather.",
            "tool_calls": [{
                "id": "call_1", "type": "function",
                "function": {"name": "echo", "arguments": "{\"city\":\"Paris\"}"},
            }],
        })
    );
    let vllm = sent_back(fixture!("reasoning-echo/vllm-1-answer.json")).await;
    assert_eq!(
        (&vllm["reasoning"], vllm.get("reasoning_content")),
        (&json!("I need the weather."), None)
    );
    let gemini = sent_back(fixture!("reasoning-echo/gemini-1-answer.sse")).await;
    let signatures: Vec<_> = gemini["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call.pointer("/extra_content/google/thought_signature"))
        .collect();
    assert_eq!(signatures, [Some(&json!("c2lnbmF0dXJl")), None]);
    let openrouter = sent_back(fixture!("reasoning-echo/openrouter-1-answer.sse")).await;
    assert_eq!(
        openrouter["reasoning_details"],
        json!([
            {"type": "reasoning.text", "text": "I need it.", "index": 0, "format": "anthropic-claude-v1", "signature": "c2ln"},
            {"type": "reasoning.encrypted", "data": "b3BhcXVl", "id": "rs_1", "index": 1, "format": "openai-responses-v1"},
        ])
    );
}

#[tokio::test]
async fn content_in_parts_goes_back_in_parts() {
    let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}]);
    let call =
        json!([{"id": "abcdefghi", "type": "function", "function": {"name": "echo", "arguments": "{}"}}]);
    let whole = json!({"choices": [{"message": {"content": parts, "tool_calls": call}, "finish_reason": "tool_calls"}]});
    let server = ModelServer::replies([
        Reply::raw(200, "application/json", whole.to_string()),
        Reply::text("done"),
    ]);
    let tools = Arc::new(ScriptedTools::default());
    ask(&equipped(&agent_of(&server, ""), tools), "go").await.unwrap();
    assert_eq!(server.finish().pop().unwrap().messages()[2]["content"], parts);
}

#[tokio::test]
async fn a_server_that_refuses_its_own_fields_gets_the_message_without_them() {
    for text in ["unknown field `reasoning_content`", "bad message"] {
        let server = ModelServer::answering(move |request| {
            let messages = request.messages();
            match messages
                .iter()
                .any(|message| message.get("reasoning_content").is_some())
            {
                true => Reply::openai_error(400, text, None, None),
                false if messages.len() > 2 => Reply::text("done"),
                false => reply(fixture!("reasoning-echo/deepseek-1-answer.sse")),
            }
        });
        let backend = equipped(&agent_of(&server, ""), Arc::new(ScriptedTools::default()));
        let (events, error) = run_turn(&backend).await;
        assert!(error.is_none(), "{error:?}");
        let notice = "the endpoint refuses the fields of its own earlier messages; they are not sent back";
        assert_eq!(
            (setup::text(&events).as_str(), notices(&events)),
            ("done", vec![notice])
        );
        assert_eq!(server.finish().len(), 3);
    }
}

/// A conversation with calls of another service.
fn foreign_calls() -> Vec<HistoryItem> {
    let calls = ["call_8hYl2ZkT0aBcDeF", "toolu_01"];
    let call = |id: &str| {
        HistoryItem::Call(ToolCall {
            name: "echo".to_owned(),
            arguments: json!({"text": id}),
            call_id: id.to_owned(),
            provider_fields: None,
        })
    };
    let result = |id: &str| {
        HistoryItem::Result(ToolResult {
            call_id: id.to_owned(),
            name: "echo".to_owned(),
            result: id.to_owned(),
            is_error: false,
            duration_ms: None,
            details: CallDetails::default(),
        })
    };
    let history = [HistoryItem::user("before")].into_iter().chain(calls.map(call));
    history
        .chain(calls.map(result))
        .chain([HistoryItem::assistant("Yes.")])
        .collect()
}

#[tokio::test]
async fn ids_of_another_service_are_shortened_where_they_are_refused_whatever_the_words() {
    let is_plain = |id: &Value| {
        let id = id.as_str().unwrap_or_default();
        id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    for (status, text, param) in [
        (
            400,
            "Tool call id was call_8hYl2ZkT0aBcDeF but must be a-z, A-Z, 0-9, with a length of 9.",
            None,
        ),
        (
            400,
            "Invalid 'messages[2].tool_calls[0].id': string too long",
            Some("messages[2].tool_calls[0].id"),
        ),
        (422, "bad message", None),
        (400, "toolu_01 does not fit", Some("messages")),
    ] {
        let server = ModelServer::answering(move |request| {
            let mut ids = request.messages().iter().flat_map(|message| {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                calls.map(|call| &call["id"]).chain(message.get("tool_call_id"))
            });
            if ids.all(is_plain) {
                Reply::text("done")
            } else {
                Reply::openai_error(status, text, None, param)
            }
        });
        let backend = equipped(&agent_of(&server, ""), Arc::new(ScriptedTools::default()));
        let mut session = backend
            .open_session(Opening::after(foreign_calls()))
            .await
            .unwrap();
        for requests in [2, 3] {
            let result = session.send("go").await.unwrap();
            assert_eq!(
                (result.response.as_str(), server.requests().len()),
                ("done", requests),
                "{text}"
            );
        }
        // Calls and results still belong together, and nothing else changed.
        let last = server.finish().pop().unwrap();
        let messages = last.messages();
        for place in 0..2 {
            let id = &messages[2]["tool_calls"][place]["id"];
            assert_eq!(*id, messages[3 + place]["tool_call_id"]);
            let arguments: Value = serde_json::from_str(
                messages[2]["tool_calls"][place]["function"]["arguments"]
                    .as_str()
                    .unwrap(),
            )
            .unwrap();
            assert_eq!(arguments["text"], messages[3 + place]["content"]);
        }
    }
}

#[tokio::test]
async fn errors_about_something_else_leave_the_ids_alone() {
    for (status, param, requests) in [
        (400, Some("messages"), 1),
        (400, Some("model"), 1),
        (500, None, 4),
        (401, None, 1),
    ] {
        let server = ModelServer::answering(move |_| Reply::openai_error(status, "no", None, param));
        let backend = equipped(&agent_of(&server, ""), Arc::new(ScriptedTools::default()));
        let mut session = backend
            .open_session(Opening::after(foreign_calls()))
            .await
            .unwrap();
        session.send("go").await.unwrap_err();
        let received = server.finish();
        assert_eq!(received.len(), requests, "{status} {param:?}");
        let sent = |request: &ReceivedRequest| request.messages()[2]["tool_calls"][0]["id"].clone();
        assert!(
            received
                .iter()
                .all(|request| sent(request) == "call_8hYl2ZkT0aBcDeF")
        );
    }
}

#[tokio::test]
async fn a_refused_format_is_sent_as_instructions_whatever_the_words_of_the_refusal() {
    for line in include_str!("../../../../fixtures/dialects/format-refusals.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (status, body) = (
            u16::try_from(case["status"].as_u64().unwrap()).unwrap(),
            case["body"].clone(),
        );
        let server = ModelServer::answering(move |request| match request.body.get("response_format") {
            Some(_) => Reply::error(status, &body),
            None => Reply::text("{\"days\": 30}"),
        });
        let backend = backend(&agent_of(&server, FORMAT));
        for (count, requests) in [(1, 2), (2, 3)] {
            let result = ask(&backend, "how long?").await.unwrap();
            assert_eq!(result.structured_output, Some(json!({"days": 30})), "{line}");
            // A 500 is not sent again first, and the refusal is remembered.
            assert_eq!(server.requests().len(), requests, "{line}: question {count}");
        }
        let prompt = server.finish().pop().unwrap().texts("system").concat();
        assert!(prompt.contains("\"days\""), "{prompt}");
    }
}

#[tokio::test]
async fn the_first_error_is_reported_if_the_second_form_is_refused_too() {
    let server = ModelServer::answering(|request| match request.body.get("response_format") {
        Some(_) => Reply::openai_error(400, "the first one", None, None),
        None => Reply::openai_error(400, "the second one", None, None),
    });
    let error = ask(&backend(&agent_of(&server, FORMAT)), "how long?")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("the first one"), "{error}");
    assert_eq!(server.finish().len(), 2);
}

#[tokio::test]
async fn other_errors_are_no_refusals_of_the_format() {
    for status in [401, 403, 404] {
        let server = ModelServer::answering(move |_| Reply::openai_error(status, "json_grammar", None, None));
        ask(&backend(&agent_of(&server, FORMAT)), "how long?")
            .await
            .unwrap_err();
        assert_eq!(server.finish().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_answers_as_a_whole() {
    for line in include_str!("../../../../fixtures/dialects/streaming-refusals.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (status, body) = (
            u16::try_from(case["status"].as_u64().unwrap()).unwrap(),
            case["body"].clone(),
        );
        let server = ModelServer::answering(move |request| match request.body["stream"].as_bool() {
            Some(true) => Reply::error(status, &body),
            _ => reply(fixture!("small/whole-answer.json")),
        });
        let backend = backend(&agent_of(&server, ""));
        for requests in [2, 3] {
            let result = ask(&backend, "hello").await.unwrap();
            assert!(
                !result.response.is_empty() && result.token_usage.is_some(),
                "{line}: {result:?}"
            );
            assert_eq!(server.requests().len(), requests, "{line}");
        }
        let last = server.finish().pop().unwrap().body;
        assert!(last.get("stream_options").is_none(), "{last}");
    }
}

/// The answer to one question, and the notices.
async fn answer(reply: Reply) -> (Result<ExecutionResult, BackendError>, Vec<String>) {
    let server = ModelServer::replies([reply]);
    let backend = backend(&agent_of(&server, ""));
    let (events, error) = run_turn(&backend).await;
    let notices = notices(&events).into_iter().map(str::to_owned).collect();
    let result = match error {
        Some(error) => Err(error),
        None => Ok(events
            .into_iter()
            .find_map(|event| match event {
                BackendEvent::End(result) => Some(*result),
                _ => None,
            })
            .unwrap()),
    };
    (result, notices)
}

#[tokio::test]
async fn a_body_is_what_its_first_byte_says_whatever_its_content_type() {
    for file in [
        &include_bytes!("../../../../fixtures/dialects/whole-answers/whole-json-as-event-stream.http")[..],
        include_bytes!("../../../../fixtures/dialects/whole-answers/whole-json-as-text.http"),
        include_bytes!("../../../../fixtures/dialects/whole-answers/whole-json-without-type.http"),
        include_bytes!("../../../../fixtures/dialects/whole-answers/done-without-finish-reason.http"),
    ] {
        let (result, _) = answer(recorded(file)).await;
        assert_eq!(result.unwrap().response, "Hello there.");
    }
    // A stream that is called something else.
    let stream = "data: {\"choices\": [{\"delta\": {\"content\": \"Hello there.\"}, \"finish_reason\": \"stop\"}]}\n\n";
    for content_type in [
        "application/json",
        "text/plain",
        "application/octet-stream",
        "text/event-stream; charset=utf-8",
    ] {
        let (result, _) = answer(Reply::raw(
            200,
            content_type,
            format!("\n{stream}data: [DONE]\n\n"),
        ))
        .await;
        assert_eq!(result.unwrap().response, "Hello there.", "{content_type}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_shown_with_its_type_and_its_beginning() {
    for (file, parts) in [
        (
            &include_bytes!("../../../../fixtures/dialects/whole-answers/end-without-done.http")[..],
            &["ended early", "200", "text/event-stream", "data: {"][..],
        ),
        (
            include_bytes!("../../../../fixtures/dialects/whole-answers/html-as-event-stream.http"),
            &["ended early", "200", "text/event-stream", "<!DOCTYPE html>"],
        ),
    ] {
        let (result, _) = answer(recorded(file)).await;
        let error = result.unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_compressed_unasked_is_read() {
    let file = include_bytes!("../../../../fixtures/dialects/whole-answers/gzip-nobody-asked-for.http");
    let (result, _) = answer(recorded(file)).await;
    assert_eq!(result.unwrap().response, "Hello there.");
}

#[tokio::test]
async fn an_error_in_a_200_is_an_error_and_retried_as_its_code() {
    let busy = include_bytes!("../../../../fixtures/dialects/whole-answers/error-as-event-stream.http");
    let server = ModelServer::replies([recorded(busy), recorded(busy), Reply::text("hi")]);
    let result = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap();
    assert_eq!((result.response.as_str(), server.finish().len()), ("hi", 3));

    let server = ModelServer::answering(move |_| recorded(busy));
    let error = ask(&backend(&agent_of(&server, "")), "hello").await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Rate limit exceeded: free-models-per-day"),
        "{error}"
    );
    assert_eq!(server.finish().len(), 4);
}

#[tokio::test]
async fn noise_in_a_stream_is_skipped_and_said() {
    let (result, notices) = answer(reply(fixture!("small/noise.sse"))).await;
    let result = result.unwrap();
    assert_eq!(result.response, "Hello\tthere.");
    assert_eq!(result.token_usage, Some(TokenUsage::new(5, 2)));
    assert_eq!(
        notices,
        ["the endpoint sent data that is no part of an answer: `ping`"]
    );
    // What has the form of an answer may hide a call.
    for data in ["{\"choices\": [", "[{\"choices\"", "<html>"] {
        let (result, _) = answer(Reply::events([data, "[DONE]"])).await;
        assert!(
            result
                .unwrap_err()
                .to_string()
                .contains("not a chunk of an answer"),
            "{data}"
        );
    }
    // Noise alone is no answer.
    let (result, _) = answer(Reply::events(["ping", "[DONE]"])).await;
    assert!(result.unwrap_err().to_string().contains("`ping`"));
}

#[tokio::test]
async fn usage_is_found_where_servers_put_it() {
    for (file, usage) in [
        (fixture!("small/usage-zeros-last.sse"), TokenUsage::new(5, 2)),
        (fixture!("small/usage-elsewhere.sse"), TokenUsage::new(9, 3)),
    ] {
        let (result, _) = answer(reply(file)).await;
        assert_eq!(result.unwrap().token_usage, Some(usage), "{}", file.0);
    }
}

#[tokio::test]
async fn a_filter_that_refuses_the_prompt_is_a_refusal() {
    let body = json!({"error": {
        "message": "The response was filtered", "type": null, "param": "prompt", "code": "content_filter",
        "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }});
    let (result, _) = answer(Reply::error(400, &body)).await;
    let result = result.unwrap();
    assert_eq!(result.outcome, holodeck_backend_api::Outcome::Refused);
    assert_eq!(result.response, "The response was filtered");
}

#[tokio::test]
async fn a_wrong_key_that_is_a_400_stops_as_a_wrong_key() {
    let body = json!([{"error": {
        "code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT",
        "details": [{"reason": "API_KEY_INVALID"}],
    }}]);
    let server = ModelServer::answering(move |_| Reply::error(400, &body));
    let error = ask(&backend(&agent_of(&server, FORMAT)), "hello")
        .await
        .unwrap_err();
    assert!(
        error.is_credentials() && error.to_string().contains("API key not valid"),
        "{error}"
    );
    assert_eq!(server.finish().len(), 1);
}

#[tokio::test]
async fn fields_of_another_model_do_not_go_to_the_fallback() {
    let server =
        ModelServer::answering(
            |request| match (request.body["model"].as_str(), request.messages().len()) {
                (Some("m"), 2) => reply(fixture!("reasoning-echo/deepseek-1-answer.sse")),
                (Some("m"), _) => Reply::raw(503, "text/plain", "busy"),
                _ => Reply::text("done"),
            },
        );
    let agent = agent(&model_of(&server), "openai:\n  fallback_model: other\n");
    let backend = equipped(&agent, Arc::new(ScriptedTools::default()));
    let result = collect(backend.start(TurnRequest::new("go"))).await.unwrap();
    assert_eq!(result.response, "done");
    let last = server.finish().pop().unwrap();
    assert_eq!(
        (
            last.body["model"].as_str(),
            last.messages()[2].get("reasoning_content")
        ),
        (Some("other"), None)
    );
}
