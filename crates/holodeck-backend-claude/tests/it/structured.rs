//! Structured answers, checked by the CLI and again by the backend.

use std::sync::Arc;

use holodeck_backend_api::{AgentBackend as _, BackendError, BackendEvent, Outcome, TurnRequest};
use holodeck_backend_claude::ClaudeBackend;
use holodeck_model::MAX_CLAUDE_SCHEMA_BYTES;
use holodeck_testkit::{AnthropicReply, AnthropicRequest, AnthropicServer};
use holodeck_validators::SchemaFormat;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::setup::{TurnLog, conversation_texts, options, turn};

fn answer(input: &Value) -> AnthropicReply {
    AnthropicReply::tool_use("StructuredOutput", input)
}

/// Runs a turn for each of `messages`, with shared processes.
async fn run_turns(
    schema: Value,
    messages: &[&str],
    script: fn(&AnthropicRequest) -> AnthropicReply,
) -> (Vec<TurnLog>, Vec<AnthropicRequest>) {
    let server = AnthropicServer::answering(script);
    let backend =
        ClaudeBackend::new(options(&server).response_format(Arc::new(SchemaFormat::new(&schema).unwrap())))
            .unwrap();
    let mut logs = Vec::new();
    for message in messages {
        logs.push(turn(backend.start(TurnRequest::new(*message))).await);
    }
    backend.teardown().await.unwrap();
    (logs, server.finish())
}

fn reason(log: &TurnLog) -> String {
    log.result().error_reason().unwrap().into_owned()
}

fn script(request: &AnthropicRequest) -> AnthropicReply {
    let texts = conversation_texts(request);
    let is_retry = request
        .messages()
        .iter()
        .any(|message| message["role"] == "assistant");
    match texts.first().map(String::as_str) {
        Some("good") => answer(&json!({"city": "Oslo"})),
        Some("corrected") if !is_retry => answer(&json!({"city": 7})),
        Some("corrected") => answer(&json!({"city": "Rome"})),
        Some("hopeless") => answer(&json!({"city": 7})),
        _ => AnthropicReply::text("It is Oslo."),
    }
}

#[tokio::test]
async fn an_answer_matches_the_format_or_is_an_error_with_a_reason() {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    });
    let messages = ["good", "corrected", "prose", "hopeless"];
    let (logs, requests) = run_turns(schema.clone(), &messages, script).await;
    for (log, city) in logs.iter().zip(["Oslo", "Rome"]) {
        let result = log.result();
        let object = json!({ "city": city });
        assert_eq!(result.outcome, Outcome::Completed);
        assert_eq!(result.structured_output.as_ref(), Some(&object));
        assert_eq!(serde_json::from_str::<Value>(&result.response).unwrap(), object);
        assert_eq!(result.tool_calls, []);
        assert!(log.events.contains(&BackendEvent::StructuredOutput(object)));
    }
    assert_eq!(logs[2].result().structured_output, None);
    assert!(reason(&logs[2]).ends_with("the model never gave a structured answer"));
    assert_eq!(logs[3].result().structured_output, None);
    let exhausted = reason(&logs[3]);
    assert!(exhausted.contains("5 attempts"), "{exhausted}");
    let offered = requests[0].tool("StructuredOutput").unwrap();
    assert_eq!(offered["input_schema"]["properties"], schema["properties"]);
    // The model gets the error.
    let corrected = requests.iter().find(|request| {
        conversation_texts(request)
            .first()
            .is_some_and(|text| text == "corrected")
            && !request.tool_results().is_empty()
    });
    let result = &corrected.unwrap().tool_results()[0];
    assert!(result.is_error && result.text.contains("city"), "{result:?}");
}

/// The CLI supports only its own dialect, and its regular expressions see a word boundary before an `é`.
#[tokio::test]
async fn answers_that_the_cli_accepts_are_checked_again() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"place": {"type": "string", "pattern": r"caf\b"}},
    });
    let script = |_: &AnthropicRequest| answer(&json!({"place": "café"}));
    let (logs, _) = run_turns(schema, &["go"], script).await;
    assert_eq!(logs[0].result().structured_output, None);
    let invalid = reason(&logs[0]);
    assert!(
        invalid.starts_with("the structured output does not match `response_format`"),
        "{invalid}"
    );
}

/// The CLI reads numbers as JavaScript does: without the last digits they would be whole.
#[tokio::test]
async fn a_number_that_the_cli_rounds_is_read_as_the_model_sent_it() {
    let score = json!({"type": "number", "maximum": 10});
    let schema = json!({"type": "object", "properties": {"score": score}, "required": ["score"]});
    let script = |request: &AnthropicRequest| {
        let sent = conversation_texts(request).first().cloned().unwrap_or_default();
        AnthropicReply::nothing()
            .and_tool_use_as(
                "toolu_score",
                "StructuredOutput",
                &format!("{{\"score\": {sent}}}"),
            )
            .in_pieces(3)
    };
    let rounded = ["9.99999999999999999", "10.00000000000000000001", "1e-400"];
    let exact = [("8", json!(8)), ("1e1", json!(10.0)), ("9.5", json!(9.5))];
    let messages: Vec<&str> = rounded
        .into_iter()
        .chain(exact.iter().map(|(sent, _)| *sent))
        .collect();
    let (logs, _) = run_turns(schema, &messages, script).await;
    for (log, sent) in logs.iter().zip(rounded) {
        assert_eq!(log.result().structured_output, None, "{sent}");
        let reason = reason(log);
        assert!(
            reason.contains("has a fraction that would be lost"),
            "{sent}: {reason}"
        );
    }
    for (log, (sent, value)) in logs.iter().skip(rounded.len()).zip(exact) {
        assert_eq!(
            log.result().structured_output,
            Some(json!({"score": value})),
            "{sent}"
        );
    }
}

/// A schema whose text has exactly this many bytes.
fn schema_of(bytes: usize) -> Value {
    let with = |description: &str| {
        json!({
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
            "additionalProperties": false, "description": description,
        })
    };
    let rest = bytes - with("").to_string().len();
    with(&"x".repeat(rest))
}

/// The longest schema that is accepted fits into an argument of the real CLI; one byte more is refused by name, and no
/// process is started.
#[tokio::test]
async fn the_longest_format_works_and_a_longer_one_is_refused_by_name() {
    let (logs, requests) = run_turns(schema_of(MAX_CLAUDE_SCHEMA_BYTES), &["good"], script).await;
    assert_eq!(logs[0].result().structured_output, Some(json!({"city": "Oslo"})));
    assert_eq!(requests.len(), 1);
    let server = AnthropicServer::answering(script);
    for bytes in [MAX_CLAUDE_SCHEMA_BYTES + 1, 4 * MAX_CLAUDE_SCHEMA_BYTES] {
        let format = Arc::new(SchemaFormat::new(&schema_of(bytes)).unwrap());
        let Err(error) = ClaudeBackend::new(options(&server).response_format(format)) else {
            panic!("{bytes} bytes were accepted");
        };
        assert!(matches!(error, BackendError::Init(_)), "{error:?}");
        assert!(
            error
                .to_string()
                .contains("`response_format` is longer than 120 KiB"),
            "{error}"
        );
    }
    server.finish();
}
