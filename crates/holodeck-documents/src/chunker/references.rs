//! References to other sections.

use super::number::{self, Word};
use super::outline::Outline;
use super::text::slice;

/// How far to look ahead for the name of another law.
const FOLLOWING: usize = 80;

/// A reference and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundReference {
    pub(super) at: usize,
    pub(super) number: String,
}

/// The references of a text to its own sections, in order: `Section 4.2`, `§ 12(b)`, `clauses 3.1 and 3.2`, `Article
/// IV`, `Schedule A`. Text in a heading is not a reference, nor is a section of another law.
pub(super) fn find(text: &str, outline: &Outline) -> Vec<FoundReference> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = next_word(text, at) {
        at = match read(text, start, outline, &mut found) {
            Some(end) => end,
            None => start + 1,
        };
    }
    found
}

/// The next position from `at` where one of [`Word`] may begin.
fn next_word(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut before = at
        .checked_sub(1)
        .and_then(|before| bytes.get(before))
        .copied()
        .unwrap_or(b' ');
    for (offset, &byte) in bytes.get(at..)?.iter().enumerate() {
        // The sign `§` in UTF-8.
        if byte == 0xC2 && bytes.get(at + offset + 1) == Some(&0xA7) {
            return Some(at + offset);
        }
        let first = matches!(byte | 0x20, b's' | b't' | b'c' | b'p' | b'd' | b'a' | b'e');
        if first && byte.is_ascii_alphabetic() && !before.is_ascii_alphanumeric() && before < 0x80 {
            return Some(at + offset);
        }
        before = byte;
    }
    None
}

/// Reads a word and the numbers after it; returns where they end.
fn read(text: &str, start: usize, outline: &Outline, found: &mut Vec<FoundReference>) -> Option<usize> {
    let (word, length) = Word::at_start(text.get(start..)?)?;
    let written = slice(text, start..start + length);
    let capital = !written.starts_with(|first: char| first.is_ascii_lowercase());
    let by_section = matches!(
        word,
        Word::Section | Word::Subsection | Word::Clause | Word::Article
    );
    if !capital && !by_section {
        return None;
    }
    let first = found.len();
    let mut end = start + length;
    while let Some((number, after)) = next_number(text, end, word, found.len() > first) {
        let number = if word == Word::Subsection && number.starts_with('(') {
            let section = outline.number_at(start)?;
            // Clauses of the current section are replaced, not added to.
            let section = section.split('(').next().unwrap_or(section);
            format!("{section}{number}")
        } else {
            word.numbered(number)
        };
        found.push(FoundReference { at: start, number });
        end = after;
    }
    if found.len() == first {
        return None;
    }
    if outline.is_title(start) || is_elsewhere(slice(text, end..text.len())) {
        found.truncate(first);
    }
    Some(end)
}

/// The number at `at` and where it ends. Further numbers follow a comma, `and`, `or`, `to` or `through`.
fn next_number(text: &str, at: usize, word: Word, further: bool) -> Option<(&str, usize)> {
    let mut rest = slice(text, at..text.len());
    if further {
        let joined = [", and ", ", or ", ", ", " and ", " or ", " to ", " through ", "–"];
        let joint = joined.iter().find(|joint| rest.starts_with(**joint))?;
        rest = slice(rest, joint.len()..rest.len());
        rest = rest.trim_start_matches(['§', ' ']);
    } else {
        // A line break may separate the two; a blank line may not.
        let trimmed = rest.trim_start_matches([' ', '\t', '\u{a0}']);
        rest = trimmed
            .strip_prefix("\r\n")
            .or_else(|| trimmed.strip_prefix('\n'))
            .unwrap_or(trimmed);
        rest = rest.trim_start_matches([' ', '\t', '\u{a0}']);
    }
    let start = text.len() - rest.len();
    let decimal = number::decimal(rest);
    let letters = || {
        let by_letter = !matches!(word, Word::Section | Word::Subsection | Word::Clause);
        number::letters(rest).filter(|_| by_letter)
    };
    let end = decimal.or_else(letters);
    let own = end.unwrap_or_default();
    let end = own + number::brackets(slice(rest, own..rest.len()));
    if end == 0 || (own == 0 && word != Word::Subsection) {
        return None;
    }
    // In `Article I think` and `Appendix A shows`, a single letter may be a word.
    if further && slice(rest, 0..end).starts_with('I') && end == 1 {
        return None;
    }
    Some((slice(rest, 0..end), start + end))
}

/// Whether a reference continues with the name of another law: `section 501(c)(3) of the Internal Revenue Code`.
fn is_elsewhere(after: &str) -> bool {
    const LAWS: &[&str] = &[
        "Act",
        "Code",
        "Constitution",
        "Convention",
        "Directive",
        "Law",
        "Regulation",
        "Regulations",
        "Rules",
        "Statute",
        "Statutes",
        "Treaty",
        "Title",
        "title",
        "GDPR",
        "U.S.C",
        "CFR",
        "C.F.R",
    ];
    let after = slice(after, 0..after.floor_char_boundary(FOLLOWING));
    let after = after.trim_start_matches([',', ' ', '\n', '\r']);
    let Some(law) = after.strip_prefix("of ").map(str::trim_start) else {
        return ["U.S.C", "GDPR", "CFR"].iter().any(|law| after.starts_with(law));
    };
    if law.starts_with("this ") || law.starts_with("these ") {
        return false;
    }
    let name = law.split([';', ':', ',', '(']).next().unwrap_or_default();
    let named = name
        .split_whitespace()
        .skip(1)
        .any(|word| LAWS.contains(&word.trim_end_matches('.')));
    // `the Act` alone usually means this law, `the Privacy Act` another one.
    let own = ["the Act", "the Code", "the Regulations", "the Rules"];
    let own = own.iter().any(|own| {
        name.strip_prefix(own)
            .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    });
    law.starts_with("title ") || law.starts_with("Title ") || (named && !own)
}

#[cfg(test)]
mod tests {
    use holodeck_model::DocumentDomain;

    use super::*;

    fn check(text: &str, numbers: &[&str]) {
        let outline = Outline::of(text, DocumentDomain::LegalContract, None);
        let found: Vec<_> = find(text, &outline)
            .into_iter()
            .map(|found| found.number)
            .collect();
        assert_eq!(found, numbers, "{text}");
    }

    #[test]
    fn numbers_after_a_word_are_references() {
        check("as stated in Section 4.2 above.", &["4.2"]);
        check("see § 12(b), and §§ 14 and 15.", &["12(b)", "14", "15"]);
        check(
            "under Article IV or Schedule A-1",
            &["Article IV", "Schedule A-1"],
        );
        check("clauses 3.1, 3.2(a)(ii) and 3.3", &["3.1", "3.2(a)(ii)", "3.3"]);
        check("sections 4 to 6", &["4", "6"]);
        check("in Section\n7.1", &["7.1"]);
        check("see Sec. 9 and Part 2", &["9", "Part 2"]);
    }

    #[test]
    fn other_words_are_none() {
        check("Part of it; articles are void; the section; a title 3", &[]);
        check("In this Section the Supplier", &[]);
        check("clause (3)", &[]);
        check("subsection 4 of the intersection 5", &["4"]);
        check("Section 4.2 Payment\n\nThe text.", &[]);
    }

    #[test]
    fn sections_of_another_law_are_left_out() {
        check("section 501(c)(3) of the Internal Revenue Code", &[]);
        check("section 5 of title 10", &[]);
        check("section 5 of this Act and section 6 of the Act", &["5", "6"]);
        check("Article 6 GDPR", &[]);
    }

    #[test]
    fn a_subsection_is_one_of_the_section_that_speaks() {
        check(
            "Section 12 Duties\n\nSubject to subsection (2)(a), it applies.",
            &["12(2)(a)"],
        );
        check("Subject to subsection (2), it applies.", &[]);
    }
}
