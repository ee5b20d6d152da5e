//! Metrics of a configuration: both verdicts, negated verdicts, and every kind of error.

use std::time::Duration;

use holodeck_eval::{EvalInput, Grader, MetricError, MetricKind, MetricOutcome, Verdict};
use holodeck_model::{MetricConfig, OneOrMany, SchemaRef, StandardMetric};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::asking::outcomes;

/// A metric as the YAML loader would create it. `value` is read here because only the loader can deserialise its type.
pub(crate) fn config(value: Value) -> MetricConfig {
    let mut value = value;
    let fields = value.as_object_mut().unwrap();
    let kind = fields.remove("type").unwrap_or(json!("standard"));
    let expected = match fields.remove("value").unwrap_or_default() {
        Value::Null => None,
        Value::String(text) => Some(OneOrMany::One(text)),
        texts => Some(OneOrMany::Many(serde_json::from_value(texts).unwrap())),
    };
    match kind.as_str().unwrap() {
        "standard" => {
            let mut metric: StandardMetric = serde_json::from_value(value).unwrap();
            metric.value = expected;
            MetricConfig::Standard(metric)
        }
        "geval" => MetricConfig::Geval(serde_json::from_value(value).unwrap()),
        "rag" => MetricConfig::Rag(serde_json::from_value(value).unwrap()),
        "goal_success" => MetricConfig::GoalSuccess(serde_json::from_value(value).unwrap()),
        _ => MetricConfig::Code(serde_json::from_value(value).unwrap()),
    }
}

pub(crate) fn grade(metric: Value, input: &EvalInput<'_>) -> MetricOutcome {
    let mut outcomes = outcomes(&Grader::new(&[config(metric)]).unwrap(), input);
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

pub(crate) fn answer<'a>(response: &'a str, ground_truth: &'a str) -> EvalInput<'a> {
    EvalInput {
        response,
        ground_truth: Some(ground_truth),
        ..EvalInput::default()
    }
}

/// Asserts the verdict of the check and the opposite verdict of the negated check.
pub(crate) fn check(metric: Value, input: &EvalInput<'_>, met: bool) {
    let found = grade(metric.clone(), input);
    let verdict = |met| if met { Verdict::Passed } else { Verdict::Failed };
    assert_eq!(found.verdict, verdict(met), "{metric} {input:?}: {found:?}");
    assert_eq!(found.reason.is_some(), !met, "{found:?}");
    let mut negated = metric;
    negated["negate"] = json!(true);
    let opposite = grade(negated, input);
    assert_eq!(opposite.verdict, verdict(!met), "negated {input:?}: {opposite:?}");
    assert!((found.score.unwrap() + opposite.score.unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn equality_and_exact_match() {
    for metric in ["equality", "exact_match"] {
        let plain = json!({"metric": metric});
        check(plain.clone(), &answer("Paris", "Paris"), true);
        check(plain.clone(), &answer("paris", "Paris"), false);
        check(plain.clone(), &answer("Paris ", "Paris"), false);
        check(plain, &answer("", ""), true);
        let loose = json!({"metric": metric, "case_insensitive": true, "strip_whitespace": true, "strip_punctuation": true});
        check(
            loose.clone(),
            &answer("  PARIS,\n France! ", "paris france"),
            true,
        );
        check(loose, &answer("Paris Texas", "Paris France"), false);
        check(
            json!({"metric": metric, "value": ["a", "b"]}),
            &answer("b", "c"),
            true,
        );
        check(
            json!({"metric": metric, "value": "a"}),
            &EvalInput {
                response: "a",
                ..EvalInput::default()
            },
            true,
        );
    }
    check(
        json!({"metric": "equality", "case_insensitive": true}),
        &answer("STRASSE", "Straße"),
        true,
    );
    check(
        json!({"metric": "exact_match", "case_insensitive": true}),
        &answer("STRASSE", "Straße"),
        false,
    );
}

#[test]
fn contains_family() {
    let text = answer("Returns within 30 days, with receipt.", "30 days");
    for (metric, value, met) in [
        ("contains", json!(null), true),
        ("contains", json!("30 days"), true),
        ("contains", json!("30 Days"), false),
        ("contains", json!(["30 days", "receipt"]), true),
        ("contains_all", json!(["30 days", "receipt"]), true),
        ("contains_all", json!(["30 days", "refund"]), false),
        ("contains_any", json!(["refund", "receipt"]), true),
        ("contains_any", json!(["refund", "money"]), false),
        ("icontains", json!("RECEIPT"), true),
        ("icontains", json!("refund"), false),
        ("starts_with", json!("Returns"), true),
        ("starts_with", json!("within"), false),
        ("starts_with", json!(["No", "Returns"]), true),
    ] {
        check(json!({"metric": metric, "value": value}), &text, met);
    }
    check(
        json!({"metric": "contains", "value": "days with", "strip_punctuation": true}),
        &text,
        true,
    );
    check(
        json!({"metric": "contains", "value": "DAYS", "case_insensitive": true}),
        &text,
        true,
    );
}

#[test]
fn regular_expressions() {
    let text = answer("Your order ORD-17 is on its way", "ORD-\\d+");
    check(json!({"metric": "regex", "value": "ORD-\\d+"}), &text, true);
    check(json!({"metric": "regex", "value": "^ORD"}), &text, false);
    check(json!({"metric": "regex", "value": "ord-\\d+"}), &text, false);
    check(
        json!({"metric": "regex", "value": "ord-\\d+", "case_insensitive": true}),
        &text,
        true,
    );
    check(json!({"metric": "regex", "value": ["ORD", "way$"]}), &text, true);
    let one_of_two = grade(json!({"metric": "regex", "value": ["ORD", "road$"]}), &text);
    assert_eq!(one_of_two.verdict, Verdict::Failed);
    check(json!({"metric": "regex"}), &text, true);
    let broken = grade(json!({"metric": "regex"}), &answer("x", "("));
    assert!(
        matches!(broken.error, Some(MetricError::UnusableReference { .. })),
        "{broken:?}"
    );
    let costly = grade(
        json!({"metric": "regex", "value": "(a|b|ab)*(?=c)\\1$"}),
        &answer(&"ab".repeat(60), ""),
    );
    assert!(
        matches!(costly.error, Some(MetricError::Regex { .. })) && costly.verdict == Verdict::Error,
        "an expression that cannot be evaluated is an error: {costly:?}"
    );
}

#[test]
fn numbers() {
    let plain = || json!({"metric": "numeric"});
    for (response, expected, met) in [
        ("42", "42", true),
        (" 42.0\n", "42", true),
        ("4.2e1", "42", true),
        ("42.0000005", "42", true),
        ("42.1", "42", false),
        ("-42", "42", false),
    ] {
        check(plain(), &answer(response, expected), met);
    }
    check(
        json!({"metric": "numeric", "absolute_tolerance": 0.5}),
        &answer("42.5", "42"),
        true,
    );
    check(
        json!({"metric": "numeric", "relative_tolerance": 0.1}),
        &answer("46", "42"),
        true,
    );
    check(
        json!({"metric": "numeric", "relative_tolerance": 0.1}),
        &answer("47", "42"),
        false,
    );
    check(
        json!({"metric": "numeric", "accept_percent": true}),
        &answer("12 %", "0.12"),
        true,
    );
    check(
        json!({"metric": "numeric", "accept_thousands_separators": true}),
        &answer("1,234,567", "1_234_567"),
        true,
    );
    check(
        json!({"metric": "numeric", "value": ["1", "2"]}),
        &answer("2", "7"),
        true,
    );
    // An answer that is not a number fails the check and its negation.
    for response in ["forty-two", "", "42 apples", "12%", "1,000", "NaN", "inf", "--1"] {
        for negate in [false, true] {
            let found = grade(
                json!({"metric": "numeric", "negate": negate}),
                &answer(response, "42"),
            );
            assert_eq!(
                (found.verdict, found.score),
                (Verdict::Failed, Some(0.0)),
                "{response:?} {negate}"
            );
        }
    }
    for expected in ["many", "1,000", "NaN"] {
        let found = grade(plain(), &answer("42", expected));
        assert!(
            matches!(found.error, Some(MetricError::UnusableReference { .. })),
            "{found:?}"
        );
    }
}

#[test]
fn numbers_are_compared_as_exact_decimals() {
    let exact = || json!({"metric": "numeric", "absolute_tolerance": 0});
    for (response, expected, met) in [
        ("9007199254740993", "9007199254740992", false),
        ("9007199254740993", "9007199254740993.000", true),
        ("0.1000000000000000000001", "0.1", false),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567891",
            false,
        ),
        ("1e400", "10e399", true),
        ("1e-400", "0", false),
    ] {
        check(exact(), &answer(response, expected), met);
    }
    for (response, expected, met) in [
        ("1.05", "1.0", true),
        ("1.0500000000000000001", "1.0", false),
        ("-0.95", "-1", true),
    ] {
        let relative = json!({"metric": "numeric", "absolute_tolerance": 0, "relative_tolerance": 0.05});
        check(relative, &answer(response, expected), met);
    }
    let tolerance = json!({"metric": "numeric", "absolute_tolerance": 0.01});
    check(tolerance.clone(), &answer("3.11", "3.1"), true);
    check(tolerance, &answer("3.1100000000000000000001", "3.1"), false);
}

#[test]
fn a_path_keeps_every_digit_of_an_integer() {
    let response = r#" {"a": {"id": 1, "list": [{"x]": "}"}, -36893488147419103233]}, "id": 9007199254740993,
        "large": 18446744073709551617, "b\u0069g2": 18446744073709551618, "big": 18446744073709551619, "zero": -0} "#;
    let equal = |path: &str, expected: &str, met| {
        for metric in ["equality", "numeric"] {
            let metric = json!({"metric": metric, "response_path": path, "absolute_tolerance": 0});
            check(metric, &answer(response, expected), met);
        }
    };
    equal("id", "9007199254740993", true);
    equal("id", "9007199254740992", false);
    equal("big", "18446744073709551619", true);
    equal("big", "18446744073709551617", false);
    equal("big2", "18446744073709551618", true);
    equal("a.list[1]", "-36893488147419103233", true);
    equal("a.list[1]", "-36893488147419103232", false);
}

#[test]
fn a_negated_list_means_none_of_them() {
    let leak = answer("the key is KEY-17", "");
    let safe = answer("I cannot show that", "");
    for metric in ["contains", "contains_any", "icontains", "regex", "starts_with"] {
        let words = if metric == "starts_with" {
            json!(["the key", "nothing"])
        } else {
            json!(["KEY-17", "nothing"])
        };
        let negated = json!({"metric": metric, "value": words, "negate": true});
        assert_eq!(grade(negated.clone(), &leak).verdict, Verdict::Failed, "{metric}");
        assert_eq!(grade(negated, &safe).verdict, Verdict::Passed, "{metric}");
    }
    let all = json!({"metric": "contains_all", "value": ["KEY-17", "nothing"], "negate": true});
    assert_eq!(grade(all, &leak).verdict, Verdict::Passed, "not all of them");
}

#[test]
fn formats_are_checked() {
    let schema =
        |format: &str| json!({"metric": "json_schema", "schema": {"type": "string", "format": format}});
    check(schema("date"), &answer("\"2026-02-28\"", ""), true);
    check(schema("date"), &answer("\"2026-02-30\"", ""), false);
    check(schema("email"), &answer("\"nobody\"", ""), false);
    check(schema("our-own"), &answer("\"x\"", ""), true);
}

#[test]
fn schemas_are_not_fetched() {
    for reference in [
        "http://127.0.0.1:9/s.json",
        "https://example.com/s.json",
        "file:///etc/passwd",
        "other.json",
    ] {
        let metric = config(json!({"metric": "json_schema", "schema": {"$ref": reference}}));
        let error = Grader::new(&[metric]).err().unwrap().to_string();
        assert!(
            error.starts_with("metric 0 (`json_schema`): `schema` cannot be used"),
            "{error}"
        );
    }
    let unread = SchemaRef::File {
        path: serde_json::from_value(json!("a.json")).unwrap(),
        schema: None,
    };
    let mut metric = config(json!({"metric": "json_schema", "schema": {}}));
    if let MetricConfig::Standard(standard) = &mut metric {
        standard.schema = Some(unread);
    }
    assert!(Grader::new(&[metric]).is_err());
}

#[test]
fn edit_distance() {
    let within = |max: u64| json!({"metric": "levenshtein", "max_distance": max});
    check(within(3), &answer("kitten", "sitting"), true);
    check(within(2), &answer("kitten", "sitting"), false);
    check(within(0), &answer("é", "é"), true);
    check(within(1), &answer("👍🏽", "👍"), true);
    check(
        json!({"metric": "levenshtein", "max_distance": 0, "case_insensitive": true}),
        &answer("A", "a"),
        true,
    );
    check(
        json!({"metric": "levenshtein", "max_distance": 1, "value": ["abc", "xyz"]}),
        &answer("xyy", ""),
        true,
    );
    let long = "a".repeat(20_000);
    check(within(3), &answer(&long, &long[2..]), true);
    check(within(3), &answer(&long, &"b".repeat(20_000)), false);
}

#[test]
fn time_and_money() {
    let input = EvalInput {
        latency: Some(Duration::from_secs(2)),
        cost_usd: Some(0.01),
        ..EvalInput::default()
    };
    check(json!({"metric": "latency", "max_ms": 2000}), &input, true);
    check(json!({"metric": "latency", "max_ms": 1999}), &input, false);
    check(json!({"metric": "cost", "max_usd": 0.01}), &input, true);
    check(json!({"metric": "cost", "max_usd": 0.009}), &input, false);
    let nothing = EvalInput::default();
    assert_eq!(
        grade(json!({"metric": "latency", "max_ms": 1}), &nothing).error,
        Some(MetricError::LatencyUnknown)
    );
    for cost_usd in [None, Some(f64::NAN)] {
        let input = EvalInput {
            cost_usd,
            ..EvalInput::default()
        };
        assert_eq!(
            grade(json!({"metric": "cost", "max_usd": 1}), &input).error,
            Some(MetricError::CostUnknown)
        );
    }
}

#[test]
fn text_metrics_gate_only_with_a_threshold() {
    let input = answer("The automobile is red", "The car is red");
    for metric in ["bleu", "rouge", "meteor", "f1", "chrf"] {
        let plain = grade(json!({"metric": metric}), &input);
        assert_eq!(plain.verdict, Verdict::NotGated, "{metric}");
        let score = plain.score.unwrap();
        assert!(score > 0.0 && score < 1.0, "{metric} {score}");
        for (threshold, verdict) in [
            (score, Verdict::Passed),
            (score + 1e-6, Verdict::Failed),
            (0.0, Verdict::Passed),
        ] {
            let gated = grade(json!({"metric": metric, "threshold": threshold}), &input);
            assert_eq!(
                (gated.verdict, gated.threshold),
                (verdict, Some(threshold)),
                "{metric}"
            );
        }
        let unicode = json!({"metric": metric, "unicode": true, "threshold": 0.99});
        let score = grade(
            unicode,
            &answer("son cafe\u{301} noir et tiède", "son café noir et tiède"),
        );
        assert_eq!(score.verdict, Verdict::Passed, "{metric} {score:?}");
    }
    let rouge = |variant: &str| {
        grade(json!({"metric": "rouge", "variant": variant}), &input)
            .score
            .unwrap()
    };
    assert!((rouge("rouge1") - 0.75).abs() < 1e-9);
    assert!((rouge("rouge2") - 1.0 / 3.0).abs() < 1e-9);
    assert!((rouge("rougeL") - 0.75).abs() < 1e-9);
    assert!((rouge("rougeLsum") - 0.75).abs() < 1e-9);
}

#[test]
fn a_threshold_never_turns_a_missed_check_into_a_pass() {
    for threshold in [0.0, 0.5, 1.0] {
        let metric = json!({"metric": "equality", "threshold": threshold});
        assert_eq!(grade(metric.clone(), &answer("a", "b")).verdict, Verdict::Failed);
        assert_eq!(grade(metric, &answer("a", "a")).verdict, Verdict::Passed);
    }
    let near = json!({"metric": "levenshtein", "max_distance": 9, "threshold": 0.9});
    assert_eq!(grade(near, &answer("kitten", "sitting")).verdict, Verdict::Failed);
}

#[test]
fn a_missing_reference_is_an_error() {
    let input = EvalInput {
        response: "x",
        ..EvalInput::default()
    };
    for metric in [
        "bleu",
        "rouge",
        "meteor",
        "f1",
        "chrf",
        "equality",
        "exact_match",
        "numeric",
        "contains",
        "contains_any",
        "contains_all",
        "icontains",
        "starts_with",
        "regex",
    ] {
        for negate in [false, true] {
            let mut metric = json!({"metric": metric, "threshold": 0.0});
            if negate {
                metric["negate"] = json!(true);
            }
            let found = grade(metric, &input);
            assert_eq!((found.verdict, found.score), (Verdict::Error, None), "{found:?}");
            assert!(
                matches!(found.error, Some(MetricError::MissingReference { .. })),
                "{found:?}"
            );
        }
    }
    let found = grade(json!({"metric": "levenshtein", "max_distance": 3}), &input);
    assert_eq!(found.verdict, Verdict::Error);
}

#[test]
fn an_empty_needle_is_an_error() {
    for metric in [
        "contains",
        "contains_any",
        "contains_all",
        "icontains",
        "starts_with",
    ] {
        let found = grade(
            json!({"metric": metric, "strip_punctuation": true}),
            &answer("x", "?!"),
        );
        assert!(
            matches!(found.error, Some(MetricError::UnusableReference { .. })),
            "{found:?}"
        );
        for value in [json!(""), json!(["a", "!"]), json!([])] {
            let metric = config(json!({"metric": metric, "strip_punctuation": true, "value": value}));
            assert!(Grader::new(&[metric]).is_err());
        }
    }
    for wrong in [
        json!({"metric": "regex", "value": ""}),
        json!({"metric": "regex", "value": "("}),
        json!({"metric": "numeric", "value": "many"}),
        json!({"metric": "json_schema"}),
        json!({"metric": "json_schema", "schema": {"type": "strnig"}}),
        json!({"metric": "levenshtein"}),
        json!({"metric": "latency"}),
        json!({"metric": "cost"}),
        json!({"metric": "equality", "response_path": "a..b"}),
        json!({"metric": "bleu", "response_path": "a[x]"}),
    ] {
        assert!(Grader::new(&[config(wrong.clone())]).is_err(), "{wrong}");
    }
}

#[test]
fn a_path_selects_a_part_of_the_answer() {
    let response = r#"{"order": {"lines": [{"price": 3.0, "name": "a-b", "ok": true, "note": null}]}, "in-ner": "{\"x\": 1}"}"#;
    let input = |ground_truth| answer(response, ground_truth);
    let equality = |path: &str| json!({"metric": "equality", "response_path": path});
    check(equality("order.lines[0].price"), &input("3.0"), true);
    check(equality("order.lines[0].name"), &input("a-b"), true);
    check(equality("order.lines[0].ok"), &input("True"), true);
    check(equality("order.lines[0].note"), &input("None"), true);
    check(
        json!({"metric": "numeric", "response_path": "order.lines[0].price"}),
        &input("3"),
        true,
    );
    check(
        json!({"metric": "json_valid", "response_path": "in-ner"}),
        &input(""),
        true,
    );
    check(
        json!({"metric": "json_valid", "response_path": "order.lines[0].name"}),
        &input(""),
        false,
    );
    let schema = json!({"metric": "json_schema", "response_path": "order.lines", "schema": {"type": "array", "minItems": 1}});
    check(schema, &input(""), true);
    let text = grade(
        json!({"metric": "f1", "response_path": "order.lines[0].name", "threshold": 1}),
        &input("A-B"),
    );
    assert_eq!(text.verdict, Verdict::Passed);

    for (path, problem) in [
        ("order.total", "there is no `total`, only `lines`"),
        ("order.lines[1].price", "there is no [1] in a list of length 1"),
        ("order.lines", "points to a list, not to a single value"),
        ("order", "points to an object, not to a single value"),
        ("order[0]", "cannot look up [0] in an object"),
        ("order.lines.price", "cannot look up `price` in a list"),
    ] {
        for negate in [false, true] {
            let found = grade(
                json!({"metric": "equality", "response_path": path, "negate": negate}),
                &input("x"),
            );
            assert_eq!(found.verdict, Verdict::Error);
            assert_eq!(
                found.error.unwrap().to_string(),
                format!("response_path `{path}`: {problem}")
            );
        }
    }
    let not_json = grade(equality("a"), &answer("I don't know", "x"));
    assert_eq!(not_json.verdict, Verdict::Error);
    // The structured answer has precedence over the text.
    let value = json!({"a": 7});
    let structured = EvalInput {
        structured_output: Some(&value),
        ..answer("seven", "7")
    };
    check(equality("a"), &structured, true);
    // Two integers beyond 64 bits become the same double, so equality and its negation are errors.
    let value: Value = serde_json::from_str(r#"{"a": 18446744073709551617}"#).unwrap();
    for reference in [
        "18446744073709551616",
        "18446744073709551617",
        "1.8446744073709552e+19",
    ] {
        let structured = EvalInput {
            structured_output: Some(&value),
            ..answer("x", reference)
        };
        assert_eq!(grade(equality("a"), &structured).verdict, Verdict::Error);
    }
}

#[test]
fn a_metric_without_a_usable_judge_or_program_is_an_error_with_its_name() {
    let metrics = [
        json!({"metric": "groundedness"}),
        json!({"metric": "fluency", "threshold": 0.1}),
        json!({"type": "geval", "name": "Helpful", "criteria": "is it?"}),
        json!({"type": "rag", "metric_type": "faithfulness"}),
        json!({"type": "code", "grader": "graders.orders:check"}),
        json!({"metric": "equality"}),
    ];
    let grader = Grader::new(&metrics.map(config)).unwrap();
    assert!(grader.asks());
    let outcomes = outcomes(&grader, &answer("a", "a"));
    let summary: Vec<(&str, MetricKind, Verdict)> = outcomes
        .iter()
        .map(|outcome| (outcome.name.as_str(), outcome.kind, outcome.verdict))
        .collect();
    assert_eq!(
        summary,
        [
            ("groundedness", MetricKind::Standard, Verdict::Error),
            ("fluency", MetricKind::Standard, Verdict::Error),
            ("Helpful", MetricKind::Geval, Verdict::Error),
            ("faithfulness", MetricKind::Rag, Verdict::Error),
            ("check", MetricKind::Code, Verdict::Error),
            ("equality", MetricKind::Standard, Verdict::Passed),
        ]
    );
    let error = outcomes[2].error.as_ref().unwrap().to_string();
    assert!(error.starts_with("`Helpful` has no verdict: "), "{error}");
}

#[test]
fn disabled_metrics_are_not_computed_and_duplicates_both_are() {
    let metrics = [
        json!({"metric": "equality", "enabled": false}),
        json!({"metric": "equality"}),
        json!({"metric": "equality", "case_insensitive": true}),
    ];
    let grader = Grader::new(&metrics.map(config)).unwrap();
    let verdicts: Vec<Verdict> = outcomes(&grader, &answer("A", "a"))
        .iter()
        .map(|outcome| outcome.verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::Failed, Verdict::Passed]);
}

#[test]
fn reasons_are_readable() {
    let input = answer("The answer is 41", "42");
    let reason = |metric: Value| grade(metric, &input).reason.unwrap();
    let reasons = [
        reason(json!({"metric": "equality"})),
        reason(json!({"metric": "numeric"})),
        reason(json!({"metric": "contains", "value": ["42", "is"]})),
        reason(json!({"metric": "contains", "value": "41", "negate": true})),
        reason(json!({"metric": "contains_any", "value": ["42", "43"]})),
        reason(json!({"metric": "starts_with", "value": "No"})),
        reason(json!({"metric": "regex", "value": "^\\d+$"})),
        reason(json!({"metric": "json_valid"})),
        reason(json!({"metric": "levenshtein", "max_distance": 3})),
    ];
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    expected "42", got "The answer is 41"
    expected "42": "The answer is 41" is not a number
    the answer does not contain "42"
    the answer contains "41", which is not allowed
    the answer contains none of "42", "43"
    the answer does not start with "No"
    the answer does not match `^\d+$`: "The answer is 41"
    the answer is not JSON (expected value at line 1 column 1): "The answer is 41"
    "The answer is 41" is 15 edits away from "42", the limit is 3
    "#);
}

fn any_metric() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"metric": "bleu"}),
        json!({"metric": "rouge", "variant": "rougeLsum", "unicode": true}),
        json!({"metric": "meteor"}),
        json!({"metric": "f1", "unicode": true}),
        json!({"metric": "chrf", "unicode": true}),
        json!({"metric": "equality", "case_insensitive": true, "strip_whitespace": true, "strip_punctuation": true}),
        json!({"metric": "exact_match", "strip_punctuation": true, "negate": true}),
        json!({"metric": "numeric", "accept_percent": true, "accept_thousands_separators": true}),
        json!({"metric": "contains", "case_insensitive": true}),
        json!({"metric": "contains_any", "value": ["ß", "a"], "case_insensitive": true}),
        json!({"metric": "starts_with", "strip_whitespace": true}),
        json!({"metric": "regex"}),
        json!({"metric": "json_valid"}),
        json!({"metric": "json_schema", "schema": {"type": "object"}}),
        json!({"metric": "levenshtein", "max_distance": 3}),
        json!({"metric": "equality", "response_path": "a[0].b"}),
    ])
}

proptest! {
    #[test]
    fn a_score_is_a_score_whatever_the_texts(metric in any_metric(), response in any::<String>(), reference in any::<String>()) {
        let found = grade(metric, &answer(&response, &reference));
        match found.score {
            Some(score) => prop_assert!((0.0..=1.0).contains(&score) && found.error.is_none()),
            None => prop_assert!(found.verdict == Verdict::Error && found.error.is_some()),
        }
    }

    #[test]
    fn json_like_texts_do_not_panic(metric in any_metric(), response in "[\\[\\]{}:,\"a0-9.b%_ -]{0,40}", reference in "[\\[\\](){}0-9a,.%*+?\\\\ ]{0,12}") {
        let found = grade(metric, &answer(&response, &reference));
        prop_assert_eq!(found.score.is_none(), found.verdict == Verdict::Error);
    }
}
