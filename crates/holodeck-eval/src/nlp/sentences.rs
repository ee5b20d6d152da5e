//! Splits a text into sentences for the word tokeniser of METEOR.
//!
//! NLTK uses Punkt, whose learned parameters state no licence and are not shipped. This module follows the same steps
//! (candidates, a decision by the words before and after, closing quotes moved to the sentence they close) with its own
//! lists. The effect is small: whether a full stop is a token, and how an opening quote is written.

use std::ops::Range;

use super::python;

/// Abbreviations before a name: a following capital letter does not indicate a new sentence.
const TITLES: [&str; 25] = [
    "mr", "mrs", "ms", "messrs", "dr", "prof", "sr", "jr", "st", "mt", "ft", "gen", "col", "lt", "maj",
    "capt", "sgt", "cmdr", "rev", "hon", "gov", "pres", "sen", "rep", "vs",
];

/// Other abbreviations; those with inner full stops ("p.m.", "U.S.") are recognised by their form. Not included:
/// "etc.", "e.g.", "i.e.", after which Punkt ends the sentence.
const ABBREVIATIONS: [&str; 70] = [
    "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "mon", "tue",
    "tues", "wed", "thu", "thur", "thurs", "fri", "inc", "ltd", "co", "corp", "bros", "dept", "univ", "assn",
    "ave", "blvd", "rd", "al", "cf", "ca", "approx", "est", "fig", "figs", "eq", "ch", "vol", "vols", "pp",
    "ed", "eds", "ref", "refs", "min", "max", "tel", "ext", "calif", "fla", "ill", "mass", "mich", "minn",
    "conn", "colo", "ariz", "tenn", "wash", "wis", "penn", "okla", "ore", "ph.d", "mg", "kg", "lb",
];

/// Words that are written with a capital letter only where a sentence begins.
const STARTERS: [&str; 88] = [
    "a", "about", "after", "again", "all", "also", "although", "an", "and", "another", "any", "are", "as",
    "at", "because", "before", "both", "but", "by", "can", "did", "do", "does", "during", "each", "either",
    "every", "few", "finally", "first", "for", "from", "had", "has", "have", "he", "her", "here", "his",
    "how", "however", "i", "if", "in", "instead", "is", "it", "its", "later", "many", "more", "most", "my",
    "neither", "no", "none", "not", "now", "of", "on", "once", "one", "only", "or", "other", "our", "she",
    "since", "so", "some", "still", "such", "that", "the", "their", "then", "there", "these", "they", "this",
    "those", "though", "thus", "to", "we", "when", "while", "you",
];

/// The sentences of `text`, without the white space between them.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    let end = text.trim_end_matches(python::is_space).len();
    let breaks = breaks(text);
    let mut sentences = Vec::with_capacity(breaks.len() + 1);
    let mut start = 0;
    for Break { end, next } in breaks {
        sentences.push(start..end);
        start = next;
    }
    sentences.push(start..end);
    if sentences.len() == 1 {
        sentences.retain(|sentence| !sentence.is_empty());
        return sentences;
    }
    move_closing_quotes(text, &sentences)
}

struct Break {
    /// The position after the final punctuation.
    end: usize,
    /// The start of the next sentence.
    next: usize,
}

/// Final punctuation, followed by a possible start of a sentence.
#[derive(Clone, Copy)]
struct Candidate {
    at: usize,
    word_start: usize,
    next: usize,
}

fn breaks(text: &str) -> Vec<Break> {
    let mut breaks = Vec::new();
    // If any candidate in a word ends a sentence, the break is at the last candidate of the word.
    let mut pending: Option<(Candidate, bool)> = None;
    let mut searched = 0;
    let mut word_start = 0;
    for (at, _) in text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| matches!(byte, b'.' | b'?' | b'!'))
    {
        let Some(next) = next_token(text, at + 1) else {
            continue;
        };
        let between = text.get(searched..at).unwrap_or_default();
        if let Some(space) = between.rfind([' ', '\t', '\n', '\r', '\x0b', '\x0c']) {
            word_start = searched + space + 1;
            close(&mut breaks, pending.take());
        }
        searched = at;
        let candidate = Candidate { at, word_start, next };
        let ends = ends_sentence(text, candidate) || pending.is_some_and(|(_, ends)| ends);
        pending = Some((candidate, ends));
    }
    close(&mut breaks, pending);
    breaks
}

fn close(breaks: &mut Vec<Break>, pending: Option<(Candidate, bool)>) {
    if let Some((candidate, true)) = pending {
        breaks.push(Break {
            end: candidate.at + 1,
            next: candidate.next,
        });
    }
}

/// The start of the token after final punctuation: directly if it is punctuation, or after white space.
fn next_token(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    if rest.starts_with(is_boundary) {
        return Some(from);
    }
    let next = rest.find(|c| !python::is_space(c))?;
    (next > 0).then_some(from + next)
}

/// Characters that never belong to a word.
fn is_boundary(c: char) -> bool {
    matches!(
        c,
        ')' | '"' | ';' | '}' | ']' | '*' | ':' | '@' | '\'' | '(' | '{' | '[' | '?' | '!'
    )
}

fn ends_sentence(text: &str, Candidate { at, word_start, next }: Candidate) -> bool {
    if text.as_bytes().get(at) != Some(&b'.') {
        return true;
    }
    let word = text.get(word_start..at).unwrap_or_default();
    let next = Next::new(text.get(next..).unwrap_or_default());
    if word.ends_with('.') {
        return next == Next::Starter || word.contains("?.") || word.contains("!.");
    }
    let start = word.rfind(is_boundary).map_or(0, |boundary| boundary + 1);
    let (before, word) = word.split_at(start);
    if before.contains(['?', '!']) || before.ends_with('\'') {
        // The mark is part of the word, and no abbreviation begins with one.
        return true;
    }
    let word = word.trim_start_matches(['`', '&', '#', '-', ',']);
    let mut chars = word.chars();
    if let (Some(letter), None) = (chars.next(), chars.next())
        && python::is_word(letter)
        && !letter.is_numeric()
    {
        return matches!(next, Next::Starter | Next::Other);
    }
    if is_number(word) {
        return !matches!(next, Next::Lower | Next::Punctuation);
    }
    let last = word.rsplit('-').next().unwrap_or_default();
    if is_listed(&TITLES, last) {
        return false;
    }
    if is_listed(&ABBREVIATIONS, last) || has_inner_stops(word) {
        return next == Next::Starter;
    }
    true
}

fn is_listed(list: &[&str], word: &str) -> bool {
    word.len() < 9 && list.iter().any(|listed| listed.eq_ignore_ascii_case(word))
}

/// Single letters with full stops between them.
fn has_inner_stops(word: &str) -> bool {
    word.contains('.')
        && !word.eq_ignore_ascii_case("e.g")
        && !word.eq_ignore_ascii_case("i.e")
        && word
            .split('.')
            .all(|part| part.chars().count() == 1 && part.chars().all(char::is_alphabetic))
}

fn is_number(word: &str) -> bool {
    let word = word.strip_prefix('-').unwrap_or(word);
    let word = word.strip_prefix(['.', ',']).unwrap_or(word);
    word.starts_with(|c: char| c.is_ascii_digit())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.' | b'-'))
}

/// The kind of the next token, which decides whether a sentence begins there.
#[derive(PartialEq, Clone, Copy)]
enum Next {
    Lower,
    /// A capitalised word that is not a name.
    Starter,
    /// Any other capitalised word.
    Upper,
    /// Punctuation that cannot begin a sentence.
    Punctuation,
    Other,
}

impl Next {
    fn new(rest: &str) -> Self {
        match rest.chars().next() {
            Some(';' | ':' | ',' | '.' | '!' | '?') => Self::Punctuation,
            Some(c) if c.is_lowercase() => Self::Lower,
            Some(c) if c.is_uppercase() => {
                let word = rest
                    .split(|c: char| !c.is_alphanumeric())
                    .next()
                    .unwrap_or_default();
                if is_listed(&STARTERS, word) {
                    Self::Starter
                } else {
                    Self::Upper
                }
            }
            _ => Self::Other,
        }
    }
}

/// Moves closing quotes and brackets to the sentence before them.
fn move_closing_quotes(text: &str, sentences: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut result = Vec::with_capacity(sentences.len());
    let mut skip = 0;
    let mut following = sentences.iter().skip(1);
    for sentence in sentences {
        let start = sentence.start + skip;
        skip = 0;
        let mut end = sentence.end;
        if let Some(next) = following.next() {
            let next_text = text.get(next.clone()).unwrap_or_default();
            if let Some((quotes, consumed)) = closing_quotes(next_text) {
                end = next.start + quotes;
                skip = consumed;
            }
        }
        if start < end {
            result.push(start..end);
        }
    }
    result
}

/// Length of the closing quotes at the start of a sentence, without and with the following white space.
fn closing_quotes(sentence: &str) -> Option<(usize, usize)> {
    let after = sentence.trim_start_matches(['"', '\'', ')', ']', '}']);
    let quotes = sentence.len() - after.len();
    if quotes == 0 {
        return None;
    }
    let space = after.len() - after.trim_start_matches(python::is_space).len();
    (space > 0 || after.is_empty() || after.starts_with("--")).then_some((quotes, quotes + space))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = sentences(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn splits_where_a_sentence_ends() {
        check("", &[]);
        check("  ", &[]);
        check("One. Two! Three?  four", &["One.", "Two!", "Three?", "four"]);
        check(
            "Dr. Smith met Mr. Brown at 5 p.m. yesterday.",
            &["Dr. Smith met Mr. Brown at 5 p.m. yesterday."],
        );
        check(
            "It ended at 5 p.m. Guests stayed.",
            &["It ended at 5 p.m. Guests stayed."],
        );
        check(
            "He lives in the U.S. He likes it.",
            &["He lives in the U.S.", "He likes it."],
        );
        check(
            "It is 5. It is no. 6 of 7.",
            &["It is 5.", "It is no.", "6 of 7."],
        );
        check(
            "J. Smith wrote it. Section 5. shows it.",
            &["J. Smith wrote it.", "Section 5. shows it."],
        );
        check(
            "He said: \"Go.\" She went. (Then he left.) End",
            &["He said: \"Go.\"", "She went.", "(Then he left.)", "End"],
        );
        check("Wait... what? Really?!", &["Wait... what?", "Really?", "!"]);
        check("Stop!!! Now.", &["Stop!!!", "Now."]);
    }
}
