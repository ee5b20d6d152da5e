//! Tests that secrets are masked in every encoding, and ordinary texts are not.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn redactor() -> Redactor {
    Redactor::new([
        "correct-horse".to_owned(),
        "pass \"word/ä".to_owned(),
        "short".to_owned(),
        "12345678".to_owned(),
    ])
}

#[test]
fn given_secrets_and_known_shapes_are_masked_and_other_texts_are_not() {
    let key = format!("sk-{}", "a1B2".repeat(8));
    assert_eq!(redactor().text(&format!("use {key} now")), "use *** now");
    assert_eq!(redactor().text("x=correct-horse;"), "x=***;");
    assert!(matches!(
        redactor().text("a short desk-lamp, application/json, https://host/x?y=z"),
        Cow::Borrowed(_)
    ));
}

#[test]
fn encoded_secrets_are_masked() {
    let redactor = redactor();
    for text in [
        "pass \"word/ä",
        r#"{"a": "pass \"word/ä"}"#,
        r#"{"a": "pass \"word\/ä"}"#,
        r#"{"a": "pass \"word/\u00e4"}"#,
        r#""{\"a\": \"pass \\\"word/ä\"}""#,
        "pass%20%22word%2F%C3%A4",
        "pass+%22word%2f%c3%a4",
    ] {
        let clean = redactor.text(text);
        assert!(clean.contains("***") && !clean.contains("word"), "{clean}");
    }
    // `user:correct-horse`, and the same after another byte.
    assert_eq!(redactor.text("Basic dXNlcjpjb3JyZWN0LWhvcnNl."), "Basic ***.");
    assert_eq!(redactor.text("x dXNlcjE6Y29ycmVjdC1ob3JzZQ== y"), "x *** y");
}

#[test]
fn all_parts_of_a_value_are_masked() {
    let mut value = json!({"a": ["correct-horse", 1, 12_345_678], "b": {"correct-horse": "keep"}});
    assert!(redactor().mask_value(&mut value));
    assert_eq!(value, json!({"a": ["***", 1, "***"], "b": {"***": "keep"}}));
    assert!(!redactor().mask_value(&mut value));
}

#[test]
fn overlapping_secrets_give_one_mask() {
    let redactor = Redactor::new(["correct-horse".to_owned(), "horse-battery".to_owned()]);
    assert_eq!(redactor.text("correct-horse-battery"), "***-battery");
    assert_eq!(
        redactor.text("https://me:correct-horse@host/"),
        "https://***@host/"
    );
    assert_eq!(merge_ranges(vec![3..5, 0..2, 4..9, 2..3]).first(), Some(&(0..9)));
}

#[test]
fn debug_shows_no_secret() {
    assert!(!format!("{:?}", redactor()).contains("horse"));
}

/// `text` with every character that `escapes` names as that writer escapes it, in JSON within JSON `level` times.
fn spell(text: &str, escapes: &dyn Fn(char) -> Option<String>, level: u32) -> String {
    let mut spelled = text.to_owned();
    for _ in 0..level {
        spelled = spelled
            .chars()
            .map(|c| match escapes(c) {
                Some(escape) => escape,
                None if c == '\\' || c == '"' => format!("\\{c}"),
                None => c.to_string(),
            })
            .collect();
    }
    spelled
}

fn unit_escape(c: char, upper: bool) -> String {
    let mut units = [0; 2];
    let units = c.encode_utf16(&mut units).iter();
    units
        .map(|unit| {
            if upper {
                format!("\\u{unit:04X}")
            } else {
                format!("\\u{unit:04x}")
            }
        })
        .collect()
}

#[test]
fn a_secret_is_masked_however_a_writer_of_json_escapes_it() {
    for secret in [
        "Zk8d/f0Gh+iJkLmNoPqRsTuV",
        "/Zk8d+f0Gh=",
        "Zk8d<f0'G>h&i`J",
        "Zk8d\"f0\\Gh/iJ",
        "Zk8d ä/f0+🎉Gh",
        "Zk8d-f0Gh_iJ/",
    ] {
        let redactor = std::sync::Arc::new(Redactor::new([secret.to_owned()]));
        for level in 1..=3 {
            for choice in 0..5 {
                for upper in [false, true] {
                    let spelled = spell(
                        secret,
                        &|c| match (choice, c) {
                            (0 | 1, '/') => Some("\\/".to_owned()),
                            (0, c) if "+=<>'&`".contains(c) => Some(unit_escape(c, upper)),
                            (1 | 2, c) if !c.is_ascii() => Some(unit_escape(c, upper)),
                            (3, c) if !c.is_ascii_alphanumeric() && c != '\\' => Some(unit_escape(c, upper)),
                            (4, c) if !c.is_ascii_alphanumeric() => Some(unit_escape(c, upper)),
                            _ => None,
                        },
                        level,
                    );
                    let text = format!("no key ä: {spelled}, ä \\u0041\\/ and more");
                    let masked = "no key ä: ***, ä \\u0041\\/ and more";
                    assert_eq!(redactor.text(&text), masked, "{text}");
                    for size in [1, 3, 7] {
                        let mut stream = RedactedStream::new(std::sync::Arc::clone(&redactor));
                        let letters: Vec<char> = text.chars().collect();
                        let pieces = letters.chunks(size).map(|piece| piece.iter().collect::<String>());
                        let mut shown: String = pieces.map(|piece| stream.push(&piece)).collect();
                        shown.push_str(&stream.finish());
                        assert_eq!(shown, masked, "{text} in pieces of {size}");
                    }
                }
            }
        }
    }
}
