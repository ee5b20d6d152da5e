//! Answers of a form, checked by the CLI and again by us.

use holodeck_backend_api::{AgentBackend as _, BackendEvent, Outcome, TurnRequest};
use holodeck_backend_claude::ClaudeBackend;
use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{Heard, options, said, turn};

fn answer(input: &Value) -> AnthropicReply {
    AnthropicReply::tool_use("StructuredOutput", input)
}

/// Runs one message for each of `messages`, with shared processes.
async fn answers(
    schema: Value,
    messages: &[&str],
    script: fn(&AnthropicRequest) -> AnthropicReply,
) -> (Vec<Heard>, Vec<AnthropicRequest>) {
    let server = AnthropicServer::answering(script);
    let backend = ClaudeBackend::new(options(&server).response_format(schema)).unwrap();
    let mut heard = Vec::new();
    for message in messages {
        heard.push(turn(backend.start(TurnRequest::new(*message))).await);
    }
    backend.teardown().await.unwrap();
    (heard, server.finish())
}

fn reason(heard: &Heard) -> String {
    heard.result().error_reason().unwrap().into_owned()
}

fn script(request: &AnthropicRequest) -> AnthropicReply {
    let said = said(request);
    let tried = request
        .messages()
        .iter()
        .any(|message| message["role"] == "assistant");
    match said.first().map(String::as_str) {
        Some("good") => answer(&json!({"city": "Oslo"})),
        Some("mended") if !tried => answer(&json!({"city": 7})),
        Some("mended") => answer(&json!({"city": "Rome"})),
        Some("hopeless") => answer(&json!({"city": 7})),
        _ => AnthropicReply::text("It is Oslo."),
    }
}

#[tokio::test]
async fn an_answer_has_the_form_or_is_an_error_that_says_why() {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    });
    let messages = ["good", "mended", "prose", "hopeless"];
    let (heard, requests) = answers(schema.clone(), &messages, script).await;
    for (heard, city) in heard.iter().zip(["Oslo", "Rome"]) {
        let result = heard.result();
        let object = json!({ "city": city });
        assert_eq!(result.outcome, Outcome::Completed);
        assert_eq!(result.structured_output.as_ref(), Some(&object));
        assert_eq!(serde_json::from_str::<Value>(&result.response).unwrap(), object);
        assert_eq!(result.tool_calls, []);
        assert!(heard.events.contains(&BackendEvent::StructuredOutput(object)));
    }
    assert_eq!(heard[2].result().structured_output, None);
    assert!(reason(&heard[2]).ends_with("the model never gave a structured answer"));
    assert_eq!(heard[3].result().structured_output, None);
    let exhausted = reason(&heard[3]);
    assert!(exhausted.contains("5 attempts"), "{exhausted}");
    let offered = requests[0].tool("StructuredOutput").unwrap();
    assert_eq!(offered["input_schema"]["properties"], schema["properties"]);
    // What was wrong is told to the model.
    let mended = requests.iter().find(|request| {
        said(request).first().is_some_and(|said| said == "mended") && !request.tool_results().is_empty()
    });
    let told = &mended.unwrap().tool_results()[0];
    assert!(told.is_error && told.text.contains("city"), "{told:?}");
}

/// The CLI knows no dialect but its own, and to its regular expressions a word ends before an `é`.
#[tokio::test]
async fn what_the_cli_lets_pass_is_checked_again() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"place": {"type": "string", "pattern": r"caf\b"}},
    });
    let script = |_: &AnthropicRequest| answer(&json!({"place": "café"}));
    let (heard, _) = answers(schema, &["go"], script).await;
    assert_eq!(heard[0].result().structured_output, None);
    let invalid = reason(&heard[0]);
    assert!(
        invalid.starts_with("the structured output does not satisfy `response_format`"),
        "{invalid}"
    );
}
