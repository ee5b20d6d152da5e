//! Services that answer with JSON or a stream of events.

use std::time::Duration;

use holodeck_backend_api::{AgentBackend as _, BackendError, BackendEvent, Opening, Outcome, TokenUsage};
use holodeck_model::Evidence;
use holodeck_testkit::{EndpointServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{ask, backend, events, http, json_reply, plain};

#[tokio::test]
async fn a_request_is_made_of_templates_and_its_answer_found_by_a_path() {
    let server = EndpointServer::replies([json_reply(&json!({"out": [{"answer": "30 days"}]}))]);
    let target = http(json!({
        "url": format!("{}/chat/{{{{ input }}}}", server.url()),
        "method": "PUT",
        "headers": {"X-Team": "blue {{ input }}"},
        "query": {"q": "{{ input }}&x"},
        "body": {"message": "{{ input }}", "all": "{{ messages }}", "session": "{{ session_id }}", "n": 3, "deep": [{"t": "say {{ input }}"}]},
        "response": {"text": "$.out[0].answer"},
    }));
    let result = ask(&target, "hi a/b").await.unwrap();
    assert_eq!(
        (result.response.as_str(), result.outcome),
        ("30 days", Outcome::Completed)
    );
    let requests = server.finish();
    let request = &requests[0];
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("PUT", "/chat/hi%20a%2Fb?q=hi+a%2Fb%26x")
    );
    assert_eq!(request.header("x-team"), Some("blue hi a/b"));
    let session = request.body["session"].as_str().unwrap();
    assert_eq!(session.len(), 36);
    assert_eq!(
        request.body,
        json!({
            "message": "hi a/b",
            "all": [{"role": "user", "content": "hi a/b"}],
            "session": session,
            "n": 3,
            "deep": [{"t": "say hi a/b"}],
        })
    );
}

fn everything() -> Value {
    json!({
        "answer": "Shipped.",
        "trace": [
            {"name": "look_up", "arguments": {"id": 7}, "id": "a"},
            {"name": "cancel", "arguments": {}, "id": "b", "result": {"done": true}},
        ],
        "results": [{"call_id": "a", "result": "found", "is_error": true}],
        "sources": [{"text": "p1"}, {"text": "p2"}],
        "usage": {"input_tokens": 9, "output_tokens": 4},
        "cost": 0.25,
        "why": "length",
    })
}

fn every_path() -> Value {
    json!({
        "text": "$.answer",
        "tool_calls": "$.trace[*]",
        "tool_results": "$.results[*]",
        "retrieval_context": "$.sources[*].text",
        "usage": "$.usage",
        "cost": "$.cost",
        "finish_reason": "$.why",
    })
}

#[tokio::test]
async fn all_parts_of_an_answer_are_reported() {
    let server = EndpointServer::replies([json_reply(&everything())]);
    let target = http(json!({"url": server.url(), "body": {}, "response": every_path()}));
    let result = ask(&target, "where?").await.unwrap();
    assert_eq!(result.response, "Shipped.");
    let calls: Vec<_> = result
        .calls()
        .map(|(call, result)| {
            (
                call.name.as_str(),
                result.map(|it| (it.result.as_str(), it.is_error)),
            )
        })
        .collect();
    assert_eq!(
        calls,
        [
            ("look_up", Some(("found", true))),
            ("cancel", Some(("{\"done\":true}", false)))
        ]
    );
    assert_eq!(result.passages, Some(vec!["p1".to_owned(), "p2".to_owned()]));
    assert_eq!(result.token_usage, Some(TokenUsage::new(9, 4)));
    assert_eq!(result.cost_usd, Some(0.25));
    assert_eq!(result.truncated_by.unwrap().as_str(), "length");
    assert_eq!(result.unreported, []);
}

#[tokio::test]
async fn what_a_service_does_not_report_is_named_and_an_empty_list_is_reported() {
    let none = json!({"answer": "Shipped."});
    let empty = json!({"answer": "Shipped.", "trace": [], "results": [], "sources": []});
    let server = EndpointServer::replies([json_reply(&none), json_reply(&empty)]);
    let only_text = http(json!({"url": server.url(), "response": {"text": "$.answer"}}));
    let result = ask(&only_text, "?").await.unwrap();
    let all = [
        Evidence::ToolCalls,
        Evidence::RetrievalContext,
        Evidence::Usage,
        Evidence::Cost,
        Evidence::FinishReason,
    ];
    assert_eq!((result.unreported, result.passages), (all.to_vec(), None));
    let lists = http(json!({"url": server.url(), "response": {
        "text": "$.answer", "tool_calls": "$.trace[*]", "retrieval_context": "$.sources[*].text",
    }}));
    let result = ask(&lists, "?").await.unwrap();
    assert_eq!(
        result.unreported,
        [Evidence::Usage, Evidence::Cost, Evidence::FinishReason]
    );
    assert_eq!(result.passages, Some(Vec::new()));
}

#[tokio::test]
async fn an_error_in_the_answer_is_an_error() {
    let server = EndpointServer::replies([json_reply(
        &json!({"answer": "fine", "error": {"message": "no stock"}}),
    )]);
    let target = http(json!({"url": server.url(), "response": {"text": "$.answer", "error": "$.error"}}));
    let error = ask(&target, "?").await.unwrap_err();
    assert_eq!(error.to_string(), "the target reported an error: no stock");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_stateless_service_gets_the_whole_conversation() {
    let server =
        EndpointServer::answering(|request| json_reply(&json!({"answer": request.body["m"].to_string()})));
    let target =
        http(json!({"url": server.url(), "body": {"m": "{{ messages }}"}, "response": {"text": "$.answer"}}));
    let backend = backend(&target);
    let mut session = backend.create_session().await.unwrap();
    session.send("one").await.unwrap();
    session.send("two").await.unwrap();
    assert_eq!(session.handle(), None);
    let contents: Vec<Value> = server.requests()[1].body["m"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["content"].clone())
        .collect();
    assert_eq!(contents[0], "one");
    assert_eq!(contents[2], "two");
    assert_eq!(contents.len(), 3);
}

#[tokio::test]
async fn a_service_with_a_memory_keeps_its_session_and_refuses_a_foreign_history() {
    let server = EndpointServer::answering(|request| {
        let id = request.body["s"].as_str().unwrap();
        let named = if id.starts_with("svc-") {
            id.to_owned()
        } else {
            "svc-1".to_owned()
        };
        json_reply(&json!({"answer": "ok", "s": named}))
    });
    let target = http(json!({
        "url": server.url(),
        "body": {"q": "{{ input }}", "s": "{{ session_id }}"},
        "response": {"text": "$.answer", "session": "$.s"},
    }));
    let backend = backend(&target);
    let mut session = backend.create_session().await.unwrap();
    session.send("one").await.unwrap();
    session.send("two").await.unwrap();
    let handle = session.handle().unwrap();
    assert_eq!((handle.id.as_str(), handle.head.as_str()), ("svc-1", "2"));
    let history = [
        holodeck_backend_api::HistoryItem::user("one"),
        holodeck_backend_api::HistoryItem::assistant("ok"),
    ];
    // A shorter history is that of a fork.
    for handle in [None, Some(handle.clone())] {
        let opening = Opening {
            history: history.to_vec(),
            handle,
        };
        let error = backend.open_session(opening).await.err().unwrap();
        assert!(error.to_string().contains("a fork"), "{error}");
    }
    let whole = [history.clone(), history].concat();
    let mut again = backend
        .open_session(Opening {
            history: whole,
            handle: Some(handle),
        })
        .await
        .unwrap();
    again.send("three").await.unwrap();
    let ids: Vec<String> = server
        .requests()
        .iter()
        .map(|it| it.body["s"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids[1..], ["svc-1", "svc-1"]);
}

#[tokio::test]
async fn cookies_are_those_of_one_conversation_unless_the_run_shares_them() {
    for (share, third) in [(None, None), (Some("run"), Some("sid=1"))] {
        let server = EndpointServer::answering(|_| {
            json_reply(&json!({"answer": "ok"})).header("set-cookie", "sid=1; Path=/")
        });
        let target = http(json!({"url": server.url(), "response": {"text": "$.answer"}, "share": share}));
        let backend = backend(&target);
        let mut one = backend.create_session().await.unwrap();
        one.send("a").await.unwrap();
        one.send("b").await.unwrap();
        backend.create_session().await.unwrap().send("c").await.unwrap();
        let requests = server.requests();
        let cookies: Vec<_> = requests.iter().map(|request| request.header("cookie")).collect();
        assert_eq!(cookies, [None, Some("sid=1"), third]);
    }
}

#[tokio::test]
async fn only_what_the_service_did_not_accept_is_sent_again() {
    let busy = || Reply::raw(503, "text/plain", "later").retry_after(0);
    let good = || json_reply(&json!({"answer": "ok"}));
    let broken = || Reply::raw(500, "text/plain", "bug");
    let unsaid = || Reply::raw(503, "text/plain", "later");
    let cases: [(Vec<Reply>, Option<&str>, usize); 5] = [
        (vec![busy(), good()], None, 2),
        (
            vec![Reply::raw(429, "text/plain", "").retry_after(0), good()],
            None,
            2,
        ),
        (vec![unsaid()], None, 1),
        (vec![broken()], None, 1),
        (vec![broken(), unsaid(), good()], Some("none"), 3),
    ];
    for (replies, side_effects, requests) in cases {
        let server = EndpointServer::replies(replies);
        let mut target = json!({"url": server.url(), "response": {"text": "$.answer"}});
        target["side_effects"] = json!(side_effects);
        let answer = ask(&http(target), "?").await;
        assert_eq!(answer.is_ok(), requests > 1);
        assert_eq!(server.finish().len(), requests);
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unreachable() {
    let url = {
        let server = EndpointServer::replies([]);
        server.url()
    };
    let target = http(json!({"url": url, "response": {"text": "$.answer"}, "timeout": 0.2}));
    let error = ask(&target, "?").await.unwrap_err();
    // Its time may end while it waits to try again.
    assert!(
        error.is_unreachable() || matches!(error, BackendError::Timeout { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn pieces_of_a_stream_are_one_answer_with_its_calls() {
    let server = EndpointServer::replies([Reply::events([
        r#"{"delta": "Ship"}"#,
        r#"{"call": {"name": "look_up", "arguments": {"id": 7}}}"#,
        r#"{"delta": "ped."}"#,
        r#"{"usage": {"prompt_tokens": 3, "completion_tokens": 2}, "end": "stop"}"#,
        "[DONE]",
    ])]);
    let target = http(json!({
        "url": server.url(),
        "stream": {"text": "$.delta", "done": "[DONE]"},
        "response": {"tool_calls": "$.call", "usage": "$.usage", "finish_reason": "$.end"},
    }));
    let events = events(&target, "?").await;
    let pieces: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            BackendEvent::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(pieces, ["Ship", "ped."]);
    let Some(BackendEvent::End(result)) = events.last() else {
        panic!("no result")
    };
    assert_eq!(result.response, "Shipped.");
    assert_eq!(result.tool_calls.len(), 1);
    assert_eq!(result.token_usage, Some(TokenUsage::new(3, 2)));
    assert_eq!(result.unreported, [Evidence::RetrievalContext, Evidence::Cost]);
}

#[tokio::test]
async fn a_silent_service_ends_at_the_time_limit() {
    let server = EndpointServer::answering(|_| Reply::hang());
    let mut fields = json!({"url": server.url(), "response": {"text": "$.answer"}});
    fields["timeout"] = json!(0.05);
    let error = ask(&http(fields), "?").await.unwrap_err();
    let BackendError::Timeout { after, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(after, Duration::from_millis(50));
}

#[tokio::test]
async fn a_secret_that_a_service_repeats_is_not_shown() {
    let server = EndpointServer::replies([Reply::raw(401, "text/plain", "bad token hush-7 given")]);
    let mut target = plain(&server);
    if let holodeck_model::TargetConfig::Http(http) = &mut target {
        http.headers
            .insert("Authorization".to_owned(), "Bearer hush-7".to_owned().into());
    }
    let error = ask(&target, "?").await.unwrap_err();
    assert!(error.is_credentials());
    assert!(!error.explanation().text().contains("hush-7"), "{error}");
}
