//! Splits a text into blocks that stay whole if they fit: headings, paragraphs, lists, tables and code.

use std::ops::Range;

use holodeck_model::DocumentDomain;

use super::clauses;
use super::domain::{self, Before, Heading};
use super::number;
use super::text::{LONGEST_TITLE, shortened, slice, trimmed};

/// A longer front matter is ordinary text.
const LONGEST_FRONT_MATTER: usize = 200;

/// A unit of text that is kept whole if it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Without surrounding white space.
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Heading(Heading),
    Text,
    Item,
    Code,
    /// A table, and where the rows after its head begin.
    Table {
        rows: usize,
    },
}

impl Block {
    /// Whether it consists only of a title.
    pub(super) fn is_title(&self) -> bool {
        matches!(&self.kind, Kind::Heading(heading) if !heading.runs_on)
    }
}

#[derive(Clone, Copy)]
struct Line {
    start: usize,
    /// Without the line break.
    end: usize,
}

/// The blocks of a text, in order.
pub(super) fn blocks(text: &str, domain: DocumentDomain) -> Vec<Block> {
    let mut scan = Scan {
        text,
        domain,
        lines: lines(text),
        next: 0,
        found: Vec::new(),
        before: Before::Break,
    };
    scan.front_matter();
    while scan.next < scan.lines.len() {
        scan.block();
    }
    scan.found
}

fn lines(text: &str) -> Vec<Line> {
    let mut lines = Vec::with_capacity(text.len() / 40);
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        lines.push(Line {
            start,
            end: start + content.len(),
        });
        start += line.len();
    }
    lines
}

struct Scan<'a> {
    text: &'a str,
    domain: DocumentDomain,
    lines: Vec<Line>,
    next: usize,
    found: Vec<Block>,
    /// The context of the next line.
    before: Before,
}

impl<'a> Scan<'a> {
    fn line(&self, index: usize) -> &'a str {
        let line = self.lines.get(index).map_or(0..0, |line| line.start..line.end);
        slice(self.text, line)
    }

    /// YAML between two `---` at the top, whose last line would otherwise be a setext underline.
    fn front_matter(&mut self) {
        if self.line(0).trim_end() != "---" {
            return;
        }
        let last = self.lines.len().min(LONGEST_FRONT_MATTER);
        let closing = (1..last).find(|&index| matches!(self.line(index).trim_end(), "---" | "..."));
        if let Some(closing) = closing {
            self.push(closing + 1, Kind::Code);
        }
    }

    /// Ends a block before line `end`.
    fn push(&mut self, end: usize, kind: Kind) {
        let first = self
            .lines
            .get(self.next)
            .map_or(self.text.len(), |line| line.start);
        let last = end.checked_sub(1).and_then(|last| self.lines.get(last));
        let range = trimmed(self.text, first..last.map_or(first, |line| line.end));
        self.before = match kind {
            Kind::Heading(_) => Before::Break,
            _ => Before::of(slice(self.text, range.clone())),
        };
        if !range.is_empty() {
            self.found.push(Block { range, kind });
        }
        self.next = end.max(self.next + 1);
    }

    fn block(&mut self) {
        let index = self.next;
        let line = self.line(index);
        if line.trim().is_empty() {
            self.before = Before::Break;
            self.next += 1;
        } else if let Some(fence) = Fence::open(line) {
            self.push(self.after_fence(index, fence), Kind::Code);
        } else if let Some(heading) = atx(line, self.domain) {
            self.push(index + 1, Kind::Heading(heading));
        } else if self.is_indented_code(index) {
            self.push(self.after_indented(index), Kind::Code);
        } else if let Some(heading) = self.domain_heading(index, self.before) {
            self.push_domain_heading(heading);
        } else if self.is_table(index) {
            self.table();
        } else if let Some(indent) = item_indent(line) {
            self.push(self.after_item(index, indent), Kind::Item);
        } else {
            self.paragraph();
        }
    }

    fn domain_heading(&self, index: usize, before: Before) -> Option<Heading> {
        domain::heading(self.domain, self.line(index), self.line(index + 1), before)
    }

    /// A heading that is only a number takes the next line as its title, if that looks like one.
    fn push_domain_heading(&mut self, mut heading: Heading) {
        let index = self.next;
        if heading.bare {
            let mut next = index + 1;
            if self.line(next).trim().is_empty() {
                next += 1;
            }
            let title = self.line(next).trim().trim_matches('*').trim();
            let plain = domain::is_title(title)
                && atx(self.line(next), self.domain).is_none()
                && self
                    .domain_heading(next, Before::Break)
                    .is_none_or(|heading| heading.number.is_none())
                && item_indent(self.line(next)).is_none();
            if plain {
                heading.title = format!("{} {title}", heading.title);
                self.push(next + 1, Kind::Heading(heading));
                return;
            }
        }
        self.push(index + 1, Kind::Heading(heading));
    }

    fn after_fence(&self, index: usize, fence: Fence) -> usize {
        let closing = (index + 1..self.lines.len()).find(|&at| fence.closes(self.line(at)));
        closing.map_or(self.lines.len(), |closing| closing + 1)
    }

    fn is_indented_code(&self, index: usize) -> bool {
        let after_item = matches!(self.found.last().map(|block| &block.kind), Some(Kind::Item));
        self.before == Before::Break && !after_item && indent(self.line(index)) >= 4
    }

    fn after_indented(&self, index: usize) -> usize {
        let mut end = index + 1;
        for at in index + 1..self.lines.len() {
            let line = self.line(at);
            if line.trim().is_empty() {
                continue;
            }
            if indent(line) < 4 {
                break;
            }
            end = at + 1;
        }
        end
    }

    fn is_table(&self, index: usize) -> bool {
        self.line(index).contains('|') && is_delimiter_row(self.line(index + 1))
    }

    fn table(&mut self) {
        let mut end = self.next + 2;
        while self.line(end).contains('|') {
            end += 1;
        }
        let rows = self
            .lines
            .get(self.next + 2)
            .map_or(self.text.len(), |line| line.start);
        self.push(end, Kind::Table { rows });
    }

    /// The line after a list item and its nested content.
    fn after_item(&self, index: usize, marker: usize) -> usize {
        let mut end = index + 1;
        let mut blank = false;
        let mut at = index + 1;
        while at < self.lines.len() {
            let line = self.line(at);
            if line.trim().is_empty() {
                blank = true;
                at += 1;
                continue;
            }
            let nested = indent(line) > marker;
            if !nested && (blank || self.interrupts(at)) {
                break;
            }
            at = match Fence::open(line.trim_start()) {
                Some(fence) if nested => self.after_fence(at, fence),
                _ => at + 1,
            };
            blank = false;
            end = at;
        }
        end
    }

    fn paragraph(&mut self) {
        let index = self.next;
        let mut end = index + 1;
        while end < self.lines.len() && !self.line(end).trim().is_empty() {
            if end == index + 1
                && let Some(level) = setext(self.line(end))
            {
                // Several lines could be a heading too, but rarely are.
                let heading = markdown_heading(level, self.line(index), self.domain);
                self.push(end + 1, Kind::Heading(heading));
                return;
            }
            if self.interrupts(end) {
                break;
            }
            end += 1;
        }
        self.push(end, Kind::Text);
    }

    /// Whether a block begins with this line without a preceding blank line.
    fn interrupts(&self, index: usize) -> bool {
        let line = self.line(index);
        let before = Before::of(self.line(index.saturating_sub(1)));
        Fence::open(line).is_some()
            || atx(line, self.domain).is_some()
            || item_indent(line).is_some()
            || self.is_table(index)
            || (self.domain != DocumentDomain::None
                && (clauses::labels(line).next().is_some() || self.domain_heading(index, before).is_some()))
    }
}

#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn open(line: &str) -> Option<Self> {
        let rest = line.trim_start_matches(' ');
        if line.len() - rest.len() > 3 {
            return None;
        }
        let mark = rest.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = rest.trim_start_matches(mark);
        let length = rest.len() - info.len();
        // Backticks later in the same line are inline code.
        (length >= 3 && !(mark == '`' && info.contains('`'))).then_some(Self { mark, length })
    }

    fn closes(self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|mark| mark == self.mark)
    }
}

/// Indentation in columns.
fn indent(line: &str) -> usize {
    let mut columns = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += 4 - columns % 4,
            _ => break,
        }
    }
    columns
}

fn atx(line: &str, domain: DocumentDomain) -> Option<Heading> {
    let rest = line.trim_start_matches(' ');
    if line.len() - rest.len() > 3 {
        return None;
    }
    let title = rest.trim_start_matches('#');
    let level = rest.len() - title.len();
    if !(1..=6).contains(&level) || !(title.is_empty() || title.starts_with([' ', '\t'])) {
        return None;
    }
    let title = title.trim();
    let closed = title.trim_end_matches('#');
    let title = if closed.is_empty() || closed.ends_with([' ', '\t']) {
        closed.trim_end()
    } else {
        title
    };
    Some(markdown_heading(level, title, domain))
}

fn setext(line: &str) -> Option<usize> {
    let rest = line.trim_end();
    let rest = rest.trim_start_matches(' ');
    let mark = rest.chars().next()?;
    let level = match mark {
        '=' => 1,
        '-' => 2,
        _ => return None,
    };
    (line.len() - line.trim_start_matches(' ').len() <= 3 && rest.chars().all(|other| other == mark))
        .then_some(level)
}

fn markdown_heading(level: usize, title: &str, domain: DocumentDomain) -> Heading {
    let title = title.trim().trim_matches(['*', '_']).trim();
    Heading {
        level,
        title: shortened(title, LONGEST_TITLE),
        number: number::of_title(title, domain),
        bare: false,
        runs_on: false,
    }
}

/// The column of a list item's marker.
fn item_indent(line: &str) -> Option<usize> {
    let rest = line.trim_start();
    let after = match rest.as_bytes().first()? {
        b'-' | b'*' | b'+' => rest.get(1..)?,
        b'0'..=b'9' => {
            let after = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if rest.len() - after.len() > 9 {
                return None;
            }
            after.strip_prefix(['.', ')'])?
        }
        _ => return None,
    };
    let thematic = after.len() >= 2 && after.bytes().all(|byte| matches!(byte, b'-' | b'*' | b' '));
    (after.starts_with([' ', '\t']) && !after.trim().is_empty() && !thematic).then(|| indent(line))
}

fn is_delimiter_row(line: &str) -> bool {
    let line = line.trim();
    line.contains('-')
        && line.contains('|')
        && line
            .bytes()
            .all(|byte| matches!(byte, b'-' | b'|' | b':' | b' ' | b'\t'))
}
