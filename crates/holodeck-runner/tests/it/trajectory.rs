//! Tests of the trajectory in the journal: secrets are masked, and ordinary turns have none.

use std::fs;

use holodeck_backend_api::{
    Approval, ApprovalDecision, BackendEvent, CallDetails, DecidedBy, ToolCall, ToolResult,
};
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use serde_json::{Value, json};

use crate::support::Project;

/// In two parts, so that secret scanners do not report it.
const SECRET: &str = concat!("sk-", "proj-AbCdEf0123456789AbCdEf0123456789");

fn nested(event: BackendEvent) -> BackendEvent {
    BackendEvent::Nested {
        parent_call_id: "t".to_owned(),
        event: Box::new(event),
    }
}

fn turn() -> ScriptedTurn {
    let reject = ApprovalDecision::reject(format!("no {SECRET}"));
    ScriptedTurn::nothing()
        .and_event(BackendEvent::ToolCall(ToolCall {
            name: "Agent".to_owned(),
            arguments: json!({}),
            call_id: "t".to_owned(),
            provider_fields: None,
        }))
        .and_event(nested(BackendEvent::ToolCall(ToolCall {
            name: "search".to_owned(),
            arguments: json!({"key": SECRET}),
            call_id: "u".to_owned(),
            provider_fields: None,
        })))
        .and_event(BackendEvent::ApprovalDecided(Approval {
            call_id: "u".to_owned(),
            decision: reject,
            by: DecidedBy::Rule,
            basis: None,
        }))
        .and_event(nested(BackendEvent::ToolResult(ToolResult {
            call_id: "u".to_owned(),
            name: "search".to_owned(),
            result: format!("found {SECRET}"),
            is_error: true,
            duration_ms: None,
            details: CallDetails::default(),
        })))
        .and_event(BackendEvent::Notice {
            message: format!("slow for {SECRET}"),
        })
        .and_text("done")
}

#[tokio::test]
async fn secrets_in_a_trajectory_are_masked_in_the_journal() {
    let project = Project::new("test_cases: [{input: q}]");
    let run = project.run(&ScriptedBackend::answering(|_| turn())).await;
    let journal = fs::read_to_string(run.outcome.journal_path()).unwrap();
    assert!(!journal.contains("AbCdEf"), "{journal}");
    let mut lines = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ran = lines.find(|line| line.get("ran").is_some()).unwrap();
    assert_eq!(
        ran["ran"]["unit"]["turns"][0]["trajectory"],
        json!([
            {"parent_call_id": "t", "tool_call": {"name": "search", "arguments": {"key": "***"}, "call_id": "u"}},
            {"parent_call_id": "t",
             "approval": {"call_id": "u", "decision": {"reject": {"reason": "no ***"}}, "by": "rule"}},
            {"parent_call_id": "t", "tool_result":
                {"call_id": "u", "name": "search", "result": "found ***", "is_error": true}},
            {"notice": {"message": "slow for ***"}},
        ])
    );
}

#[tokio::test]
async fn an_ordinary_journal_line_has_no_trajectory() {
    let project = Project::new("test_cases: [{input: q}]");
    let backend = ScriptedBackend::answering(|_| ScriptedTurn::text("done"));
    let run = project.run(&backend).await;
    let journal = fs::read_to_string(run.outcome.journal_path()).unwrap();
    assert!(!journal.contains("trajectory"), "{journal}");
}
