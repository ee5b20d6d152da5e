//! The lines of a text, and where the items of a block list begin and end.

use std::ops::Range;

/// The lines of a text, each with its line break.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    line_break: &'static str,
}

/// A list whose items begin with `-`.
pub(super) struct BlockList {
    /// The column of the `-`.
    pub(super) column: usize,
    /// The lines of each item, with the blank lines and comments after it.
    pub(super) items: Vec<Range<usize>>,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        if starts.last() == Some(&text.len()) {
            starts.pop();
        }
        let line_break = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self {
            text,
            starts,
            line_break,
        }
    }

    fn line(&self, number: usize) -> &'t str {
        let Some(start) = self.starts.get(number) else {
            return "";
        };
        let end = self.starts.get(number + 1).copied().unwrap_or(self.text.len());
        self.text.get(*start..end).unwrap_or_default()
    }

    /// The line that a byte is in, counted from 0.
    pub(super) fn number(&self, at: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= at)
            .saturating_sub(1)
    }

    pub(super) fn column(&self, at: usize) -> usize {
        let start = self.starts.get(self.number(at)).copied().unwrap_or_default();
        // A byte order mark has no width.
        let before = self.text.get(start..at).unwrap_or_default();
        before.trim_start_matches('\u{feff}').chars().count()
    }

    /// The colon after a key.
    pub(super) fn colon(&self, key_end: usize) -> Option<usize> {
        let rest = self.text.get(key_end..)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest.get(blanks..)?.starts_with(':').then_some(key_end + blanks)
    }

    /// The indentation of a line; `None` if it is blank or a comment.
    fn indent(&self, number: usize) -> Option<usize> {
        let line = self.line(number);
        let content = line.trim_start_matches(' ');
        let is_content = !content.trim().is_empty() && !content.starts_with('#');
        is_content.then_some(line.len() - content.len())
    }

    /// The list of `count` items that begins below the line of its key.
    pub(super) fn block_list(&self, key_at: usize, count: usize) -> Option<BlockList> {
        self.block_list_from(self.number(key_at) + 1, count)
    }

    /// The list of `count` items that the file consists of, after its directives and the marker of its start.
    pub(super) fn root_list(&self, count: usize) -> Option<BlockList> {
        let is_head = |line: &usize| {
            let line = self.line(*line);
            line.starts_with('%') || line.trim_end() == "---"
        };
        let head = (0..self.starts.len()).take_while(|line| self.indent(*line).is_none() || is_head(line));
        self.block_list_from(head.last().map_or(0, |last| last + 1), count)
    }

    /// The list of `count` items whose first one is the next content from this line on.
    fn block_list_from(&self, line: usize, count: usize) -> Option<BlockList> {
        let first = (line..self.starts.len()).find(|line| self.indent(*line).is_some())?;
        let column = self.indent(first)?;
        let begins = |number: &usize| {
            let line = self.line(*number);
            let after = line.trim_start_matches(' ').strip_prefix('-');
            self.indent(*number) == Some(column)
                && after.is_some_and(|after| after.is_empty() || after.starts_with([' ', '\t', '\r', '\n']))
        };
        let stop = (first..self.starts.len())
            .find(|line| self.indent(*line).is_some_and(|indent| indent <= column) && !begins(line))
            .unwrap_or(self.starts.len());
        let dashes: Vec<usize> = (first..stop).filter(begins).collect();
        let ends = dashes.iter().skip(1).copied().chain([stop]);
        let items: Vec<_> = dashes
            .iter()
            .copied()
            .zip(ends)
            .map(|(start, end)| start..end)
            .collect();
        (items.len() == count).then_some(BlockList { column, items })
    }

    /// Lines before which an item may end: after its last content, after its last non-blank line, after all of it. A
    /// line that looks like a comment or blank may be a part of a string.
    pub(super) fn item_ends(&self, item: Range<usize>) -> Vec<usize> {
        let mut ends: Vec<usize> = [
            item.clone().rfind(|line| self.indent(*line).is_some()),
            item.clone().rfind(|line| !self.line(*line).trim().is_empty()),
        ]
        .into_iter()
        .flatten()
        .map(|line| line + 1)
        .chain([item.end])
        .collect();
        ends.dedup();
        ends
    }

    /// Lines before which content may be added to the file; an end marker stays last.
    pub(super) fn file_ends(&self) -> Vec<usize> {
        let marker = (0..self.starts.len()).rfind(|line| self.line(*line).trim_end() == "...");
        self.item_ends(0..marker.unwrap_or(self.starts.len()))
    }

    /// Inserts lines before a line.
    pub(super) fn insert(&self, before: usize, lines: &str) -> String {
        let at = self.starts.get(before).copied().unwrap_or(self.text.len());
        let (head, tail) = self.text.split_at_checked(at).unwrap_or((self.text, ""));
        let missing = if head.is_empty() || head.ends_with('\n') {
            ""
        } else {
            self.line_break
        };
        let lines = if self.line_break == "\n" {
            lines.to_owned()
        } else {
            lines.replace('\n', self.line_break)
        };
        format!("{head}{missing}{lines}{tail}")
    }

    /// Removes lines.
    pub(super) fn remove(&self, from: usize, before: usize) -> String {
        let at = |line: usize| self.starts.get(line).copied().unwrap_or(self.text.len());
        super::remove_range(self.text, at(from)..at(before))
    }
}
