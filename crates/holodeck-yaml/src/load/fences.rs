//! Finds front matter at the top of a text: YAML between two lines of `---`. Other forms are named, and never read.

use std::ops::Range;

use holodeck_model::lines_with_ends;

use crate::yaml::{FileId, Place};

/// A text with its front matter.
pub(crate) struct Parts {
    pub(crate) front_matter: Option<Range<usize>>,
    pub(crate) end: FrontMatterEnd,
    pub(crate) body: Range<usize>,
}

/// The line after front matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontMatterEnd {
    /// `---`.
    Fence,
    /// `...`, as it ends a document of YAML.
    Dots,
}

/// Finds a block between two lines of `---` at the top of a file. `...` ends it as well.
pub(crate) fn split_front_matter(text: &str) -> Parts {
    let whole = Parts {
        front_matter: None,
        end: FrontMatterEnd::Fence,
        body: 0..text.len(),
    };
    let start = text.len() - trim_begin(text).len();
    let mut lines = lines_with_ends(text.get(start..).unwrap_or_default());
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return whole;
    };
    let block = start + first.len();
    let mut at = block;
    for line in lines {
        let end = match line.trim_end() {
            "..." => Some(FrontMatterEnd::Dots),
            line => is_fence(line).then_some(FrontMatterEnd::Fence),
        };
        if let Some(end) = end {
            return Parts {
                front_matter: Some(block..at),
                end,
                body: at + line.len()..text.len(),
            };
        }
        at += line.len();
    }
    whole
}

/// A text without the blanks and invisible characters at its beginning.
pub(crate) fn trim_begin(text: &str) -> &str {
    let is_invisible = |character: char| matches!(character, '\u{feff}' | '\u{200b}' | '\u{2060}');
    text.trim_start_matches(|character: char| character.is_whitespace() || is_invisible(character))
}

/// The first line of a text that is not blank.
pub(crate) fn first_line(file: FileId, text: &str) -> Place {
    let content = trim_begin(text);
    let line = lines_with_ends(content).next().unwrap_or_default().trim_end();
    let start = text.len() - content.len();
    // The size of a file is limited.
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Place {
        file,
        start: offset(start),
        end: offset(start + line.len()),
    }
}

pub(crate) fn is_fence(line: &str) -> bool {
    is_line_of(line, b'-')
}

/// Whether a line is this character three times or more.
fn is_line_of(line: &str, character: u8) -> bool {
    let line = line.trim_end();
    line.len() >= 3 && line.bytes().all(|byte| byte == character)
}

/// Front matter that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It does not end.
    Unclosed,
    /// TOML between lines of `+++`.
    Toml,
    /// JSON between lines of `;;;`.
    Json,
    /// A word follows the first `---`, as in `--- yaml`.
    NotAlone,
}

impl Unread {
    /// The form in which a text begins that has no front matter in YAML.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let lines = lines_with_ends(trim_begin(text)).map(str::trim_end);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let (first, rest) = lines.split_first()?;
        let closes = |mark: u8| rest.iter().any(|line| is_line_of(line, mark));
        // The first line that is no comment.
        let next = rest.iter().find(|line| !line.starts_with('#')).copied();
        let next = next.unwrap_or_default();
        if is_fence(first) {
            let is_closed = closes(b'-') || rest.contains(&"...");
            return (!is_closed && has_key(next)).then_some(Self::Unclosed);
        }
        if is_line_of(first, b'+') {
            let is_table =
                next.starts_with('[') || next.split_once('=').is_some_and(|(key, _)| is_name(key.trim()));
            return (closes(b'+') || is_table).then_some(Self::Toml);
        }
        if is_line_of(first, b';') {
            return (closes(b';') || next.starts_with(['{', '"'])).then_some(Self::Json);
        }
        let after = first.strip_prefix("---")?.trim_start_matches('-').trim();
        let is_word = after.starts_with('#') || is_name(after);
        (is_word && closes(b'-')).then_some(Self::NotAlone)
    }

    /// The problem, as the beginning of a message.
    pub(crate) fn problem(self) -> &'static str {
        match self {
            Self::Unclosed => "the front matter does not end",
            Self::Toml => "front matter in TOML is not read",
            Self::Json => "front matter in JSON is not read",
            Self::NotAlone => "the line before the front matter is more than `---`",
        }
    }

    /// The next step.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Unclosed => "end it with a line of `---`",
            Self::Toml => "front matter is YAML between two lines of `---`; TOML is not read",
            Self::Json => "front matter is YAML between two lines of `---`; JSON between `;;;` is not read",
            Self::NotAlone => "the line before front matter is `---` and nothing else",
        }
    }
}

/// Whether a line is `key: value` or `key:`.
pub(crate) fn has_key(line: &str) -> bool {
    let key = line.split_once(':');
    let key = key.filter(|(_, value)| value.is_empty() || value.starts_with([' ', '\t']));
    key.is_some_and(|(key, _)| is_name(key))
}

fn is_name(text: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    !text.is_empty() && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, front_matter: Option<&str>, body: &str) {
        let parts = split_front_matter(text);
        assert_eq!(parts.front_matter.map(|range| &text[range]), front_matter);
        assert_eq!(text[parts.body].trim(), body);
    }

    #[test]
    fn front_matter_is_a_fenced_block_at_the_top() {
        check("---\nversion: 2\n---\nHello\n", Some("version: 2\n"), "Hello");
        check(
            "---\r\nversion: 2\r\n---\r\nHello\r\n",
            Some("version: 2\r\n"),
            "Hello",
        );
        check("---\n---\nHello", Some(""), "Hello");
        check(
            "Hello\n---\nversion: 2\n---\n",
            None,
            "Hello\n---\nversion: 2\n---",
        );
        check("---\nno end", None, "---\nno end");
        check(
            "---\nversion: 2\n...\nHello\n---\n",
            Some("version: 2\n"),
            "Hello\n---",
        );
        check("", None, "");
    }
}
