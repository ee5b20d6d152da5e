//! NLTK's word tokeniser (`NLTKWordTokenizer`) for one sentence.
//!
//! The original applies about thirty regular expressions to the sentence, one after the other. Each of them reads at
//! most one white-space character beyond a word, so this works word by word: a word without special characters is a
//! token, any other goes through the same replacements in the same order.
#![allow(
    clippy::indexing_slicing,
    reason = "a table for every byte; characters of a word by position"
)]

mod replacements;

use self::replacements::Replacements;
use super::python;

/// Calls `emit` with each token of the sentence.
pub(crate) fn tokens(sentence: &str, mut emit: impl FnMut(&str)) {
    let final_stop = final_stop(sentence);
    let mut special = None;
    let mut before = None;
    let mut at = 0;
    while at < sentence.len() {
        let (word, kind) = next_word(&sentence[at..]);
        let end = at + word.len();
        let after = sentence[end..].chars().next();
        if !word.is_empty() {
            let stop = final_stop
                .and_then(|stop| stop.checked_sub(at))
                .filter(|&stop| stop < word.len());
            if kind == Kind::Special || !split_simple(word, kind, stop, &mut emit) {
                let special: &mut Replacements = special.get_or_insert_default();
                special.tokens(word, before, after, stop.is_some(), &mut emit);
            }
        }
        before = after;
        at = end + after.map_or(0, char::len_utf8);
    }
}

/// The position of the full stop that ends the sentence, if any: only closing quotes and brackets may follow, none of
/// which the earlier replacements change to an opening quote.
fn final_stop(sentence: &str) -> Option<usize> {
    let text = sentence.trim_end_matches(python::is_space);
    let before = text.trim_end_matches([']', ')', '}', '>', '"', '\'', '»', '”', '’', ' ']);
    let closing = &text[before.len()..];
    let head = before.strip_suffix('.')?;
    let opens = closing.contains(" \"") || closing.contains(" ''");
    (!head.is_empty() && !head.ends_with('.') && !opens).then_some(head.len())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Only the last character may be special.
    Plain,
    /// As `Plain`, with one apostrophe.
    Clitic,
    Special,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Space,
    Special,
    /// Special if repeated anywhere in the word.
    Apostrophe,
    /// Special if doubled.
    Stop,
    Dash,
    /// A separate token at the end of a word, special elsewhere.
    Tail,
    /// First byte of characters of which some are white space, quotes or dashes.
    Decode,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'\t'..=b'\r' | 0x1c..=b' ' => Class::Space,
            b'.' => Class::Stop,
            b'-' => Class::Dash,
            b',' | b';' | b':' | b'?' | b'!' => Class::Tail,
            b'\'' => Class::Apostrophe,
            b'"'..=b'*' | b'`' | b'@' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' => Class::Special,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes[0xc2] = Class::Decode;
    classes[0xe1] = Class::Decode;
    classes[0xe2] = Class::Decode;
    classes[0xe3] = Class::Decode;
    classes
};

/// The text up to the next white space.
fn next_word(rest: &str) -> (&str, Kind) {
    let bytes = rest.as_bytes();
    let mut kind = Kind::Plain;
    let mut tail = false;
    let mut last = Class::Plain;
    let mut at = 0;
    loop {
        let plain = bytes[at..]
            .iter()
            .take_while(|&&byte| CLASSES[usize::from(byte)] == Class::Plain)
            .count();
        if plain > 0 {
            kind = if tail { Kind::Special } else { kind };
            last = Class::Plain;
            at += plain;
        }
        let Some(&byte) = bytes.get(at) else { break };
        let mut class = CLASSES[usize::from(byte)];
        let mut length = 1;
        if class == Class::Decode {
            let c = rest[at..].chars().next().unwrap_or_default();
            length = c.len_utf8();
            class = if python::is_space(c) {
                Class::Space
            } else if matches!(
                c,
                '«' | '»' | '“' | '”' | '‘' | '’' | '„' | '\u{2012}'..='\u{2015}'
            ) {
                Class::Special
            } else {
                Class::Plain
            };
        }
        if class == Class::Space {
            break;
        }
        let doubled = matches!(class, Class::Stop | Class::Dash) && class == last;
        kind = match class {
            _ if doubled || tail => Kind::Special,
            Class::Apostrophe if kind == Kind::Plain => Kind::Clitic,
            Class::Apostrophe | Class::Special => Kind::Special,
            _ => kind,
        };
        tail |= class == Class::Tail;
        last = class;
        at += length;
    }
    (&rest[..at], kind)
}

/// Splits a word whose only special characters are an apostrophe and the last character. Returns false if it needs the
/// replacements: for a contraction ("cannot") or an apostrophe that is not before a clitic.
fn split_simple(word: &str, kind: Kind, stop: Option<usize>, emit: &mut impl FnMut(&str)) -> bool {
    let last = word.len() - 1;
    if stop.is_some_and(|stop| stop != last) {
        return false;
    }
    let tail = CLASSES[usize::from(word.as_bytes()[last])] == Class::Tail || stop == Some(last);
    let (head, tail) = word.split_at(if tail { last } else { word.len() });
    let clitic = if kind == Kind::Clitic {
        clitic_len(head)
    } else {
        Some(0)
    };
    let Some(clitic) = clitic else { return false };
    let (head, clitic) = head.split_at(head.len() - clitic);
    if head.len() > 4 && has_contraction(head) {
        return false;
    }
    for token in [head, clitic, tail] {
        if !token.is_empty() {
            emit(token);
        }
    }
    true
}

/// Length of the clitic at the end of a word with one apostrophe.
fn clitic_len(word: &str) -> Option<usize> {
    let apostrophe = word.find('\'')?;
    let before = match &word.as_bytes()[apostrophe + 1..] {
        [] | [b's' | b'S' | b'm' | b'M' | b'd' | b'D'] | b"ll" | b"LL" | b"re" | b"RE" | b"ve" | b"VE" => {
            apostrophe
        }
        b"t" => word[..apostrophe].strip_suffix('n')?.len(),
        b"T" => word[..apostrophe].strip_suffix('N')?.len(),
        _ => return None,
    };
    (before > 0).then_some(word.len() - before)
}

const CONTRACTIONS: [(&str, usize); 6] = [
    ("cannot", 3),
    ("gimme", 3),
    ("gonna", 3),
    ("gotta", 3),
    ("lemme", 3),
    ("wanna", 3),
];

fn has_contraction(word: &str) -> bool {
    let is_contraction = |part: &[u8]| {
        matches!(part.len(), 5 | 6)
            && CONTRACTIONS
                .iter()
                .any(|(contraction, _)| part.eq_ignore_ascii_case(contraction.as_bytes()))
    };
    // Runs of ASCII first: few words need the second check.
    word.as_bytes()
        .split(|byte| !byte.is_ascii_alphanumeric())
        .any(is_contraction)
        && word
            .split(|c| !python::is_word(c))
            .any(|part| is_contraction(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_nltk() {
        let fixture = include_str!("../../../../fixtures/nlp/word-tokens.jsonl");
        for line in fixture.lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let sentence = case["sentence"].as_str().unwrap();
            let mut found = Vec::new();
            tokens(sentence, |token| found.push(token.to_owned()));
            assert_eq!(serde_json::json!(found), case["tokens"], "{sentence:?}");
        }
    }
}
