//! Numbers of sections: `4.2`, `§ 12(b)`, `Article IV`, `Schedule A`.

use holodeck_model::DocumentDomain;

use super::text::slice;

/// The word before a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Title,
    Subtitle,
    Chapter,
    Subchapter,
    Part,
    Subpart,
    Division,
    Subdivision,
    Article,
    Section,
    Subsection,
    Clause,
    Schedule,
    Exhibit,
    Annex,
    Appendix,
    Attachment,
}

/// Longest first, since some are prefixes of others.
const WORDS: &[(&str, Word)] = &[
    ("§§", Word::Section),
    ("§", Word::Section),
    ("subtitle", Word::Subtitle),
    ("title", Word::Title),
    ("subchapter", Word::Subchapter),
    ("chapters", Word::Chapter),
    ("chapter", Word::Chapter),
    ("subpart", Word::Subpart),
    ("parts", Word::Part),
    ("part", Word::Part),
    ("subdivision", Word::Subdivision),
    ("division", Word::Division),
    ("articles", Word::Article),
    ("article", Word::Article),
    ("art.", Word::Article),
    ("sections", Word::Section),
    ("section", Word::Section),
    ("secs.", Word::Section),
    ("sec.", Word::Section),
    ("subsections", Word::Subsection),
    ("subsection", Word::Subsection),
    ("clauses", Word::Clause),
    ("clause", Word::Clause),
    ("schedules", Word::Schedule),
    ("schedule", Word::Schedule),
    ("exhibits", Word::Exhibit),
    ("exhibit", Word::Exhibit),
    ("annexes", Word::Annex),
    ("annex", Word::Annex),
    ("appendix", Word::Appendix),
    ("attachment", Word::Attachment),
];

impl Word {
    /// The word at the start of `text`, in any case, and its length; no letter follows.
    pub(super) fn at_start(text: &str) -> Option<(Self, usize)> {
        // The first letter rules out most words.
        let first = text.as_bytes().first()?.to_ascii_lowercase();
        WORDS.iter().find_map(|&(spelling, word)| {
            if spelling.as_bytes().first() != Some(&first) {
                return None;
            }
            let head = text.get(..spelling.len())?;
            let ends = spelling.ends_with(['.', '§'])
                || !slice(text, spelling.len()..text.len()).starts_with(char::is_alphanumeric);
            (head.eq_ignore_ascii_case(spelling) && ends).then_some((word, spelling.len()))
        })
    }

    /// The normalised number of a section: sections and clauses use only the number.
    pub(super) fn numbered(self, number: &str) -> String {
        let name = match self {
            Self::Section | Self::Subsection | Self::Clause => return number.to_owned(),
            Self::Title => "Title",
            Self::Subtitle => "Subtitle",
            Self::Chapter => "Chapter",
            Self::Subchapter => "Subchapter",
            Self::Part => "Part",
            Self::Subpart => "Subpart",
            Self::Division => "Division",
            Self::Subdivision => "Subdivision",
            Self::Article => "Article",
            Self::Schedule => "Schedule",
            Self::Exhibit => "Exhibit",
            Self::Annex => "Annex",
            Self::Appendix => "Appendix",
            Self::Attachment => "Attachment",
        };
        format!("{name} {number}")
    }
}

/// A word and a number at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'a> {
    pub(super) word: Word,
    pub(super) number: &'a str,
    /// The text after the number.
    pub(super) rest: &'a str,
    /// Word and number as they are written.
    pub(super) source: &'a str,
}

impl<'a> Label<'a> {
    pub(super) fn at_start(text: &'a str) -> Option<Self> {
        let (word, length) = Word::at_start(text)?;
        let after = slice(text, length..text.len());
        let from = length + (after.len() - after.trim_start().len());
        let sign = text.starts_with('§');
        if from == length && !sign && !text.get(..length)?.ends_with('.') {
            return None;
        }
        let rest = slice(text, from..text.len());
        let number = slice(rest, 0..any_number(rest)?);
        let end = from + number.len();
        Some(Self {
            word,
            number,
            rest: slice(text, end..text.len()),
            source: slice(text, 0..end),
        })
    }
}

/// The length of a number at the start: `12`, `12A`, `4.2.1`, `1-101`.
pub(super) fn decimal(text: &str) -> Option<usize> {
    let mut end = digits(text)?;
    while let Some(rest) = text.get(end..).and_then(|rest| rest.strip_prefix(['.', '-']))
        && let Some(length) = digits(rest)
    {
        end += 1 + length;
    }
    ends_word(text, end).then_some(end)
}

/// Digits and up to two letters that belong to them.
fn digits(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=6).contains(&count) {
        return None;
    }
    let after = bytes.get(count..).unwrap_or_default();
    let upper = after.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    if upper <= 2 && ends_word(text, count + upper) {
        return Some(count + upper);
    }
    let lower = after.first().is_some_and(u8::is_ascii_lowercase);
    if lower && ends_word(text, count + 1) {
        return Some(count + 1);
    }
    Some(count)
}

/// The length of a Roman number or of one or two capitals at the start, and what counts on from it, as `A-1`.
pub(super) fn letters(text: &str) -> Option<usize> {
    let capitals = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let roman = text
        .bytes()
        .take(capitals)
        .all(|byte| matches!(byte, b'I' | b'V' | b'X' | b'L' | b'C' | b'D' | b'M'));
    if capitals == 0 || capitals > if roman { 8 } else { 2 } {
        return None;
    }
    let mut end = capitals;
    while let Some(rest) = text.get(end..).and_then(|rest| rest.strip_prefix(['.', '-']))
        && let Some(length) = digits(rest)
    {
        end += 1 + length;
    }
    ends_word(text, end).then_some(end)
}

pub(super) fn any_number(text: &str) -> Option<usize> {
    decimal(text).or_else(|| letters(text))
}

/// The length of what follows a number in brackets, as `(b)(2)`.
pub(super) fn brackets(text: &str) -> usize {
    let mut end = 0;
    while let Some(rest) = text.get(end..).and_then(|rest| rest.strip_prefix('(')) {
        let inner = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        if !(1..=5).contains(&inner) || rest.as_bytes().get(inner) != Some(&b')') {
            break;
        }
        end += inner + 2;
    }
    end
}

/// How many numbers are joined in one, as three in `4.2.1`.
pub(super) fn parts(number: &str) -> usize {
    number.split('.').count()
}

/// The number that a heading's title begins with.
pub(super) fn of_title(title: &str, domain: DocumentDomain) -> Option<String> {
    let with_brackets = |number: &str, rest: &str| format!("{number}{}", slice(rest, 0..brackets(rest)));
    if let Some(label) = Label::at_start(title) {
        return Some(label.word.numbered(&with_brackets(label.number, label.rest)));
    }
    let end = decimal(title)?;
    let number = slice(title, 0..end);
    let rest = slice(title, end..title.len());
    // `10 tips` has no number, `1. Scope` has one.
    let counted = parts(number) > 1
        || rest.starts_with(['.', ')', ':'])
        || (domain != DocumentDomain::None && number.len() <= 3);
    counted.then(|| with_brackets(number, rest))
}

fn ends_word(text: &str, at: usize) -> bool {
    !slice(text, at..text.len()).starts_with(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_numbers() {
        let check = |title: &str, number: Option<&str>| {
            assert_eq!(
                of_title(title, DocumentDomain::None).as_deref(),
                number,
                "{title}"
            );
        };
        check("4.2 Payment", Some("4.2"));
        check("1. Scope", Some("1"));
        check("Section 4.2: Payment", Some("4.2"));
        check("§ 12(b) Exemptions", Some("12(b)"));
        check("§12A", Some("12A"));
        check("SEC. 101. SHORT TITLE", Some("101"));
        check("ARTICLE IV – TERM", Some("Article IV"));
        check("Schedule A-1", Some("Schedule A-1"));
        check("10 tips for the 1st day", None);
        check("12th report", None);
        check("Part of the story", None);
        check("Sectional drawings", None);
        check("Titles", None);
        check("2024", None);
    }
}
