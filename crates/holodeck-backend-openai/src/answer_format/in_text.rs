//! Finds the one JSON object in what a model wrote: in a code fence, or with text around it. It never guesses: two different
//! objects, or one that cannot be read, are no answer.

use serde_json::Value;

use crate::json::parse_deciding;

/// The only object in a text.
pub(super) fn find_object(text: &str) -> Result<Value, String> {
    let mut found: Option<Value> = None;
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let from = rest.get(start..).unwrap_or_default();
        let Some(length) = length_of_object(from) else {
            if begins_as_json(from) {
                return Err("it is not JSON (an object is not complete)".to_owned());
            }
            rest = from.get(1..).unwrap_or_default();
            continue;
        };
        let (object, after) = from.split_at(length);
        match parse_deciding(object) {
            Ok(value) => {
                if found.as_ref().is_some_and(|known| *known != value) {
                    return Err("it has two different JSON objects".to_owned());
                }
                found = Some(value);
                rest = after;
            }
            Err(error) if begins_as_json(from) => return Err(format!("it is not JSON ({error})")),
            // A brace of the text.
            Err(_) => rest = from.get(1..).unwrap_or_default(),
        }
    }
    found.ok_or_else(|| "it has no JSON object".to_owned())
}

/// Whether a text after a brace is meant as JSON.
fn begins_as_json(object: &str) -> bool {
    let after = object.get(1..).unwrap_or_default().trim_start();
    after.starts_with(['"', '\'', '}'])
}

/// The length of the object with which a text begins, if its braces are balanced outside of strings.
fn length_of_object(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '{' if !in_string => depth += 1,
            '}' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_object_is_found_wherever_it_stands() {
        let object = r#"{"score": 8, "reason": "a } b \" {"}"#;
        let value = json!({"score": 8, "reason": "a } b \" {"});
        for (before, after) in [
            ("", ""),
            ("```json\n", "\n```"),
            ("Here is my verdict:\n```json\n", "\n```\nHope this helps!"),
            ("Sure! ", " Bye."),
            ("I weigh {tone} and {facts}: ", ""),
            ("", "\nThat is {clear}."),
        ] {
            assert_eq!(
                find_object(&format!("{before}{object}{after}")),
                Ok(value.clone()),
                "{before}|{after}"
            );
        }
        assert_eq!(find_object(&format!("{object}\n{object}")), Ok(value));
        let raw = "{\"score\": 8, \"reason\": \"line one\nline\ttwo\"}";
        assert_eq!(
            find_object(raw),
            Ok(json!({"score": 8, "reason": "line one\nline\ttwo"}))
        );
    }

    #[test]
    fn two_readings_and_broken_objects_are_no_answer() {
        for text in [
            "",
            "8",
            "[8]",
            "{}{\"score\": 8}",
            "{\"score\": 8}\n{\"score\": 2}",
            "{\"score\": 8, \"score\": 2}",
            "{\"score\": 2, {\"score\": 8}",
            "{\"score\": 8",
            "{\"score\": 8}{\"score\":",
            "{'score': 8}",
            "{\"a\": 1} and {'score': 8}",
            "{\"score\": 8,}",
        ] {
            assert!(find_object(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_object_that_is_cut_anywhere_is_no_answer() {
        let text = "Well: {\"reason\": \"so {so}\", \"score\": 8}";
        for (cut, _) in text.char_indices() {
            assert!(find_object(&text[..cut]).is_err(), "{}", &text[..cut]);
        }
    }
}
