//! A text as lines, and where in them the items of a block list begin and end.

use std::ops::Range;

/// The lines of a text, each with its line break.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    line_break: &'static str,
}

/// A list whose items begin with `-`.
pub(super) struct BlockList {
    /// Where the `-` stand.
    pub(super) column: usize,
    /// The lines of each item, with what is blank or a comment after it.
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
        // A byte order mark takes no room.
        let before = self.text.get(start..at).unwrap_or_default();
        before.trim_start_matches('\u{feff}').chars().count()
    }

    /// The colon after a key.
    pub(super) fn colon(&self, key_end: usize) -> Option<usize> {
        let rest = self.text.get(key_end..)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest.get(blanks..)?.starts_with(':').then_some(key_end + blanks)
    }

    /// How far a line is indented; `None` if it is blank or a comment.
    fn indent(&self, number: usize) -> Option<usize> {
        let line = self.line(number);
        let content = line.trim_start_matches(' ');
        let is_content = !content.trim().is_empty() && !content.starts_with('#');
        is_content.then_some(line.len() - content.len())
    }

    /// The list of `count` items that begins below the line of its key.
    pub(super) fn block_list(&self, key_at: usize, count: usize) -> Option<BlockList> {
        let below = self.number(key_at) + 1;
        let first = (below..self.starts.len()).find(|line| self.indent(*line).is_some())?;
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

    /// Lines before which an item may end: after its last content, after what is not blank, after all of it. What
    /// looks like a comment or a blank line may be a part of a text.
    pub(super) fn ends_of(&self, item: Range<usize>) -> Vec<usize> {
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

    /// Lines before which the file may go on; a marker of its end stays last.
    pub(super) fn ends(&self) -> Vec<usize> {
        let marker = (0..self.starts.len()).rfind(|line| self.line(*line).trim_end() == "...");
        self.ends_of(0..marker.unwrap_or(self.starts.len()))
    }

    /// The text with these lines before a line.
    pub(super) fn inserted(&self, before: usize, lines: &str) -> String {
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

    /// The text without some lines.
    pub(super) fn removed(&self, from: usize, before: usize) -> String {
        let at = |line: usize| self.starts.get(line).copied().unwrap_or(self.text.len());
        super::without(self.text, at(from)..at(before))
    }
}
