//! Paragraphs, written as Markdown.

/// A block of text.
#[derive(Debug)]
pub(super) enum Block {
    Heading {
        level: usize,
        text: String,
    },
    Paragraph(String),
    Item {
        level: usize,
        mark: String,
        text: String,
    },
    Table(Vec<Vec<String>>),
}

impl Block {
    fn is_item(&self) -> bool {
        matches!(self, Self::Item { .. })
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Heading { text, .. } | Self::Paragraph(text) | Self::Item { text, .. } => {
                text.trim().is_empty()
            }
            Self::Table(rows) => rows.iter().flatten().all(|cell| cell.trim().is_empty()),
        }
    }
}

/// Appends blocks separated by a blank line, but not between the items of a list.
pub(super) fn write(out: &mut String, blocks: &[Block]) {
    let mut after_item = false;
    for block in blocks.iter().filter(|block| !block.is_empty()) {
        if !(out.is_empty() || after_item && block.is_item()) {
            out.push('\n');
        }
        after_item = block.is_item();
        match block {
            Block::Heading { level, text } => {
                out.push_str(&"#".repeat((*level).clamp(1, 6)));
                out.push(' ');
                out.push_str(&one_line(text));
                out.push('\n');
            }
            Block::Paragraph(text) => {
                for line in text.trim().lines() {
                    // Escapes what would look like a heading.
                    if line.starts_with('#') {
                        out.push('\\');
                    }
                    out.push_str(line.trim_end());
                    out.push('\n');
                }
            }
            Block::Item { level, mark, text } => {
                out.push_str(&"   ".repeat((*level).min(8)));
                out.push_str(mark);
                out.push(' ');
                out.push_str(&one_line(text));
                out.push('\n');
            }
            Block::Table(rows) => super::table::write(out, rows),
        }
    }
}

/// All text in one line, as in a table cell.
pub(super) fn flat(blocks: &[Block]) -> String {
    let mut parts = Vec::new();
    for block in blocks {
        match block {
            Block::Heading { text, .. } | Block::Paragraph(text) => parts.push(one_line(text)),
            Block::Item { mark, text, .. } => parts.push(format!("{mark} {}", one_line(text))),
            Block::Table(rows) => parts.extend(rows.iter().flatten().map(|cell| one_line(cell))),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
