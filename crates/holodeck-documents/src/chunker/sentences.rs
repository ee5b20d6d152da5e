//! Finds the ends of sentences, past the dots of abbreviations and numbers.

use super::number::Word;
use super::text::slice;

/// Where a sentence ends that ends before `limit`, looking back from there to `from`: the position after its mark.
pub(super) fn sentence_end_before(text: &str, from: usize, limit: usize) -> Option<usize> {
    let part = slice(text, from..limit);
    part.char_indices().rev().find_map(|(at, mark)| {
        let end = from + at + mark.len_utf8();
        is_sentence_end(text, from + at, mark)
            .then(|| closed(text, end))
            .filter(|&end| end <= limit)
    })
}

/// Where the sentence that holds `from` ends: the position after its mark, or `limit`.
pub(super) fn sentence_end_after(text: &str, from: usize, limit: usize) -> usize {
    let part = slice(text, from..limit);
    let found = part.char_indices().find_map(|(at, mark)| {
        let end = from + at + mark.len_utf8();
        is_sentence_end(text, from + at, mark).then(|| closed(text, end))
    });
    found.unwrap_or(limit).min(limit)
}

fn is_sentence_end(text: &str, at: usize, mark: char) -> bool {
    match mark {
        '。' | '！' | '？' => true,
        '.' | '!' | '?' => {
            let end = closed(text, at + 1);
            let next = slice(text, end..text.len()).chars().next();
            let short = mark == '.' && end == at + 1 && is_abbreviation(text, at);
            next.is_none_or(char::is_whitespace) && !short
        }
        _ => false,
    }
}

/// The position after the brackets and quotation marks that close at `at`.
fn closed(text: &str, at: usize) -> usize {
    let mut end = at;
    for mark in slice(text, at..text.len()).chars() {
        if !matches!(mark, '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '*' | '_') {
            break;
        }
        end += mark.len_utf8();
    }
    end
}

/// Whether the dot at `at` belongs to a short form or an initial rather than ending a sentence.
fn is_abbreviation(text: &str, at: usize) -> bool {
    const SHORT: &[&str] = &[
        "e.g", "i.e", "cf", "vs", "al", "no", "nos", "art", "sec", "fig", "dr", "mr", "mrs", "ms", "st",
        "para", "approx", "inc", "ltd", "u.s", "u.s.c",
    ];
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.';
    // No short form is longer than this.
    let from = at.saturating_sub(8);
    let before = bytes.get(from..at).unwrap_or_default();
    let length = before.iter().rev().take_while(|byte| is_part(byte)).count();
    if length == 8 {
        return false;
    }
    let word = slice(text, at - length..at);
    if word.len() == 1 {
        return word.bytes().all(|byte| byte.is_ascii_uppercase())
            && !is_numbered(slice(text, 0..at - length));
    }
    SHORT.iter().any(|short| short.eq_ignore_ascii_case(word))
}

/// Whether a text ends with a word that precedes numbers: the `A` of `Schedule A` is not an initial.
fn is_numbered(before: &str) -> bool {
    let Some(before) = before.strip_suffix(' ') else {
        return false;
    };
    let letters = before
        .bytes()
        .rev()
        .take(12)
        .take_while(u8::is_ascii_alphabetic)
        .count();
    Word::at_start(slice(before, before.len() - letters..before.len())).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_expects() {
        let check = |text: &str, first: &str| {
            assert_eq!(slice(text, 0..sentence_end_after(text, 0, text.len())), first);
        };
        check("One. Two.", "One.");
        check("See e.g. Section 4. Then.", "See e.g. Section 4.");
        check("J. Smith wrote. Then.", "J. Smith wrote.");
        check("He said \"no.\" Then.", "He said \"no.\"");
        check("Version 1.2 is out! Get it", "Version 1.2 is out!");
        check("一。二。", "一。");
        check("As in Schedule A. Then.", "As in Schedule A.");
        check("no end", "no end");
    }

    #[test]
    fn looking_back_finds_the_last_end() {
        let text = "One. Two. Thr";
        assert_eq!(sentence_end_before(text, 0, text.len()), Some(9));
        assert_eq!(sentence_end_before(text, 0, 8), Some(4));
        assert_eq!(sentence_end_before(text, 5, 8), None);
    }
}
