//! How deep JSON of others may be nested. What is deeper than a parser allows takes everything around it along, and what is
//! almost as deep does so once it is a part of a record.

use serde_json::Value;

/// The levels of objects and lists that a value of a model, tool or server may have.
pub const JSON_LEVELS: usize = 96;

/// The levels that a parser allows, with room for what encloses a text.
const PARSED: usize = 124;

/// The levels of objects and lists in a value; 0 for anything else.
pub fn json_levels(value: &Value) -> usize {
    let within = match value {
        Value::Array(entries) => entries.iter().map(json_levels).max(),
        Value::Object(fields) => fields.values().map(json_levels).max(),
        _ => return 0,
    };
    within.unwrap_or_default() + 1
}

/// Whether a text has more levels than a value may have.
pub fn is_deep_json(json: &str) -> bool {
    cut(json, JSON_LEVELS).is_some()
}

/// A text in which what is too deep for a parser is null; `None` if nothing is.
pub fn cut_deep_json(json: &str) -> Option<String> {
    cut(json, PARSED)
}

/// Replaces the objects and lists below this number of levels by null.
fn cut(json: &str, levels: usize) -> Option<String> {
    let (mut in_string, mut escaped) = (false, false);
    let mut depth = 0_usize;
    let mut text = String::new();
    // The end of what was copied.
    let mut end = 0;
    let mut is_cut = false;
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth == levels + 1 {
                    text.push_str(json.get(end..at)?);
                    text.push_str("null");
                    is_cut = true;
                    end = json.len();
                }
            }
            b'}' | b']' => {
                if depth == levels + 1 {
                    end = at + 1;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    text.push_str(json.get(end..)?);
    is_cut.then_some(text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_too_deep_is_cut() {
        for (json, levels, expected) in [
            (
                r#"{"a":{"b":{"c":1}},"d":2}"#,
                2,
                Some(r#"{"a":{"b":null},"d":2}"#),
            ),
            ("[[[1],[2]],3]", 2, Some("[[null,null],3]")),
            (r#"{"a":"[[[[","b":"\"{{{"}"#, 1, None),
            (
                r#"{"a":[{"x":"]}\\"}],"b":[]}"#,
                2,
                Some(r#"{"a":[null],"b":[]}"#),
            ),
            ("[[1]]", 2, None),
            ("1", 0, None),
            // No JSON stays none.
            ("[[[", 2, Some("[[null")),
            ("]]]", 2, None),
        ] {
            assert_eq!(cut(json, levels).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn levels_are_counted_alike_in_text_and_value() {
        let mut value = json!({"a": "{["});
        for levels in 1..120 {
            assert_eq!(json_levels(&value), levels);
            assert_eq!(is_deep_json(&value.to_string()), levels > JSON_LEVELS, "{levels}");
            value = if levels % 2 == 0 {
                json!({"x": value, "y": []})
            } else {
                json!([1, value])
            };
        }
        let deep = format!("[1,{}{},2]", "[".repeat(100_000), "]".repeat(100_000));
        let cut: Value = serde_json::from_str(&cut_deep_json(&deep).unwrap()).unwrap();
        assert_eq!((&cut[0], &cut[2]), (&json!(1), &json!(2)));
        assert!(json_levels(&cut) > JSON_LEVELS);
    }
}
