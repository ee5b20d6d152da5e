//! The terms of a text: its words as stems, with how much each says about a subject.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::LazyLock,
};

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use super::{phrases::split, stem::stem};

/// How much a term says about the subject of a task, in thousandths.
pub(super) type Weight = i64;

/// A term that few texts have.
pub(super) const RARE: Weight = 1_000;
/// A word of everyday life, beside the words of a trade.
const EVERYDAY: Weight = 700;
/// A word of every day with many meanings.
const COMMON: Weight = 550;
/// A word that most work has in common.
const WEAK: Weight = 400;

static LISTS: LazyLock<HashMap<String, Weight>> = LazyLock::new(|| {
    let mut lists = HashMap::new();
    let words = |text: &'static str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(str::split_whitespace)
    };
    lists.extend(words(include_str!("words/everyday.txt")).map(|word| (stem(word), EVERYDAY)));
    lists.extend(words(include_str!("words/common.txt")).map(|word| (stem(word), COMMON)));
    lists.extend(words(include_str!("words/weak.txt")).map(|word| (stem(word), WEAK)));
    lists
});

static STOP_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let lines = include_str!("words/stop.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .collect()
});

/// How much a term says.
pub(super) fn weight(term: &str) -> Weight {
    LISTS.get(term).copied().unwrap_or(RARE)
}

/// The words of a text in lower case without accents, in order.
fn folded(text: &str) -> impl Iterator<Item = String> {
    split(text).into_iter().map(|word| {
        if word.is_ascii() {
            return word;
        }
        let plain = word.nfd().filter(|letter| !is_combining_mark(*letter));
        plain.collect::<String>().replace('ß', "ss")
    })
}

fn says_something(word: &str) -> bool {
    let is_letter = word.len() == 1 && word.is_ascii();
    !STOP_WORDS.contains(word) && !is_letter
}

/// The terms of a text, each once.
pub(super) fn terms(text: &str) -> BTreeSet<String> {
    let words = folded(text).filter(|word| says_something(word));
    words.map(|word| stem(&word)).collect()
}

/// The terms of a text, and the stems of all its words.
pub(super) fn terms_and_stems(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut terms, mut stems) = (BTreeSet::new(), BTreeSet::new());
    for word in folded(text) {
        let stem = stem(&word);
        if says_something(&word) {
            terms.insert(stem.clone());
        }
        stems.insert(stem);
    }
    (terms, stems)
}

/// The stems of all words of a text, also of those that say nothing.
pub(super) fn stems(text: &str) -> BTreeSet<String> {
    folded(text).map(|word| stem(&word)).collect()
}

/// The first words of a text that say most about its subject, at most `count`, as they can be written in `triggers`.
pub(super) fn telling_words(text: &str, count: usize) -> Vec<String> {
    let words: Vec<String> = folded(text).filter(|word| says_something(word)).collect();
    let mut chosen: Vec<String> = Vec::new();
    for least in [RARE, EVERYDAY, COMMON, WEAK] {
        for word in &words {
            let is_word = word.chars().count() > 2 && !word.chars().all(char::is_numeric);
            if chosen.len() < count && is_word && weight(&stem(word)) >= least && !chosen.contains(word) {
                chosen.push(word.clone());
            }
        }
    }
    chosen
}

/// The sequences of three letters of a term, with its beginning and its end.
pub(super) fn trigrams(term: &str) -> BTreeSet<[char; 3]> {
    let letters: Vec<char> = ['^'].into_iter().chain(term.chars()).chain(['$']).collect();
    let windows = letters.windows(3);
    windows.filter_map(|window| window.try_into().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_accents_and_stop_words_do_not_matter() {
        let expected = terms("resume german");
        assert_eq!(terms("The RÉSUMÉS, in German!"), expected);
        assert_eq!(terms("Größe"), terms("groesse".replace("oe", "o").as_str()));
        assert!(terms("what is it, please?").is_empty());
    }

    #[test]
    fn rare_words_say_most() {
        assert_eq!(weight("kubernet"), RARE);
        assert_eq!(weight(&stem("umbrella")), EVERYDAY);
        assert_eq!(weight(&stem("table")), COMMON);
        assert_eq!(weight(&stem("write")), WEAK);
        assert_eq!(
            telling_words("write the Terraform module for the table", 2),
            ["terraform", "module"]
        );
        assert_eq!(telling_words("write it", 2), ["write"]);
    }
}
