//! Where a text is cut.

use std::ops::Range;

use super::blocks::Kind;
use super::outline::Outline;
use super::sentences;
use super::text::{self, slice, trimmed};
use super::{BYTES_PER_TOKEN, ChunkOptions};

/// The longest UTF-8 character.
const CHARACTER: usize = 4;

/// Smaller pieces never repeat the head of a table.
const LEAST_WITH_HEAD: usize = 64;

/// How large a piece may be, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    most: usize,
    overlap: usize,
}

impl Limits {
    pub(super) fn new(options: &ChunkOptions) -> Self {
        let most = options.max_tokens.saturating_mul(BYTES_PER_TOKEN).max(CHARACTER);
        let overlap = options.overlap_tokens.saturating_mul(BYTES_PER_TOKEN);
        Self {
            most,
            overlap: overlap.min(most / 2).min(most - CHARACTER),
        }
    }
}

/// A range that is cut from front to back.
pub(super) struct Span<'a> {
    range: Range<usize>,
    /// Units to keep whole; `None` if there are none.
    outline: Option<&'a Outline>,
}

impl<'a> Span<'a> {
    /// A whole text, cut by length.
    pub(super) fn whole(text: &str) -> Self {
        Self {
            range: 0..text.len(),
            outline: None,
        }
    }

    /// A section, whose blocks are kept whole where they fit.
    pub(super) fn section(range: Range<usize>, outline: &'a Outline) -> Self {
        Self {
            range,
            outline: Some(outline),
        }
    }
}

/// A piece that was cut.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    /// Where the text begins that it does not share with the previous piece.
    pub(super) from: usize,
    /// The head of the table that it continues.
    head: Option<Range<usize>>,
}

impl Piece {
    pub(super) fn text(&self, text: &str) -> String {
        let own = slice(text, self.range.clone());
        match &self.head {
            Some(head) => format!("{}\n{own}", slice(text, head.clone())),
            None => own.to_owned(),
        }
    }
}

/// Cuts a span and passes on the pieces in order.
pub(super) fn each(text: &str, span: &Span<'_>, limits: &Limits, add: &mut impl FnMut(Piece)) {
    let Range { start, end } = trimmed(text, span.range.clone());
    let mut from = start;
    // The earliest position that the next piece may repeat from.
    let mut earliest = start;
    while from < end {
        let cutter = Cutter {
            text,
            span,
            limits,
            from,
            earliest,
            end,
        };
        let piece = cutter.piece();
        earliest = from + 1;
        from = text::skip_space(text, piece.range.end, end);
        add(piece);
    }
}

/// The constraints on one piece.
struct Cutter<'a> {
    text: &'a str,
    span: &'a Span<'a>,
    limits: &'a Limits,
    from: usize,
    earliest: usize,
    end: usize,
}

impl Cutter<'_> {
    fn piece(&self) -> Piece {
        let head = self.head();
        let most = self.limits.most - head.as_ref().map_or(0, |head| head.len() + 1);
        let start = self.overlap_start();
        let (start, cut) = if self.end - start <= most {
            (start, self.end)
        } else if let Some(cut) = self.block_end(start + most) {
            (start, cut)
        } else if self.begins_block() && self.end - self.from <= most {
            (self.from, self.end)
        } else if let Some(cut) = self.block_end(self.from + most).filter(|_| self.begins_block()) {
            // Keeping a block whole is worth more than an overlap.
            (self.from, cut)
        } else {
            (start, self.within_block(start + most))
        };
        Piece {
            range: trimmed(self.text, start..cut),
            from: self.from,
            head,
        }
    }

    fn begins_block(&self) -> bool {
        let block = self.span.outline.and_then(|outline| outline.block_at(self.from));
        block.is_some_and(|block| block.range.start == self.from)
    }

    /// The head of the table whose later rows the piece begins with, if there is room for both.
    fn head(&self) -> Option<Range<usize>> {
        let block = self.span.outline?.block_at(self.from)?;
        match block.kind {
            Kind::Table { rows } if self.from >= rows && self.from < block.range.end => {
                let head = trimmed(self.text, block.range.start..rows);
                let room = self.limits.most >= LEAST_WITH_HEAD && head.len() < self.limits.most / 4;
                room.then_some(head)
            }
            _ => None,
        }
    }

    /// Where the piece begins: as far before `from` as it may overlap, at the start of a sentence or a word.
    fn overlap_start(&self) -> usize {
        let (text, from) = (self.text, self.from);
        let mut earliest = self.earliest.max(from.saturating_sub(self.limits.overlap));
        let mut by_line = false;
        if let Some(block) = self
            .span
            .outline
            .and_then(|outline| outline.block_at(from.saturating_sub(1)))
        {
            match block.kind {
                // Never within a heading, and within a table only at rows that precede further rows.
                Kind::Heading(_) => earliest = earliest.max(block.range.end),
                Kind::Table { .. } if from > block.range.end => return from,
                Kind::Table { rows } => {
                    earliest = earliest.max(rows.min(from));
                    by_line = true;
                }
                Kind::Code => by_line = true,
                Kind::Text | Kind::Item => {}
            }
        }
        let earliest = text.ceil_char_boundary(earliest);
        if earliest >= from {
            return from;
        }
        let before = slice(text, earliest..from);
        let at_start = slice(text, 0..earliest).ends_with(char::is_whitespace);
        if by_line {
            let first = if slice(text, 0..earliest).ends_with('\n') {
                Some(0)
            } else {
                before.find('\n').map(|at| at + 1)
            };
            return first.map_or(from, |at| text::skip_space(text, earliest + at, from));
        }
        let sentence = sentences::sentence_end_after(text, earliest, from);
        if from - sentence > before.len() / 2 {
            return text::skip_space(text, sentence, from);
        }
        let word = if at_start {
            Some(0)
        } else {
            before.find(char::is_whitespace)
        };
        // Text without spaces has no word boundaries.
        text::skip_space(text, earliest + word.unwrap_or(0), from)
    }

    /// The end of the last block that ends at or before `limit`. Never between a title and what follows it.
    fn block_end(&self, limit: usize) -> Option<usize> {
        let blocks = &self.span.outline?.blocks;
        let count = blocks.partition_point(|block| block.range.end <= limit);
        let fitting = blocks.get(..count)?;
        let last = fitting.iter().rev().find(|block| !block.is_title())?;
        (last.range.end > self.from).then_some(last.range.end)
    }

    /// The best place up to `limit` to cut a block that is too large.
    fn within_block(&self, limit: usize) -> usize {
        let text = self.text;
        let limit = text.floor_char_boundary(limit);
        let block = self
            .span
            .outline
            .and_then(|outline| outline.block_at(limit.saturating_sub(1)));
        let first = match block.map(|block| (&block.kind, block.range.start)) {
            // The head alone carries no information.
            Some((&Kind::Table { rows }, _)) => rows,
            Some((_, start)) => start,
            None => self.from,
        };
        let first = first.clamp(self.from, limit);
        let half = text.ceil_char_boundary(self.from + (limit - self.from) / 2);
        let by_line = block.is_some_and(|block| matches!(block.kind, Kind::Code | Kind::Table { .. }));
        // The last line may end exactly at the limit.
        let line = || {
            if slice(text, limit..text.len()).starts_with('\n') {
                return Some(limit);
            }
            slice(text, first..limit).rfind('\n').map(|at| first + at)
        };
        if by_line && let Some(cut) = line().filter(|&cut| cut > self.from) {
            return cut;
        }
        if let Some(at) = slice(text, half..limit).rfind("\n\n") {
            return half + at;
        }
        if let Some(block) = block
            && block.kind == Kind::Item
            && let Some(cut) = line().filter(|&cut| cut > half)
        {
            return cut;
        }
        if let Some(cut) = sentences::sentence_end_before(text, half, limit).filter(|&cut| cut > self.from) {
            return cut;
        }
        if slice(text, limit..text.len()).starts_with(char::is_whitespace) {
            return limit;
        }
        let word = slice(text, self.from..limit).rfind(char::is_whitespace);
        match word {
            Some(at) if at > 0 => self.from + at,
            _ => limit.max(text.ceil_char_boundary(self.from + 1)),
        }
    }
}
