//! Tests what paths find in answers of every kind.

use holodeck_model::ResponsePaths;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn paths(paths: &Value) -> Paths {
    let paths: ResponsePaths = serde_json::from_value(paths.clone()).unwrap();
    Paths::new(&paths).unwrap()
}

#[test]
fn text_must_be_exactly_one_text() {
    let paths = paths(&json!({"text": "$..answer"}));
    assert_eq!(
        paths
            .parts(&json!({"a": {"answer": "x"}}))
            .unwrap()
            .text
            .as_deref(),
        Some("x")
    );
    assert_eq!(
        paths.parts(&json!({"answer": ""})).unwrap().text.as_deref(),
        Some("")
    );
    for (answer, problem) in [
        (json!({}), "matches nothing"),
        (json!(null), "matches nothing"),
        (json!({"answer": null}), "matches nothing"),
        (json!([{"answer": "x"}, {"answer": "y"}]), "matches 2 values"),
        (json!({"answer": 3}), "is a number"),
        (json!({"answer": true}), "is a boolean"),
        (json!({"answer": ["x"]}), "is a list"),
        (json!({"answer": {"text": "x"}}), "is an object"),
    ] {
        let error = paths.parts(&answer).unwrap_err();
        assert!(
            error.contains(problem) && error.contains("`response.text` ($..answer)"),
            "{answer}: {error}"
        );
    }
}

#[test]
fn a_part_that_is_not_there_is_an_error_unless_it_is_optional() {
    let parts = [
        "tool_calls",
        "tool_results",
        "retrieval_context",
        "usage",
        "cost",
        "finish_reason",
        "session",
    ];
    for part in parts {
        let must = paths(&json!({"text": "$.t", part: "$.x.y"}));
        let may = paths(&json!({"text": "$.t", part: {"path": "$.x.y", "optional": true}}));
        for answer in [
            json!({"t": "hi"}),
            json!({"t": "hi", "x": 3}),
            json!({"t": "hi", "x": {"y": null}}),
        ] {
            let error = must.parts(&answer).unwrap_err();
            assert!(
                error.contains(&format!("`response.{part}` ($.x.y) matches nothing")),
                "{part}: {error}"
            );
            let found = may.parts(&answer).unwrap();
            let expected = Parts {
                text: Some("hi".to_owned()),
                ..Parts::default()
            };
            assert_eq!(found, expected, "{part}");
        }
        assert_eq!(may.unmatched(), [format!("`response.{part}` ($.x.y)")]);
        for wrong in [json!(true), json!([3]), json!({"odd": 1})] {
            let answer = json!({"t": "hi", "x": {"y": wrong}});
            assert!(may.parts(&answer).is_err(), "{part}: {answer}");
        }
    }
}

#[test]
fn an_empty_list_that_is_there_is_reported() {
    for path in [
        "$.calls",
        "$.calls[*]",
        "$.calls[0:]",
        "$.calls[?@.kind == 'tool[*]']",
        "$.trace.calls[*]",
    ] {
        let paths = paths(&json!({"text": "$.t", "tool_calls": path}));
        let answer = json!({"t": "", "calls": [], "trace": {"calls": []}});
        assert_eq!(
            paths.parts(&answer).unwrap().tool_calls,
            Some(Vec::new()),
            "{path}"
        );
        for absent in [
            json!({"t": ""}),
            json!({"t": "", "calls": null}),
            json!({"t": "", "calls": {}, "trace": {"calls": "no"}}),
        ] {
            assert!(paths.parts(&absent).is_err(), "{path}: {absent}");
        }
    }
}

#[test]
fn items_without_the_part_are_no_empty_list() {
    let paths = paths(&json!({"text": "$.t", "retrieval_context": "$.sources[*].text"}));
    let found = |sources: Value| paths.parts(&json!({"t": "", "sources": sources}));
    assert_eq!(found(json!([])).unwrap().passages, Some(Vec::new()));
    assert_eq!(
        found(json!([{"text": "p"}])).unwrap().passages,
        Some(vec!["p".to_owned()])
    );
    assert!(found(json!([{"content": "p"}])).is_err());
}

#[test]
fn a_filter_selects_only_what_it_names() {
    let paths = paths(&json!({"text": "$.t", "tool_calls": "$.trace[?@.type == 'call']"}));
    let answer = json!({"t": "", "trace": [
        {"type": "thought", "name": "a"},
        {"type": "call", "name": "b", "arguments": {}},
    ]});
    let calls = paths.parts(&answer).unwrap().tool_calls.unwrap();
    let names: Vec<&str> = calls.iter().map(|call| call.call.name.as_str()).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn an_error_in_the_answer_hides_everything_else() {
    let paths = paths(&json!({"text": "$.t", "error": "$.error"}));
    for (answer, error) in [
        (json!({"error": "down"}), Some("down")),
        (
            json!({"t": "hi", "error": {"message": "down", "code": 3}}),
            Some("down"),
        ),
        (json!({"t": "hi", "error": true}), Some("true")),
        (json!({"t": "hi", "error": null}), None),
        (json!({"t": "hi", "error": false}), None),
        (json!({"t": "hi"}), None),
    ] {
        assert_eq!(paths.parts(&answer).unwrap().error.as_deref(), error, "{answer}");
    }
}

#[test]
fn a_path_that_is_none_is_an_error_with_its_field() {
    for wrong in ["answer", "$.", "$[", "", "$.a[?@.b ==]", "$.a b"] {
        let config: ResponsePaths = serde_json::from_value(json!({"usage": wrong})).unwrap();
        let (field, _) = Paths::new(&config).unwrap_err();
        assert_eq!(field, "usage", "{wrong}");
    }
}
