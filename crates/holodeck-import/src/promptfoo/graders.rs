//! Assertions that are code, as programs that grade.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::{ImportedFile, code::Language};

/// Runs the assertions in JavaScript.
const JAVASCRIPT_RUNNER: &str = include_str!("runner.mjs");
/// Runs the assertions in Python.
const PYTHON_RUNNER: &str = include_str!("runner.py");

/// Grades the calls in an answer.
const CALLS_RUNNER: &str = include_str!("tool_calls.mjs");

/// The parts of the context that promptfoo gives to code, and HoloDeck does not.
const UNKNOWN_CONTEXT: [&str; 6] = [
    "logProbs",
    "providerResponse",
    "context.provider",
    "context.trace",
    "context['provider']",
    "context[\"provider\"]",
];

/// The files of the graders of an import.
#[derive(Default)]
pub(super) struct GraderFiles {
    files: Vec<ImportedFile>,
}

/// An assertion that is code.
pub(super) struct CodeAssertion<'a> {
    pub(super) language: Language,
    pub(super) inverse: bool,
    pub(super) threshold: Option<f64>,
    pub(super) vars: &'a Map<String, Value>,
    pub(super) prompt: &'a str,
    pub(super) config: Option<Value>,
    /// Whether the score decides the case.
    pub(super) decides: bool,
    /// Whether an answer may be the calls of tools, which code gets as a list.
    pub(super) reads_calls: bool,
}

impl GraderFiles {
    pub(super) fn take(&mut self) -> Vec<ImportedFile> {
        std::mem::take(&mut self.files)
    }

    /// The metric of code that stands in the configuration.
    pub(super) fn inline(&mut self, code: &str, assertion: &CodeAssertion<'_>) -> Value {
        let (text, extension, name) = match assertion.language {
            Language::JavaScript => (javascript_body(code), "js", "-"),
            Language::Python => (python_function(code), "py", "main"),
        };
        let path = self.add("check", extension, &text);
        self.metric(&path, name, assertion)
    }

    /// The metric of a function in a file of the source.
    pub(super) fn file(
        &mut self,
        path: &str,
        function: Option<&str>,
        assertion: &CodeAssertion<'_>,
    ) -> Value {
        let name = match assertion.language {
            Language::JavaScript => function.unwrap_or("default"),
            Language::Python => function.unwrap_or("get_assert"),
        };
        self.metric(path, name, assertion)
    }

    fn metric(&mut self, path: &str, function: &str, assertion: &CodeAssertion<'_>) -> Value {
        let (program, runner, text, name) = match assertion.language {
            Language::JavaScript => ("node", "graders/promptfoo.mjs", JAVASCRIPT_RUNNER, "javascript"),
            Language::Python => ("python3", "graders/promptfoo.py", PYTHON_RUNNER, "python"),
        };
        if !self.files.iter().any(|file| file.path == Path::new(runner)) {
            self.files.push(ImportedFile {
                path: runner.into(),
                text: text.to_owned(),
            });
        }
        let mut settings = Map::new();
        settings.insert("vars".to_owned(), Value::Object(assertion.vars.clone()));
        settings.insert("prompt".to_owned(), assertion.prompt.into());
        settings.insert("inverse".to_owned(), assertion.inverse.into());
        if let Some(threshold) = assertion.threshold {
            settings.insert("threshold".to_owned(), threshold.into());
        }
        if let Some(config) = &assertion.config {
            settings.insert("config".to_owned(), config.clone());
        }
        if assertion.reads_calls {
            settings.insert("calls".to_owned(), true.into());
        }
        if assertion.decides {
            settings.insert("decides".to_owned(), true.into());
        }
        let settings = Value::Object(settings).to_string();
        json!({"type": "code", "name": name, "command": program, "args": [runner, path, function, settings]})
    }

    /// The metric of an assertion about the calls in an answer.
    pub(super) fn calls(&mut self, name: &str, settings: &Value) -> Value {
        let path = "graders/tool_calls.mjs";
        if !self.files.iter().any(|file| file.path == Path::new(path)) {
            self.files.push(ImportedFile {
                path: path.into(),
                text: CALLS_RUNNER.to_owned(),
            });
        }
        json!({"type": "code", "name": name, "command": "node", "args": [path, settings.to_string()]})
    }

    /// Adds a file, once for each text.
    fn add(&mut self, stem: &str, extension: &str, text: &str) -> String {
        let known = self
            .files
            .iter()
            .find(|file| file.text == text && file.path.extension().is_some_and(|known| known == extension));
        if let Some(known) = known {
            return known.path.to_string_lossy().into_owned();
        }
        let prefix = format!("graders/{stem}-");
        let count = self
            .files
            .iter()
            .filter(|file| file.path.to_string_lossy().starts_with(&prefix))
            .count();
        let path = format!("{prefix}{}.{extension}", count + 1);
        self.files.push(ImportedFile {
            path: path.clone().into(),
            text: text.to_owned(),
        });
        path
    }
}

/// A part of the context that the code names and that there is none of.
pub(super) fn missing_context(code: &str) -> Option<&'static str> {
    UNKNOWN_CONTEXT.into_iter().find(|name| code.contains(name))
}

/// The body of the function that promptfoo makes of the code: one line is an expression, perhaps after declarations.
fn javascript_body(code: &str) -> String {
    let code = code.trim_end();
    if code.contains('\n') {
        return format!("{code}\n");
    }
    let line = code.trim().trim_end_matches(';').trim_end();
    let declares = ["const ", "let ", "var "]
        .iter()
        .any(|word| line.starts_with(word));
    if !declares {
        return format!("return {line}\n");
    }
    match last_statement_end(line) {
        Some(at) => {
            let (statements, expression) = line.split_at(at + 1);
            format!("{statements} return {}\n", expression.trim())
        }
        None => format!("{line}\n"),
    }
}

/// Where the last `;` outside of texts is.
fn last_statement_end(line: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    let mut last = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), letter) if open == letter => quote = None,
            (None, '\'' | '"' | '`') => quote = Some(letter),
            (None, ';') => last = Some(at),
            _ => {}
        }
    }
    last
}

fn python_function(code: &str) -> String {
    if !code.contains('\n') {
        return format!("import json\n\n\ndef main(output, context):\n    return {code}\n");
    }
    let indent: String = code
        .lines()
        .find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty())
        .map_or_else(
            || "    ".to_owned(),
            |line| line.chars().take_while(|c| c.is_whitespace()).collect(),
        );
    let lines: Vec<String> = code
        .trim_end()
        .lines()
        .map(|line| format!("{indent}{line}").trim_end().to_owned())
        .collect();
    format!(
        "import json\n\n\ndef main(output, context):\n{}\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_javascript_is_an_expression_after_its_declarations() {
        assert_eq!(
            javascript_body("output.length < 60;"),
            "return output.length < 60\n"
        );
        assert_eq!(
            javascript_body("const s = output; s === 'a;b'"),
            "const s = output; return s === 'a;b'\n"
        );
        assert_eq!(
            javascript_body("if (x) {\n}\nreturn 1"),
            "if (x) {\n}\nreturn 1\n"
        );
    }

    #[test]
    fn lines_of_python_become_a_function() {
        assert_eq!(
            python_function("x = 1\nif x:\n  return True\n"),
            "import json\n\n\ndef main(output, context):\n  x = 1\n  if x:\n    return True\n"
        );
    }
}
