//! Lines of a page as headings, paragraphs and lists.

use std::collections::{BTreeMap, HashMap};

use super::{super::blocks::Block, letters::Line};

/// Which lines are headings.
#[derive(Debug, Default)]
pub(super) struct Headings {
    /// By their text, from the outline.
    titles: HashMap<String, usize>,
    /// By their size, in half points, largest first; the size of body text is excluded.
    sizes: Vec<u32>,
}

impl Headings {
    pub(super) fn of<'a>(outline: Vec<(usize, String)>, lines: impl Iterator<Item = &'a Line>) -> Self {
        const DEEPEST: usize = 4;
        let mut by_size: BTreeMap<u32, usize> = BTreeMap::new();
        for line in lines {
            *by_size.entry(half_points(line.size)).or_default() += line.text.len();
        }
        let usual = by_size.iter().max_by_key(|(_, length)| **length);
        let usual = usual.map_or(0, |(size, _)| *size);
        // A slightly larger size is not a heading.
        let larger = by_size
            .keys()
            .copied()
            .filter(|size| *size * 100 >= usual * 112 && *size > usual);
        let mut sizes: Vec<u32> = larger.collect();
        sizes.reverse();
        sizes.truncate(DEEPEST);
        let titles = outline.into_iter().map(|(level, title)| (key(&title), level));
        Self {
            titles: titles.collect(),
            sizes,
        }
    }

    /// The level of a line as a heading, from 1.
    fn level(&self, line: &Line) -> Option<usize> {
        const LONGEST: usize = 200;
        if let Some(level) = self.titles.get(&key(&line.text)) {
            return Some(*level);
        }
        let words = line.text.chars().any(char::is_alphabetic);
        if !words || line.text.len() > LONGEST || item(&line.text).is_some() {
            return None;
        }
        let size = half_points(line.size);
        let above = self.sizes.iter().position(|larger| *larger == size)?;
        Some(above + 1)
    }
}

fn half_points(size: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped just before"
    )]
    let size = (size * 2.0).round().clamp(0.0, 4000.0) as u32;
    size
}

/// Spaces and case are ignored when a line is compared with a title in the outline.
fn key(text: &str) -> String {
    text.split_whitespace().collect::<String>().to_lowercase()
}

pub(super) fn blocks(lines: &[Line], headings: &Headings) -> Vec<Block> {
    let spacing = usual_spacing(lines);
    let mut blocks: Vec<Block> = Vec::new();
    let mut previous: Option<(&Line, Option<usize>)> = None;
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        let rows = rows(rest);
        if rows.len() > 1 {
            rest = rest.get(rows.len()..).unwrap_or_default();
            blocks.push(Block::Table(rows));
            previous = None;
            continue;
        }
        rest = after;
        let level = headings.level(line);
        let continues = previous
            .is_some_and(|(before, before_level)| level == before_level && follows(before, line, spacing));
        previous = Some((line, level));
        match (blocks.last_mut(), item(&line.text)) {
            (Some(Block::Heading { text, .. } | Block::Paragraph(text) | Block::Item { text, .. }), None)
                if continues =>
            {
                join(text, &line.text);
            }
            (_, Some(text)) if level.is_none() => blocks.push(Block::Item {
                level: 0,
                mark: "-".to_owned(),
                text: text.to_owned(),
            }),
            _ => blocks.push(match level {
                Some(level) => Block::Heading {
                    level,
                    text: line.text.clone(),
                },
                None => Block::Paragraph(line.text.replace('\t', "  ")),
            }),
        }
    }
    blocks
}

/// The leading lines with the same number of columns, more than one, that are close together.
fn rows(lines: &[Line]) -> Vec<Vec<String>> {
    let columns = |line: &Line| line.text.split('\t').count();
    let Some(first) = lines
        .first()
        .filter(|line| columns(line) > 1 && item(&line.text).is_none())
    else {
        return Vec::new();
    };
    let mut before = first;
    lines
        .iter()
        .take_while(|line| {
            let near = before.y - line.y <= line.size * 4.0;
            before = line;
            near && columns(line) == columns(first)
        })
        .map(|line| line.text.split('\t').map(str::to_owned).collect())
        .collect()
}

/// The line distance within paragraphs.
fn usual_spacing(lines: &[Line]) -> f64 {
    let mut spacings: Vec<f64> = lines
        .windows(2)
        .filter_map(|pair| match pair {
            [above, below] if half_points(above.size) == half_points(below.size) => {
                let spacing = above.y - below.y;
                (below.size * 0.9..below.size * 2.2)
                    .contains(&spacing)
                    .then_some(spacing)
            }
            _ => None,
        })
        .collect();
    spacings.sort_by(f64::total_cmp);
    spacings.get(spacings.len() / 5).copied().unwrap_or_default()
}

/// Whether a line continues the paragraph of the previous line.
fn follows(before: &Line, line: &Line, spacing: f64) -> bool {
    let down = before.y - line.y;
    let same_size = half_points(before.size).abs_diff(half_points(line.size)) <= 1;
    let same_row = down.abs() < line.size * 0.5;
    let near = down > 0.0 && down <= (spacing * 1.25).max(line.size * 1.3) && down < line.size * 2.2;
    // An indented line starts a paragraph.
    same_size && (same_row || near && line.left < before.left + line.size)
}

/// Joins a line to those before it, and the parts of a hyphenated word.
fn join(text: &mut String, line: &str) {
    let divided = text.ends_with('-')
        && text.chars().rev().nth(1).is_some_and(char::is_alphabetic)
        && line.starts_with(char::is_lowercase);
    if divided {
        text.pop();
    } else {
        text.push(' ');
    }
    text.push_str(&line.replace('\t', "  "));
}

/// The text after a list marker, if the line begins with one.
fn item(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(['•', '▪', '◦', '‣', '·', '●', '○', '■', '\u{f0b7}'])?;
    Some(rest.trim_start()).filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, y: f64, size: f64) -> Line {
        Line {
            text: text.to_owned(),
            left: 50.0,
            y,
            size,
        }
    }

    #[test]
    fn lines_become_blocks() {
        let lines = [
            line("A Title", 700.0, 18.0),
            line("of two lines", 680.0, 18.0),
            line("Section", 650.0, 14.0),
            line("The first para-", 630.0, 10.0),
            line("graph continues", 618.0, 10.0),
            line("and on.", 606.0, 10.0),
            line("The second one.", 580.0, 10.0),
            line("• an item", 568.0, 10.0),
            line("known from the outline", 540.0, 10.0),
            line("Item\tPrice", 500.0, 10.0),
            line("Lamp\t20", 488.0, 10.0),
            line("Alone\ton its line", 440.0, 10.0),
        ];
        let headings = Headings::of(vec![(3, "Known from  the Outline".to_owned())], lines.iter());
        let mut text = String::new();
        super::super::blocks::write(&mut text, &blocks(&lines, &headings));
        insta::assert_snapshot!(text, @r"
        # A Title of two lines

        ## Section

        The first paragraph continues and on.

        The second one.

        - an item

        ### known from the outline

        | Item | Price |
        | --- | --- |
        | Lamp | 20 |

        Alone  on its line
        ");
    }
}
