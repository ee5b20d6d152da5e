//! The test cases of an agent, of which there may be a million.

use std::{borrow::Cow, collections::HashSet, fmt, ops::Range, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::TestCase;

/// The test cases of an agent, in the order of the file.
///
/// Most cases of a large file only ask one question. Of these *plain* cases only the places of their texts are stored, and
/// the case is made when it is needed.
#[derive(Clone, Default)]
pub struct Cases {
    /// The file with the texts of plain cases.
    text: Arc<str>,
    /// Their texts that are written otherwise in the file, with escapes or over several lines. Their offsets follow those of
    /// `text`.
    added: String,
    entries: Vec<Entry>,
    detailed: Vec<TestCase>,
}

#[derive(Clone, Copy)]
enum Entry {
    Plain(PlainCase),
    /// The place in `detailed`.
    Detailed(u32),
}

/// Where the texts of a case are that has nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a case with another field is not plain")]
pub struct PlainCase {
    /// `name`.
    pub name: TextRange,
    /// `input`.
    pub input: TextRange,
    /// `ground_truth`.
    pub ground_truth: TextRange,
}

/// A range of bytes of a text, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRange {
    start: u32,
    end: u32,
}

impl TextRange {
    /// No text.
    pub const ABSENT: Self = Self { start: 1, end: 0 };

    /// The bytes from `start` to before `end`.
    pub fn new(range: Range<u32>) -> Self {
        Self {
            start: range.start,
            end: range.end.max(range.start),
        }
    }

    /// The range in `text`; nothing if it is not one of characters.
    pub fn of(self, text: &str) -> Option<&str> {
        self.after(0, text)
    }

    /// The same, if the text begins at this offset.
    fn after(self, offset: usize, text: &str) -> Option<&str> {
        let at = |end: u32| (end as usize).checked_sub(offset);
        text.get(at(self.start)?..at(self.end)?)
    }
}

impl Cases {
    /// No cases yet; those that are plain have their texts in `text`.
    pub fn with_text(text: Arc<str>) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Reserves memory for this many more cases.
    pub fn reserve(&mut self, cases: usize) {
        self.entries.reserve_exact(cases);
    }

    /// Adds a case.
    pub fn push(&mut self, case: TestCase) {
        let place = u32::try_from(self.detailed.len()).unwrap_or(u32::MAX);
        self.detailed.push(case);
        self.entries.push(Entry::Detailed(place));
    }

    /// Adds a text of plain cases; nothing if there are too many.
    pub fn add_text(&mut self, text: &str) -> Option<TextRange> {
        let start = self.text.len() + self.added.len();
        let end = u32::try_from(start + text.len()).ok()?;
        self.added.push_str(text);
        Some(TextRange::new(u32::try_from(start).ok()?..end))
    }

    /// Adds a case that has only these texts.
    pub fn push_plain(&mut self, case: PlainCase) {
        self.entries.push(Entry::Plain(case));
    }

    /// Releases memory that was reserved for more cases.
    pub fn shrink_to_fit(&mut self) {
        self.added.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.detailed.shrink_to_fit();
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no case.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The case at this place in the file, counted from 0.
    pub fn get(&self, index: usize) -> Option<Cow<'_, TestCase>> {
        self.case(self.entries.get(index)?)
    }

    /// The name of the case at this place, if it has one.
    pub fn name(&self, index: usize) -> Option<&str> {
        match self.entries.get(index)? {
            Entry::Plain(plain) => self.text_at(plain.name),
            Entry::Detailed(place) => self.detailed.get(*place as usize)?.name.as_deref(),
        }
    }

    /// The cases, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, TestCase>> {
        self.entries.iter().filter_map(|entry| self.case(entry))
    }

    /// The names of the cases that have one, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        (0..self.len()).filter_map(|index| self.name(index))
    }

    /// The names that several cases have.
    pub fn repeated_names(&self) -> HashSet<&str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        let equal = names.windows(2).filter_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        });
        equal.collect()
    }

    /// The cases that are not plain, with their places in the file. Only these have metrics, files, turns or a user of
    /// their own.
    pub fn detailed(&self) -> impl Iterator<Item = (usize, &TestCase)> {
        let cases = self.entries.iter().enumerate();
        cases.filter_map(|(index, entry)| match entry {
            Entry::Detailed(place) => Some((index, self.detailed.get(*place as usize)?)),
            Entry::Plain(_) => None,
        })
    }

    /// The cases that are not plain.
    pub fn detailed_mut(&mut self) -> impl Iterator<Item = &mut TestCase> {
        self.detailed.iter_mut()
    }

    fn text_at(&self, range: TextRange) -> Option<&str> {
        let added = || range.after(self.text.len(), &self.added);
        range.of(&self.text).or_else(added)
    }

    fn case(&self, entry: &Entry) -> Option<Cow<'_, TestCase>> {
        match entry {
            Entry::Plain(plain) => {
                let text = |range| self.text_at(range).map(str::to_owned);
                Some(Cow::Owned(TestCase {
                    name: text(plain.name),
                    input: text(plain.input),
                    ground_truth: text(plain.ground_truth),
                    ..TestCase::default()
                }))
            }
            Entry::Detailed(place) => self.detailed.get(*place as usize).map(Cow::Borrowed),
        }
    }
}

impl FromIterator<TestCase> for Cases {
    fn from_iter<I: IntoIterator<Item = TestCase>>(cases: I) -> Self {
        let mut all = Self::default();
        cases.into_iter().for_each(|case| all.push(case));
        all
    }
}

impl fmt::Debug for Cases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Cases {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Cases {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<TestCase>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, end: u32) -> TextRange {
        TextRange::new(start..end)
    }

    /// `a` asks "q1"; a detailed case asks "q2" and runs twice; a case without a name asks "q1" and has a reference of two lines.
    fn cases() -> Cases {
        let mut cases = Cases::with_text("a q1 r1".into());
        cases.push_plain(PlainCase {
            name: range(0, 1),
            input: range(2, 4),
            ground_truth: range(5, 7),
        });
        cases.push(TestCase {
            name: Some("a".to_owned()),
            input: Some("q2".to_owned()),
            trials: Some(2),
            ..TestCase::default()
        });
        let reference = cases.add_text("two\nlines").unwrap();
        cases.push_plain(PlainCase {
            name: TextRange::ABSENT,
            input: range(2, 4),
            ground_truth: reference,
        });
        cases
    }

    #[test]
    fn plain_and_detailed_cases_are_read_alike() {
        let cases = cases();
        assert_eq!(cases.len(), 3);
        let first = cases.get(0).unwrap();
        assert_eq!(first.name.as_deref(), Some("a"));
        assert_eq!(first.input.as_deref(), Some("q1"));
        assert_eq!(first.ground_truth.as_deref(), Some("r1"));
        assert_eq!(cases.get(1).unwrap().trials, Some(2));
        let last = cases.get(2).unwrap();
        assert_eq!(
            (last.name.as_deref(), last.ground_truth.as_deref()),
            (None, Some("two\nlines"))
        );
        assert!(cases.get(3).is_none());
        assert_eq!(
            (cases.name(0), cases.name(1), cases.name(2)),
            (Some("a"), Some("a"), None)
        );
        let detailed: Vec<usize> = cases.detailed().map(|(index, _)| index).collect();
        assert_eq!(detailed, [1]);
    }

    #[test]
    fn a_name_of_a_plain_and_a_detailed_case_is_repeated() {
        assert_eq!(cases().repeated_names(), HashSet::from(["a"]));
    }

    #[test]
    fn they_are_written_as_a_list() {
        let cases = cases();
        let listed = serde_json::to_value(cases.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(serde_json::to_value(&cases).unwrap(), listed);
        let read: Cases = serde_json::from_value(listed.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), listed);
    }

    #[test]
    fn a_plain_case_takes_28_bytes() {
        assert_eq!(size_of::<Entry>(), 28);
    }
}
