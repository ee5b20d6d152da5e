//! Finds the one JSON object in what a model wrote: in a code fence, or with text around it. It never guesses: two different
//! objects, one that cannot be read, or one that the text only quotes or contradicts, are no answer.

use std::ops::Range;

use holodeck_model::parse_deciding;
use serde_json::Value;

mod around;
mod quoted;

/// Characters without a picture that some models write first or last.
const INVISIBLE: [char; 3] = ['\u{feff}', '\u{200b}', '\u{2060}'];

/// The only object in a text.
#[derive(Debug, PartialEq)]
pub(super) struct Found<'t> {
    /// The object as it was written.
    pub(super) json: &'t str,
    /// Whether it is not all that the text says.
    has_company: bool,
}

impl Found<'_> {
    /// Refuses an object that also stands in the question: text beside it may be about it. `is_same` compares it with those of
    /// the question.
    pub(super) fn check_quoted(&self, question: &str, is_same: impl Fn(Value) -> bool) -> Result<(), String> {
        if self.has_company && quoted::stands_in(question, self.json, is_same) {
            return Err(
                "it has text beside its JSON object, which also stands in the material and may be only quoted"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// The only object in a text.
pub(super) fn find_object(text: &str) -> Result<Found<'_>, String> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || INVISIBLE.contains(&c));
    let mut objects = find_objects(text)?.into_iter();
    let (first, value) = objects.next().ok_or("it has no JSON object")?;
    let mut places = vec![first];
    for (place, other) in objects {
        if other != value {
            return Err("it has two different JSON objects".to_owned());
        }
        places.push(place);
    }
    around::check(text, &places, &value)?;
    let json = places.first().and_then(|place| text.get(place.clone()));
    Ok(Found {
        json: json.unwrap_or_default(),
        has_company: around::has_company(text, &places),
    })
}

/// All objects in a text, with their places. A brace that is neither the beginning of an object nor closed by the text
/// around it may hide a part of an object, so that nothing is read.
fn find_objects(text: &str) -> Result<Vec<(Range<usize>, Value)>, String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find(['{', '}'])) {
        let start = at + next;
        let from = text.get(start..).unwrap_or_default();
        if from.starts_with('}') {
            return Err("it is not JSON (a brace is closed that was not opened)".to_owned());
        }
        let length = length_of_object(from).ok_or("it is not JSON (an object is not complete)")?;
        let object = from.get(..length).unwrap_or_default();
        match parse_deciding(object) {
            Ok(value) => found.push((start..start + length, value)),
            Err(error) if begins_as_json(from) => return Err(format!("it is not JSON ({error})")),
            Err(error) if object.contains([':', '：']) => {
                return Err(format!(
                    "it has braces around something that is not JSON ({error})"
                ));
            }
            // Braces of the text.
            Err(_) => {}
        }
        at = start + length;
    }
    Ok(found)
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

    fn value_in(text: &str) -> Value {
        parse_deciding(find_object(text).unwrap().json).unwrap()
    }

    #[test]
    fn one_object_is_found_wherever_it_stands() {
        let object = r#"{"score": 8, "reason": "a } b \" {"}"#;
        let value = json!({"score": 8, "reason": "a } b \" {"});
        for (before, after) in [
            ("", ""),
            ("```json\n", "\n```"),
            ("Here is my verdict:\n```json\n", "\n```"),
            ("Sure! ", ""),
            ("I weigh {tone} and {facts}: ", ""),
            ("That is {clear}.\n", ""),
        ] {
            assert_eq!(
                value_in(&format!("{before}{object}{after}")),
                value,
                "{before}|{after}"
            );
        }
        assert_eq!(value_in(&format!("{object}\n{object}")), value);
        let raw = "{\"score\": 8, \"reason\": \"line one\nline\ttwo\"}";
        assert_eq!(
            value_in(raw),
            json!({"score": 8, "reason": "line one\nline\ttwo"})
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
            "{\"score\": 8}}",
        ] {
            assert!(find_object(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_object_within_braces_that_cannot_be_read_is_no_answer() {
        let inner = r#"{"score": 9, "reason": "x"}"#;
        for outer in [
            "{score: 2, details: @}",
            "{score: 2, details: @",
            "{/* final */ \"score\": 2, \"detail\": @}",
            "{// final\n\"score\": 2, \"detail\": @}",
            "{# final\n\"score\": 2, \"detail\": @}",
            "{[\"score\"]: 2, detail: @}",
            "{`score`: 2, detail: @}",
            "{“score”: 2, “detail”: @}",
            "{score = 2, detail = @}",
            "{score: '}', detail: @}",
            "{score: '}' detail @}",
            "{score: 2} @",
            "@ {score: 2}",
            "{{@}}",
            "{@}",
            "{ , \"score\": 2, \"detail\": @}",
            "{...@}",
            "\\boxed{@}",
            "\\text{the score: @",
            "@}",
            "{ @",
        ] {
            for before in ["", "Here is it:\n", "{tone} "] {
                let text = format!("{before}{}", outer.replace('@', inner));
                assert!(find_object(&text).is_err(), "{text}");
            }
        }
        for before in [
            "{name}, ",
            "$\\frac{a}{b}$: ",
            "$x \\in \\{a, b\\}$.\n",
            "\\boxed{good}\n",
            "{{name}}\n",
        ] {
            assert!(
                find_object(&format!("{before}{inner}")).is_ok() || before.ends_with(", "),
                "{before}"
            );
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
