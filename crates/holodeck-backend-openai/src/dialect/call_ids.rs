//! Ids of tool calls in a form that every server accepts: nine letters and digits. Calls in a history may come from another
//! server, whose ids are longer or have other characters. A call and its result keep the same id.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// The length that the strictest servers want.
const LENGTH: usize = 9;

/// Whether a request has an id in another form.
pub(super) fn has_other_form(body: &Value) -> bool {
    ids(body).any(|id| !is_plain(id))
}

/// Whether a text, in lower case, has one of the ids or the name of their field.
pub(super) fn are_named(body: &Value, text: &str) -> bool {
    let names = [
        "tool_call_id",
        "tool call id",
        "toolcallid",
        "tool_calls.id",
        "].id",
    ];
    names.iter().any(|name| text.contains(name))
        || ids(body).any(|id| id.len() > 3 && text.contains(&id.to_lowercase()))
}

/// Gives the ids of another form one of nine letters and digits, in the order of the calls: the same conversation always
/// has the same ids.
pub(super) fn shorten(body: &mut Value) {
    let used: HashSet<String> = ids(body).filter(|id| is_plain(id)).map(str::to_owned).collect();
    let mut numbers = 0_u32..;
    let mut new = HashMap::new();
    let others: Vec<String> = ids(body).filter(|id| !is_plain(id)).map(str::to_owned).collect();
    for id in others {
        new.entry(id).or_insert_with(|| {
            let mut candidates = numbers.by_ref().map(|number| format!("c{number:08}"));
            candidates.find(|id| !used.contains(id)).unwrap_or_default()
        });
    }
    let replace = |place: Option<&mut Value>| {
        if let Some(place) = place
            && let Some(id) = place.as_str().and_then(|id| new.get(id))
        {
            *place = Value::from(id.as_str());
        }
    };
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            replace(call.get_mut("id"));
        }
        replace(message.get_mut("tool_call_id"));
    }
}

fn is_plain(id: &str) -> bool {
    id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The ids of the calls and of their results.
fn ids(body: &Value) -> impl Iterator<Item = &str> {
    let messages = body.get("messages").and_then(Value::as_array);
    messages.into_iter().flatten().flat_map(|message| {
        let calls = message.get("tool_calls").and_then(Value::as_array);
        let calls = calls.into_iter().flatten().filter_map(|call| call.get("id"));
        calls.chain(message.get("tool_call_id")).filter_map(Value::as_str)
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn conversation(first: &str, second: &str) -> Value {
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        json!({"messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [call(first), call(second)]},
            {"role": "tool", "tool_call_id": first, "content": "one"},
            {"role": "tool", "tool_call_id": second, "content": "two"},
            {"role": "assistant", "content": "done"},
        ]})
    }

    #[test]
    fn ids_of_any_form_become_nine_letters_and_digits_and_stay_apart() {
        let long = "x".repeat(70);
        let forms = [
            "call_8hYl2",
            "hd_call_1",
            "toolu_01A09q90qw90lq917835lq9",
            "null",
            "1",
            "functions.f:0",
            "größe1234",
            &long,
            "c00000001",
            "D681PevKs",
        ];
        for first in forms {
            for second in forms.into_iter().filter(|second| *second != first) {
                let mut body = conversation(first, second);
                let expected_change = !(is_plain(first) && is_plain(second));
                assert_eq!(has_other_form(&body), expected_change);
                shorten(&mut body);
                let found: Vec<String> = ids(&body).map(str::to_owned).collect();
                let [a, b, of_a, of_b] = &found[..] else {
                    panic!("{found:?}")
                };
                assert!(found.iter().all(|id| is_plain(id)), "{found:?}");
                assert!(a != b && a == of_a && b == of_b, "{first}, {second}: {found:?}");
                for (before, after) in [(first, a), (second, b)] {
                    assert!(!is_plain(before) || before == after, "{before} became {after}");
                }
                let again = body.clone();
                shorten(&mut body);
                assert_eq!(body, again);
            }
        }
    }

    #[test]
    fn only_ids_change() {
        let mut body = conversation("call_1", "call_2");
        shorten(&mut body);
        assert_eq!(body, conversation("c00000000", "c00000001"));
        let mut none = json!({"messages": [{"role": "user", "content": "call_1"}]});
        let before = none.clone();
        assert!(!has_other_form(&none));
        shorten(&mut none);
        assert_eq!(none, before);
    }
}
