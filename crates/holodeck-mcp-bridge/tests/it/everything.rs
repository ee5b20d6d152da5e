//! Tests with the reference server that implements every part of the protocol.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use holodeck_backend_api::{Role, ToolCx, ToolError};
use holodeck_mcp_bridge::{
    Elicitation, ElicitationAnswer, ElicitationHost, McpServer, SamplingAnswer, SamplingHost, SamplingRequest,
};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::setup::{call, connect, find, lives, names, node, options, real, text, until};

async fn everything(more: &str) -> McpServer {
    let folder = tempfile::tempdir().unwrap();
    connect(
        &node("everything", &real("everything"), more),
        &options(folder.path()),
    )
    .await
}

#[tokio::test]
async fn its_tools_are_ours() {
    let server = everything("").await;
    let info = server.info();
    assert_eq!(
        (info.tool.as_str(), info.protocol.as_str()),
        ("everything", "2025-11-25")
    );
    assert!(info.name.is_some() && info.version.is_some(), "{info:?}");
    let sum = find(&server, "mcp__everything__get-sum");
    assert_eq!(sum.spec().parameters["required"], json!(["a", "b"]));
    assert_eq!(
        text(
            &server,
            "mcp__everything__echo",
            json!({ "message": "gingerbread" })
        )
        .await,
        "Echo: gingerbread"
    );
    let sum = text(&server, "mcp__everything__get-sum", json!({ "a": 40, "b": 2 })).await;
    assert!(sum.contains("42"), "{sum}");
    let process = info.process.unwrap();
    assert!(lives(process));
    server.close().await;
    assert!(!lives(process));
    let closed = find(&server, "mcp__everything__echo");
    let error = closed
        .call(json!({ "message": "x" }), ToolCx::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ToolError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn pictures_resources_links_and_structure_reach_the_model() {
    let server = everything("").await;
    let picture = call(&server, "mcp__everything__get-tiny-image", json!({}))
        .await
        .unwrap();
    assert_eq!(picture.images.len(), 1);
    assert_eq!(picture.images[0].media_type, "image/png");
    assert!(picture.images[0].base64.len() > 100);
    let reference = json!({ "resourceType": "Text", "resourceId": 1 });
    let resource = text(&server, "mcp__everything__get-resource-reference", reference).await;
    assert!(resource.contains("[resource demo://"), "{resource}");
    let links = text(
        &server,
        "mcp__everything__get-resource-links",
        json!({ "count": 2 }),
    )
    .await;
    assert_eq!(links.matches("[link to resource ").count(), 2, "{links}");
    let weather = json!({ "location": "New York" });
    let weather = text(&server, "mcp__everything__get-structured-content", weather).await;
    assert_eq!(weather.matches("temperature").count(), 1, "{weather}");
}

#[tokio::test]
async fn a_failure_is_reported_to_the_model() {
    let server = everything("").await;
    let output = call(&server, "mcp__everything__get-sum", json!({ "a": "x" }))
        .await
        .unwrap();
    assert!(output.is_error);
    assert!(output.text.contains("expected number"), "{}", output.text);
}

#[tokio::test]
async fn only_allowed_tools_are_offered() {
    let server = everything("config: {allowed_tools: [echo, get-sum]}").await;
    assert_eq!(
        names(&server),
        ["mcp__everything__echo", "mcp__everything__get-sum"]
    );
    let server = everything("load_tools: false").await;
    assert!(names(&server).is_empty());
}

#[tokio::test]
async fn prompts_are_tools_if_asked_for() {
    let server = everything("load_tools: false\nload_prompts: true").await;
    let prompt = find(&server, "mcp__everything__args-prompt");
    assert_eq!(prompt.spec().parameters["required"], json!(["city"]));
    let weather = text(&server, "mcp__everything__args-prompt", json!({ "city": "Bern" })).await;
    assert!(weather.contains("Bern"), "{weather}");
}

#[tokio::test]
async fn the_environment_is_the_yaml_s_and_harmless_variables() {
    let server = everything("env: {GREETING: hello}\nconfig: {depth: 3}").await;
    let environment = text(&server, "mcp__everything__get-env", json!({})).await;
    let environment: serde_json::Value = serde_json::from_str(&environment).unwrap();
    assert_eq!(environment["GREETING"], "hello");
    assert_eq!(environment["MCP_CONFIG"], "{\"depth\":3}");
    assert_eq!(environment.get("OPENAI_API_KEY"), None);
}

#[tokio::test]
async fn a_call_that_is_stopped_is_taken_back() {
    let server = everything("").await;
    let slow = find(&server, "mcp__everything__trigger-long-running-operation");
    let cancel = CancellationToken::new();
    let cx = ToolCx {
        cancel: cancel.clone(),
        ..ToolCx::default()
    };
    let call = slow.call(json!({ "duration": 600, "steps": 600 }), cx);
    tokio::pin!(call);
    assert!(futures::poll!(&mut call).is_pending());
    cancel.cancel();
    assert!(matches!(call.await, Err(ToolError::Cancelled)));
    assert_eq!(
        text(&server, "mcp__everything__echo", json!({ "message": "x" })).await,
        "Echo: x"
    );
}

struct Oracle(Mutex<Vec<SamplingRequest>>);

#[async_trait]
impl SamplingHost for Oracle {
    async fn sample(&self, request: SamplingRequest, _: ToolCx) -> Result<SamplingAnswer, String> {
        self.0.lock().unwrap().push(request);
        Ok(SamplingAnswer {
            text: "forty-two".to_owned(),
            model: "oracle".to_owned(),
            stop_reason: Some("endTurn".to_owned()),
        })
    }
}

#[tokio::test]
async fn a_model_is_asked_only_if_there_is_one_and_the_yaml_allows_it() {
    let server = everything("").await;
    let sampling = "mcp__everything__trigger-sampling-request";
    assert!(!names(&server).iter().any(|name| name == sampling));

    let folder = tempfile::tempdir().unwrap();
    let oracle = Arc::new(Oracle(Mutex::default()));
    let mut options = options(folder.path());
    options.sampling = Some(Arc::clone(&oracle) as Arc<dyn SamplingHost>);
    let denied = connect(&node("everything", &real("everything"), ""), &options).await;
    let server = connect(
        &node("everything", &real("everything"), "sampling: allow"),
        &options,
    )
    .await;
    // The server announces this tool once it sees the sampling capability.
    until("the list is another", || {
        names(&server).iter().any(|name| name == sampling)
    })
    .await;
    let answer = text(
        &server,
        sampling,
        json!({ "prompt": "What is it?", "maxTokens": 7 }),
    )
    .await;
    assert!(answer.contains("forty-two"), "{answer}");
    let asked = oracle.0.lock().unwrap().remove(0);
    assert_eq!((asked.server.as_str(), asked.max_tokens), ("everything", 7));
    assert_eq!(asked.messages[0].role, Role::User);
    assert!(asked.messages[0].text.contains("What is it?"));
    text(&denied, "mcp__everything__echo", json!({ "message": "x" })).await;
    assert!(!names(&denied).iter().any(|name| name == sampling));
}

struct Person(Mutex<Vec<Elicitation>>);

#[async_trait]
impl ElicitationHost for Person {
    async fn elicit(&self, question: Elicitation) -> ElicitationAnswer {
        self.0.lock().unwrap().push(question);
        ElicitationAnswer::Accept(json!({ "name": "Ada" }))
    }
}

#[tokio::test]
async fn a_question_to_the_person_is_declined_or_answered() {
    let elicitation = "mcp__everything__trigger-elicitation-request";
    let server = everything("").await;
    until("the list is another", || {
        names(&server).iter().any(|name| name == elicitation)
    })
    .await;
    let answer = text(&server, elicitation, json!({})).await;
    assert!(answer.contains("declined"), "{answer}");

    let folder = tempfile::tempdir().unwrap();
    let person = Arc::new(Person(Mutex::default()));
    let mut options = options(folder.path());
    options.elicitation = Some(Arc::clone(&person) as Arc<dyn ElicitationHost>);
    let server = connect(&node("everything", &real("everything"), ""), &options).await;
    until("the list is another", || {
        names(&server).iter().any(|name| name == elicitation)
    })
    .await;
    let answer = text(&server, elicitation, json!({})).await;
    assert!(answer.contains("Ada"), "{answer}");
    let asked = person.0.lock().unwrap().remove(0);
    assert_eq!(asked.schema["properties"]["name"]["type"], "string");
}
