//! Words in any script, for the languages that the reference tokenisers drop or treat as one long word.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::python;

/// Composes the accents of a text, so that two spellings of a word become equal.
pub(crate) fn compose(text: &str) -> Cow<'_, str> {
    if is_nfc(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// Emits the words, and each other character except white space as a separate token. A dot or comma between digits and
/// an apostrophe between letters are part of the word.
pub(crate) fn tokens<'t>(text: &'t str, mut emit: impl FnMut(&'t str)) {
    let mut start = 0;
    let mut last = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let before = std::mem::replace(&mut last, c);
        let next = chars.peek().map(|&(_, next)| next);
        let joins = match c {
            '.' | ',' => before.is_numeric() && next.is_some_and(char::is_numeric),
            '\'' | '’' => before.is_alphabetic() && next.is_some_and(char::is_alphabetic),
            _ => is_word_part(c),
        };
        if joins && !is_unspaced(c) {
            continue;
        }
        // A combining mark is part of its character, also in scripts without spaces.
        let mut end = end;
        while let Some(&(_, mark)) = chars.peek()
            && is_unspaced(c)
            && is_combining_mark(mark)
        {
            end += mark.len_utf8();
            chars.next();
        }
        push(text, start, at, &mut emit);
        if !python::is_space(c) {
            push(text, at, end, &mut emit);
        }
        start = end;
    }
    push(text, start, text.len(), &mut emit);
}

/// Emits the tokens that are words, not punctuation or symbols.
pub(crate) fn words<'t>(text: &'t str, mut emit: impl FnMut(&'t str)) {
    tokens(text, |token| {
        if token.chars().any(is_letter_or_digit) {
            emit(token);
        }
    });
}

/// Whether `c` is neither punctuation nor a symbol nor white space.
pub(crate) fn is_word_part(c: char) -> bool {
    // The two joiners shape letters inside a word (Persian, the scripts of India).
    is_letter_or_digit(c) || is_combining_mark(c) || matches!(c, '\u{200c}' | '\u{200d}')
}

fn is_letter_or_digit(c: char) -> bool {
    c.is_alphanumeric()
}

/// Scripts without spaces between words: Chinese, Japanese, Thai, Lao, Burmese, Khmer.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e01..=0x0e30 | 0x0e32..=0x0e33 | 0x0e40..=0x0e46 // Thai letters, without the marks
        | 0x0e81..=0x0eb0 | 0x0eb2..=0x0eb3 | 0x0ebd..=0x0ec6 // Lao
        | 0x1000..=0x102a | 0x103f | 0x1050..=0x1055 // Burmese
        | 0x1780..=0x17b3 // Khmer
        | 0x3005..=0x3007 | 0x3041..=0x3096 | 0x309d..=0x309f | 0x30a1..=0x30fa | 0x30fc..=0x30ff | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0xff66..=0xff9d
        | 0x1b000..=0x1b16f | 0x20000..=0x323af)
}

fn push<'t>(text: &'t str, start: usize, end: usize, emit: &mut impl FnMut(&'t str)) {
    if let Some(token) = text.get(start..end)
        && !token.is_empty()
    {
        emit(token);
    }
}
