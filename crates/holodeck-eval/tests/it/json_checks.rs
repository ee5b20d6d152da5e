//! Tests of the checks of JSON: what is JSON, which values are equal, and what has no single reading.

use holodeck_eval::{Grader, Verdict};
use serde_json::{Value, json};

use crate::{
    asking::outcomes,
    grader::{answer, check, config, grade},
};

#[test]
fn json_answers() {
    let valid = || json!({"metric": "json_valid"});
    check(valid(), &answer("{\"a\": [1]}", ""), true);
    check(valid(), &answer("7", ""), true);
    check(valid(), &answer("{\"a\": 1", ""), false);
    check(valid(), &answer("```json\n{}\n```", ""), false);
    check(valid(), &answer("", ""), false);
    let schema = json!({
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"$ref": "#/$defs/count"}},
        "$defs": {"count": {"type": "integer", "minimum": 1}},
    });
    let follows = json!({"metric": "json_schema", "schema": schema});
    check(follows.clone(), &answer("{\"a\": 1}", ""), true);
    check(follows.clone(), &answer("{\"a\": 0}", ""), false);
    check(follows.clone(), &answer("{}", ""), false);
    check(follows.clone(), &answer("not json", ""), false);
    let reason = grade(follows, &answer("{\"a\": 0}", "")).reason.unwrap();
    assert_eq!(
        reason,
        "the answer does not follow the schema: 0 is less than the minimum of 1 at /a"
    );
}

#[test]
fn an_integer_beyond_64_bits_is_never_equal_to_its_neighbour() {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (small, large) = ("12345", "12345678901234567890123");
    for (schema, negated) in [
        (json!({"enum": [1, 12345]}), false),
        (json!({"const": 12345}), false),
        (json!({"const": 7}), true),
        (json!({"minimum": 5}), false),
        (json!({"maximum": 5}), true),
    ] {
        let schema = json!({"type": "object", "properties": {"id": schema}});
        let metric = json!({"metric": "json_schema", "schema": schema, "negate": negated});
        let exact = grade(metric.clone(), &answer(&format!("{{\"id\": {small}}}"), ""));
        assert_eq!(exact.verdict, Verdict::Passed, "{schema}");
        let outcome = grade(metric, &answer(&format!("{{\"id\": {large}}}"), ""));
        assert_eq!(outcome.verdict, Verdict::Error, "{schema}");
        let error = outcome.error.unwrap().to_string();
        assert!(error.contains("beyond 64 bits"), "{error}");
    }
    // A schema that compares nothing needs no digits.
    let schema = json!({"metric": "json_schema", "schema": {"type": "integer"}});
    check(schema, &answer(large, ""), true);
    for schema in [
        json!({"const": number(large)}),
        json!({"enum": ["a", {"b": [number(large)]}]}),
        json!({"properties": {"id": {"const": number("-9223372036854775809")}}}),
    ] {
        let metric = config(json!({"metric": "json_schema", "schema": schema}));
        let error = Grader::new(&[metric]).err().unwrap().to_string();
        assert!(error.contains("beyond 64 bits"), "{error}");
    }
}

#[test]
fn json_with_a_key_twice_is_neither_valid_nor_invalid() {
    let twice = answer("{\"a\": 1, \"a\": 2}", "2");
    for metric in [
        json!({"metric": "json_valid"}),
        json!({"metric": "json_schema", "schema": {"required": ["a"]}}),
        json!({"metric": "json_schema", "schema": {"required": ["b"]}}),
        json!({"metric": "equality", "response_path": "a"}),
        json!({"metric": "numeric", "response_path": "a"}),
    ] {
        for negate in [false, true] {
            let mut metric = metric.clone();
            metric["negate"] = json!(negate);
            let outcome = grade(metric.clone(), &twice);
            assert_eq!(outcome.verdict, Verdict::Error, "{metric}");
            let error = outcome.error.unwrap().to_string();
            assert!(error.contains("appears twice"), "{error}");
        }
    }
}

#[test]
fn json_that_the_parser_cannot_hold_is_neither_json_nor_its_negation() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let in_object = format!("{{\"a\": {}}}", deep(300));
    let unreadable = [deep(200).as_str(), &in_object, "1e999", "[-1e400]", r#""\ud800""#].map(str::to_owned);
    let not_json = [
        "",
        "no",
        "{",
        "[1,]",
        "NaN",
        "01",
        "{'a': 1}",
        "[1] 2",
        "\u{feff}{}",
    ]
    .map(str::to_owned);
    let mut broken = deep(200);
    broken.pop();
    for check in [
        json!({"metric": "json_valid"}),
        json!({"metric": "json_schema", "schema": {"type": "array"}}),
    ] {
        for negate in [false, true] {
            let mut check = check.clone();
            check["negate"] = negate.into();
            let grader = Grader::new(&[config(check.clone())]).unwrap();
            for text in &unreadable {
                let outcome = outcomes(&grader, &answer(text, "")).remove(0);
                assert_eq!(outcome.verdict, Verdict::Error, "{check} {}", &text[..5]);
                assert!(
                    outcome
                        .error
                        .unwrap()
                        .to_string()
                        .contains("cannot read this answer")
                );
            }
            for text in not_json.iter().chain([&broken]) {
                let outcome = outcomes(&grader, &answer(text, "")).remove(0);
                let verdict = if negate { Verdict::Passed } else { Verdict::Failed };
                assert_eq!(outcome.verdict, verdict, "{check} {text}");
            }
        }
    }
}
