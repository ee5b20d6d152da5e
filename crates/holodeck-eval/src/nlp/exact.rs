//! Exact match: 1 if the texts are equal after the normalisation of the options, else 0.

use super::python;

/// Differences to ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(
    clippy::exhaustive_structs,
    reason = "three independent switches, written as a literal"
)]
pub struct Normalization {
    /// Ignore case.
    pub ignore_case: bool,
    /// Replace each run of white space with one space, and remove it at the ends.
    pub strip_whitespace: bool,
    /// Remove ASCII punctuation.
    pub strip_punctuation: bool,
}

/// Whether the texts match; case is ignored by `str.lower()`, as in the reference.
pub fn exact_match(prediction: &str, reference: &str, options: Normalization) -> bool {
    options.apply(prediction, str::to_lowercase) == options.apply(reference, str::to_lowercase)
}

/// Whether the texts match; case is ignored by `str.casefold()`, so that ß equals ss.
pub fn equality(prediction: &str, reference: &str, options: Normalization) -> bool {
    options.fold_text(prediction) == options.fold_text(reference)
}

impl Normalization {
    /// Normalises the text, with case folding.
    pub(crate) fn fold_text(self, text: &str) -> String {
        self.apply(text, python::casefold)
    }

    fn apply(self, text: &str, fold: impl Fn(&str) -> String) -> String {
        let mut text = if self.ignore_case {
            fold(text)
        } else {
            text.to_owned()
        };
        if self.strip_punctuation {
            text = python::strip_punctuation(&text);
        }
        if self.strip_whitespace {
            text = python::split(&text).collect::<Vec<_>>().join(" ");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_folds_case_as_python_does() {
        let loose = Normalization {
            ignore_case: true,
            ..Normalization::default()
        };
        for (a, b) in [
            ("Straße", "STRASSE"),
            ("ẞ", "ss"),
            ("ΣΑΣ", "σας"),
            ("ﬁne", "FINE"),
            ("\u{212a}", "k"),
            ("İ", "i\u{307}"),
        ] {
            assert!(equality(a, b, loose), "{a} {b}");
            assert!(!equality(a, b, Normalization::default()), "{a} {b}");
        }
        for (a, b) in [("ı", "i"), ("é", "e"), ("a", "b")] {
            assert!(!equality(a, b, loose), "{a} {b}");
        }
        assert!(!exact_match("Straße", "strasse", loose));
        assert!(exact_match("ÉTÉ", "été", loose));
    }

    #[test]
    fn options_ignore_differences() {
        let white = Normalization {
            strip_whitespace: true,
            ..Normalization::default()
        };
        let punct = Normalization {
            strip_punctuation: true,
            ..Normalization::default()
        };
        assert!(equality("  a \n b\u{a0}", "a b", white));
        assert!(!equality("a b", "ab", white));
        assert!(equality("It's 5.0!", "Its 50", punct));
        assert!(!equality("“a”", "a", punct));
    }
}
