//! The words of a diagnostic that `expected.tsv` requires: `tools.0 file and function (required; both in one run)`.
//!
//! Phrases are joined by ` and `; each needs a separate error that contains all its words.

const FILLERS: &[&str] = &[
    "the", "a", "both", "all", "reported", "in", "one", "run", "did", "you", "mean", "without",
];

/// Words that count as equal.
const SYNONYMS: &[&[&str]] = &[&["required", "missing"], &["unknown", "unexpected"]];

/// The first phrase for which no error is left, or nothing if all are met.
pub(super) fn unmet(names: &str, errors: &[&str]) -> Option<String> {
    let phrases: Vec<Vec<String>> = phrases(names);
    let sayings: Vec<Vec<String>> = errors.iter().map(|error| words(error)).collect();
    let mut free: Vec<&[String]> = sayings.iter().map(Vec::as_slice).collect();
    if assign(&phrases, &mut free) {
        return None;
    }
    let lost = phrases
        .iter()
        .find(|phrase| !sayings.iter().any(|saying| contains_all(saying, phrase)));
    Some(
        lost.or(phrases.last())
            .map(|phrase| phrase.join(" "))
            .unwrap_or_default(),
    )
}

/// Gives every phrase an error of its own.
fn assign(phrases: &[Vec<String>], free: &mut Vec<&[String]>) -> bool {
    let Some((phrase, rest)) = phrases.split_first() else {
        return true;
    };
    for at in 0..free.len() {
        let saying = free.remove(at);
        let good = contains_all(saying, phrase) && assign(rest, free);
        free.insert(at, saying);
        if good {
            return true;
        }
    }
    false
}

fn phrases(names: &str) -> Vec<Vec<String>> {
    names
        .split(" and ")
        .map(|phrase| {
            let parts = phrase.split(|c: char| c.is_whitespace() || "();,".contains(c));
            parts
                .filter(|word| !word.is_empty() && !FILLERS.contains(word))
                .map(str::to_owned)
                .collect()
        })
        .filter(|phrase: &Vec<String>| !phrase.is_empty())
        .collect()
}

fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    parts
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// A dotted word is contained if each of its parts is.
fn contains_all(saying: &[String], phrase: &[String]) -> bool {
    phrase.iter().flat_map(|word| words(word)).all(|word| {
        let group = SYNONYMS.iter().find(|group| group.contains(&word.as_str()));
        saying
            .iter()
            .any(|own| *own == word || group.is_some_and(|group| group.contains(&own.as_str())))
    })
}

#[cfg(test)]
mod tests {
    use super::unmet;

    #[test]
    fn one_phrase() {
        let names = "execution.cache_directory (unknown; did you mean cache_dir)";
        assert_eq!(
            unmet(
                names,
                &["execution.cache_directory unknown field, did you mean `cache_dir`?"]
            ),
            None
        );
        assert_eq!(
            unmet(
                names,
                &["execution unknown field `cache_directory`, did you mean `cache_dir`?"]
            ),
            None
        );
        assert!(unmet(names, &["execution unknown field `cache_directory`"]).is_some());
        assert!(unmet(names, &["execution.cache_dir unknown", "cache_directory"]).is_some());
    }

    #[test]
    fn each_phrase_needs_an_error_of_its_own() {
        let names = "tools.0 file and function (required; both reported in one run)";
        assert_eq!(
            unmet(names, &["tools[0] missing `function`", "tools[0] missing `file`"]),
            None
        );
        assert_eq!(
            unmet(names, &["tools[0] of type function: missing `file`"]),
            Some("function required".to_owned())
        );
    }

    #[test]
    fn nothing_to_name() {
        assert_eq!(unmet("", &["anything"]), None);
    }
}
