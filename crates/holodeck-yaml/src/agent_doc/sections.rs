//! The sections of the text of a specialist agent, found by their headings.

use holodeck_model::FocusArea;

/// The sections that were found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sections {
    pub(super) triggers: Vec<String>,
    pub(super) mindset: Option<String>,
    pub(super) focus_areas: Vec<FocusArea>,
    pub(super) key_actions: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) will: Vec<String>,
    pub(super) will_not: Vec<String>,
    /// Everything else, without a heading of the first level at the top.
    pub(super) other: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Triggers,
    Mindset,
    FocusAreas,
    KeyActions,
    Outputs,
    Boundaries,
    Will,
    WillNot,
}

impl Section {
    /// The section of a heading; case, emphasis and a colon at its end do not matter.
    fn of(title: &str) -> Option<Self> {
        let title = plain(title).to_lowercase();
        Some(match title.as_str() {
            "triggers" => Self::Triggers,
            "behavioral mindset" | "behavioural mindset" | "mindset" => Self::Mindset,
            "focus areas" => Self::FocusAreas,
            "key actions" => Self::KeyActions,
            "outputs" => Self::Outputs,
            "boundaries" => Self::Boundaries,
            "will" => Self::Will,
            "will not" | "won't" => Self::WillNot,
            _ => return None,
        })
    }

    fn is_boundary(self) -> bool {
        matches!(self, Self::Boundaries | Self::Will | Self::WillNot)
    }
}

/// Reads the sections of a text with LF line ends.
pub(super) fn read(body: &str) -> Sections {
    let mut sections = Sections::default();
    let mut mindset = String::new();
    let mut other = String::new();
    // The section at this place and the level of its heading.
    let mut current: Option<(Section, usize)> = None;
    let mut code_fence: Option<&str> = None;
    for (at, line) in body.lines().enumerate() {
        if let Some(fence) = code_fence {
            if line.trim() == fence {
                code_fence = None;
            }
        } else {
            code_fence = fence_of(line);
            if let Some((level, title)) = heading(line) {
                let section = Section::of(title);
                let inside = current.filter(|(_, outer)| level > *outer);
                let is_part = |section: Section| {
                    matches!(section, Section::Will | Section::WillNot)
                        && inside.is_some_and(|(outer, _)| outer.is_boundary())
                };
                match section {
                    Some(section) if is_part(section) => {
                        // `Will` and `Will Not` are of one level below `Boundaries`.
                        current = inside.map(|(_, outer)| (section, outer));
                        continue;
                    }
                    Some(section)
                        if !matches!(section, Section::Will | Section::WillNot) && inside.is_none() =>
                    {
                        current = Some((section, level));
                        continue;
                    }
                    _ if inside.is_none() => {
                        current = None;
                        if level == 1 && at == 0 {
                            continue;
                        }
                    }
                    _ => {}
                }
            }
        }
        let Some((section, level)) = current else {
            other.push_str(line);
            other.push('\n');
            continue;
        };
        if section.is_boundary() && code_fence.is_none() {
            // `**Will:**`, as a line or before an item.
            if let Some((part, rest)) = boundary_label(line) {
                current = Some((part, level));
                if !rest.is_empty() {
                    sections.add(part, rest);
                }
                continue;
            }
        }
        if section == Section::Mindset {
            mindset.push_str(line);
            mindset.push('\n');
        } else {
            sections.add(section, line);
        }
    }
    sections.mindset = Some(mindset.trim().to_owned()).filter(|text| !text.is_empty());
    other.trim().clone_into(&mut sections.other);
    sections
}

impl Sections {
    fn add(&mut self, section: Section, line: &str) {
        let Some((text, is_item)) = item(line) else { return };
        if section == Section::Triggers {
            let words = text.split([',', ';']).map(plain).filter(|word| !word.is_empty());
            self.triggers.extend(words.map(str::to_owned));
            return;
        }
        if section == Section::FocusAreas {
            self.focus_areas.push(focus_area(text));
            return;
        }
        let list = match section {
            Section::KeyActions => &mut self.key_actions,
            Section::Outputs => &mut self.outputs,
            Section::Will => &mut self.will,
            Section::WillNot => &mut self.will_not,
            _ => return,
        };
        match list.last_mut() {
            // A line that continues an item.
            Some(last) if !is_item && line.starts_with([' ', '\t']) => {
                last.push(' ');
                last.push_str(text);
            }
            _ => list.push(text.to_owned()),
        }
    }
}

/// The name of an area before a colon or a dash, and its keywords between commas after it.
fn focus_area(text: &str) -> FocusArea {
    let cut = [":", " - ", " – ", " — "];
    let found = cut
        .iter()
        .filter_map(|mark| text.split_once(mark))
        .min_by_key(|(name, _)| name.len());
    let (name, rest) = found.unwrap_or((text, ""));
    let keywords = rest
        .split([',', ';'])
        .map(|word| plain(word).trim_end_matches('.').trim());
    FocusArea {
        name: plain(name).to_owned(),
        keywords: keywords
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect(),
    }
}

/// The level and the title of a heading such as `## Triggers`.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = line.get(level..)?;
    if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    Some((level, rest.trim().trim_end_matches('#').trim()))
}

/// The marker of a fenced code block that begins in this line.
fn fence_of(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence))
}

/// The text of a list item or of another line that is not blank, and whether it is an item.
fn item(line: &str) -> Option<(&str, bool)> {
    let line = line.trim();
    let bullet = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = line.get(digits..).filter(|_| digits > 0);
    let numbered = numbered.and_then(|rest| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")));
    let (text, is_item) = match bullet.or(numbered) {
        Some(text) => (text.trim(), true),
        None => (line, false),
    };
    (!text.is_empty() && text.chars().any(char::is_alphanumeric)).then_some((text, is_item))
}

/// `**Will:** rest` or `Will Not:`.
fn boundary_label(line: &str) -> Option<(Section, &str)> {
    let (text, is_item) = item(line)?;
    let (label, rest) = match text.split_once(':') {
        Some((label, rest)) => (label, rest.trim_start_matches(['*', '_', ' '])),
        None if !is_item && text.starts_with(['*', '_']) => (text, ""),
        None => return None,
    };
    let section = Section::of(label)?;
    matches!(section, Section::Will | Section::WillNot).then_some((section, rest))
}

/// A text without emphasis, quotes and a colon around it.
fn plain(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || "*_`\"'“”:".contains(character))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const BODY: &str = "# Code Reviewer

Reviews things.

## TRIGGERS
- code review, \"pull request\"
- `diff`

## Behavioral Mindset
Read first.
Judge later.

## Focus Areas:
- **Correctness**: logic, edge cases.
- Style

## Key Actions
1. **Read** the diff
   and its tests
2) Report

## Outputs
- A report

## Boundaries
**Will:**
- Comment
**Will Not:**
- Merge: never

## Notes
```
## Outputs
- not an output
```
";

    #[test]
    fn sections_are_read() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let sections = read(BODY);
        assert_eq!(sections.triggers, texts(&["code review", "pull request", "diff"]));
        assert_eq!(sections.mindset.as_deref(), Some("Read first.\nJudge later."));
        let names: Vec<_> = sections
            .focus_areas
            .iter()
            .map(|area| (&*area.name, area.keywords.len()))
            .collect();
        assert_eq!(names, [("Correctness", 2), ("Style", 0)]);
        assert_eq!(
            sections.key_actions,
            texts(&["**Read** the diff and its tests", "Report"])
        );
        assert_eq!(sections.outputs, texts(&["A report"]));
        assert_eq!(sections.will, texts(&["Comment"]));
        assert_eq!(sections.will_not, texts(&["Merge: never"]));
        assert_eq!(
            sections.other,
            "Reviews things.\n\n## Notes\n```\n## Outputs\n- not an output\n```"
        );
    }

    #[test]
    fn boundaries_may_be_headings() {
        let sections = read("## Boundaries\n### Will\n- a\n### Will not\n- b\n\n## Will\n- text\n");
        assert_eq!(sections.will, ["a"]);
        assert_eq!(sections.will_not, ["b"]);
        assert_eq!(sections.other, "## Will\n- text");
    }

    #[test]
    fn text_without_sections_is_kept() {
        assert_eq!(read("You are a reviewer.\n").other, "You are a reviewer.");
        assert_eq!(read(""), Sections::default());
    }
}
