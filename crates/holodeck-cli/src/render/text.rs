//! Fits text into terminal columns.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// `text` in exactly `columns`: cut with `…`, or padded with spaces.
pub(super) fn fit(text: &str, columns: usize) -> String {
    let mut fitted = cut(text, columns);
    let missing = columns.saturating_sub(width(&fitted));
    fitted.extend(std::iter::repeat_n(' ', missing));
    fitted
}

/// `text` in at most `columns`, cut with `…`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut start = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        start.push(c);
        used += wide;
    }
    if columns > 0 {
        start.push('…');
    }
    start
}

/// `text` aligned to the right of `columns`.
pub(super) fn right(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{}{text}", " ".repeat(missing))
}

/// `text` as lines of at most `columns`, broken at spaces if possible.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut used = 0;
        for word in paragraph.split_inclusive(' ') {
            let wide = width(word.trim_end());
            if used > 0 && used + wide > columns {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
                used = 0;
            }
            for c in word.chars() {
                let wide = c.width().unwrap_or(0);
                if used + wide > columns && c != ' ' {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push(c);
                used += wide;
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(fit("refund", 8), "refund  ");
        assert_eq!(fit("refund policy", 8), "refund …");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日… ");
        assert_eq!(right("1.2 s", 7), "  1.2 s");
    }

    #[test]
    fn long_lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("abcdefghijkl mn", 8), ["abcdefgh", "ijkl mn"]);
        assert_eq!(wrap("a\n\n  b", 8), ["a", "", "  b"]);
        assert_eq!(wrap("", 8), [""]);
    }
}
