//! Integers of JSON with more digits than a value holds. They would become floating-point numbers, so they stand in an object of
//! their own until they are sent on or shown.

use std::borrow::Cow;

/// The beginning and the end of such an object.
const BEGIN: &str = "{\"$holodeck.integer\":\"";
const END: &str = "\"}";

/// The digits that every integer type can hold.
const SAFE: usize = 18;

/// The places of long integers in a JSON text.
fn long_integers(json: &str) -> Vec<(usize, &str)> {
    if !has_many_digits(json) {
        return Vec::new();
    }
    words_of_kind(json, is_long)
}

/// Whether more than [`SAFE`] digits stand in a row. They cover a sixteenth place, and only such places are looked at.
fn has_many_digits(json: &str) -> bool {
    const STEP: usize = 16;
    let bytes = json.as_bytes();
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let mut places = (STEP - 1..bytes.len()).step_by(STEP);
    places.any(|place| {
        let (before, after) = bytes.split_at(place);
        let after = after.iter().take_while(is_digit).count();
        after > 0 && after + before.iter().rev().take_while(is_digit).count() > SAFE
    })
}

/// A number in a JSON text that has a fraction, and as a floating-point number has none: `9.99999999999999999999`. It would be
/// read as another number than was written.
pub fn rounded_to_whole(json: &str) -> Option<&str> {
    let number = words_of_kind(json, is_rounded_to_whole).into_iter().next();
    number.map(|(_, number)| number)
}

/// Whether the nearest floating-point number of a word is whole, and the word is not.
fn is_rounded_to_whole(word: &str) -> bool {
    if !word.parse::<f64>().is_ok_and(|number| number.fract() == 0.0) {
        return false;
    }
    let (mantissa, exponent) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let before = before.trim_start_matches(['-', '+']);
    let exponent: i128 = exponent.parse().unwrap_or(if exponent.starts_with('-') {
        i128::from(i64::MIN)
    } else {
        i128::from(i64::MAX)
    });
    // The place after the last digit that is not zero, counted from the point.
    let digits = format!("{before}{after}");
    let significant = digits.trim_end_matches('0').len();
    let last = significant as i128 - before.len() as i128;
    significant > 0 && digits.bytes().any(|digit| digit != b'0') && last.saturating_sub(exponent) > 0
}

/// The places of the words of a kind outside of the strings of a JSON text.
fn words_of_kind(json: &str, is_of_kind: fn(&str) -> bool) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    let mut start = None;
    for (at, byte) in json.bytes().chain([b' ']).enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.') {
            start.get_or_insert(at);
            continue;
        }
        if let Some(begin) = start.take()
            && let Some(word) = json.get(begin..at)
            && is_of_kind(word)
        {
            found.push((begin, word));
        }
        in_string = byte == b'"';
    }
    found
}

/// Whether a word is an integer that does not fit.
fn is_long(word: &str) -> bool {
    if word.len() <= SAFE {
        return false;
    }
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer && word.parse::<u64>().is_err() && word.parse::<i64>().is_err()
}

/// A JSON text with its long integers in objects; `None` if it has none.
pub fn wrap(json: &str) -> Option<String> {
    let numbers = long_integers(json);
    let mut wrapped = String::new();
    let mut end = 0;
    for (begin, number) in &numbers {
        wrapped.push_str(json.get(end..*begin).unwrap_or_default());
        wrapped.extend([BEGIN, number, END]);
        end = begin + number.len();
    }
    wrapped.push_str(json.get(end..).unwrap_or_default());
    (!numbers.is_empty()).then_some(wrapped)
}

/// The digits of such an object.
pub fn digits(value: &serde_json::Value) -> Option<&str> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object
        .get("$holodeck.integer")?
        .as_str()
        .filter(|digits| is_long(digits))
}

/// Replaces such objects by the texts of their digits.
pub fn spell(value: &mut serde_json::Value) {
    if let Some(digits) = digits(value) {
        *value = serde_json::Value::from(digits);
        return;
    }
    match value {
        serde_json::Value::Array(items) => items.iter_mut().for_each(spell),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(spell),
        _ => {}
    }
}

/// The JSON text in which the integers stand as they came. Inside of a string the objects have other quotes.
pub fn unwrap(json: &str) -> Cow<'_, str> {
    if !json.contains(BEGIN) {
        return Cow::Borrowed(json);
    }
    let mut unwrapped = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        unwrapped.push_str(before);
        rest = after;
        let number = after.split_once(END).filter(|(number, _)| is_long(number));
        if let Some((number, after)) = number {
            unwrapped.push_str(number);
            rest = after;
        } else {
            unwrapped.push_str(BEGIN);
        }
    }
    unwrapped.push_str(rest);
    Cow::Owned(unwrapped)
}

/// The first number of a JSON text that a value cannot hold, or holds without its fraction.
pub fn first_lossy(json: &str) -> Option<&str> {
    first_long(json).or_else(|| rounded_to_whole(json))
}

/// The first integer of a JSON text that a value cannot hold.
pub fn first_long(json: &str) -> Option<&str> {
    long_integers(json).first().map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use super::*;

    #[test]
    fn many_digits_are_found_at_every_place() {
        for before in 0..40 {
            for digits in [SAFE - 1, SAFE, SAFE + 1, SAFE + 2, 40] {
                for after in [0, 1, 15, 16, 40] {
                    let text = format!(
                        "{}{}{}",
                        "a".repeat(before),
                        "7".repeat(digits),
                        "b".repeat(after)
                    );
                    assert_eq!(has_many_digits(&text), digits > SAFE, "{text}");
                }
            }
        }
    }

    #[test]
    fn only_integers_that_do_not_fit_are_wrapped_and_come_back() {
        for (json, long) in [
            (
                r#"{"a":12345678901234567890123}"#,
                Some("12345678901234567890123"),
            ),
            ("[-9223372036854775809,1]", Some("-9223372036854775809")),
            ("18446744073709551616", Some("18446744073709551616")),
            (r#"{"a":18446744073709551615,"b":-9223372036854775808}"#, None),
            (
                r#"{"a":"12345678901234567890123","b":"\"12345678901234567890123"}"#,
                None,
            ),
            (
                "[0.12345678901234567890123,1e30,12345678901234567890123.5,12345678901234567890123E1]",
                None,
            ),
            (
                r#"{"a":[{"b":100000000000000000000}]}"#,
                Some("100000000000000000000"),
            ),
        ] {
            assert_eq!(first_long(json), long, "{json}");
            let wrapped = wrap(json);
            assert_eq!(wrapped.is_some(), long.is_some(), "{json}");
            let Some(wrapped) = wrapped else { continue };
            let value: Value = serde_json::from_str(&wrapped).unwrap();
            assert_eq!(unwrap(&value.to_string()), json);
        }
        // An object of this form in a text, or with another content, is not one of these.
        for json in [
            r#"{"a":"{\"$holodeck.integer\":\"123456789012345678901\"}"}"#,
            r#"{"$holodeck.integer":"x"}"#,
        ] {
            assert_eq!(unwrap(json), json);
        }
    }
}
