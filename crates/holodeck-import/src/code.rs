//! Code of the source, which this crate never runs itself.

use std::path::PathBuf;

use serde_json::Value;

/// Runs code of a source.
pub trait CodeRunner {
    /// Returns the result of a function, or the value that a file exports; the reason where it failed.
    fn run(&mut self, request: &CodeRequest) -> Result<Value, String>;
}

/// A function to call, or a file to load.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeRequest {
    /// The language of the file.
    pub language: Language,
    /// The file.
    pub file: PathBuf,
    /// The function; absent for what a JavaScript module exports.
    pub function: Option<String>,
    /// The arguments. Absent: what is exported is the result, and is called only if it is a function.
    pub arguments: Option<Vec<Value>>,
}

/// A language that sources have code in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript, also with types.
    JavaScript,
}

impl Language {
    /// The language of a file by its extension, and the function after it: `prompt.py:build`.
    pub(crate) fn of(reference: &str) -> Option<(Self, &str, Option<&str>)> {
        let split = |extension: &str| {
            let at = reference.rfind(extension)? + extension.len();
            let (file, rest) = reference.split_at(at);
            match rest.strip_prefix(':') {
                Some(function) => Some((file, Some(function))),
                None => rest.is_empty().then_some((file, None)),
            }
        };
        let python = split(".py").map(|(file, function)| (Self::Python, file, function));
        let script = || {
            [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"]
                .iter()
                .find_map(|extension| split(extension))
                .map(|(file, function)| (Self::JavaScript, file, function))
        };
        python.or_else(script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_after_its_file() {
        let of = Language::of;
        assert_eq!(of("a/p.py:f"), Some((Language::Python, "a/p.py", Some("f"))));
        assert_eq!(of("p.mjs"), Some((Language::JavaScript, "p.mjs", None)));
        assert_eq!(of("p.json"), None);
        assert_eq!(of("p.pyc"), None);
    }
}
