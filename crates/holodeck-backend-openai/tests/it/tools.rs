//! Tests of the tool loop: malformed calls, refused tools, the order of results, and images.

use std::sync::Arc;

use holodeck_backend_api::{ExecutionResult, TurnRequest, collect};
use holodeck_testkit::{ModelServer, ReceivedRequest, Reply, ScriptedTools, red_dot};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{agent_of, ask, equipped};

async fn run(
    replies: impl IntoIterator<Item = Reply>,
    rest: &str,
) -> (ExecutionResult, Vec<ReceivedRequest>, usize) {
    let server = ModelServer::replies(replies);
    let tools = Arc::new(ScriptedTools::default());
    let result = ask(&equipped(&agent_of(&server, rest), Arc::clone(&tools) as _), "go").await;
    let requests = server.finish();
    (result.unwrap(), requests, tools.called().len())
}

#[tokio::test]
async fn arguments_that_are_not_json_are_reported_to_the_model() {
    let broken = Reply::nothing().and_tool_call("c1", "echo", "{\"text\": ");
    let (result, requests, called) = run([broken, Reply::text("sorry")], "").await;
    assert_eq!(called, 0);
    assert!(result.tool_results[0].is_error);
    assert_eq!(
        requests[1].texts("tool"),
        [
            "the arguments for `echo` are not a JSON object (EOF while parsing a value at line 1 column 9); \
          call it again with one"
        ]
    );
    assert_eq!(
        requests[1].messages()[2]["tool_calls"][0]["function"]["arguments"],
        json!({"invalid_arguments": "{\"text\": "}).to_string()
    );
    assert_eq!(result.response, "sorry");
}

#[tokio::test]
async fn empty_arguments_are_an_empty_object() {
    let bare = Reply::nothing().and_tool_call("c1", "echo", "");
    let (result, _, called) = run([bare, Reply::text("done")], "").await;
    assert_eq!((called, &result.tool_calls[0].arguments), (1, &json!({})));
}

#[tokio::test]
async fn a_tool_that_is_not_offered_is_not_run_either() {
    let call = Reply::tool_call("c1", "echo", &json!({"text": "x"}));
    let rest = "openai:\n  disallowed_tools: [echo]\n";
    let (result, requests, called) = run([call, Reply::text("done")], rest).await;
    assert_eq!(called, 0);
    assert_eq!(result.tool_results[0].result, "tool `echo` is not allowed");
    let offered = requests[0].body["tools"].as_array().unwrap();
    assert!(offered.iter().all(|tool| tool["function"]["name"] != "echo"));
}

#[tokio::test]
async fn ids_that_are_missing_or_used_twice_are_replaced() {
    let call = |id: &str| Reply::nothing().and_tool_call(id, "echo", "{}");
    let both = call("").and_tool_call("x", "echo", "{}");
    let (result, _, _) = run([both, call("x"), call(""), Reply::text("done")], "").await;
    let ids: Vec<_> = result
        .tool_calls
        .iter()
        .map(|call| call.call_id.as_str())
        .collect();
    assert_eq!(ids, ["hd_call_1", "x", "hd_x_1", "hd_call_2"]);
    let answered: Vec<_> = result
        .tool_results
        .iter()
        .map(|result| result.call_id.as_str())
        .collect();
    assert_eq!(answered, ids);
}

#[tokio::test]
async fn calls_in_fragments_with_text_beside_them() {
    let reply = Reply::text("let me look")
        .and_tool_call("c1", "echo", "{\"text\": \"äöü\"}")
        .and_tool_call("c2", "fails", "{}")
        .in_pieces(5)
        .split_every(3)
        .finish_reason("stop");
    let (result, requests, called) = run([reply, Reply::text("done")], "").await;
    assert_eq!(called, 2);
    assert_eq!(requests[1].messages()[2]["content"], "let me look");
    assert_eq!(result.tool_results[0].result, "äöü");
    assert_eq!(
        (result.tool_results[1].is_error, result.response.as_str()),
        (true, "done")
    );
}

/// E-05: results are emitted as they arrive, and sent to the model in the order of its calls, with the pictures after
/// them.
#[tokio::test]
async fn results_are_emitted_as_they_arrive_and_sent_in_the_order_of_the_calls() {
    let calls = Reply::nothing()
        .and_tool_call("c1", "last", "{\"text\": \"1\"}")
        .and_tool_call("c2", "picture", "{\"text\": \"2\"}")
        .and_tool_call("c3", "echo", "{\"text\": \"3\"}");
    let (result, requests, called) = run([calls, Reply::text("done")], "").await;
    assert_eq!(called, 3);
    let arrived: Vec<_> = result
        .tool_results
        .iter()
        .map(|result| result.call_id.as_str())
        .collect();
    assert_eq!(arrived, ["c2", "c3", "c1"]);
    let sent = &requests[1].messages()[3..];
    let roles: Vec<_> = sent
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["tool", "tool", "tool", "user"]);
    let ids: Vec<_> = sent[..3]
        .iter()
        .map(|message| message["tool_call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["c1", "c2", "c3"]);
}

#[tokio::test]
async fn a_tool_that_cannot_run_reports_the_reason() {
    let call = Reply::tool_call("c1", "missing", &json!({}));
    let (result, _, _) = run([call], "").await;
    assert_eq!(result.error_reason().unwrap(), "tool execution failed: missing");
    assert_eq!(
        result.tool_results[0].result,
        "tool `missing` could not be run: its program is missing"
    );
}

#[tokio::test]
async fn pictures_reach_the_model_after_all_answers() {
    let both = Reply::nothing()
        .and_tool_call("c1", "picture", "{\"text\": \"a dot\"}")
        .and_tool_call("c2", "echo", "{\"text\": \"x\"}");
    let (result, requests, _) = run([both, Reply::text("red")], "").await;
    assert_eq!(result.tool_results[0].result, "a dot\n[image]");
    let messages = requests[1].messages();
    let roles: Vec<_> = messages[3..]
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["tool", "tool", "user"]);
    let url = format!("data:image/png;base64,{}", red_dot().base64);
    assert_eq!(
        messages[5]["content"],
        json!([
            {"type": "text", "text": "The picture that `picture` answered with:"},
            {"type": "image_url", "image_url": {"url": url}},
        ])
    );
}

#[tokio::test]
async fn a_question_may_contain_pictures() {
    let server = ModelServer::replies([Reply::text("red")]);
    let backend = equipped(&agent_of(&server, ""), Arc::new(ScriptedTools::default()));
    let request = TurnRequest {
        images: vec![red_dot()],
        ..TurnRequest::new("Which colour?")
    };
    collect(holodeck_backend_api::AgentBackend::start(&backend, request))
        .await
        .unwrap();
    let url = format!("data:image/png;base64,{}", red_dot().base64);
    assert_eq!(
        server.finish()[0].messages()[1]["content"],
        json!([
            {"type": "text", "text": "Which colour?"},
            {"type": "image_url", "image_url": {"url": url}},
        ])
    );
}
