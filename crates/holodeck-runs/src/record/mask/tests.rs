//! Tests that no text of a record or grade keeps a secret, whichever text it is.

use holodeck_model::UnitKey;
use pretty_assertions::assert_eq;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "hunter2-hunter2-hunter2";

/// Ends of paths to texts that come from this program alone: times, and the kinds of metrics.
const OWN: [&str; 3] = ["/at", "/metrics/0/kind", "/metrics/0/scale"];

fn redactor() -> Redactor {
    Redactor::new([SECRET.to_owned()])
}

/// The paths to all texts in a value.
fn paths_of(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::String(_) => paths.push(path.to_owned()),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                paths_of(item, &format!("{path}/{at}"), paths);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                paths_of(field, &format!("{path}/{name}"), paths);
            }
        }
        _ => {}
    }
}

/// Puts the secret into each text, alone and within others, and masks the result. Returns the number of texts.
fn try_every_text<T: Serialize + DeserializeOwned>(full: &Value, mask: impl Fn(&mut T)) -> usize {
    let kept: T = serde_json::from_value(full.clone()).unwrap();
    // Every field of the fixture is one that is stored.
    assert_eq!(&serde_json::to_value(&kept).unwrap(), full);
    let mut paths = Vec::new();
    paths_of(full, "", &mut paths);
    let mut tried = 0;
    for path in paths
        .iter()
        .filter(|path| !OWN.iter().any(|own| path.ends_with(own)))
    {
        for text in [
            SECRET.to_owned(),
            format!("tool execution failed: {SECRET} x"),
            format!("call_{SECRET}"),
        ] {
            let mut changed = full.clone();
            *changed.pointer_mut(path).unwrap() = text.into();
            let Ok(mut record) = serde_json::from_value::<T>(changed) else {
                continue;
            };
            mask(&mut record);
            let written = serde_json::to_string(&record).unwrap();
            assert!(!written.contains(SECRET), "{path}: {written}");
            tried += 1;
        }
    }
    tried
}

fn call(id: &str) -> Value {
    let fields = json!({"model": "m", "message": {"a": "b"}, "call": {"c": ["d"]}});
    json!({"name": "weather", "arguments": {"city": "Paris"}, "call_id": id, "provider_fields": fields})
}

fn result(id: &str) -> Value {
    json!({
        "call_id": id, "name": "weather", "result": "sunny", "is_error": false, "duration_ms": 1,
        "namesakes": ["other"], "passages": [{"text": "p", "source": "s"}],
    })
}

fn failure() -> Value {
    json!({"kind": "checks", "field": "f", "text": "t", "hint": "h"})
}

fn unit() -> Value {
    let key = serde_json::to_value(UnitKey::NO_CASE).unwrap();
    let approval = json!({
        "call_id": "c1", "decision": {"reject": {"reason": "r"}}, "by": "person",
    });
    json!({
        "key": key,
        "case": {"id": key["case"], "content": key["case"]},
        "name": "n",
        "at": "2026-11-26T00:00:00Z",
        "turns": [{
            "input": "i",
            "files": [{"name": "f"}],
            "state": "completed",
            "result": {
                "response": "r",
                "tool_calls": [call("c1"), call("c2")],
                "tool_results": [result("c1"), result("c2")],
                "token_usage": null,
                "structured_output": {"a": "b"},
                "number_odds": [{"field": "f", "value": 1, "odds": []}],
                "num_turns": 1,
                "is_error": true,
                "error_reason": "tool execution failed: weather",
                "error_detail": "d",
                "thinking": "t",
                "model": "m",
                "truncated": true,
                "truncated_by": "odd",
                "execution": {
                    "command_name": "run", "executor": null, "agent": "a", "selected": "s", "decision": null,
                    "confidence": 0.5, "reason": "r", "model": "m", "selection_problem": "p",
                },
            },
            "elapsed_ms": 1,
            "trajectory": [
                {"parent_call_id": "c1", "approval": approval},
                {"parent_call_id": "c1", "tool_call": call("n1")},
                {"parent_call_id": "c1", "tool_result": result("n1")},
                {"notice": {"message": "m"}},
                {"ignored": {"repeated_call": {"id": "c1"}}},
            ],
            "failures": [failure()],
            "redacted": {"arguments": ["c1"], "results": ["c1"]},
            "traceparent": "t",
        }],
        "failures": [failure()],
        "user": {"closing": "c", "model": "m", "failure": failure()},
        "route": {
            "agent": "a", "refused": "r", "unselected": "u", "confidence": 0.5, "reason": "r",
        },
    })
}

#[test]
fn a_secret_in_any_text_of_a_record_is_masked() {
    let redactor = redactor();
    let tried = try_every_text(&unit(), |unit: &mut UnitRecord| unit.mask(&redactor));
    assert!(tried > 120, "{tried}");
}

#[test]
fn a_secret_in_any_text_of_a_grade_is_masked() {
    let metric = json!({
        "metric_name": "m", "kind": "geval", "score": null, "threshold": null, "passed": null, "scale": "0-1",
        "error": "e", "retry_count": 0, "evaluation_time_ms": null, "model_used": "m",
        "jurors": [{"model": "m", "reported": "r", "missing": "x"}],
        "reasoning": "r", "details": {"a": "b"},
        "missing_votes": [{"judge": "j", "number": 1, "reason": "r"}],
    });
    let turn = json!({
        "state": "failed",
        "arg_match_details": [
            {"expected_tool": "t", "args_asserted": {"a": "b"}, "matched_call_index": -1, "unmatched_reason": "u"}
        ],
        "approvals": [{"tool": "t", "expected": "allowed", "got": ["g"], "met": false}],
        "metrics": [metric],
        "failures": [failure()],
        "retrieval_context": ["c"],
    });
    let full = json!({"deciders": {}, "state": "failed", "turns": [turn], "conversation": turn});
    let redactor = redactor();
    let kept: Grade = serde_json::from_value(full).unwrap();
    let full = serde_json::to_value(&kept).unwrap();
    let tried = try_every_text(&full, |grade: &mut Grade| grade.mask(&redactor));
    assert!(tried > 60, "{tried}");
}

#[test]
fn masked_ids_still_join_calls_and_results_and_stay_different() {
    let mut full = unit();
    let turn = &mut full["turns"][0];
    // Two ids of which nothing is left but the mask.
    let other = concat!("sk-", "proj-aaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    for (at, id) in [SECRET, other].into_iter().enumerate() {
        turn["result"]["tool_calls"][at]["call_id"] = id.into();
        turn["result"]["tool_results"][at]["call_id"] = id.into();
        turn["result"]["tool_results"][at]["result"] = format!("result {at}").into();
    }
    turn["trajectory"][1]["parent_call_id"] = SECRET.into();
    let mut unit: UnitRecord = serde_json::from_value(full).unwrap();
    unit.mask(&redactor());
    let turn = &unit.turns[0];
    let results: Vec<_> = turn
        .result
        .calls()
        .map(|(_, result)| result.unwrap().result.clone())
        .collect();
    assert_eq!(results, ["result 0", "result 1"]);
    let ids: Vec<_> = turn
        .result
        .tool_calls
        .iter()
        .map(|call| call.call_id.as_str())
        .collect();
    assert_eq!(ids, ["***", "***-2"]);
    assert_eq!(turn.trajectory.steps()[1].parent_call_id.as_deref(), Some("***"));
}
