//! The words of a task, and how much each counts: the name of a command says what is to be done, the name of a file only
//! what it is done to.

use std::collections::{BTreeMap, BTreeSet};

use crate::select::{
    PLAIN_COMMAND, SelectionTask,
    terms::{self, RARE, Weight},
};

/// How much a word counts that only names of files have.
const FILE_NAME: Weight = 300;
/// How much a word of the command counts.
const COMMAND: Weight = 2_000;

/// Suffixes of products that are no files: `Node.js`, `ASP.NET`.
const PRODUCTS: [&str; 2] = ["js", "net"];

/// The words of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskWords {
    /// The terms, each with how much it counts, in thousandths.
    pub(super) terms: BTreeMap<String, Weight>,
    /// The stems of all words, also of those that say nothing.
    pub(super) stems: BTreeSet<String>,
}

impl TaskWords {
    /// The words of the text and of the command. `run` is no command that a person named.
    pub(super) fn new(task: &SelectionTask) -> Self {
        let mut words = Self::default();
        let (files, plain): (Vec<&str>, Vec<&str>) =
            task.text.split_whitespace().partition(|word| is_file_name(word));
        words.add(&files.join(" "), FILE_NAME);
        words.add(&plain.join(" "), RARE);
        let command = task.command.trim();
        if !command.eq_ignore_ascii_case(PLAIN_COMMAND) {
            words.add(command, COMMAND);
        }
        words
    }

    fn add(&mut self, text: &str, weight: Weight) {
        let (terms, stems) = terms::terms_and_stems(text);
        for term in terms {
            let known = self.terms.entry(term).or_default();
            *known = weight.max(*known);
        }
        self.stems.extend(stems);
    }
}

/// Whether a word is the name of a file: it ends with a dot and a suffix.
fn is_file_name(word: &str) -> bool {
    let word = word.trim_matches(|character: char| !character.is_alphanumeric());
    let Some((before, suffix)) = word.rsplit_once('.') else {
        return false;
    };
    let is_suffix = (1..=5).contains(&suffix.len())
        && suffix.starts_with(|first: char| first.is_ascii_alphabetic())
        && suffix.chars().all(|letter| letter.is_ascii_alphanumeric());
    let is_product = PRODUCTS
        .iter()
        .any(|product| suffix.eq_ignore_ascii_case(product));
    // `e.g.` is none.
    is_suffix && before.len() > 1 && !word.contains("://") && (before.contains('/') || !is_product)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_known() {
        for name in [
            "src/invoice/rounding.py",
            "`Cargo.toml`,",
            "menu.de.json",
            "(README.md)",
            "lib/main.js",
            "\"TABLE.CSV\"",
        ] {
            assert!(is_file_name(name), "{name}");
        }
        for word in [
            "e.g.",
            "Node.js",
            "ASP.NET",
            "3.4",
            "CI/CD",
            "and/or",
            "done.",
            "/projects",
            "https://example.com/index.html",
            "...",
            "",
        ] {
            assert!(!is_file_name(word), "{word}");
        }
    }

    #[test]
    fn the_command_counts_most_and_the_name_of_a_file_least() {
        let words = |text: &str, command: &str| {
            let task = SelectionTask {
                text: text.to_owned(),
                command: command.to_owned(),
                ..SelectionTask::default()
            };
            TaskWords::new(&task).terms
        };
        let found = words("invoice.py table", "review");
        assert_eq!(found.get("invoic"), Some(&FILE_NAME));
        assert_eq!(found.get("tabl"), Some(&RARE));
        assert_eq!(found.get("review"), Some(&COMMAND));
        assert_eq!(
            words("invoice.py has an invoice", " RUN ").get("invoic"),
            Some(&RARE)
        );
        assert!(words("", "run").is_empty());
    }
}
