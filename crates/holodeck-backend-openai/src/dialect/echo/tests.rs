//! Tests that fields go back as they came, however they are cut into pieces, and only where they belong.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        name: "weather".to_owned(),
        arguments: json!({"city": "Paris"}),
        call_id: id.to_owned(),
        provider_fields: None,
    }
}

proptest! {
    #[test]
    fn text_that_is_cut_anywhere_is_joined(text in ".{0,40}", cuts in prop::collection::vec(0_usize..40, 0..6)) {
        let letters: Vec<char> = text.chars().collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(letters.len())).collect();
        cuts.extend([0, letters.len()]);
        cuts.sort_unstable();
        let mut joined = Map::new();
        for pair in cuts.windows(2) {
            let piece: String = letters[pair[0]..pair[1]].iter().collect();
            let details = json!([{"type": "reasoning.text", "text": piece, "index": 0, "format": "f", "signature": "s"}]);
            merge_fields(&mut joined, fields(json!({"reasoning_content": piece, "reasoning_details": details, "later": null})));
        }
        let details = json!([{"type": "reasoning.text", "text": text, "index": 0, "format": "f", "signature": "s"}]);
        prop_assert_eq!(Value::Object(joined), json!({"reasoning_content": text, "reasoning_details": details}));
    }
}

#[test]
fn entries_of_other_indexes_and_kinds_stay_apart_and_in_order() {
    let mut joined = Map::new();
    for piece in [
        json!([{"type": "reasoning.text", "text": "a", "index": 0}]),
        json!([{"type": "reasoning.encrypted", "data": "x", "index": 0}, {"type": "reasoning.summary", "summary": "s", "index": 1}]),
        json!([{"text": "b", "index": 0}]),
        json!([{"type": "reasoning.summary", "summary": "t", "index": 1}]),
        json!([{"type": "loose"}, {"type": "loose"}]),
    ] {
        merge_fields(&mut joined, fields(json!({"reasoning_details": piece})));
    }
    assert_eq!(
        Value::Object(joined),
        json!({"reasoning_details": [
            {"type": "reasoning.text", "text": "ab", "index": 0},
            {"type": "reasoning.encrypted", "data": "x", "index": 0},
            {"type": "reasoning.summary", "summary": "st", "index": 1},
            {"type": "loose"},
            {"type": "loose"},
        ]})
    );
}

#[test]
fn the_fields_of_a_message_go_with_its_first_call_and_those_of_a_call_with_that_call() {
    let mut calls = [call("a"), call("b")];
    calls[1].provider_fields = of_call(fields(json!({
        "index": 1, "id": "b", "type": "function", "extra_content": {"google": {"thought_signature": "c2ln"}},
        "function": {"mark": 7}, "nothing": null, "empty": {},
    })));
    attach(
        &mut calls,
        fields(json!({"reasoning_content": "", "empty": [], "nothing": null})),
    );
    for call in &mut calls {
        call.provider_fields.as_mut().unwrap().model = "m".to_owned();
    }
    let plain = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
    ]});
    let mut sent = plain.clone();
    restore(&mut sent, &calls, "m");
    let mut expected = plain.clone();
    expected["reasoning_content"] = json!("");
    expected["tool_calls"][1]["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
    expected["tool_calls"][1]["function"]["mark"] = json!(7);
    assert_eq!(sent, expected);
    // Another model gets none of it.
    let mut other = plain.clone();
    restore(&mut other, &calls, "another");
    assert_eq!(other, plain);
    // A server that refuses them gets the message without.
    let mut body = json!({"messages": [{"role": "user", "content": "x", "mine": 1}, sent]});
    assert!(has_fields(&body) && is_named(&body, "unknown field reasoning_content"));
    strip(&mut body);
    assert_eq!(
        body,
        json!({"messages": [{"role": "user", "content": "x", "mine": 1}, plain]})
    );
    assert!(!has_fields(&body));
}

#[test]
fn a_request_has_such_fields_exactly_if_leaving_them_out_changes_it() {
    let call = |extra: Value, function: Value| {
        let mut call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        call.as_object_mut().unwrap().extend(fields(extra));
        call["function"].as_object_mut().unwrap().extend(fields(function));
        json!({"role": "assistant", "content": null, "tool_calls": [call]})
    };
    let none = json!({});
    for message in [
        json!({"role": "user", "content": [{"type": "text", "text": "x"}], "mine": 1}),
        json!({"role": "assistant", "content": "x", "name": "n", "refusal": null}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "x"}]}),
        json!({"role": "assistant", "content": "x", "reasoning": ""}),
        call(none.clone(), none.clone()),
        call(json!({"extra_content": {}}), none.clone()),
        call(none, json!({"mark": 1})),
    ] {
        let body = json!({"messages": [message]});
        let mut stripped = body.clone();
        strip(&mut stripped);
        assert_eq!(has_fields(&body), stripped != body, "{body}");
    }
}

#[test]
fn an_answer_without_calls_keeps_nothing() {
    attach(&mut [], fields(json!({"reasoning_content": "hm"})));
    assert_eq!(
        of_call(fields(json!({"index": 0, "id": "a", "type": "function"}))),
        None
    );
}
