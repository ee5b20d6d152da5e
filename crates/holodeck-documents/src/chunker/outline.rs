//! Groups the blocks of a text into sections with titles, numbers and clauses.

use std::ops::Range;

use holodeck_model::DocumentDomain;

use super::blocks::{self, Block, Kind};
use super::clauses::{self, Clause};
use super::text::slice;

/// Blocks, sections and clauses of a text, each in order.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) blocks: Vec<Block>,
    /// The first one is the text before any heading.
    sections: Vec<Section>,
    clauses: Vec<Clause>,
    length: usize,
}

#[derive(Debug)]
struct Section {
    start: usize,
    parent: usize,
    level: usize,
    /// Depth in headings, including its own.
    depth: usize,
    title: String,
    number: Option<String>,
    /// Whether it has a heading and nothing else before the next one.
    empty: bool,
}

impl Outline {
    pub(super) fn of(text: &str, domain: DocumentDomain, max_depth: Option<usize>) -> Self {
        let max_depth = max_depth.unwrap_or(usize::MAX).max(1);
        let mut outline = Self {
            blocks: blocks::blocks(text, domain),
            sections: vec![Section {
                start: 0,
                parent: 0,
                level: 0,
                depth: 0,
                title: String::new(),
                number: None,
                empty: false,
            }],
            clauses: Vec::new(),
            length: text.len(),
        };
        let mut stack = clauses::Stack::default();
        for index in 0..outline.blocks.len() {
            let Some(block) = outline.blocks.get_mut(index) else {
                break;
            };
            let at = block.range.start;
            match &block.kind {
                Kind::Heading(heading) => {
                    let parent = outline.sections.len() - 1;
                    let parent = above(&outline.sections, parent, heading.level);
                    let depth = outline.sections.get(parent).map_or(0, |parent| parent.depth) + 1;
                    if depth > max_depth {
                        block.kind = Kind::Text;
                        if let Some(last) = outline.sections.last_mut() {
                            last.empty = false;
                        }
                        continue;
                    }
                    stack.clear();
                    outline.sections.push(Section {
                        start: at,
                        parent,
                        level: heading.level,
                        depth,
                        title: heading.title.clone(),
                        number: heading.number.clone(),
                        empty: !heading.runs_on,
                    });
                }
                kind => {
                    let depth = match outline.sections.last_mut() {
                        Some(last) => {
                            last.empty = false;
                            last.depth
                        }
                        None => 0,
                    };
                    if domain == DocumentDomain::None || !matches!(kind, Kind::Text | Kind::Item) {
                        continue;
                    }
                    let mut labels = clauses::labels(slice(text, block.range.clone())).peekable();
                    if labels.peek().is_none() {
                        continue;
                    }
                    let mut path = stack.enter(labels);
                    path.truncate(max_depth.saturating_sub(depth));
                    outline.clauses.push(Clause { at, path });
                }
            }
        }
        outline
    }

    /// The ranges that are cut separately: every section; a heading without text of its own joins the section below it.
    pub(super) fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        let mut from = None;
        self.sections
            .iter()
            .enumerate()
            .filter_map(move |(index, section)| {
                let start = *from.get_or_insert(section.start);
                let next = self.sections.get(index + 1);
                if section.empty && next.is_some_and(|next| next.parent == index) {
                    return None;
                }
                from = None;
                Some(start..next.map_or(self.length, |next| next.start))
            })
    }

    /// The section at a position; a heading without text of its own belongs to the section below it.
    pub(super) fn section_at(&self, at: usize) -> usize {
        let after = self.sections.partition_point(|section| section.start <= at);
        let mut index = after.saturating_sub(1);
        while let Some(section) = self.sections.get(index)
            && section.empty
            && self
                .sections
                .get(index + 1)
                .is_some_and(|next| next.parent == index)
        {
            index += 1;
        }
        index
    }

    /// The titles around a section and its own, outermost first.
    pub(super) fn headings(&self, section: usize) -> Vec<String> {
        let mut headings: Vec<String> = self
            .around(section)
            .map(|section| section.title.clone())
            .collect();
        headings.reverse();
        headings
    }

    /// The number of the section, with the labels that all clauses in `range` share.
    pub(super) fn number(&self, section: usize, range: Range<usize>) -> Option<String> {
        let mut number = self.around(section).find_map(|section| section.number.clone())?;
        for label in self.clauses_in(section, range) {
            number.push('(');
            number.push_str(label);
            number.push(')');
        }
        Some(number)
    }

    /// The number of the section at a position, without its clause.
    pub(super) fn number_at(&self, at: usize) -> Option<&str> {
        self.around(self.section_at(at))
            .find_map(|section| section.number.as_deref())
    }

    /// Whether a place is in a title, or where a heading's number is.
    pub(super) fn is_title(&self, at: usize) -> bool {
        self.block_at(at).is_some_and(|block| {
            block.is_title() || (matches!(block.kind, Kind::Heading(_)) && block.range.start == at)
        })
    }

    /// The last block that begins at or before a place.
    pub(super) fn block_at(&self, at: usize) -> Option<&Block> {
        let after = self.blocks.partition_point(|block| block.range.start <= at);
        self.blocks.get(after.checked_sub(1)?)
    }

    /// The title of the section that a place belongs to.
    pub(super) fn title_at(&self, at: usize) -> &str {
        self.sections
            .get(self.section_at(at))
            .map_or("", |section| section.title.as_str())
    }

    fn around(&self, section: usize) -> impl Iterator<Item = &Section> {
        let mut next = Some(section);
        std::iter::from_fn(move || {
            let section = self.sections.get(next?).filter(|section| section.depth > 0)?;
            next = Some(section.parent);
            Some(section)
        })
    }

    fn clauses_in(&self, section: usize, range: Range<usize>) -> &[String] {
        let start = self.sections.get(section).map_or(0, |section| section.start);
        let first = self.clauses.partition_point(|clause| clause.at <= range.start);
        let end = self.clauses.partition_point(|clause| clause.at < range.end);
        let open = first.checked_sub(1).and_then(|open| self.clauses.get(open));
        // The clauses of an earlier section are closed.
        let Some(open) = open.filter(|clause| clause.at >= start) else {
            return &[];
        };
        let mut common = open.path.as_slice();
        for clause in self.clauses.get(first..end).unwrap_or_default() {
            let same = common
                .iter()
                .zip(&clause.path)
                .take_while(|(one, other)| one == other)
                .count();
            common = common.get(..same).unwrap_or_default();
        }
        common
    }
}

/// The nearest section above one of this level, beginning with `section`.
fn above(sections: &[Section], mut section: usize, level: usize) -> usize {
    while let Some(found) = sections.get(section)
        && found.level >= level
    {
        section = found.parent;
    }
    section
}
