//! Computes the labels of numbered paragraphs in Word documents, which store only list definitions.

use std::{cmp::Ordering, collections::HashMap};

use crate::{Format, Problem};

use super::super::xml::{Element, Step, Xml};

/// Number of levels in Word's lists.
const LEVELS: usize = 9;

/// List definitions and current counts.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    kinds: HashMap<String, [Level; LEVELS]>,
    lists: HashMap<String, List>,
    /// Lists with the same definition share their count.
    counts: HashMap<String, [Option<u32>; LEVELS]>,
}

#[derive(Clone, Debug, Default)]
struct Level {
    format: String,
    text: String,
    start: Option<u32>,
    /// All numbers in it are plain digits.
    legal: bool,
}

#[derive(Clone, Debug, Default)]
struct List {
    kind: String,
    restarts: [Option<u32>; LEVELS],
    begun: bool,
}

/// The label of a list paragraph.
pub(super) struct Mark {
    pub(super) text: String,
    pub(super) bullet: bool,
}

impl Mark {
    /// In Markdown's syntax; other labels are written as text.
    pub(super) fn in_markdown(self) -> String {
        let plain = self
            .text
            .strip_suffix('.')
            .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()));
        if self.bullet || self.text.is_empty() {
            "-".to_owned()
        } else if plain {
            self.text
        } else {
            format!("- {}", self.text)
        }
    }
}

impl Numbering {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut xml = Xml::new(bytes, Format::Docx);
        let mut numbering = Self::default();
        while let Some(step) = xml.step()? {
            let Step::Start(element) = step else { continue };
            match element.name() {
                "abstractNum" => {
                    let id = element.get("abstractNumId").unwrap_or_default();
                    let mut levels = Default::default();
                    read_levels(&mut xml, &mut levels, &mut 0)?;
                    numbering.kinds.insert(id, levels);
                }
                "num" => {
                    let id = element.get("numId").unwrap_or_default();
                    let mut list = List::default();
                    list.read(&mut xml, &mut 0)?;
                    numbering.lists.insert(id, list);
                }
                _ => {}
            }
        }
        Ok(numbering)
    }

    /// The label of the next paragraph of a list; `None` if there is no such list.
    pub(super) fn next(&mut self, list: &str, level: usize) -> Option<Mark> {
        let level = level.min(LEVELS - 1);
        let list = self.lists.get_mut(list)?;
        let levels = self.kinds.get(&list.kind)?;
        let counts = self.counts.entry(list.kind.clone()).or_default();
        if !list.begun {
            list.begun = true;
            for (count, restart) in counts.iter_mut().zip(&list.restarts) {
                if let Some(restart) = restart {
                    *count = restart.checked_sub(1);
                }
            }
        }
        let own = levels.get(level)?;
        for (at, count) in counts.iter_mut().enumerate() {
            let start = levels.get(at).and_then(|level| level.start).unwrap_or(1);
            *count = match at.cmp(&level) {
                Ordering::Equal => Some(count.map_or(start, |count| count.saturating_add(1))),
                Ordering::Greater => None,
                // A skipped level counts as started.
                Ordering::Less => Some(count.unwrap_or(start)),
            };
        }
        if own.format == "bullet" || own.format == "none" && own.text.is_empty() {
            return Some(Mark {
                text: String::new(),
                bullet: true,
            });
        }
        let mut text = own.text.clone();
        for (at, (count, level)) in counts.iter().zip(levels).enumerate() {
            let format = if own.legal {
                "decimal"
            } else {
                level.format.as_str()
            };
            if let Some(count) = count {
                text = text.replace(&format!("%{}", at + 1), &number(*count, format));
            }
        }
        Some(Mark { text, bullet: false })
    }
}

fn read_levels(xml: &mut Xml<'_>, levels: &mut [Level; LEVELS], at: &mut usize) -> Result<(), Problem> {
    while let Some(step) = xml.step()? {
        match step {
            Step::Start(element) => {
                if element.name() == "lvl" {
                    *at = level_of(&element);
                }
                if let Some(level) = levels.get_mut(*at) {
                    let value = element.get("val").unwrap_or_default();
                    match element.name() {
                        "start" => level.start = value.parse().ok(),
                        "numFmt" => level.format = value,
                        "lvlText" => level.text = value,
                        "isLgl" => level.legal = value != "0",
                        _ => {}
                    }
                }
                read_levels(xml, levels, at)?;
            }
            Step::End => return Ok(()),
            Step::Text(_) => {}
        }
    }
    Ok(())
}

impl List {
    fn read(&mut self, xml: &mut Xml<'_>, at: &mut usize) -> Result<(), Problem> {
        while let Some(step) = xml.step()? {
            match step {
                Step::Start(element) => {
                    match element.name() {
                        "abstractNumId" => self.kind = element.get("val").unwrap_or_default(),
                        "lvlOverride" => *at = level_of(&element),
                        "startOverride" => {
                            if let Some(restart) = self.restarts.get_mut(*at) {
                                *restart = element.get("val").and_then(|value| value.parse().ok());
                            }
                        }
                        _ => {}
                    }
                    self.read(xml, at)?;
                }
                Step::End => return Ok(()),
                Step::Text(_) => {}
            }
        }
        Ok(())
    }
}

fn level_of(element: &Element<'_>) -> usize {
    let level = element.get("ilvl").and_then(|level| level.parse().ok());
    level.unwrap_or_default()
}

fn number(count: u32, format: &str) -> String {
    match format {
        "lowerLetter" => letters(count).to_lowercase(),
        "upperLetter" => letters(count),
        "lowerRoman" => roman(count).to_lowercase(),
        "upperRoman" => roman(count),
        "decimalZero" => format!("{count:02}"),
        _ => count.to_string(),
    }
}

/// A to Z, then AA to ZZ.
fn letters(count: u32) -> String {
    let Some(count) = count.checked_sub(1) else {
        return String::new();
    };
    let letter = char::from(b'A' + u8::try_from(count % 26).unwrap_or_default());
    let times = (count / 26 + 1).min(8) as usize;
    std::iter::repeat_n(letter, times).collect()
}

fn roman(count: u32) -> String {
    const NUMERALS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if count >= 4000 {
        return count.to_string();
    }
    let mut rest = count;
    let mut text = String::new();
    for (value, numeral) in NUMERALS {
        while rest >= value {
            text.push_str(numeral);
            rest -= value;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<w:numbering xmlns:w="w">
        <w:abstractNum w:abstractNumId="1">
            <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="Article %1"/></w:lvl>
            <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:isLgl/><w:lvlText w:val="%1.%2."/></w:lvl>
            <w:lvl w:ilvl="2"><w:start w:val="3"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="(%3)"/></w:lvl>
        </w:abstractNum>
        <w:abstractNum w:abstractNumId="2"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="o"/></w:lvl></w:abstractNum>
        <w:num w:numId="5"><w:abstractNumId w:val="1"/></w:num>
        <w:num w:numId="6"><w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num>
        <w:num w:numId="7"><w:abstractNumId w:val="2"/></w:num>
    </w:numbering>"#;

    #[test]
    fn lists_are_counted_as_word_counts_them() {
        let mut numbering = Numbering::read(XML.as_bytes()).unwrap();
        let steps = [
            ("5", 0),
            ("5", 1),
            ("5", 1),
            ("5", 2),
            ("5", 2),
            ("5", 0),
            ("5", 2),
            ("6", 0),
            ("7", 0),
        ];
        let marks = steps.map(|(list, level)| numbering.next(list, level).unwrap().in_markdown());
        assert_eq!(
            marks,
            [
                "- Article I",
                "- 1.1.",
                "- 1.2.",
                "- (c)",
                "- (d)",
                "- Article II",
                "- (c)",
                "- Article VII",
                "-"
            ]
        );
        assert!(numbering.next("unknown", 0).is_none());
    }

    #[test]
    fn numbers_are_written_in_every_way() {
        assert_eq!(number(1994, "upperRoman"), "MCMXCIV");
        assert_eq!(number(28, "lowerLetter"), "bb");
        assert_eq!(number(0, "lowerLetter"), "");
        assert_eq!(number(7, "decimalZero"), "07");
    }
}
