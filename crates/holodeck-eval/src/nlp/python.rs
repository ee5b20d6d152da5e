//! White space, words and punctuation as Python's `str` methods and `re` define them.
//!
//! The reference implementations of all text metrics are written in Python; a character that Rust and Python put into
//! different classes would change a score.

use unicode_normalization::char::is_combining_mark;

/// `str.isspace()`, also what `\s` matches: Unicode white space and the four ASCII separators.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | '\x1c'..=' ') || !c.is_ascii() && c.is_whitespace()
}

/// `\w`: letters, numbers and the underscore; no combining marks, no circled letters.
pub(crate) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    c.is_alphanumeric()
        && !is_combining_mark(c)
        && !matches!(c, '\u{24b6}'..='\u{24e9}' | '\u{1f130}'..='\u{1f149}' | '\u{1f150}'..='\u{1f169}' | '\u{1f170}'..='\u{1f189}')
}

/// `str.split()`.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (word, after) = rest.split_at(word_len(rest));
            let space = after.chars().next().map_or(0, char::len_utf8);
            rest = after.get(space..).unwrap_or_default();
            if !word.is_empty() {
                return Some(word);
            }
            if space == 0 {
                return None;
            }
        }
    })
}

/// How many bytes come before the first white space.
fn word_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\t'..=b'\r' | 0x1c..=b' ' => break,
            // The first bytes of all white space outside ASCII.
            0xc2 | 0xe1..=0xe3 => match text.get(at..).and_then(|rest| rest.chars().next()) {
                Some(c) if !is_space(c) => at += c.len_utf8(),
                _ => break,
            },
            _ => at += 1,
        }
    }
    at
}

/// `str.casefold()`, except for the chosen representative: two texts have equal results exactly if they do in Python.
pub(crate) fn casefold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars()
        .flat_map(char::to_lowercase)
        // Upper and lower once more: this makes ß equal ss, ς equal σ, ﬁ equal fi. Dotless i would become i.
        .flat_map(|c| {
            let fixed = (c == 'ı').then_some(c);
            let folded = fixed
                .is_none()
                .then(|| c.to_uppercase().flat_map(char::to_lowercase));
            fixed.into_iter().chain(folded.into_iter().flatten())
        })
        .collect()
}

/// Removes the characters of `string.punctuation`.
pub(crate) fn strip_punctuation(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_punctuation()).collect()
}
