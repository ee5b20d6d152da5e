//! Finds boundaries in text: of words and white space, always at characters.

use std::ops::Range;

/// Longer titles are truncated.
pub(super) const LONGEST_TITLE: usize = 160;

/// The text between two positions; empty if they are out of range.
pub(super) fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

/// The range without white space at its ends.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = slice(text, range.clone());
    let start = range.start + (part.len() - part.trim_start().len());
    let end = start + part.trim().len();
    start..end
}

/// The first position from `at` on that is not white space.
pub(super) fn skip_space(text: &str, at: usize, end: usize) -> usize {
    let part = slice(text, at..end);
    at + (part.len() - part.trim_start().len())
}

/// `text` truncated to at most `limit` bytes at a word boundary, with `…` if anything is missing.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = slice(text, 0..text.floor_char_boundary(limit));
    let head = match head.rfind(char::is_whitespace) {
        Some(at) if at > limit / 2 => slice(head, 0..at),
        _ => head,
    };
    format!("{}…", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortening_keeps_words() {
        assert_eq!(shortened("one two three", 9), "one two…");
        assert_eq!(shortened("ééééé", 5), "éé…");
        assert_eq!(shortened("short", 5), "short");
    }
}
