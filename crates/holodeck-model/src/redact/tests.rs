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
