//! Values as text, short for people.

use serde_json::Value;

/// A value for a message: JSON, cut where it gets long.
pub(crate) fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

/// A text for a message: quoted, cut where it gets long.
pub(crate) fn shown_text(text: &str) -> String {
    let short = cut(text);
    format!("{short:?}")
}

fn cut(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shown_text("short"), "\"short\"");
        assert!(shown_text(&"é".repeat(500)).ends_with("é…\""));
    }
}
