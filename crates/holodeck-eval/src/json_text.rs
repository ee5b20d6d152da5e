//! Formats values for messages.

use serde_json::Value;

/// Formats a value as JSON, shortened if it is long.
pub(crate) fn format_json(value: &Value) -> String {
    shorten(&value.to_string())
}

/// Formats a text in quotes, shortened if it is long.
pub(crate) fn quote(text: &str) -> String {
    let short = shorten(text);
    format!("{short:?}")
}

fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    match text.char_indices().nth(MAX_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(quote("short"), "\"short\"");
        assert!(quote(&"é".repeat(500)).ends_with("é…\""));
    }
}
