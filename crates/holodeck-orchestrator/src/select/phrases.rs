//! Words and phrases: a text is a sequence of word numbers, and a phrase occurs in it only at word boundaries.

use std::collections::HashMap;

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// Phrases of more words never match: no person writes them, and comparing them could take long.
const LONGEST_PHRASE: usize = 16;

/// The number of a word in a [`Vocabulary`].
pub(super) type Word = u32;

/// A word of a task that no agent has.
const UNKNOWN: Word = Word::MAX;

/// The words of all agents.
#[derive(Clone, Debug, Default)]
pub(super) struct Vocabulary {
    words: HashMap<Box<str>, Word>,
}

impl Vocabulary {
    /// The phrase of a text; words that are new are added.
    pub(super) fn add(&mut self, text: &str) -> Phrase {
        let words = split(text).into_iter().map(|word| {
            let next = Word::try_from(self.words.len()).unwrap_or(UNKNOWN);
            *self.words.entry(word.into_boxed_str()).or_insert(next)
        });
        Phrase(words.collect())
    }

    /// A task by the numbers of its words.
    pub(super) fn read(&self, text: &str) -> TaskWords {
        let words: Vec<Word> = split(text)
            .iter()
            .map(|word| self.words.get(word.as_str()).copied().unwrap_or(UNKNOWN))
            .collect();
        let mut last = vec![None; self.words.len()];
        let mut before = Vec::with_capacity(words.len());
        for (at, word) in words.iter().enumerate() {
            let slot = last.get_mut(*word as usize);
            before.push(slot.and_then(|last: &mut Option<usize>| last.replace(at)));
        }
        TaskWords { words, last, before }
    }
}

/// The words of a text, in order. Empty if the text has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Phrase(pub(super) Box<[Word]>);

/// The words of a task, with the places of each.
#[derive(Clone, Debug)]
pub(super) struct TaskWords {
    words: Vec<Word>,
    /// For each word of the vocabulary, the last place where the task has it.
    last: Vec<Option<usize>>,
    /// For each place, the place before it with the same word.
    before: Vec<Option<usize>>,
}

impl TaskWords {
    pub(super) fn has_word(&self, word: Word) -> bool {
        self.last.get(word as usize).copied().flatten().is_some()
    }

    /// Whether the words of the phrase follow each other in the task.
    pub(super) fn has(&self, phrase: &Phrase) -> bool {
        let words = &*phrase.0;
        let Some(first) = words.first() else { return false };
        if words.len() == 1 {
            return self.has_word(*first);
        }
        if words.len() > LONGEST_PHRASE {
            return false;
        }
        let mut at = self.last.get(*first as usize).copied().flatten();
        while let Some(start) = at {
            if self.words.get(start..start + words.len()) == Some(words) {
                return true;
            }
            at = self.before.get(start).copied().flatten();
        }
        false
    }

    /// Whether the task has all words of the phrase, in any order.
    pub(super) fn has_all(&self, phrase: &Phrase) -> bool {
        !phrase.0.is_empty() && phrase.0.iter().all(|word| self.has_word(*word))
    }
}

/// The words of a text in lower case. A word is a sequence of letters and digits; `++` and `#` after one belong to it, as
/// in `C++`. Characters of scripts without spaces are words of their own.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = text.nfc().flat_map(char::to_lowercase).peekable();
    while let Some(character) = characters.next() {
        let is_suffix = !word.is_empty()
            && match character {
                '#' => characters.peek().is_none_or(|next| !next.is_alphanumeric()),
                '+' => word.ends_with('+') || characters.peek() == Some(&'+'),
                _ => false,
            };
        if is_unspaced(character) {
            finish(&mut word, &mut words);
            words.push(character.to_string());
        } else if character.is_alphanumeric()
            || is_suffix
            || (is_combining_mark(character) && !word.is_empty())
        {
            word.push(character);
        } else {
            finish(&mut word, &mut words);
        }
    }
    finish(&mut word, &mut words);
    words
}

fn finish(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

/// Whether a character belongs to a script that is written without spaces.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// The number of characters of each word, for rules about the length of words.
pub(super) fn long_words(text: &str, at_least: usize) -> Vec<String> {
    let mut words = split(text);
    words.retain(|word| word.chars().count() >= at_least);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(task: &str, phrase: &str) -> bool {
        let mut words = Vocabulary::default();
        let phrase = words.add(phrase);
        words.read(task).has(&phrase)
    }

    #[test]
    fn a_phrase_matches_only_whole_words() {
        for (task, phrase, expected) in [
            ("good morning", "go", false),
            ("let's go!", "go", true),
            ("Please REVIEW src/main.rs", "review", true),
            ("preview it", "review", false),
            ("a code review", "code review", true),
            ("code-review", "code review", true),
            ("review the code", "code review", false),
            ("code code review", "code review", true),
            ("Cargo.toml", "cargo", true),
            ("snake_case_name", "case", true),
            ("plan C", "C++", false),
            ("plan c++ work", "C++", true),
            ("a+b", "a", true),
            ("port it to C#.", "c#", true),
            ("fix issue#12", "issue", true),
            ("ÄRZTE suchen", "ärzte", true),
            ("a\u{0308}rzte", "ärzte", true),
            ("naïveté", "na", false),
            ("请做代码审查吧", "代码审查", true),
            ("代审码查", "代码审查", false),
            ("", "go", false),
            ("go", "", false),
            ("go", "--", false),
        ] {
            assert_eq!(has(task, phrase), expected, "{task:?} {phrase:?}");
        }
    }

    #[test]
    fn all_words_count_in_any_order() {
        let mut words = Vocabulary::default();
        let phrase = words.add("code review");
        assert!(words.read("review my code").has_all(&phrase));
        assert!(!words.read("review my coder").has_all(&phrase));
        assert!(!words.read("x").has_all(&Phrase::default()));
    }

    #[test]
    fn words_that_no_agent_has_match_nothing() {
        let mut words = Vocabulary::default();
        let phrase = words.add("a b");
        assert!(!words.read("x y z").has(&phrase));
        assert!(!words.read("a x").has(&phrase));
    }
}
