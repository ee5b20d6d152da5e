//! Breaks lines of text that arrives in pieces between words, where a terminal would break within them.
//!
//! The beginning of a word is held back until the word ends. It must not change text that is not shown on a terminal.

use std::mem;

use unicode_width::UnicodeWidthStr as _;

/// The state of the line that is written.
#[derive(Debug)]
pub(super) struct Wrap {
    width: usize,
    /// Columns of the line that are used.
    column: usize,
    /// White space after the last word, which is written only before the next word of the same line.
    space: String,
    word: String,
}

impl Wrap {
    /// Lines of at most this many columns.
    pub(super) fn new(width: usize) -> Self {
        Self {
            width: width.max(1),
            column: 0,
            space: String::new(),
            word: String::new(),
        }
    }

    /// Takes in a piece; returns what may be written.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut shown = String::new();
        for letter in text.chars() {
            if letter == '\n' {
                self.flush(&mut shown);
                self.space.clear();
                self.column = 0;
                shown.push('\n');
            } else if letter.is_whitespace() && letter != '\u{a0}' {
                self.flush(&mut shown);
                self.space.push(letter);
            } else {
                self.word.push(letter);
            }
        }
        shown
    }

    /// The word that was held back. The next piece begins a line.
    pub(super) fn end(&mut self) -> String {
        let mut shown = String::new();
        self.flush(&mut shown);
        self.space.clear();
        self.column = 0;
        shown
    }

    fn flush(&mut self, shown: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = mem::take(&mut self.word);
        let space = mem::take(&mut self.space);
        let (spaces, columns) = (space.width(), word.width());
        if self.column > 0 && self.column + spaces + columns > self.width {
            shown.push('\n');
            self.column = 0;
        } else {
            // The indentation of a line stays.
            shown.push_str(&space);
            self.column += spaces;
        }
        shown.push_str(&word);
        // The terminal breaks a word that is longer than a line.
        self.column += columns;
        while self.column > self.width {
            self.column -= self.width;
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// The text as it is written, in pieces of this many letters.
    fn wrapped(width: usize, text: &str, size: usize) -> String {
        let mut wrap = Wrap::new(width);
        let letters: Vec<char> = text.chars().collect();
        let mut shown = String::new();
        for piece in letters.chunks(size) {
            shown += &wrap.push(&piece.iter().collect::<String>());
        }
        shown + &wrap.end()
    }

    #[test]
    fn lines_break_between_words_whatever_the_pieces() {
        let text = "The quick brown fox\n  jumps over the lazy dog.\n\n- one two three four five";
        let expected = "The quick\nbrown fox\n  jumps over\nthe lazy dog.\n\n- one two\nthree four\nfive";
        for size in 1..=text.len() {
            assert_eq!(wrapped(13, text, size), expected, "{size}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_but_one_of_one_word() {
        let text =
            "日本語 の 文章 wide letters count twice, and a_word_that_is_longer_than_the_line stays whole";
        let shown = wrapped(12, text, 3);
        for line in shown.lines() {
            assert!(line.width() <= 12 || !line.contains(' '), "{line:?}");
        }
        let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&shown), words(text));
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let text = "one  two\n\n    indented\n";
        assert_eq!(wrapped(40, text, 2), text);
    }
}
