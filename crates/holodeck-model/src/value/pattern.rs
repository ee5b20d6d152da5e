//! A regular expression of the YAML, compiled once.

use std::{fmt, sync::Arc};

use thiserror::Error;

/// Why a regular expression does not compile, or could not be matched within its limits.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct PatternError(String);

/// A compiled regular expression in Python-like syntax, including look-around.
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    anywhere: Arc<dyn Search>,
    whole: Arc<dyn Search>,
}

/// A compiled expression. A trait object, which is fast to compile (see `ARCHITECTURE.md`).
trait Search: Send + Sync {
    fn finds(&self, text: &str) -> Result<bool, PatternError>;
}

impl Search for fancy_regex::Regex {
    fn finds(&self, text: &str) -> Result<bool, PatternError> {
        self.is_match(text)
            .map_err(|error| PatternError(error.to_string()))
    }
}

impl Pattern {
    /// Compiles an expression.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let compile = |text: &str| {
            fancy_regex::Regex::new(text)
                .map(|regex| Arc::new(regex) as Arc<dyn Search>)
                .map_err(|error| PatternError(reason(&error)))
        };
        Ok(Self {
            text: text.into(),
            anywhere: compile(text)?,
            // The line break ends a trailing comment of a `(?x)` expression, which would hide the parenthesis.
            whole: compile(&format!(
                r"\A(?:{text}{})\z",
                if text.contains("x)") { "\n" } else { "" }
            ))?,
        })
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some part of the text matches. An error means the search was too costly, not "no".
    pub fn is_match(&self, text: &str) -> Result<bool, PatternError> {
        self.anywhere.finds(text)
    }

    /// Whether the whole text matches. An error means the search was too costly, not "no".
    pub fn is_full_match(&self, text: &str) -> Result<bool, PatternError> {
        self.whole.finds(text)
    }
}

/// The reason in one line that begins in lower case.
fn reason(error: &fancy_regex::Error) -> String {
    let text = match error {
        fancy_regex::Error::ParseError(_, error) => error.to_string(),
        error => error.to_string(),
    };
    // The inner engine shows the place on several lines; the last line is the reason.
    let line = text.lines().last().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line).trim();
    let mut characters = line.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_lowercase().collect::<String>() + characters.as_str()
    })
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_match_covers_the_whole_text() {
        let pattern = Pattern::new("a|ab").unwrap();
        assert!(pattern.is_full_match("ab").unwrap());
        assert!(!pattern.is_full_match("abc").unwrap());
        assert!(pattern.is_match("abc").unwrap());
    }

    #[test]
    fn python_look_around_and_inline_flags_work() {
        assert!(
            Pattern::new("(?i)ord-(?!0)\\d+")
                .unwrap()
                .is_full_match("ORD-12")
                .unwrap()
        );
        assert!(
            Pattern::new("(?x) a b # done")
                .unwrap()
                .is_full_match("ab")
                .unwrap()
        );
        assert!(Pattern::new("(").is_err());
    }
}
