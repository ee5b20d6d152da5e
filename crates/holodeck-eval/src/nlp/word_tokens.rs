//! NLTK's word tokeniser (`NLTKWordTokenizer`) for one sentence.
//!
//! The original applies some thirty regular expressions to the sentence, one after the other. All of them look at
//! most one white-space character beyond a word, so this works word by word: a word without anything special is a
//! token at once, any other goes through the same replacements in the same order.
#![allow(
    clippy::indexing_slicing,
    reason = "a table for every byte; characters of a word by position"
)]

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
                let special: &mut Special = special.get_or_insert_default();
                special.tokens(word, before, after, stop.is_some(), &mut emit);
            }
        }
        before = after;
        at = end + after.map_or(0, char::len_utf8);
    }
}

/// Where the full stop is that ends the sentence, if one does: only closing quotes and brackets follow, none of which
/// the earlier replacements turn into an opening quote.
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
    /// Nothing special but perhaps the last character.
    Plain,
    /// One apostrophe besides.
    Clitic,
    Special,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Space,
    Special,
    /// Special if there is a second one.
    Apostrophe,
    /// Special if it stands twice.
    Stop,
    Dash,
    /// A token of its own at the end of a word, special elsewhere.
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

/// Everything up to the next white space.
fn next_word(rest: &str) -> (&str, Kind) {
    let bytes = rest.as_bytes();
    let mut kind = Kind::Plain;
    let mut tail = false;
    let mut last = Class::Plain;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
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

/// A word whose special characters are at most an apostrophe and the last one. False if it needs the replacements: for
/// a contraction ("cannot") or an apostrophe anywhere but before a clitic.
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
    let is_one = |part: &str| {
        matches!(part.len(), 5 | 6)
            && matches!(part.as_bytes()[0].to_ascii_lowercase(), b'c' | b'g' | b'l' | b'w')
            && CONTRACTIONS
                .iter()
                .any(|(contraction, _)| part.eq_ignore_ascii_case(contraction))
    };
    if word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return is_one(word);
    }
    word.split(|c| !python::is_word(c)).any(is_one)
}

/// The replacements, over one word and the white space around it.
#[derive(Default)]
struct Special {
    text: Vec<char>,
    out: Vec<char>,
    token: String,
}

impl Special {
    fn tokens(
        &mut self,
        word: &str,
        before: Option<char>,
        after: Option<char>,
        has_final_stop: bool,
        emit: &mut impl FnMut(&str),
    ) {
        self.text.clear();
        self.text.extend(before);
        self.text.extend(word.chars());
        self.text.extend(after);
        let quotes = self.text.iter().any(|&c| is_quote(c));
        if quotes {
            self.opening_quotes(before.is_none());
        }
        self.punctuation(has_final_stop, after.is_none());
        if before.is_none() {
            self.text.insert(0, ' ');
        }
        if after.is_none() {
            self.text.push(' ');
        }
        if quotes {
            self.closing_quotes();
        }
        if quotes || has_contraction(word) {
            self.contractions();
        }
        for token in self
            .text
            .split(|&c| python::is_space(c))
            .filter(|token| !token.is_empty())
        {
            self.token.clear();
            self.token.extend(token);
            emit(&self.token);
        }
    }

    /// Goes through the text once: `rule` writes what replaces the characters at a position and returns how many it
    /// replaced; 0 leaves the character as it is.
    fn replace(&mut self, rule: impl Fn(&[char], usize, &mut Vec<char>) -> usize) {
        self.out.clear();
        let mut at = 0;
        while at < self.text.len() {
            match rule(&self.text, at, &mut self.out) {
                0 => {
                    self.out.push(self.text[at]);
                    at += 1;
                }
                replaced => at += replaced,
            }
        }
        std::mem::swap(&mut self.text, &mut self.out);
    }

    fn pad(&mut self, is_padded: impl Fn(char) -> bool) {
        if self.text.iter().any(|&c| is_padded(c)) {
            self.replace(|text, at, out| {
                if !is_padded(text[at]) {
                    return 0;
                }
                out.extend([' ', text[at], ' ']);
                1
            });
        }
    }

    /// Pads each run of at least `least` and at most `most` times `c`.
    fn pad_run(&mut self, c: char, least: usize, most: usize) {
        self.replace(|text, at, out| {
            let run = text[at..]
                .iter()
                .take(most)
                .take_while(|&&found| found == c)
                .count();
            if run < least {
                return 0;
            }
            out.push(' ');
            out.extend(std::iter::repeat_n(c, run));
            out.push(' ');
            run
        });
    }

    fn opening_quotes(&mut self, at_start: bool) {
        self.pad(|c| matches!(c, '«' | '“' | '‘' | '„'));
        if self.text.contains(&'`') {
            self.pad_run('`', 1, usize::MAX);
        }
        if at_start && self.text.first() == Some(&'"') {
            self.text.splice(..1, ['`', '`']);
        }
        if self.text.contains(&'`') {
            self.pad_run('`', 2, 2);
        }
        self.replace(|text, at, out| {
            if !matches!(text[at], ' ' | '(' | '[' | '{' | '<') {
                return 0;
            }
            let quote = match text[at + 1..] {
                ['"', ..] => 1,
                ['\'', '\'', ..] => 2,
                _ => return 0,
            };
            out.extend([text[at], ' ', '`', '`', ' ']);
            1 + quote
        });
        self.replace(|text, at, out| match text[at..] {
            ['\'', letter, ref rest @ ..]
                if python::is_word(letter)
                    && !rest.first().is_some_and(|&c| python::is_word(c))
                    && !matches!(letter.to_ascii_lowercase(), 'm' | 't' | 's' | 'd' | 'n') =>
            {
                out.extend(['\'', ' ', letter]);
                2
            }
            _ => 0,
        });
    }

    fn punctuation(&mut self, has_final_stop: bool, at_end: bool) {
        if has_final_stop && let Some(stop) = self.text.iter().rposition(|&c| c == '.') {
            self.text.splice(stop..=stop, [' ', '.', ' ']);
        }
        self.replace(|text, at, out| match text[at..] {
            [mark @ (':' | ','), next, ..] if !is_digit(next) => {
                out.extend([' ', mark, ' ', next]);
                2
            }
            _ => 0,
        });
        if at_end && let Some(&mark @ (':' | ',')) = self.text.last() {
            self.text.pop();
            self.text.extend([' ', mark, ' ']);
        }
        self.pad_run('.', 2, usize::MAX);
        self.pad(|c| {
            matches!(
                c,
                ';' | '@' | '#' | '$' | '%' | '&' | '\u{2012}'..='\u{2015}' | '?' | '!'
            )
        });
        self.replace(|text, at, out| match text[at..] {
            [c, '\'', ' ', ..] if c != '\'' => {
                out.extend([c, ' ', '\'', ' ']);
                3
            }
            _ => 0,
        });
        self.pad(|c| matches!(c, '*' | '[' | ']' | '(' | ')' | '{' | '}' | '<' | '>'));
        self.pad_run('-', 2, 2);
    }

    fn closing_quotes(&mut self) {
        self.pad(|c| matches!(c, '»' | '”' | '’'));
        self.pad_run('\'', 2, 2);
        self.replace(|text, at, out| {
            if text[at] != '"' {
                return 0;
            }
            out.extend([' ', '\'', '\'', ' ']);
            1
        });
        self.replace(|text, at, out| {
            let spaces = text[at..].iter().take_while(|&&c| python::is_space(c)).count();
            if spaces > 0 {
                out.push(' ');
            }
            spaces
        });
        self.detach(|rest| match rest {
            ['\'', 's' | 'S' | 'm' | 'M' | 'd' | 'D', ' ', ..] => 2,
            ['\'', ' ', ..] => 1,
            _ => 0,
        });
        self.detach(|rest| match rest {
            ['\'', 'l', 'l', ' ', ..]
            | ['\'', 'L', 'L', ' ', ..]
            | ['\'', 'r' | 'v', 'e', ' ', ..]
            | ['\'', 'R' | 'V', 'E', ' ', ..]
            | ['n', '\'', 't', ' ', ..]
            | ['N', '\'', 'T', ' ', ..] => 3,
            _ => 0,
        });
    }

    /// A space before what `clitic` finds at the end of a word, if neither a quote nor a space is there.
    fn detach(&mut self, clitic: impl Fn(&[char]) -> usize) {
        self.replace(|text, at, out| {
            let length = clitic(&text[at + 1..]);
            if length == 0 || matches!(text[at], '\'' | ' ') {
                return 0;
            }
            out.extend([text[at], ' ']);
            out.extend(&text[at + 1..=at + length]);
            out.push(' ');
            length + 2
        });
    }

    fn contractions(&mut self) {
        for (whole, first) in CONTRACTIONS.into_iter().chain([("d'ye", 1), ("more'n", 4)]) {
            self.contraction(whole, first, |text, at| {
                let boundary = at == 0 || !python::is_word(text[at - 1]);
                boundary.then_some(at)
            });
        }
        for whole in ["'tis", "'twas"] {
            self.contraction(whole, 2, |text, at| (at > 0 && text[at - 1] == ' ').then_some(at));
        }
    }

    fn contraction(&mut self, whole: &str, first: usize, starts: impl Fn(&[char], usize) -> Option<usize>) {
        self.replace(|text, at, out| {
            let Some(found) = text.get(at..at + whole.len()) else {
                return 0;
            };
            let same = found
                .iter()
                .zip(whole.bytes())
                .all(|(c, byte)| c.eq_ignore_ascii_case(&char::from(byte)));
            let after = text.get(at + whole.len());
            let ends = match whole {
                "wanna" => after.is_some_and(|&c| python::is_space(c)),
                _ => !after.is_some_and(|&c| python::is_word(c)),
            };
            if !same || !ends || starts(text, at).is_none() {
                return 0;
            }
            out.push(' ');
            out.extend(&found[..first]);
            out.push(' ');
            out.extend(&found[first..]);
            out.push(' ');
            whole.len()
        });
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"' | '`' | '«' | '»' | '“' | '”' | '‘' | '’' | '„')
}

/// `\d`: the decimal digits of any script.
fn is_digit(c: char) -> bool {
    static DIGIT: std::sync::LazyLock<Option<regex::Regex>> =
        std::sync::LazyLock::new(|| regex::Regex::new(r"^\d$").ok());
    if c.is_ascii() || !c.is_numeric() {
        return c.is_ascii_digit();
    }
    DIGIT
        .as_ref()
        .is_some_and(|digit| digit.is_match(c.encode_utf8(&mut [0; 4])))
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
