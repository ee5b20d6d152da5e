//! Checks on what an answer contains, how long it is, whether it refuses, and why it ended.

use holodeck_eval::{EvalInput, Grader, MetricError, Verdict};
use holodeck_model::events::StopReason;
use serde_json::json;

use crate::grader::{answer, check, config, grade};

#[test]
fn json_is_found_between_other_text() {
    for (text, met) in [
        (r#"{"a": 1}"#, true),
        ("Here it is:\n```json\n{\"a\": [1, 2]}\n```\nDone.", true),
        (r#"first {broken} then {"ok": true}"#, true),
        (r#"an open { brace, then [{"in": "a list"}]"#, true),
        ("See [1] and {this}.", false),
        ("[1, 2, 3]", false),
        ("none", false),
        ("", false),
        (r#"{"a": 1"#, false),
    ] {
        check(json!({"metric": "contains_json"}), &answer(text, ""), met);
    }
}

#[test]
fn json_must_follow_the_schema_anywhere_in_the_answer() {
    let schema = json!({"type": "object", "required": ["id"]});
    let metric = json!({"metric": "contains_json", "schema": schema});
    for (text, met) in [
        (r#"{"x": 1} and {"id": 2}"#, true),
        (r#"{"x": 1} and {"id" 2}"#, false),
        // A part of a value is not looked at.
        (r#"{"x": {"id": 1}}"#, false),
    ] {
        check(metric.clone(), &answer(text, ""), met);
    }
    let list = json!({"metric": "contains_json", "schema": {"type": "array", "minItems": 2}});
    check(list.clone(), &answer("so: [1, 2].", ""), true);
    check(list, &answer("so: [1] or [2].", ""), false);
}

#[test]
fn json_that_cannot_be_read_is_neither_found_nor_missing() {
    for negate in [false, true] {
        let metric = json!({"metric": "contains_json", "negate": negate});
        let outcome = grade(metric, &answer(r#"x {"a": 1, "a": 2}"#, ""));
        assert!(
            matches!(outcome.error, Some(MetricError::Unreadable { .. })),
            "{outcome:?}"
        );
    }
}

#[test]
fn brackets_that_are_nested_too_deeply_are_an_error() {
    let metric = json!({"metric": "contains_json", "schema": {"type": "string"}});
    for unit in ["{\"a\":", "[", "[{},"] {
        let text = unit.repeat(200_000);
        let outcome = grade(metric.clone(), &answer(&text, ""));
        assert!(
            matches!(outcome.error, Some(MetricError::Unreadable { .. })),
            "{outcome:?}"
        );
    }
    check(metric, &answer(&"{".repeat(200_000), ""), false);
}

#[test]
fn words_are_counted_between_both_limits() {
    let text = "one two\n three";
    for (limits, met) in [
        (json!({"min": 3}), true),
        (json!({"min": 4}), false),
        (json!({"max": 3}), true),
        (json!({"max": 2}), false),
        (json!({"min": 3, "max": 3}), true),
        (json!({"min": 1, "max": 2}), false),
    ] {
        let mut metric = limits;
        metric["metric"] = json!("word_count");
        check(metric, &answer(text, ""), met);
    }
    check(json!({"metric": "word_count", "max": 0}), &answer(" ", ""), true);
    check(
        json!({"metric": "word_count", "min": 4, "unicode": true}),
        &answer("東京タワー", ""),
        true,
    );
    check(
        json!({"metric": "word_count", "min": 4}),
        &answer("東京タワー", ""),
        false,
    );
    for limits in [
        json!({"metric": "word_count"}),
        json!({"metric": "word_count", "min": 2, "max": 1}),
    ] {
        assert!(Grader::new(&[config(limits)]).is_err());
    }
}

#[test]
fn a_refusal_is_known_by_its_words_or_by_how_it_ended() {
    let metric = json!({"metric": "is_refusal"});
    check(
        metric.clone(),
        &answer("I'm sorry, but I can't help with that.", ""),
        true,
    );
    check(metric.clone(), &answer("Sure, here it is.", ""), false);
    let reason = StopReason::from("content_filter".to_owned());
    let input = EvalInput {
        finish_reason: Some(&reason),
        ..answer("Sure", "")
    };
    check(metric.clone(), &input, true);
    for negate in [false, true] {
        let metric = json!({"metric": "is_refusal", "negate": negate});
        assert_eq!(grade(metric, &answer(" \n", "")).verdict, Verdict::Failed);
    }
}

#[test]
fn reasons_are_compared_by_their_family() {
    for (reported, expected, met) in [
        ("stop", json!("end"), true),
        ("end_turn", json!("stop"), true),
        ("MAX_TOKENS", json!("length"), true),
        ("length", json!("end"), false),
        ("tool_calls", json!(["end", "calls"]), true),
        ("content_filter", json!("refusal"), true),
        ("stop", json!(["truncated", "refusal"]), false),
    ] {
        let reason = StopReason::from(reported.to_owned());
        let input = EvalInput {
            finish_reason: Some(&reason),
            ..answer("x", "")
        };
        check(json!({"metric": "finish_reason", "value": expected}), &input, met);
    }
}

#[test]
fn a_reason_that_is_not_known_is_an_error_also_when_negated() {
    let unknown = StopReason::from("OTHER".to_owned());
    let not_reported = StopReason::not_reported();
    for reason in [None, Some(&unknown), Some(&not_reported)] {
        for negate in [false, true] {
            let input = EvalInput {
                finish_reason: reason,
                ..answer("x", "")
            };
            let metric = json!({"metric": "finish_reason", "value": "end", "negate": negate});
            let outcome = grade(metric, &input);
            assert!(
                matches!(outcome.error, Some(MetricError::EndUnknown { .. })),
                "{outcome:?}"
            );
        }
    }
    for word in ["finished", "not_reported", "unknown", ""] {
        let metric = config(json!({"metric": "finish_reason", "value": word}));
        assert!(Grader::new(&[metric]).is_err(), "{word}");
    }
}
