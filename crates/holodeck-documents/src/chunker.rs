//! Splits documents into chunks.
//!
//! A document is first outlined: which lines are headings, and which lines form a unit (a table, a list item, a code
//! block, a paragraph). Then each section, or for [`ChunkingStrategy::Token`] the whole text, is cut from front to
//! back, each time at the best place before the limit. The cost is linear in the length of the text.

mod blocks;
mod clauses;
mod cut;
mod definitions;
mod domain;
mod number;
mod outline;
mod references;
mod sentences;
mod text;

use std::fmt::Write as _;
use std::ops::Range;

use holodeck_model::{ChunkingStrategy, DocumentDomain};
use serde::{Deserialize, Serialize};

use crate::{Chunk, Document, Place};
use cut::{Limits, Span};
use outline::Outline;

/// Bytes counted as one token.
const BYTES_PER_TOKEN: usize = 4;

/// Increased when the same document and options produce different chunks.
const VERSION: u32 = 1;

/// How a document is split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkOptions {
    /// By headings or by length alone.
    pub strategy: ChunkingStrategy,
    /// Maximum tokens of a chunk, including what it shares with another one.
    pub max_tokens: usize,
    /// Maximum tokens that a chunk repeats from the previous one; never more than half a chunk. With
    /// [`ChunkingStrategy::Structure`] only chunks of the same section share text.
    pub overlap_tokens: usize,
    /// Which lines are headings in addition to Markdown's.
    pub domain: DocumentDomain,
    /// Deeper headings, and deeper clauses such as `(a)`, are ordinary text.
    pub max_subsection_depth: Option<usize>,
    /// Whether [`Chunk::definitions`] is filled.
    pub extract_definitions: bool,
    /// Whether [`Chunk::references`] is filled.
    pub extract_cross_references: bool,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self {
            strategy: ChunkingStrategy::Structure,
            max_tokens: 512,
            overlap_tokens: 50,
            domain: DocumentDomain::None,
            max_subsection_depth: None,
            extract_definitions: false,
            extract_cross_references: false,
        }
    }
}

impl ChunkOptions {
    /// Everything that determines the chunks of a document, in one line.
    pub fn describe(&self) -> String {
        let strategy = match self.strategy {
            ChunkingStrategy::Structure => "structure",
            ChunkingStrategy::Token => "token",
        };
        let mut line = format!(
            "{strategy} v{VERSION}, {} tokens of {BYTES_PER_TOKEN} bytes, overlap {}",
            self.max_tokens, self.overlap_tokens
        );
        if self.domain != DocumentDomain::None {
            let _ = write!(line, ", domain {}", domain::name(self.domain));
        }
        if let Some(depth) = self.max_subsection_depth {
            let _ = write!(line, ", depth {depth}");
        }
        if self.extract_definitions {
            line.push_str(", definitions");
        }
        if self.extract_cross_references {
            line.push_str(", cross references");
        }
        line
    }
}

/// Estimates the tokens of a text: its bytes divided by four, rounded up. The same for every model; close for English,
/// high for other alphabets, low for Chinese.
pub fn estimated_tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// Splits a document. All text except white space is in some chunk, the chunks are in text order, and none exceeds
/// `options.max_tokens`.
pub fn chunk(document: &Document, options: &ChunkOptions) -> Vec<Chunk> {
    let text = document.text.as_str();
    let outline = Outline::of(text, options.domain, options.max_subsection_depth);
    let definitions = if options.extract_definitions {
        definitions::find(text, &outline)
    } else {
        Vec::new()
    };
    let references = if options.extract_cross_references {
        references::find(text, &outline)
    } else {
        Vec::new()
    };
    let limits = Limits::new(options);
    let mut chunks = Vec::new();
    let mut add = |piece: cut::Piece| {
        let section = outline.section_at(piece.from);
        let own: Vec<String> = outline.headings(section);
        let mut seen: Vec<String> = Vec::new();
        let number = outline.number(section, piece.from..piece.range.end);
        for reference in within(&references, &piece.range, |reference| reference.at) {
            if number.as_ref() != Some(&reference.number) && !seen.contains(&reference.number) {
                seen.push(reference.number.clone());
            }
        }
        chunks.push(Chunk {
            text: piece.text(text),
            place: place(document, piece.range.start),
            definitions: within(&definitions, &piece.range, |definition| definition.at)
                .iter()
                .map(|found| found.definition.clone())
                .collect(),
            range: piece.range,
            headings: own,
            section: number,
            references: seen,
        });
    };
    match options.strategy {
        ChunkingStrategy::Token => cut::each(text, &Span::whole(text), &limits, &mut add),
        ChunkingStrategy::Structure => {
            for range in outline.spans() {
                cut::each(text, &Span::section(range, &outline), &limits, &mut add);
            }
        }
    }
    chunks
}

/// The items of a sorted list whose positions are in `range`.
fn within<'a, T>(items: &'a [T], range: &Range<usize>, at: impl Fn(&T) -> usize) -> &'a [T] {
    let from = items.partition_point(|item| at(item) < range.start);
    let to = items.partition_point(|item| at(item) < range.end);
    items.get(from..to).unwrap_or_default()
}

fn place(document: &Document, at: usize) -> Option<Place> {
    let marks = &document.marks;
    let next = marks.partition_point(|mark| mark.at <= at);
    let mark = marks.get(next.checked_sub(1)?)?;
    Some(mark.place.clone())
}

#[cfg(test)]
mod tests;
