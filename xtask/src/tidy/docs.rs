//! Rules for doc comments: each file begins with its purpose, and no sentence begins with a nominal "What".

use super::place::Place;
use super::{crate_of, is_rust};
use crate::workspace::File;

/// Words that say nothing about one module rather than another.
const EMPTY_WORDS: &[&str] = &[
    "a",
    "all",
    "an",
    "and",
    "are",
    "as",
    "be",
    "by",
    "code",
    "contain",
    "contains",
    "crate",
    "define",
    "defines",
    "definition",
    "definitions",
    "every",
    "file",
    "files",
    "for",
    "from",
    "function",
    "functions",
    "has",
    "helper",
    "helpers",
    "here",
    "holodeck",
    "how",
    "implement",
    "implementation",
    "implements",
    "in",
    "is",
    "it",
    "its",
    "module",
    "modules",
    "of",
    "on",
    "or",
    "provide",
    "provides",
    "related",
    "some",
    "stuff",
    "test",
    "tests",
    "that",
    "the",
    "things",
    "this",
    "to",
    "type",
    "types",
    "use",
    "used",
    "various",
    "what",
    "when",
    "which",
    "with",
];

/// A sentence with fewer words that say something is no description.
const FEWEST_WORDS: usize = 3;

/// Files of the crates whose first lines do not say what the module is responsible for.
pub(super) fn missing(files: &[File]) -> Vec<Place> {
    let rust = rust_of_crates(files);
    rust.filter_map(|(path, text)| {
        let what = problem(path, text)?;
        Some(Place::new(path, 1, what))
    })
    .collect()
}

/// The lines of doc comments that begin with "What" and are no question.
pub(super) fn nominal_what(files: &[File]) -> Vec<Place> {
    let mut found = Vec::new();
    for (path, text) in rust_of_crates(files) {
        for (line, at) in text.lines().zip(1..) {
            let line = line.trim();
            let doc = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
            if doc.is_some_and(|doc| doc.starts_with("What ") && !doc.ends_with('?')) {
                found.push(Place::new(path, at, line));
            }
        }
    }
    found
}

fn rust_of_crates(files: &[File]) -> impl Iterator<Item = (&str, &str)> {
    let rust = files.iter().filter(|file| is_rust(&file.path));
    rust.filter(|file| crate_of(&file.path).is_some())
        .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
}

fn problem(path: &str, text: &str) -> Option<&'static str> {
    // The docs of a crate may be its README, of which there is a rule already.
    if text.starts_with("#![doc = include_str!(\"../README.md\")]") {
        return None;
    }
    let docs: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let paragraph = docs
        .split(|line| line.trim().is_empty())
        .next()
        .unwrap_or_default();
    if paragraph.is_empty() {
        return Some("does not begin with `//!`");
    }
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split(". ").next().unwrap_or_default();
    let names = words(path);
    let sentence: Vec<String> = words(sentence)
        .into_iter()
        .filter(|word| !EMPTY_WORDS.contains(&word.as_str()))
        .collect();
    if sentence
        .iter()
        .all(|word| names.iter().any(|name| is_same(name, word)))
    {
        return Some("its first sentence only repeats the name");
    }
    (sentence.len() < FEWEST_WORDS).then_some("its first sentence says too little")
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 1)
        .map(str::to_lowercase)
        .collect()
}

/// Whether two words are forms of one: "parse", "parser" and "parsing".
fn is_same(one: &str, other: &str) -> bool {
    fn stem(word: &str) -> &str {
        let ends = ["ings", "ing", "ers", "er", "ed", "es", "s", "e"];
        let short = ends.iter().find_map(|end| word.strip_suffix(end));
        short.filter(|short| short.len() > 2).unwrap_or(word)
    }
    stem(one) == stem(other)
}

#[cfg(test)]
mod tests {
    use super::{missing, nominal_what};
    use crate::workspace::File;

    fn file(path: &str, text: &str) -> [File; 1] {
        [File {
            path: path.to_owned(),
            text: Some(text.to_owned()),
        }]
    }

    fn is_missing(path: &str, text: &str) -> bool {
        !missing(&file(path, text)).is_empty()
    }

    #[test]
    fn a_file_without_a_purpose_is_found() {
        let path = "crates/holodeck-turn/src/a/parser.rs";
        for text in [
            "",
            "use a::B;\n",
            "\n//! Reads agent files with their layers.\n",
            "// Reads agent files with their layers.\n",
            "//!\n//! Reads agent files with their layers.\n",
            "/// Reads agent files with their layers.\n",
        ] {
            assert!(is_missing(path, text), "{text}");
        }
        assert!(!is_missing(path, "//! Reads agent files with their layers.\n"));
        assert!(!is_missing("docs/x.rs", ""));
    }

    #[test]
    fn a_sentence_that_repeats_the_name_is_none() {
        let path = "crates/holodeck-turn/src/answer_format/parser.rs";
        for text in [
            "//! Parser.\n",
            "//! The parser of answer formats.\n",
            "//! This module contains functions for parsing.\n",
            "//! The parser for the turn's answer format. Reads files with their layers and places.\n",
            "//! A parser for\n//! answer formats\n",
            "//! Parses schemas.\n",
        ] {
            assert!(is_missing(path, text), "{text}");
        }
        assert!(!is_missing(
            path,
            "//! Parses the schema that an answer must have.\n"
        ));
        assert!(is_missing(
            "crates/x/src/parser/tests.rs",
            "//! Tests of the parser.\n"
        ));
    }

    #[test]
    fn a_crate_may_be_described_by_its_readme() {
        let path = "crates/x/src/lib.rs";
        assert!(!is_missing(path, "#![doc = include_str!(\"../README.md\")]\n"));
        assert!(is_missing(path, "#![doc = include_str!(\"other.md\")]\n"));
    }

    #[test]
    fn lines_that_begin_with_a_nominal_what_are_found() {
        let lines = [
            "//! What it is.",
            "/// What a turn came to.",
            "    /// What it costs, per",
            "    /// token. What",
            "/// What is it?",
            "/// Whatever.",
            "// What it does.",
            "/// Says what it is.",
        ];
        let text = lines.join("\n");
        let text = text.as_str();
        let lines: Vec<usize> = nominal_what(&file("xtask/src/x.rs", text))
            .iter()
            .map(|place| place.line)
            .collect();
        assert_eq!(lines, [1, 2, 3]);
        assert!(nominal_what(&file("docs/x.md", text)).is_empty());
    }
}
