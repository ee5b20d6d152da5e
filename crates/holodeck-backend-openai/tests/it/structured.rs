//! Tests of structured answers: validated, repaired once, and requested in another way after a refusal.

use std::sync::Arc;

use holodeck_backend_api::{AgentBackend as _, NoTools, Outcome};
use holodeck_testkit::{ModelReply, ModelServer, Reply, ScriptedModel};
use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{agent_of, ask, backend, notices, run_turn, scripted};

const FORMAT: &str =
    "response_format:\n  type: object\n  properties:\n    days: {type: integer}\n  required: [days]\n";

#[tokio::test]
async fn a_wrong_answer_is_repaired_once() {
    let model = ScriptedModel::replies([
        ModelReply::text("thirty"),
        ModelReply::text("```json\n{\"days\": 30}\n```"),
        ModelReply::text("{\"days\": 31}"),
    ]);
    let backend = scripted(FORMAT, &model, Arc::new(NoTools));
    let mut session = backend.create_session().await.unwrap();
    let result = session.send("how long?").await.unwrap();
    assert_eq!(result.structured_output, Some(json!({"days": 30})));
    assert_eq!(result.response, "{\"days\":30}");
    assert_eq!((result.num_turns, result.outcome), (2, Outcome::Completed));
    let request = model.requests().pop().unwrap();
    let repair = request.body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_snapshot!(repair.as_str().unwrap());
    // The next request does not contain the exchange about the wrong answer.
    session.send("really?").await.unwrap();
    let request = model.requests().pop().unwrap();
    let contents: Vec<_> = request.body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["content"])
        .collect();
    assert_eq!(
        contents,
        ["be brief", "how long?", "```json\n{\"days\": 30}\n```", "really?"]
    );
}

#[tokio::test]
async fn an_answer_that_stays_wrong_is_an_error() {
    let wrong = || ModelReply::text("{\"days\": \"30\"}");
    let model = ScriptedModel::replies([wrong(), wrong()]);
    let result = ask(&scripted(FORMAT, &model, Arc::new(NoTools)), "how long?")
        .await
        .unwrap();
    assert_eq!(
        result.error_reason().unwrap(),
        "structured output does not match the schema: \"30\" is not of type \"integer\" at `/days`"
    );
    assert_eq!(result.response, "{\"days\": \"30\"}");
    assert_eq!(result.structured_output, None);
}

#[tokio::test]
async fn a_repair_counts_as_a_model_call() {
    let model = ScriptedModel::replies([ModelReply::text("thirty")]);
    let rest = format!("{FORMAT}openai:\n  max_turns: 1\n");
    let result = ask(&scripted(&rest, &model, Arc::new(NoTools)), "how long?")
        .await
        .unwrap();
    assert!(
        result
            .error_reason()
            .unwrap()
            .starts_with("structured output does not match")
    );
}

#[tokio::test]
async fn a_server_that_does_not_take_the_format_gets_instructions() {
    let server = ModelServer::answering(|request| {
        if request.body.get("response_format").is_some() {
            Reply::openai_error(400, "'response_format.type' must be 'text'", None, None)
        } else {
            Reply::text("{\"days\": 30}")
        }
    });
    let backend = backend(&agent_of(&server, FORMAT));
    let (events, error) = run_turn(&backend).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        notices(&events),
        ["the endpoint does not support `response_format`; the schema is sent to the model as instructions"]
    );
    let (events, _) = run_turn(&backend).await;
    assert_eq!(notices(&events), Vec::<&str>::new());
    let requests = server.finish();
    assert_eq!(requests.len(), 3);
    assert_snapshot!(requests[1].texts("system")[0]);
}

#[tokio::test]
async fn another_refusal_is_an_error() {
    for (message, requests) in [("the context length is 8", 1), ("something else", 2)] {
        let server = ModelServer::answering(move |_| Reply::openai_error(400, message, None, None));
        let error = ask(&backend(&agent_of(&server, FORMAT)), "how long?")
            .await
            .unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(server.finish().len(), requests, "{message}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_model_is_not_validated() {
    let server = ModelServer::replies([Reply::refusal("I won't")]);
    let result = ask(&backend(&agent_of(&server, FORMAT)), "how long?")
        .await
        .unwrap();
    assert_eq!(
        (result.response.as_str(), result.outcome),
        ("I won't", Outcome::Refused)
    );
    server.finish();
}

#[tokio::test]
async fn a_closed_schema_is_sent_as_strict() {
    let server = ModelServer::replies([Reply::text("{\"days\": 30}"), Reply::text("{\"days\": 30}")]);
    ask(&backend(&agent_of(&server, FORMAT)), "how long?")
        .await
        .unwrap();
    let closed = format!("{FORMAT}  additionalProperties: false\n");
    ask(&backend(&agent_of(&server, &closed)), "how long?")
        .await
        .unwrap();
    let formats: Vec<_> = server
        .finish()
        .into_iter()
        .map(|request| request.body["response_format"].clone())
        .collect();
    assert_eq!(formats[0]["json_schema"].get("strict"), None);
    assert_eq!(formats[1]["json_schema"]["strict"], true);
}
