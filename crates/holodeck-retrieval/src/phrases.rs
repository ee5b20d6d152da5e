//! Exact phrases, and section numbers as numbers.

use unicode_normalization::UnicodeNormalization as _;

/// A literal phrase, compared without regard to letter case, width of white space or Unicode composition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phrase(String);

impl Phrase {
    /// `None` if nothing would be left to search for.
    pub(crate) fn new(phrase: &str) -> Option<Self> {
        let folded = fold(phrase);
        (!folded.is_empty()).then_some(Self(folded))
    }

    /// The phrase in folded form.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Words that every text with this phrase contains, however it is tokenized. Possibly none.
    pub(crate) fn plain_words(&self) -> impl Iterator<Item = &str> {
        words(&self.0).filter(|word| word.is_ascii())
    }

    /// Number of occurrences in a folded text.
    pub(crate) fn count(&self, folded: &str) -> usize {
        let found = folded.match_indices(self.0.as_str());
        found.filter(|(at, _)| self.is_delimited(folded, *at)).count()
    }

    /// Total number of occurrences in a folded text; `None` unless each phrase occurs.
    pub(crate) fn count_all(phrases: &[Self], folded: &str) -> Option<usize> {
        let counts = phrases.iter().map(|phrase| phrase.count(folded));
        let total = counts
            .map(|count| (count > 0).then_some(count))
            .sum::<Option<usize>>();
        total.filter(|total| *total > 0)
    }

    /// `4.2` does not occur in `14.2`, `4.25` or `4.2.1`; `refund` does not occur in `refunds`.
    fn is_delimited(&self, folded: &str, at: usize) -> bool {
        let mut before = folded.get(..at).unwrap_or_default().chars().rev();
        let mut after = folded.get(at + self.0.len()..).unwrap_or_default().chars();
        let (first, last) = (self.0.chars().next(), self.0.chars().next_back());
        is_boundary(first, before.next(), before.next()) && is_boundary(last, after.next(), after.next())
    }
}

/// Whether a phrase that ends with `end` ends at a boundary when `next` and `over` follow.
fn is_boundary(end: Option<char>, next: Option<char>, over: Option<char>) -> bool {
    let (Some(end), Some(next)) = (end, next) else {
        return true;
    };
    if !is_word(end) {
        return true;
    }
    let digit = |c: char| c.is_ascii_digit();
    let number_continues = digit(end) && matches!(next, '.' | '-') && over.is_some_and(digit);
    !is_word(next) && !number_continues
}

/// Lowercase, composed, with single spaces.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        if word.is_ascii() {
            folded.extend(word.chars().map(|c| c.to_ascii_lowercase()));
        } else {
            folded.extend(
                word.nfc()
                    .flat_map(char::to_lowercase)
                    .nfc()
                    .map(|c| if c == 'ς' { 'σ' } else { c }),
            );
        }
    }
    folded
}

/// The words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// Letters, digits and private-use characters.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

#[cfg(test)]
mod tests {
    use super::{Phrase, fold};

    fn count(phrase: &str, text: &str) -> usize {
        Phrase::new(phrase).unwrap().count(&fold(text))
    }

    #[test]
    fn words_are_whole_and_case_is_nothing() {
        assert_eq!(count("Thirty Days", "within thirty  days of\nTHIRTY\tDAYS"), 2);
        assert_eq!(count("refund", "no refunds, prefund"), 0);
        assert_eq!(count("refund", "Refund."), 1);
        assert_eq!(count("ÜBER uns", "Über uns, u\u{308}ber UNS"), 2);
        assert_eq!(count("ΟΔΟΣ", "οδος"), 1);
        assert_eq!(count("c++", "in C++ and c"), 1);
        assert_eq!(Phrase::new(" \n"), None);
    }

    #[test]
    fn numbers_are_whole() {
        assert_eq!(count("4.2", "see 4.2, (4.2) and 4.2."), 3);
        assert_eq!(count("4.2", "14.2 4.25 4.2.1 1.4.2 3-4.2"), 0);
        assert_eq!(count("§ 7", "§ 7 and § 70"), 1);
        assert_eq!(count("12(b)", "section 12(b)(1) or 112(b)"), 1);
    }
}
