//! Phrases that a reader has to read twice, each with what to write instead.

use super::Finding;

/// Phrases in lower case; `_` separates words as a space does.
const PHRASES: &[(&str, &str)] = &[
    ("anew", "again"),
    ("as it stands", "now, unchanged"),
    ("at hand", "available"),
    ("broken off", "interrupted"),
    ("can't be held", "cannot be enforced"),
    ("goes on", "continues"),
    ("heard", "received"),
    ("hears", "receives"),
    ("likewise", "also"),
    ("nobody", "no person, no process: say which"),
    ("of ours", "say whose"),
    ("so many", "N, at most N"),
    ("somebody", "a person, a process: say which"),
    ("stands for", "replaces, means"),
    ("tells", "reports, shows, returns"),
    ("told", "reported, passed, known"),
    ("went on", "continued"),
    ("whoever", "say who"),
];

/// Places with words of other times and people: tests play both.
const EXEMPT: &[&str] = &[
    "CHANGELOG.md",
    "docs/adr/",
    "fixtures/",
    "xtask/src/tidy/words.rs",
];

const CHECKED: &[&str] = &[".rs", ".md", ".html"];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let exempt = path.contains("/tests/") || EXEMPT.iter().any(|place| path.starts_with(place));
    if exempt || !CHECKED.iter().any(|end| path.ends_with(end)) {
        return Vec::new();
    }
    let lines = text.lines().map(str::to_lowercase).zip(1..);
    lines
        .flat_map(|(line, at)| {
            let found = PHRASES.iter().filter(move |(phrase, _)| contains(&line, phrase));
            found.map(move |(phrase, instead)| {
                Finding::new(
                    path,
                    at,
                    format!("`{phrase}` is hard to read"),
                    format!("write plain technical English: {instead}"),
                )
            })
        })
        .collect()
}

/// Whether `line` has the words of `phrase`, and not only as parts of longer words.
fn contains(line: &str, phrase: &str) -> bool {
    let line = line.replace('_', " ");
    line.match_indices(phrase).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + phrase.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::check;

    fn found(path: &str, line: &str) -> usize {
        check(path, line).len()
    }

    #[test]
    fn words_in_comments_texts_and_names() {
        for line in [
            "/// Whoever reads it.",
            "bail!(\"the run goes on\");",
            "fn is_told() {}",
        ] {
            assert_eq!(found("crates/x/src/lib.rs", line), 1, "{line}");
        }
    }

    #[test]
    fn parts_of_other_words_and_other_places() {
        assert_eq!(found("docs/x.md", "a canew, stolen and toldo"), 0);
        assert_eq!(found("docs/x.md", "there are so many"), 1);
        assert_eq!(found("docs/adr/0001.md", "there are so many"), 0);
        assert_eq!(found("crates/x/Cargo.toml", "there are so many"), 0);
        assert_eq!(found("crates/x/tests/it/main.rs", "there are so many"), 0);
    }
}
