//! Applies the replacements of NLTK's word tokeniser, in its order, to one word.
#![allow(clippy::indexing_slicing, reason = "characters of a word by position")]

use super::{CONTRACTIONS, has_contraction};
use crate::nlp::python;

/// Applies the replacements to one word and the white space around it.
#[derive(Default)]
pub(super) struct Replacements {
    text: Vec<char>,
    out: Vec<char>,
    token: String,
}

impl Replacements {
    /// Calls `emit` with each token of a word between these two white-space characters; `None` at an end of the
    /// sentence.
    pub(super) fn tokens(
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

    /// Processes the text once: `rule` writes the replacement of the characters at a position and returns how many it
    /// replaced; 0 leaves the character unchanged.
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

    /// Pads each run of `least` to `most` times `c`.
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

    /// Inserts a space before the clitic at the end of a word, unless a quote or a space is there.
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
