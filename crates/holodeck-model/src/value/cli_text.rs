//! Patterns of paths in the syntax of the Claude CLI, which compares units of UTF-16 and not letters.
//!
//! A pattern here may have several spellings for the CLI: in all of them together it denies at least what the pattern denies.

use std::{
    fmt::{self, Write as _},
    iter::once,
};

use super::path_part::{Part, Token};

/// More spellings of one pattern are not written: then each part that has several is written as `*`.
const MOST_SPELLINGS: usize = 64;

/// The last letter that is one unit.
const LAST_OF_ONE: char = '\u{ffff}';

/// A text for the CLI. Half a letter can stand alone in it, as in no Rust string.
#[derive(Clone, PartialEq, Eq)]
pub struct CliText(Vec<u16>);

impl CliText {
    /// The text; `None` if it has half a letter.
    pub fn as_text(&self) -> Option<String> {
        String::from_utf16(&self.0).ok()
    }

    /// The text as a string of JSON, which can hold half a letter.
    pub fn to_json(&self) -> String {
        let mut json = String::from("\"");
        for unit in &self.0 {
            match u8::try_from(*unit).map(char::from) {
                Ok('"') => json.push_str("\\\""),
                Ok('\\') => json.push_str("\\\\"),
                Ok(letter) if letter == ' ' || letter.is_ascii_graphic() => json.push(letter),
                // Writing to a text does not fail.
                _ => drop(write!(json, "\\u{unit:04x}")),
            }
        }
        json.push('"');
        json
    }

    /// The text between two others.
    #[must_use]
    pub fn between(&self, before: &str, after: &str) -> Self {
        let units = before.encode_utf16().chain(self.0.iter().copied());
        Self(units.chain(after.encode_utf16()).collect())
    }
}

impl From<&str> for CliText {
    fn from(text: &str) -> Self {
        Self(text.encode_utf16().collect())
    }
}

impl fmt::Debug for CliText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// The spellings of the parts of an absolute path; the first has no half letter.
pub(super) fn spellings(parts: &[Part]) -> Vec<CliText> {
    let mut pieces = vec![vec![CliText::from("/")]];
    for part in parts {
        pieces.push(vec![CliText::from("/")]);
        match part {
            Part::Any => pieces.push(vec![CliText::from("**")]),
            Part::Name(tokens) => pieces.extend(tokens.iter().map(spellings_of)),
        }
    }
    let number = pieces.iter().try_fold(1_usize, |number, piece| {
        number
            .checked_mul(piece.len())
            .filter(|number| *number <= MOST_SPELLINGS)
    });
    if number.is_none() {
        for piece in pieces.iter_mut().filter(|piece| piece.len() > 1) {
            *piece = vec![CliText::from("*")];
        }
    }
    let mut all = vec![Vec::new()];
    for piece in &pieces {
        let longer = all.iter().flat_map(|start| {
            let end = piece.iter();
            end.map(|end| [start.as_slice(), end.0.as_slice()].concat())
        });
        all = longer.collect();
    }
    let mut found: Vec<CliText> = Vec::with_capacity(all.len());
    for spelling in all.into_iter().map(CliText) {
        if !found.contains(&spelling) {
            found.push(spelling);
        }
    }
    found
}

fn spellings_of(token: &Token) -> Vec<CliText> {
    match token {
        Token::Literal(letter) => {
            let is_special = matches!(letter, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ');
            let escape = if is_special { "\\" } else { "" };
            vec![CliText::from(format!("{escape}{letter}").as_str())]
        }
        Token::Many => vec![CliText::from("*")],
        Token::Single => once(CliText::from("?"))
            .chain(halves(char::MIN, char::MAX))
            .collect(),
        Token::Class {
            negated: false,
            ranges,
        } => {
            let of_one = ranges.iter().filter(|(first, _)| *first <= LAST_OF_ONE);
            let of_one: Vec<_> = of_one
                .map(|(first, last)| (*first, (*last).min(LAST_OF_ONE)))
                .collect();
            let mut all = Vec::new();
            if !of_one.is_empty() {
                all.push(class(&of_one));
            }
            if ranges.iter().any(|(_, last)| *last > LAST_OF_ONE) {
                // Older releases search with patterns that compare letters.
                all.push(class(ranges));
                all.extend(ranges.iter().flat_map(|(first, last)| halves(*first, *last)));
            }
            all
        }
        Token::Class {
            negated: true,
            ranges,
        } => {
            let others = all_but(ranges);
            let of_one = written(&others, LAST_OF_ONE);
            let whole = written(&others, char::MAX);
            let two = others.iter().flat_map(|(first, last)| halves(*first, *last));
            let of_one = of_one.unwrap_or_else(|| "?".to_owned());
            let texts = once(of_one).chain(whole);
            texts
                .map(|text| CliText::from(text.as_str()))
                .chain(two)
                .collect()
        }
    }
}

/// A class of these letters.
fn class(ranges: &[(char, char)]) -> CliText {
    let mut text = String::from("[");
    for (first, last) in ranges {
        if first == last {
            text.extend(['\\', *first]);
        } else {
            text.extend([*first, '-', *last]);
        }
    }
    text.push(']');
    CliText::from(text.as_str())
}

/// All letters of names but these.
fn all_but(excluded: &[(char, char)]) -> Vec<(char, char)> {
    let mut excluded = excluded.to_vec();
    excluded.push(('/', '/'));
    excluded.sort_unstable();
    let mut others = Vec::new();
    let mut from = Some('\u{1}');
    for (first, last) in excluded {
        let Some(start) = from else { break };
        if first > start
            && let Some(end) = (start..first).next_back()
        {
            others.push((start, end));
        }
        from = (last..=char::MAX).nth(1).map(|next| next.max(start));
    }
    others.extend(from.map(|start| (start, char::MAX)));
    others
}

/// A class of the letters up to `last`, as the CLI, which has no negated classes, reads it; `None` if it cannot.
fn written(ranges: &[(char, char)], last: char) -> Option<String> {
    let mut text = String::from("[");
    for (from, to) in ranges.iter().filter(|(from, _)| *from <= last) {
        let to = (*to).min(last);
        let cannot = |end: &char| matches!(end, '[' | ']' | '\\' | '^' | '!' | '-');
        if [*from, to].iter().any(cannot) {
            return None;
        }
        text.extend([*from, '-', to]);
    }
    text.push(']');
    Some(text)
}

/// Patterns of the two units of the letters in a range that have two.
fn halves(first: char, last: char) -> Vec<CliText> {
    const LOW: (u16, u16) = (0xdc00, 0xdfff);
    let first = first.max('\u{10000}');
    let (mut from, mut to) = ([0; 2], [0; 2]);
    if first > last {
        return Vec::new();
    }
    first.encode_utf16(&mut from);
    last.encode_utf16(&mut to);
    let ([from_high, from_low], [to_high, to_low]) = (from, to);
    let pairs = if from_high == to_high {
        vec![((from_high, to_high), (from_low, to_low))]
    } else if (from_low, to_low) == LOW {
        vec![((from_high, to_high), LOW)]
    } else {
        let between = (from_high + 1, to_high - 1);
        let mut pairs = vec![((from_high, from_high), (from_low, LOW.1))];
        pairs.extend((between.0 <= between.1).then_some((between, LOW)));
        pairs.push(((to_high, to_high), (LOW.0, to_low)));
        pairs
    };
    let range = |(first, last): (u16, u16)| {
        let [open, dash, close] = [b'[', b'-', b']'].map(u16::from);
        [open, first, dash, last, close]
    };
    pairs
        .into_iter()
        .map(|(high, low)| CliText([range(high), range(low)].concat()))
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::{PathBases, PathGlob};

    fn spelled(text: &str) -> Vec<String> {
        let bases = PathBases {
            working_directory: "/w".to_owned(),
            home: None,
        };
        let glob = PathGlob::parse(text, &bases).unwrap();
        glob.to_cli().iter().map(super::CliText::to_json).collect()
    }

    #[test]
    fn letters_of_two_units_are_spelled_by_their_halves() {
        let any = r"[\ud800-\udbff][\udc00-\udfff]";
        assert_eq!(spelled("./a"), [r#""//w/a""#]);
        assert_eq!(spelled("./😀*"), [r#""//w/\ud83d\ude00*""#]);
        assert_eq!(
            spelled("./a?b"),
            [r#""//w/a?b""#.to_owned(), format!(r#""//w/a{any}b""#)]
        );
        assert_eq!(
            spelled("./[!y]"),
            [
                r#""//w/[\u0001-.0-xz-\uffff]""#.to_owned(),
                r#""//w/[\u0001-.0-xz-\udbff\udfff]""#.to_owned(),
                format!(r#""//w/{any}""#)
            ]
        );
        assert_eq!(
            spelled("./[a😀-😃]"),
            [
                r#""//w/[\\a]""#,
                r#""//w/[\\a\ud83d\ude00-\ud83d\ude03]""#,
                r#""//w/[\ud83d-\ud83d][\ude00-\ude03]""#
            ]
        );
        assert_eq!(
            spelled("./[é-\u{10400}]")[2..],
            [
                r#""//w/[\ud800-\ud800][\udc00-\udfff]""#,
                r#""//w/[\ud801-\ud801][\udc00-\udc00]""#
            ]
        );
    }

    #[test]
    fn with_too_many_spellings_the_cli_denies_more() {
        assert_eq!(spelled("./??????").len(), 64);
        assert_eq!(spelled("./????-??-??.log"), [r#""//w/****-**-**.log""#]);
    }
}
