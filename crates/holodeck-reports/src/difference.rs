//! Compares an answer with the expected one, line by line.

use std::borrow::Cow;

use similar::{ChangeTag, TextDiff};

use crate::format;

/// Longer answers are cut before they are compared: a person could not read a longer difference.
const COMPARED_CHARS: usize = 4_000;

/// An answer that is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The expected answer of the YAML.
    pub expected: Cow<'a, str>,
    /// Whether the answer only has to contain it.
    pub is_part: bool,
    /// The actual answer of the agent.
    pub actual: &'a str,
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// Where the line is.
    pub side: DiffSide,
    /// The line.
    pub text: String,
}

/// Where a line of a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a line is in one text or in both")]
pub enum DiffSide {
    /// Only in what is expected.
    Expected,
    /// Only in the answer.
    Got,
    /// In both.
    Both,
}

impl DiffSide {
    /// The word in front of the line.
    pub fn label(self) -> &'static str {
        match self {
            Self::Expected => "expected",
            Self::Got => "got",
            Self::Both => "",
        }
    }
}

impl DiffLine {
    fn new(side: DiffSide, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { side, text }
    }

    /// The line with its label in front, in a column of its own.
    pub fn labelled(&self) -> String {
        format!("{:<8}  {}", self.side.label(), self.text)
    }
}

impl Difference<'_> {
    /// Whether only the beginning of the answer is compared.
    pub fn is_clipped(&self) -> bool {
        self.actual.chars().nth(COMPARED_CHARS).is_some()
    }

    /// All lines, the expected ones before those of the answer.
    fn all_lines(&self) -> Vec<DiffLine> {
        let texts = [&*self.expected, self.actual].map(|text| {
            let text = format::clip(text.trim_end(), COMPARED_CHARS);
            format::printable(&text).into_owned()
        });
        let [expected, actual] = &texts;
        if actual.is_empty() {
            let lines = expected
                .lines()
                .map(|line| DiffLine::new(DiffSide::Expected, line));
            let nothing = DiffLine::new(DiffSide::Got, "(empty answer)");
            return lines.chain([nothing]).collect();
        }
        let lines = TextDiff::from_lines(expected.as_str(), actual.as_str());
        let lines = lines.iter_all_changes().map(|change| {
            let side = match change.tag() {
                ChangeTag::Delete => DiffSide::Expected,
                ChangeTag::Insert => DiffSide::Got,
                ChangeTag::Equal => DiffSide::Both,
            };
            DiffLine::new(side, change.to_string_lossy().trim_end_matches(['\n', '\r']))
        });
        lines.collect()
    }

    /// The lines in groups. The middle of a long group of unchanged lines is a separate group, marked by `true`, that a
    /// report can collapse.
    pub fn runs(&self) -> Vec<(bool, Vec<DiffLine>)> {
        let mut runs = vec![(false, Vec::new())];
        let lines = self.all_lines();
        let mut rest = lines.as_slice();
        while let Some(first) = rest.first() {
            let both = first.side == DiffSide::Both;
            let same = |line: &&DiffLine| (line.side == DiffSide::Both) == both;
            let (run, after) = rest.split_at(rest.iter().take_while(same).count());
            // At the ends of the text, no changed line needs context.
            let before = if rest.len() == lines.len() { 0 } else { CONTEXT };
            let behind = if after.is_empty() { 0 } else { CONTEXT };
            let middle = before..run.len().saturating_sub(behind);
            if both && middle.len() > 1 {
                let (head, tail) = run.split_at(middle.end);
                let (head, skipped) = head.split_at(before);
                if let Some((_, shown)) = runs.last_mut() {
                    shown.extend_from_slice(head);
                }
                runs.push((true, skipped.to_vec()));
                runs.push((false, tail.to_vec()));
            } else if let Some((_, shown)) = runs.last_mut() {
                shown.extend_from_slice(run);
            }
            rest = after;
        }
        runs.retain(|(_, lines)| !lines.is_empty());
        runs
    }

    /// The changed lines with context, and the number of omitted lines between them.
    pub fn lines(&self) -> Vec<DiffLine> {
        let runs = self.runs().into_iter().flat_map(|(unchanged, lines)| {
            if unchanged {
                vec![DiffLine::new(
                    DiffSide::Both,
                    format!("… {} unchanged lines", lines.len()),
                )]
            } else {
                lines
            }
        });
        runs.collect()
    }
}

/// The words of both texts in their order, with the space between them; words of one side together.
pub(crate) fn words(difference: &Difference<'_>) -> Vec<(DiffSide, String)> {
    let texts = [&*difference.expected, difference.actual]
        .map(|text| format::printable(&format::clip(text.trim_end(), COMPARED_CHARS)).into_owned());
    let [expected, actual] = &texts;
    let mut parts: Vec<(DiffSide, String)> = Vec::new();
    for change in TextDiff::from_words(expected.as_str(), actual.as_str()).iter_all_changes() {
        let side = match change.tag() {
            ChangeTag::Delete => DiffSide::Expected,
            ChangeTag::Insert => DiffSide::Got,
            ChangeTag::Equal => DiffSide::Both,
        };
        let text = change.to_string_lossy();
        match parts.last_mut() {
            Some((last, part)) if *last == side => part.push_str(&text),
            _ => parts.push((side, text.into_owned())),
        }
    }
    parts
}

/// The number of unchanged lines shown around a changed one.
const CONTEXT: usize = 2;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn lines(expected: &str, actual: &str) -> Vec<String> {
        let difference = Difference {
            expected: expected.into(),
            is_part: false,
            actual,
        };
        difference.lines().iter().map(DiffLine::labelled).collect()
    }

    #[test]
    fn lines_say_expected_and_got() {
        assert_eq!(
            lines("a\nb\n", "a\nc"),
            ["          a", "expected  b", "got       c"]
        );
        assert_eq!(lines("b", ""), ["expected  b", "got       (empty answer)"]);
        assert_eq!(
            lines("b", "\u{1b}[31mb"),
            ["expected  b", "got       \\u{1b}[31mb"]
        );
    }

    #[test]
    fn unchanged_lines_are_collapsed() {
        let before: String = (1..=20)
            .flat_map(|line| [line.to_string(), "\n".to_owned()])
            .collect();
        let after = before.replace("10\n", "ten\n");
        assert_eq!(
            lines(&before, &after),
            [
                "          … 7 unchanged lines",
                "          8",
                "          9",
                "expected  10",
                "got       ten",
                "          11",
                "          12",
                "          … 8 unchanged lines",
            ]
        );
        // A single line takes no more space than the note that replaces it.
        assert_eq!(lines("a\nb", "a\nc").len(), 3);
    }
}
