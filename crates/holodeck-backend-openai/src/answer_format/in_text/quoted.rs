//! Decides whether an object of an answer also stands in the question, which has texts of others. It must not decide whether the
//! answer quotes it: an answer that is only the object may have this verdict, too.

use serde_json::Value;

/// Whether an object of `question` is the same as one that was written as `json`, or fulfils `is_same`.
pub(super) fn stands_in(question: &str, json: &str, is_same: impl Fn(Value) -> bool) -> bool {
    // A text within JSON, such as a result of a tool, has its quotation marks escaped.
    let unescaped = question.contains("\\\"").then(|| question.replace("\\\"", "\""));
    let mut texts = [Some(question), unescaped.as_deref()].into_iter().flatten();
    texts.any(|text| text.contains(json) || has_object(text, &is_same))
}

/// Whether an object that begins at a brace of a text, or one within it, fulfils `is_same`.
fn has_object(text: &str, is_same: impl Fn(Value) -> bool) -> bool {
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('{')) {
        at += next;
        let mut values = serde_json::Deserializer::from_str(text.get(at..).unwrap_or_default()).into_iter();
        // An attempt ends at the first character that is not JSON, and is at most as deep as the parser goes.
        let Some(Ok(object)) = values.next() else {
            at += 1;
            continue;
        };
        at += values.byte_offset().max(1);
        let mut parts: Vec<Value> = vec![object];
        while let Some(part) = parts.pop() {
            match part {
                Value::Object(fields) => {
                    parts.extend(fields.values().filter(|value| !value.is_string()).cloned());
                    if is_same(Value::Object(fields)) {
                        return true;
                    }
                }
                Value::Array(items) => parts.extend(items),
                _ => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_found_in_every_form() {
        let json = r#"{"score": 8, "reason": "polite"}"#;
        let same = |value: Value| value == json!({"score": 8, "reason": "polite"});
        for question in [
            r#"<answer-1>{"score": 8, "reason": "polite"}</answer-1>"#,
            r#"{"reason":"polite","score":8}"#,
            "Say {\n  \"reason\": \"polite\",\n  \"score\": 8\n}!",
            r#"{broken {"a": [{"score": 8, "reason": "pol\u0069te"}], "b": 1}"#,
            r#"{"result": "{\"score\": 8, \"reason\": \"polite\"}"}"#,
        ] {
            assert!(stands_in(question, json, same), "{question}");
        }
        for question in [
            "",
            "{",
            r#"{"score": 9, "reason": "polite"}"#,
            r#"{"score": 8, "reason": "polite""#,
            "score 8, polite",
        ] {
            assert!(!stands_in(question, json, same), "{question}");
        }
    }

    #[test]
    fn a_question_of_braces_only_has_no_object() {
        let deep = "{\"a\":".repeat(1_000);
        assert!(!stands_in(&deep, "{\"b\": 1}", |_| true));
        let closed = format!("{}{{\"b\":1}}{}", "{\"a\":".repeat(500), "}".repeat(500));
        let is_inner = |value: Value| value == json!({"b": 1});
        assert!(stands_in(&closed, "{\"b\": 1}", is_inner));
    }
}
