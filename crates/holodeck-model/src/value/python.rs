//! Formats values as Python's `str()` does, because the matchers of 0.7.1 compare that.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// `str(value)`: a string unchanged, anything else as Python formats it (`True`, `None`, `1.0`, `['a', 1]`).
pub fn python_str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => {
            let mut out = String::new();
            push_repr(other, &mut out);
            out
        }
    }
}

fn push_repr(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => out.push_str(&number_repr(number)),
        Value::String(text) => push_quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                push_repr(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (at, (key, item)) in entries.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                push_quoted(key, out);
                out.push_str(": ");
                push_repr(item, out);
            }
            out.push('}');
        }
    }
}

fn number_repr(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_repr(float),
        _ => number.to_string(),
    }
}

/// The shortest digits that parse as the same number; with an exponent below 1e-4 and from 1e16.
fn float_repr(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let Ok(exponent) = exponent.parse::<i32>() else {
        return scientific;
    };
    if (-4..16).contains(&exponent) {
        let fixed = format!("{float}");
        return if fixed.contains('.') { fixed } else { fixed + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn push_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// `str.isspace` of one character, which is also what `str.strip` removes.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | '\x1c'..=' ') || !c.is_ascii() && c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_values_as_python_does() {
        for (value, expected) in [
            (json!("a'b"), "a'b"),
            (json!(null), "None"),
            (json!(true), "True"),
            (json!(1), "1"),
            (json!(-0.0), "-0.0"),
            (json!(1.0), "1.0"),
            (json!(0.1), "0.1"),
            (json!(1e16), "1e+16"),
            (json!(1_234_567_890_123_456.0), "1234567890123456.0"),
            (json!(0.0001), "0.0001"),
            (json!(0.00001), "1e-05"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(f64::MAX), "1.7976931348623157e+308"),
            (json!(u64::MAX), "18446744073709551615"),
            (
                json!([1, "a", "it's", "q\"'", [null]]),
                r#"[1, 'a', "it's", 'q"\'', [None]]"#,
            ),
            (
                json!({"k": {"n": 2.50}, "z\n": []}),
                r"{'k': {'n': 2.5}, 'z\n': []}",
            ),
        ] {
            assert_eq!(python_str(&value), expected);
        }
    }
}
